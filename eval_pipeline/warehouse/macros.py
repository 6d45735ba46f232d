"""The macros of the published results, for analysts: what one SELECT would need ten lines for. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.statistics.intervals import wilson_parts
from eval_pipeline.warehouse.expressions import Sql


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: its name, its parameters, its comment, and its query (a table) or expression (a value)."""

    name: str
    parameters: str
    comment: str
    definition: str
    is_table: bool = True


_MIDDLE, _HALF = wilson_parts(Sql("(k / n)"), Sql("n"))

MACROS: tuple[Macro, ...] = (
    Macro(
        "verdicts_of",
        "sweep",
        "The verdicts of a sweep as they were at its end, those of reused executions included.",
        """
    SELECT v.* FROM verdicts v
    JOIN sweep_pairs c USING (suite, runner, suite_revision, runner_revision)
    JOIN sweeps s ON s.sweep_id = c.sweep_id
    WHERE c.sweep_id = sweep AND v.decided_at <= c.finished_at
      AND (c.repetitions IS NULL OR v.repetition <= c.repetitions)
      AND (coalesce(len(json_extract_string(s.selection, '$.cases[*]')), 0) = 0
           OR list_contains(json_extract_string(s.selection, '$.cases[*]'), v.case_id))
      AND (coalesce(len(json_extract_string(s.selection, '$.tags[*]')), 0) = 0
           OR list_has_any(v.tags, json_extract_string(s.selection, '$.tags[*]')))
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.runner, v.case_id, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1""",
    ),
    Macro(
        "board_as_of",
        "moment",
        "The standings of the newest board at a time; no rows before the first board.",
        """
    SELECT * FROM leaderboards
    WHERE board_id = (SELECT max(board_id) FROM leaderboards WHERE computed_at <= moment::TIMESTAMPTZ)
    ORDER BY scope, suite, rank, runner""",
    ),
    Macro(
        "wilson",
        "k, n",
        "Wilson's 95 % interval of k successes in n trials: fields low and high; NULL without trials.",
        f"""CASE WHEN n > 0 THEN struct_pack(low := greatest(0.0::DOUBLE, {_MIDDLE - _HALF}),
                                         high := least(1.0::DOUBLE, {_MIDDLE + _HALF})) END""",
        is_table=False,
    ),
)
