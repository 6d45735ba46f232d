"""Token snapshots of a sweep: the settings of its suites, and the comparison of its finished pairs, which is stored.

The rules of a comparison are in `snapshots.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.options import EVALUATE, SweepOptions
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.project_session import ProjectSession
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

_LOG = logging.getLogger(__name__)
SuiteSnapshots = Mapping[str, tuple[SnapshotSettings, BaselineFile]]
"""Settings and baselines of the suites that have any, by name."""


def snapshot_settings(suites: Iterable[Suite], project: Project) -> SuiteSnapshots:
    """Return settings and baselines of suites. Raises InputError for settings or a file that cannot be used."""
    settings: dict[str, tuple[SnapshotSettings, BaselineFile]] = {}
    for suite in suites:
        read = read_settings(raw_settings(suite, project), suite)
        if read is not None:
            settings[suite.name] = read, BaselineFile(read.file)
    return settings


def take_snapshots(
    session: ProjectSession,
    outcomes: Sequence[PairOutcome],
    settings: SuiteSnapshots,
    options: SweepOptions,
    sweep_id: str | None = None,
) -> list[Snapshot]:
    """Compare the tokens of finished pairs with their baselines, store what came of it, and write new baselines."""
    if EVALUATE not in options.stages:
        return []
    taken: list[Snapshot] = []
    for outcome in outcomes:
        if outcome.error is None and outcome.pair.name.suite in settings:
            taken += _of_pair(session, outcome, settings[outcome.pair.name.suite], options, sweep_id)
    for _, baselines in settings.values():
        try:
            baselines.write()
        except OSError as error:
            _LOG.warning("%s: new baselines could not be written: %s", show_path(baselines.file), error.strerror)
    return taken


def _of_pair(
    session: ProjectSession,
    outcome: PairOutcome,
    settings: tuple[SnapshotSettings, BaselineFile],
    options: SweepOptions,
    sweep_id: str | None,
) -> list[Snapshot]:
    (own, baselines), pair, suite = settings, outcome.pair.name, outcome.pair.ready.suite
    now = session.store.clock.now()
    chosen = {case.id for case in suite.cases if options.cases(case)}
    answers = [each for each in answers_of(session.warehouse, pair, own.metric) if each.case_id in chosen]
    if suite.settings.strategy == "on_failure":
        answers = without_tried_again(answers)
    update = options.update_snapshots
    compared = list(compare(own, answers, baselines, pair.suite, pair.runner, update=update, now=now))
    store_snapshots(session.warehouse, (snapshot_row(each, own.metric, baselines, sweep_id, now) for each in compared))
    return compared


def mismatches(taken: Iterable[Snapshot]) -> Iterator[str]:
    """Yield a line for each suite × runner whose tokens are above their baselines or were not measured."""
    failed = [each for each in taken if each.passed is False]
    for suite, runner in dict.fromkeys((each.suite, each.runner) for each in failed):
        number = sum((each.suite, each.runner) == (suite, runner) for each in failed)
        yield f"{suite} × {runner}: {counted(number, 'token snapshot')} above the baseline or not measured"
