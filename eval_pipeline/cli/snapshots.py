"""Token snapshots of a run as the command line shows them. What is compared is in `sweeps/snapshot_checks.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from eval_pipeline.cli.ending import Ending
from eval_pipeline.cli.tables import print_line
from eval_pipeline.failures import SNAPSHOT
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.snapshot_checks import SuiteSnapshots, mismatches
from eval_pipeline.sweeps.snapshots import Snapshot

_MOST_SHOWN = 10


def show_snapshots(console: Console, taken: Sequence[Snapshot], settings: SuiteSnapshots) -> None:
    """Print new baselines, baselines that were not compared, and what is above them; nothing without snapshots."""
    fresh = [each for each in taken if each.kind in ("created", "updated")]
    for suite in dict.fromkeys(each.suite for each in fresh):
        number = sum(each.suite == suite for each in fresh)
        place = show_path(settings[suite][1].file)
        print_line(console, f"{counted(number, 'token baseline')} taken: {place}", style="dim")
    above = [each for each in taken if each.passed is False]
    others = [each for each in taken if each.kind == "not compared" and each.baseline is not None]
    for style, listed in (("red", above), ("yellow", others)):
        for each in listed[:_MOST_SHOWN]:
            kind = f"{SNAPSHOT.label} [{SNAPSHOT.id}]: " if each.passed is False else ""
            text = f"{each.suite}/{each.case_id}  {each.runner}  {kind}{each.reason}"
            print_line(console, text, mark="tokens:", style=style)


def with_snapshots(end: Ending, taken: Sequence[Snapshot]) -> Ending:
    """Return the ending of a run that fails for tokens above their baseline, too."""
    reasons = tuple(mismatches(taken))
    if not reasons or end.code not in (0, 1):
        return end
    return replace(end, code=1, reasons=(*end.reasons, *reasons))
