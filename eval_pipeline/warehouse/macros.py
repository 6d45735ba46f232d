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

    @property
    def signature(self) -> str:
        """The macro as it is called."""
        return f"{self.name}({self.parameters})"


IS_STANDING = "scope <> 'none'"
"""Whether a row of `leaderboards` is a standing; a board without any has one row that is none."""
SELECTED = """(c.repetitions IS NULL OR v.repetition <= c.repetitions)
      AND (coalesce(len(json_extract_string(s.selection, '$.cases[*]')), 0) = 0
           OR list_contains(json_extract_string(s.selection, '$.cases[*]'), v.case_id))
      AND (coalesce(len(json_extract_string(s.selection, '$.tags[*]')), 0) = 0
           OR list_has_any(v.tags, json_extract_string(s.selection, '$.tags[*]')))"""
"""Whether a verdict `v` is of a plan that a sweep `s` chose in its pair `c`."""
_KNOWN = """(
        SELECT CASE WHEN count(*) > 0 OR sweep IS NULL THEN sweep
                    ELSE error(concat('no sweep ', sweep, '; the table sweeps has their ids (sweep_id)')) END
        FROM sweeps k WHERE k.sweep_id = sweep)"""
"""The id of a sweep, NULL for NULL; an error where there is none: its rows would be missing without a word."""
_MIDDLE, _HALF = wilson_parts(Sql("(k / n)"), Sql("n"))

MACROS: tuple[Macro, ...] = (
    Macro(
        "verdicts_of",
        "sweep",
        "The verdicts of a sweep as they were at its end, those of reused executions included.",
        f"""
    SELECT v.* FROM verdicts v
    JOIN sweep_pairs c USING (suite, runner, suite_revision, runner_revision)
    JOIN sweeps s ON s.sweep_id = c.sweep_id
    WHERE c.sweep_id = {_KNOWN} AND v.decided_at <= c.finished_at
      AND {SELECTED}
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.runner, v.case_id, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1""",
    ),
    Macro(
        "changes_between",
        "before, after",
        "What became of the plans of two sweeps: regression, fixed, error, graded, score, new, gone, same.",
        """
    SELECT suite, runner, case_id, repetition,
           CASE WHEN b.status IS NULL THEN 'gone' WHEN a.status IS NULL THEN 'new'
                WHEN b.status = 'error' AND a.status <> 'error' THEN 'error'
                WHEN a.status = 'error' AND b.status <> 'error' THEN 'graded'
                WHEN a.status IN ('passed', 'expected-failed') AND b.status IN ('failed', 'unexpected-passed')
                    THEN 'regression'
                WHEN b.status IN ('passed', 'expected-failed') AND a.status IN ('failed', 'unexpected-passed')
                    THEN 'fixed'
                WHEN abs(a.score - b.score) > 1e-9 THEN 'score' ELSE 'same' END AS change,
           a.status AS status_before, b.status AS status_after, a.score AS score_before, b.score AS score_after,
           b.failure_class, b.reason, a.execution_id AS execution_before, b.execution_id AS execution_after
    FROM verdicts_of(before) a FULL JOIN verdicts_of(after) b USING (suite, runner, case_id, repetition)""",
    ),
    Macro(
        "regressions",
        "before, after",
        "What passed in one sweep and fails in a later one, with the later reason.",
        """
    SELECT * EXCLUDE (change) FROM changes_between(before, after) WHERE change = 'regression'
    ORDER BY suite, runner, case_id, repetition""",
    ),
    Macro(
        "board_as_of",
        "moment",
        "The standings of the newest board at a time; no rows before the first board.",
        f"""
    SELECT * FROM leaderboards
    WHERE board_id = (SELECT max(board_id) FROM leaderboards WHERE computed_at <= moment::TIMESTAMPTZ)
          AND {IS_STANDING}
    ORDER BY scope, suite, rank, runner""",
    ),
    Macro(
        "changes_since",
        "moment",
        "The newest board beside the one at a time: what each pair was and is, and why its verdicts changed since.",
        """
    SELECT n.suite, n.runner, b.pass_rate AS pass_rate_before, n.pass_rate, n.pass_rate - b.pass_rate AS difference,
           b.suite_revision IS DISTINCT FROM n.suite_revision AS other_suite,
           b.runner_revision IS DISTINCT FROM n.runner_revision AS other_runner,
           coalesce(c.changes, 0) AS changes, c.causes
    FROM leaderboard n
    LEFT JOIN (FROM board_as_of(moment) WHERE scope = 'suite') b ON b.suite = n.suite AND b.runner = n.runner
    LEFT JOIN (SELECT suite, runner, count(*) AS changes, list(DISTINCT cause ORDER BY cause) AS causes
               FROM verdict_causes WHERE changed_at > moment::TIMESTAMPTZ GROUP BY suite, runner) c
        ON c.suite = n.suite AND c.runner = n.runner
    ORDER BY n.suite, n.rank, n.runner""",
    ),
    Macro(
        "case_history",
        "suite_name, case_name",
        "Every verdict of a case, oldest first, with the revisions of suite and runner that it is of.",
        """
    SELECT decided_at, sweep_id, runner, repetition, status, score, failure_class, reason, suite_revision,
           runner_revision, execution_id
    FROM verdicts WHERE suite = suite_name AND case_id = case_name
    ORDER BY decided_at, runner, repetition, verdict_id""",
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
