"""What boards need of each pair: its answers counted by case, stored with the pair, so that no board reads verdicts.

A plan's answers are its current one and, where it was executed again because it had not passed, the earlier ones. All
are `answers`; what passed is counted of the first graded one of each plan, because whether there is a later one depends
on it. An answer counts when its verdict was decided by the evaluators, graders and threshold of the pair now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.warehouse.answer_counts import insert_statement
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Connection, Warehouse


class PlannedCase(NamedTuple):
    """A case that a pair has planned: how many repetitions, how many of them at least, and what its verdicts are
    decided by. Cases of one `cluster` have something in common that makes answers alike; None: nothing. `weight` is how
    much the case counts in rates and means; None: as much as every other."""

    case_id: str
    planned: int
    least: int
    decision_key: str
    cluster: str | None = None
    weight: float | None = None

    @property
    def content(self) -> list[object]:
        """What of it identifies the plan; a weight only where there is one."""
        return list(self if self.weight is not None else self[:-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPair:
    """Everything that a pair has planned, whatever part of it a sweep selected; `broken` are plans of cases that cannot
    be loaded."""

    pair: PairKey
    sweep_id: str
    suite_revision: str
    runner_revision: str
    broken: int
    cases: Sequence[PlannedCase]

    @property
    def statistics_id(self) -> str:
        """The id of what is stored of it."""
        return fingerprint([self.sweep_id, self.pair.suite, self.pair.runner])[:32]

    @property
    def plan_revision(self) -> str:
        """The identity of what is planned, and of what decides the verdicts."""
        cases = [case.content for case in self.cases]
        return fingerprint([self.suite_revision, self.runner_revision, self.broken, cases])

    @property
    def panel_revision(self) -> str:
        """The identity of evaluators, graders and thresholds."""
        return fingerprint(sorted({case.decision_key for case in self.cases}))[:32]

    @property
    def cases_revision(self) -> str:
        """The identity of the set of cases."""
        return fingerprint(sorted(case.case_id for case in self.cases))[:32]


_PAIRS = """
    CREATE OR REPLACE TEMP TABLE planned_pairs AS
    SELECT unnest($ids::VARCHAR[]) AS statistics_id, unnest($plans::VARCHAR[]) AS plan_revision,
           unnest($suites::VARCHAR[]) AS suite, unnest($runners::VARCHAR[]) AS runner,
           unnest($suite_revisions::VARCHAR[]) AS suite_revision,
           unnest($runner_revisions::VARCHAR[]) AS runner_revision,
           unnest($panels::VARCHAR[]) AS panel_revision, unnest($sets::VARCHAR[]) AS cases_revision,
           unnest($broken::BIGINT[]) AS broken"""
_CASES = """
    CREATE OR REPLACE TEMP TABLE planned_cases AS
    SELECT unnest($ids::VARCHAR[]) AS statistics_id, unnest($positions::BIGINT[]) AS position,
           unnest($cases::VARCHAR[]) AS case_id, unnest($planned::BIGINT[]) AS planned,
           unnest($least::BIGINT[]) AS least, unnest($keys::VARCHAR[]) AS decision_key,
           unnest($clusters::VARCHAR[]) AS cluster, unnest($weights::DOUBLE[]) AS weight"""


def store_pair_statistics(warehouse: Warehouse, pairs: Sequence[PlannedPair]) -> None:
    """Count the stored answers of pairs by case, and store the counts under the pairs' `statistics_id`."""
    if not pairs:
        return
    with warehouse.transaction() as connection:
        _list_planned(connection, pairs)
        connection.execute(
            "DELETE FROM pair_statistics WHERE statistics_id IN (SELECT statistics_id FROM planned_pairs)"
        )
        connection.execute(insert_statement())


def _list_planned(connection: Connection, pairs: Sequence[PlannedPair]) -> None:
    """Fill the temporary tables `planned_pairs` and `planned_cases`."""
    connection.execute(
        _PAIRS,
        {
            "ids": [each.statistics_id for each in pairs],
            "plans": [each.plan_revision for each in pairs],
            "suites": [each.pair.suite for each in pairs],
            "runners": [each.pair.runner for each in pairs],
            "suite_revisions": [each.suite_revision for each in pairs],
            "runner_revisions": [each.runner_revision for each in pairs],
            "panels": [each.panel_revision for each in pairs],
            "sets": [each.cases_revision for each in pairs],
            "broken": [each.broken for each in pairs],
        },
    )
    cases = [(each.statistics_id, place, case) for each in pairs for place, case in enumerate(each.cases)]
    connection.execute(
        _CASES,
        {
            "ids": [id_ for id_, _, _ in cases],
            "positions": [place for _, place, _ in cases],
            "cases": [case.case_id for *_, case in cases],
            "planned": [case.planned for *_, case in cases],
            "least": [case.least for *_, case in cases],
            "keys": [case.decision_key for *_, case in cases],
            "clusters": [case.cluster for *_, case in cases],
            "weights": [case.weight for *_, case in cases],
        },
    )


def unchanged_statistics(warehouse: Warehouse, pairs: Sequence[PlannedPair]) -> dict[PairKey, str]:
    """Return the stored statistics that pairs have already, by pair: of the newest sweep, if it planned the same."""
    if not pairs:
        return {}
    frame = warehouse.frame(
        """SELECT c.suite, c.runner, c.statistics_id, s.plan_revision
           FROM current_pairs c JOIN pair_statistics s USING (statistics_id)
           WHERE (c.suite, c.runner) IN (SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]))""",
        [[each.pair.suite for each in pairs], [each.pair.runner for each in pairs]],
    )
    planned = {each.pair: each.plan_revision for each in pairs}
    return {
        PairKey(suite, runner): id_
        for suite, runner, id_, plan in frame.iter_rows()
        if planned[PairKey(suite, runner)] == plan
    }
