"""Token snapshots of a run as the command line shows them. What is compared is in `sweeps/snapshot_checks.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from eval_pipeline.cli.ending import Ending
from eval_pipeline.cli.tables import print_line
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.snapshot_checks import SuiteSnapshots, mismatches
from eval_pipeline.sweeps.snapshots import Snapshot

_MOST_SHOWN = 10


def show_snapshots(console: Console, taken: Sequence[Snapshot], settings: SuiteSnapshots) -> None:
    """Print new baselines and those that nothing was compared with; cases above them are among those that failed."""
    fresh = [each for each in taken if each.kind in ("created", "updated")]
    for suite in dict.fromkeys(each.suite for each in fresh):
        number = sum(each.suite == suite for each in fresh)
        place = show_path(settings[suite][1].file)
        print_line(console, f"{counted(number, 'token baseline')} taken: {place}", style="dim")
    others = [each for each in taken if each.kind == "not compared" and each.baseline is not None]
    for each in others[:_MOST_SHOWN]:
        print_line(
            console, f"{each.suite}/{each.case_id}  {each.runner}  {each.reason}", mark="tokens:", style="yellow"
        )


def with_snapshots(end: Ending, taken: Sequence[Snapshot]) -> Ending:
    """Return the ending of a run that fails for tokens above their baseline, too."""
    reasons = tuple(mismatches(taken))
    if not reasons or end.code not in (0, 1):
        return end
    return replace(end, code=1, reasons=(*end.reasons, *reasons))
