"""What boards need of each pair: its answers counted by case, stored with the pair, so that no board reads verdicts.

A plan's answers are its current one and, where it was executed again because it had not passed, the earlier ones. All
are `answers`; what passed is counted of the first graded one of each plan, because whether there is a later one depends
on it. An answer counts when its verdict was decided by the evaluators, graders and threshold of the pair now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.warehouse.answer_counts import insert_statement
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Connection, Warehouse


class PlannedCase(NamedTuple):
    """A case that a pair has planned: how many repetitions, how many of them at least, and what its verdicts are
    decided by. Cases of one `cluster` have something in common that makes answers alike; None: nothing."""

    case_id: str
    planned: int
    least: int
    decision_key: str
    cluster: str | None = None


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
        cases = [list(case) for case in self.cases]
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
           unnest($clusters::VARCHAR[]) AS cluster"""


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


_CHOSEN = """
    WITH stored AS (
        SELECT c.suite, c.runner, c.statistics_id, c.sweep_id, c.finished_at, s.complete, s.missing,
               (list_sum(s.planned) + s.broken)::BIGINT AS plans, len(s.cases)::BIGINT AS size,
               row_number() OVER (PARTITION BY c.suite, c.runner ORDER BY c.finished_at DESC, c.sweep_id DESC) AS age
        FROM sweep_pairs c JOIN pair_statistics s USING (statistics_id)
        SEMI JOIN current_pairs p ON p.suite = c.suite AND p.runner = c.runner),
    newest AS (SELECT suite, runner, missing, plans FROM stored WHERE age = 1 AND NOT complete),
    chosen AS (
        SELECT * FROM stored
        QUALIFY row_number() OVER (PARTITION BY suite, runner ORDER BY complete DESC, age) = 1)
    SELECT c.statistics_id, c.suite, c.sweep_id, c.finished_at, c.size,
           CASE WHEN c.complete THEN n.plans - n.missing END AS later_carried_out,
           CASE WHEN c.complete THEN n.plans END AS later_plans
    FROM chosen c LEFT JOIN newest n ON n.suite = c.suite AND n.runner = c.runner
    ORDER BY c.suite, c.runner"""
_TEXTS = ("cases", "clusters", "decision_keys")
_HASHES = ", ".join(f"hash({name})::VARCHAR AS {name}_hash" for name in _TEXTS)
_COUNTS = f"""
    SELECT * EXCLUDE (score_squares, {", ".join(_TEXTS)}), {_HASHES} FROM pair_statistics
    WHERE statistics_id IN (SELECT unnest($1::VARCHAR[]))"""
_LISTS = f"""
    SELECT statistics_id, {", ".join(_TEXTS)} FROM pair_statistics
    WHERE statistics_id IN (SELECT unnest($1::VARCHAR[]))"""
_CASES_AT_ONCE = 400_000


def board_statistics(warehouse: Warehouse) -> Iterator[pl.DataFrame]:
    """Yield what a board is made of, some suites at a time: one row per pair, of its newest sweep that left nothing to
    carry out, else of its newest; `later_carried_out` of `later_plans` are what an unfinished later one reached.

    Most pairs of a suite have the same cases: lists of texts are in one row only, the others have null; `cases_hash`
    and so on tell which are equal.
    """
    for chosen in _some_suites(warehouse.frame(_CHOSEN)):
        counts = warehouse.frame(_COUNTS, [chosen["statistics_id"].to_list()])
        first = pl.any_horizontal(pl.struct("suite", f"{name}_hash").is_first_distinct() for name in _TEXTS)
        texts = warehouse.frame(_LISTS, [counts.filter(first)["statistics_id"].to_list()])
        yield chosen.drop("suite", "size").join(counts, on="statistics_id").join(texts, on="statistics_id", how="left")


def _some_suites(chosen: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the rows of as many suites as have few cases together."""
    sizes = chosen.group_by("suite", maintain_order=True).agg(pl.col("size").sum())
    group = (pl.col("size").cum_sum() // _CASES_AT_ONCE).alias("group")
    for part in chosen.join(sizes.with_columns(group).drop("size"), on="suite", how="left").partition_by("group"):
        yield part.drop("group")
