"""Token snapshots of a run: compared, stored, and shown. The rules are in `sweeps/snapshots.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from eval_pipeline.cli.ending import Ending
from eval_pipeline.cli.options import Selection
from eval_pipeline.cli.tables import print_line
from eval_pipeline.failures import SNAPSHOT
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.snapshots import (
    BaselineFile,
    Snapshot,
    SnapshotSettings,
    compare,
    raw_settings,
    read_settings,
    snapshot_row,
    without_tried_again,
)
from eval_pipeline.warehouse.token_usages import answers_of, store_snapshots

_MOST_SHOWN = 10


def snapshot_settings(selection: Selection) -> dict[str, tuple[SnapshotSettings, BaselineFile]]:
    """Return settings and baselines of the suites that have any, by suite. Raises InputError before anything runs."""
    settings: dict[str, tuple[SnapshotSettings, BaselineFile]] = {}
    for ready in selection.suites:
        read = read_settings(raw_settings(ready.suite, selection.session.project), ready.suite)
        if read is not None:
            settings[ready.suite.name] = read, BaselineFile(read.file)
    return settings


def take_snapshots(
    selection: Selection,
    outcomes: Sequence[PairOutcome],
    settings: dict[str, tuple[SnapshotSettings, BaselineFile]],
    *,
    update: bool,
) -> list[Snapshot]:
    """Compare the tokens of finished pairs with their baselines, and store what came of it."""
    warehouse, now = selection.session.warehouse, selection.session.store.clock.now()
    taken: list[Snapshot] = []
    for outcome in outcomes:
        pair = outcome.pair.name
        if outcome.error is not None or pair.suite not in settings:
            continue
        own, baselines = settings[pair.suite]
        chosen = {case.id for case in outcome.pair.ready.suite.cases if selection.options.cases(case)}
        answers = [each for each in answers_of(warehouse, pair, own.metric) if each.case_id in chosen]
        if outcome.pair.ready.suite.settings.strategy == "on_failure":
            answers = without_tried_again(answers)
        compared = list(compare(own, answers, baselines, pair.suite, pair.runner, update=update, now=now))
        store_snapshots(warehouse, (snapshot_row(each, own.metric, baselines, None, now) for each in compared))
        taken += compared
    for _, baselines in settings.values():
        baselines.write()
    if taken:
        warehouse.publish()
    return taken


def show_snapshots(
    console: Console, taken: Sequence[Snapshot], settings: dict[str, tuple[SnapshotSettings, BaselineFile]]
) -> None:
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
    reasons = tuple(_reasons(taken))
    if not reasons or end.code not in (0, 1):
        return end
    return replace(end, code=1, reasons=(*end.reasons, *reasons))


def _reasons(taken: Sequence[Snapshot]) -> Iterator[str]:
    failed = [each for each in taken if each.passed is False]
    for suite, runner in dict.fromkeys((each.suite, each.runner) for each in failed):
        number = sum((each.suite, each.runner) == (suite, runner) for each in failed)
        yield f"{suite} × {runner}: {counted(number, 'token snapshot')} above the baseline or not measured"
