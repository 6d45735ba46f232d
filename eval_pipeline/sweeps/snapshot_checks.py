"""Token snapshots of a sweep: the settings of its suites, and the comparison of each pair as it is stored.

A case whose tokens are above its baseline has failed: its verdicts become those of the class `snapshot`, and what they
were before when its tokens are within the baseline again. The rules of a comparison are in `snapshots.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.decisions import PairRules
from eval_pipeline.sweeps.ledger import PairLedger
from eval_pipeline.sweeps.options import EVALUATE, SweepOptions
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.pairs import Pair, pair_plans, strategy_of
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.snapshots import (
    AS_EXPECTED,
    BaselineFile,
    Snapshot,
    SnapshotSettings,
    compare,
    settings_of,
    snapshot_row,
    without_tried_again,
)
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.token_usages import Answer, answers_of, fail_verdicts, restore_verdicts, store_snapshots

_LOG = logging.getLogger(__name__)
_ANY_METRIC = "total_tokens"
SuiteSnapshots = Mapping[str, tuple[SnapshotSettings, BaselineFile]]
"""Settings and baselines of the suites that have any, by name."""


def snapshot_settings(suites: Iterable[Suite], project: Project) -> SuiteSnapshots:
    """Return settings and baselines of suites. Raises InputError for settings or a file that cannot be used."""
    settings: dict[str, tuple[SnapshotSettings, BaselineFile]] = {}
    for suite in suites:
        read = settings_of(suite, project)
        if read is not None:
            settings[suite.name] = read, BaselineFile(read.file)
    return settings


@dataclass(frozen=True, slots=True)
class SnapshotChecks:
    """The comparison of pairs with the baselines of their suites, in the transaction that stores them.

    A transaction may be tried again: what is compared twice gives the same, and baselines are written after it.
    """

    settings: SuiteSnapshots = field(default_factory=dict)

    def check(
        self, warehouse: Warehouse, sweep_id: str, rules: PairRules, ledger: PairLedger, clock: OrderClock
    ) -> tuple[Snapshot, ...]:
        """Compare the answers of a pair, change verdicts by what came of it, count and store it; return it."""
        own = self.settings.get(rules.pair.name.suite)
        if EVALUATE not in rules.options.stages or (own is None and not ledger.above_baseline):
            return ()
        answers = _answers(warehouse, rules.pair, rules.options, own[0].metric if own is not None else _ANY_METRIC)
        taken: tuple[Snapshot, ...] = ()
        if own is not None:
            now = clock.now()
            taken = _compared(own, answers, rules, now)
            rows = (snapshot_row(each, own[0].metric, own[1], sweep_id, now) for each in taken)
            store_snapshots(warehouse, rows)
        changes = _changes(answers, taken)
        if changes.number:
            _store_changes(warehouse, sweep_id, changes, rules.pair, clock)
        ledger.compare(changes.added(_planned(rules)) if changes.number else 0, changes.number)
        return taken

    def write(self, suites: Iterable[str]) -> None:
        """Write the new baselines of suites; one that cannot be written is a warning."""
        for name in dict.fromkeys(suites):
            if name in self.settings:
                _write(self.settings[name][1])


NO_SNAPSHOTS = SnapshotChecks()


def _write(baselines: BaselineFile) -> None:
    try:
        baselines.write()
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.problem
        _LOG.warning("%s: new baselines could not be written: %s", show_path(baselines.file), reason)


def _answers(warehouse: Warehouse, pair: Pair, options: SweepOptions, metric: str) -> list[Answer]:
    """Return the answers of a pair to the cases that a sweep selects."""
    suite = pair.ready.suite
    chosen = {case.id for case in suite.cases if options.cases(case)}
    found = answers_of(warehouse, pair.name, suite.revision, pair.revision, metric)
    return [each for each in found if each.case_id in chosen]


def _compared(
    own: tuple[SnapshotSettings, BaselineFile], answers: Sequence[Answer], rules: PairRules, now: datetime
) -> tuple[Snapshot, ...]:
    (settings, baselines), name, options = own, rules.pair.name, rules.options
    if strategy_of(rules.pair, options) == "on_failure":
        answers = without_tried_again(answers)
    update = options.update_snapshots
    return tuple(compare(settings, answers, baselines, name.suite, name.runner, update=update, now=now))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Answers whose verdicts baselines change: those that fail now, with their reasons, and those that are restored."""

    failed: Sequence[tuple[Answer, str]]
    restored: Sequence[Answer]

    @property
    def number(self) -> int:
        return len(self.failed) + len(self.restored)

    def added(self, planned: Collection[tuple[str, int]]) -> int:
        """Return how many more of the planned answers have failed than their verdicts said."""
        newly = [answer for answer, _ in self.failed if answer.above is None]
        return sum(_plan(answer) in planned for answer in newly) - sum(_plan(each) in planned for each in self.restored)


def _plan(answer: Answer) -> tuple[str, int]:
    return answer.case_id, answer.repetition


def _changes(answers: Sequence[Answer], taken: Sequence[Snapshot]) -> _Changes:
    above = {each.case_id: each.reason for each in taken if each.passed is False}
    failed = [
        (each, above[each.case_id])
        for each in answers
        if each.case_id in above and each.status in AS_EXPECTED and each.above != above[each.case_id]
    ]
    return _Changes(failed, [each for each in answers if each.above is not None and each.case_id not in above])


def _planned(rules: PairRules) -> set[tuple[str, int]]:
    return {(plan.case.id, plan.repetition) for plan in pair_plans(rules.pair, rules.options)}


def _store_changes(warehouse: Warehouse, sweep_id: str, changes: _Changes, pair: Pair, clock: OrderClock) -> None:
    if changes.failed:
        reasons = {answer.verdict_id: reason for answer, reason in changes.failed}
        fail_verdicts(warehouse, reasons, sweep_id, clock.now())
    if changes.restored:
        expected = {case.id: case.expected_fail for case in pair.ready.suite.cases}
        restored = {answer.verdict_id: expected[answer.case_id] for answer in changes.restored}
        restore_verdicts(warehouse, restored, sweep_id, clock.now())


def mismatches(taken: Iterable[Snapshot]) -> Iterator[str]:
    """Yield a line for each suite × runner whose tokens are above their baselines or were not measured."""
    failed = [each for each in taken if each.passed is False]
    for suite, runner in dict.fromkeys((each.suite, each.runner) for each in failed):
        number = sum((each.suite, each.runner) == (suite, runner) for each in failed)
        yield f"{suite} × {runner}: {counted(number, 'token snapshot')} above the baseline or not measured"
