"""The tables and views of the warehouse, as data: the one place that names a column.

DDL, comments and the reading of journals are all made from here. No keys or indexes: what makes a row unique is said
in `key`, and writers replace by it (so the same schema serves DuckDB and DuckLake).
"""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.warehouse.agreement_views import AGREEMENT_VIEWS

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, DuckDB type, what it says."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its comment, its columns, and the columns that together name a row."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class View:
    """A view: its comment and its query."""

    name: str
    comment: str
    query: str


def _table(name: str, comment: str, key: tuple[str, ...], *columns: tuple[str, str, str]) -> Table:
    return Table(name, comment, key, tuple(Column(*column) for column in columns))


_SUITE = ("suite", "VARCHAR", "Name of the suite")
_RUNNER = ("runner", "VARCHAR", "Name of the runner")
_CASE = ("case_id", "VARCHAR", "Id of the case within its suite")
_REPETITION = ("repetition", "INTEGER", "Which of the planned repetitions, from 1")
_EXECUTION = ("execution_id", "VARCHAR", "Execution this row is about")
_SWEEP = ("sweep_id", "VARCHAR", "Sweep that wrote this row")
_REVISION = ("suite_revision", "VARCHAR", "Hash of the suite's content")
_RUNNER_REVISION = ("runner_revision", "VARCHAR", "Hash of the runner's settings, without secrets, and of its program")

TABLES: tuple[Table, ...] = (
    _table(
        "suites", "One row per suite and revision that was ever loaded.", ("suite", "suite_revision"),
        _SUITE, _REVISION,
        ("path", "VARCHAR", "File it was loaded from"),
        ("format", "VARCHAR", "Suite format that read it"),
        ("description", "VARCHAR", "What the suite says it is about"),
        ("tags", "VARCHAR[]", "Tags of the whole suite"),
        ("metadata", "JSON", "Free-form metadata of the suite"),
        ("case_count", "INTEGER", "Cases that can be carried out"),
        ("invalid_cases", "INTEGER", "Cases that could not be loaded"),
        ("errors", "VARCHAR[]", "Why, one text each"),
        ("warnings", "VARCHAR[]", "What looked odd while loading"),
        ("loaded_at", "TIMESTAMP", "When this revision was last loaded (UTC)"),
    ),
    _table(
        "cases", "One row per case and suite revision.", ("suite", "suite_revision", "case_id"),
        _SUITE, _REVISION, _CASE,
        ("position", "INTEGER", "Order within the suite, from 0"),
        ("line", "INTEGER", "Line of the suite's file where it begins"),
        ("input", "JSON", "Messages sent to the target"),
        ("criteria", "VARCHAR", "What a good answer has to achieve"),
        ("expected_output", "JSON", "Reference answer, as messages"),
        ("tags", "VARCHAR[]", "Tags of the case and its suite"),
        ("metadata", "JSON", "Free-form metadata"),
        ("evaluators", "JSON", "Evaluators as the suite asks for them"),
        ("threshold", "DOUBLE", "Least score that passes, when the case sets one"),
        ("expected_fail", "BOOLEAN", "Whether failing is what is expected"),
        ("conversation", "JSON", "The user's turns of a live conversation"),
        ("workspace", "JSON", "What the case asks of its workspace"),
        ("depends_on", "VARCHAR[]", "Cases that have to be carried out before"),
        ("conversation_id", "VARCHAR", "Label of cases that belong to one conversation"),
        ("case_group", "VARCHAR", "Label that the case gives itself beside its suite"),
        ("strategy", "VARCHAR", "How its repetitions become one answer, when the case says so itself"),
    ),
    _table(
        "runners", "One row per runner and revision that was ever used.", ("runner", "runner_revision"),
        _RUNNER, _RUNNER_REVISION,
        ("adapter", "VARCHAR", "Adapter that drives it"),
        ("model", "VARCHAR", "Model its settings name"),
        ("tags", "VARCHAR[]", "Tags of the runner"),
        ("settings", "JSON", "Settings, secrets replaced by ***"),
        ("used_at", "TIMESTAMP", "When this revision was last used (UTC)"),
    ),
    _table(
        "sweeps", "One row per sweep: a set of suites × runners carried out together.", ("sweep_id",),
        _SWEEP,
        ("started_at", "TIMESTAMP", "Begin (UTC)"),
        ("finished_at", "TIMESTAMP", "End (UTC); NULL while running or when killed"),
        ("status", "VARCHAR", "running, finished, or interrupted"),
        ("dagster_run_id", "VARCHAR", "Dagster run that carried it out"),
        ("refresh", "VARCHAR", "Refresh policy: missing, failed or all"),
        ("selection", "JSON", "Suites, runners, cases, tags, repetitions, thresholds asked for"),
    ),
    _table(
        "sweep_cells", "What a sweep did for each suite × runner.", ("sweep_id", "suite", "runner"),
        _SWEEP, _SUITE, _RUNNER, _REVISION, _RUNNER_REVISION,
        ("suite_cells", "INTEGER", "Cells of the whole suite for this runner: cases × repetitions"),
        ("planned", "INTEGER", "Cells that the selection planned"),
        ("reused", "INTEGER", "Cells whose execution and scores were still valid"),
        ("rescored", "INTEGER", "Cells scored anew without calling the target"),
        ("executed", "INTEGER", "Cells executed anew"),
        ("passed", "INTEGER", "Planned cells that passed (or failed as expected)"),
        ("failed", "INTEGER", "Planned cells that failed"),
        ("errored", "INTEGER", "Planned cells that could not be graded"),
        ("repetitions", "INTEGER", "Repetitions planned per case"),
        ("strategy", "VARCHAR", "How repetitions become one answer: pass_at_k, pass_all, mean, confidence_interval"),
        ("threshold", "DOUBLE", "Least score that passes where a case sets none"),
        ("skipped", "INTEGER", "Repetitions left out because an earlier one settled the case"),
        ("invalid_cases", "INTEGER", "Cases of the suite that could not be loaded"),
        ("finished_at", "TIMESTAMP", "When the cell was stored (UTC)"),
    ),
    _table(
        "target_executions", "One row per execution: a cell carried out once.", ("execution_id",),
        _EXECUTION,
        ("key", "VARCHAR", "Identity of the cell's content; the same key is never executed twice under 'missing'"),
        _SUITE, _RUNNER, _CASE, _REPETITION, _SWEEP, _RUNNER_REVISION,
        ("completed", "BOOLEAN", "Whether the target finished and answered, rightly or wrongly"),
        ("failure_class", "VARCHAR", "Why it did not complete; NULL when it did"),
        ("error", "VARCHAR", "The same in words"),
        ("started_at", "TIMESTAMP", "Begin of the first attempt (UTC)"),
        ("finished_at", "TIMESTAMP", "End of the last attempt (UTC)"),
        ("selected_at", "TIMESTAMP", "When it last became its cell's current execution (UTC)"),
        ("duration_ms", "DOUBLE", "Wall time of the last attempt, milliseconds"),
        ("attempt_count", "INTEGER", "Attempts made"),
        ("attempts", "JSON", "Each attempt: begin, duration, failure class, status"),
        ("exit_code", "INTEGER", "Exit code of a program; negative: ended by that signal"),
        ("format", "VARCHAR", "Raw format, which names the normalizer"),
        ("raw", "JSON", "What the adapter brought back, when small"),
        ("artifacts", "JSON", "Files under data/artifacts: role, path, bytes, sha256"),
        ("workspace", "JSON", "Folder it worked in (it may be gone), changes (unified diff), what hooks printed"),
        ("answered_by", "VARCHAR", "Fallback runner that answered in the runner's place"),
    ),
    _table(
        "session_reports", "One row per execution and normalizer: the normalized session.", ("execution_id",),
        _EXECUTION, _SUITE, _RUNNER, _CASE, _REPETITION,
        ("normalizer", "VARCHAR", "Raw format and version of the normalizer"),
        ("final_output", "VARCHAR", "The target's last words to the user; NULL when it never got there"),
        ("prompt", "VARCHAR", "What the target was asked"),
        ("session_id", "VARCHAR", "The target's own name for the session"),
        ("model", "VARCHAR", "Model that answered"),
        ("agent_version", "VARCHAR", "Version the agent reports"),
        ("failure_class", "VARCHAR", "Why the session did not complete; NULL when it did"),
        ("error", "VARCHAR", "The same in words"),
        ("input_tokens", "BIGINT", "Gross input tokens, caches included; NULL: not reported"),
        ("cached_input_tokens", "BIGINT", "Part of the input read from a cache"),
        ("cache_write_tokens", "BIGINT", "Part of the input written to a cache"),
        ("output_tokens", "BIGINT", "Output tokens, reasoning included"),
        ("reasoning_tokens", "BIGINT", "Part of the output spent on reasoning"),
        ("total_tokens", "BIGINT", "Input plus output"),
        ("cost_usd", "DOUBLE", "Money spent, USD; NULL: not known"),
        ("cost_source", "VARCHAR", "reported by the target, or computed from the runner's prices"),
        ("duration_ms", "DOUBLE", "Time the target took, milliseconds"),
        ("ttft_ms", "DOUBLE", "Time to the first token, milliseconds (streams only)"),
        ("model_calls", "INTEGER", "Calls to the model that the session shows"),
        ("tool_calls", "INTEGER", "Tool calls"),
        ("commands", "INTEGER", "Shell commands"),
        ("file_reads", "VARCHAR[]", "Paths read, in order, each once"),
        ("skills", "JSON", "Skills detected: skill, confidence, evidence"),
        ("event_count", "INTEGER", "Rows in session_events"),
        ("unknown_events", "JSON", "Record types the normalizer does not know, with counts"),
        ("unparsed_lines", "INTEGER", "Lines it could not read"),
        ("started_at", "VARCHAR", "Begin as the session reports it (ISO 8601)"),
        ("ended_at", "VARCHAR", "End as the session reports it (ISO 8601)"),
        ("exit_code", "INTEGER", "Exit code of the agent's process"),
        ("selected_at", "TIMESTAMP", "When this report was made (UTC)"),
        ("file_changes", "VARCHAR", "Unified diff of what the session changed in its workspace"),
    ),
    _table(
        "session_events", "One row per thing that happened in a session, in order.", ("execution_id", "position"),
        _EXECUTION, _SUITE, _RUNNER, _CASE,
        ("position", "INTEGER", "Order within the session, from 0"),
        ("kind", "VARCHAR", "message, tool_call, tool_result, command, file_read, file_write, skill, retry, error"),
        ("text", "VARCHAR", "What was said, run, read or answered"),
        ("tool", "VARCHAR", "Tool of a call or result"),
        ("ok", "BOOLEAN", "Whether it worked; NULL: not known"),
        ("event", "JSON", "The whole event"),
    ),
    _table(
        "evaluator_scores", "One row per execution and evaluator.", ("execution_id", "spec_key"),
        _EXECUTION, _SUITE, _RUNNER, _CASE, _REPETITION,
        ("spec_key", "VARCHAR", "Identity of what was asked: evaluator, arguments, version"),
        ("evaluator", "VARCHAR", "Name of the evaluator in the suite"),
        ("type", "VARCHAR", "Kind of evaluator"),
        ("value", "DOUBLE", "Score in [0, 1]; NULL: could not tell"),
        ("reason", "VARCHAR", "Why"),
        ("weight", "DOUBLE", "Weight in the mean"),
        ("minimum", "DOUBLE", "Least value that lets the verdict stand; NULL: no gate"),
        ("failure_class", "VARCHAR", "What a failure of it is called, when the suite says"),
        ("findings", "JSON", "What was checked, one entry each"),
        ("details", "JSON", "Whatever else the evaluator tells"),
        ("duration_ms", "DOUBLE", "Time the evaluator took, milliseconds"),
        ("scored_at", "TIMESTAMP", "When (UTC)"),
        _SWEEP,
        ("passes", "BOOLEAN", "The evaluator's own word on whether it passed; NULL: its value decides"),
    ),
    _table(
        "member_scores", "The parts of a score that is made of several: members of a composite, graders of a panel.",
        ("execution_id", "spec_key", "position"),
        _EXECUTION, _SUITE, _RUNNER, _CASE, _REPETITION,
        ("spec_key", "VARCHAR", "Identity of the score it is part of"),
        ("evaluator", "VARCHAR", "Name of the evaluator in the suite"),
        ("position", "INTEGER", "Order within the score, from 0"),
        ("member", "VARCHAR", "Name of the member"),
        ("type", "VARCHAR", "Kind of evaluator"),
        ("grader", "VARCHAR", "Runner that graded; NULL where none was asked"),
        ("value", "DOUBLE", "Score in [0, 1]; NULL: could not tell"),
        ("reason", "VARCHAR", "Why"),
        ("weight", "DOUBLE", "Weight in the score"),
        ("details", "JSON", "Whatever else it tells: prompt, reply, model, settings"),
        ("scored_at", "TIMESTAMP", "When (UTC)"),
        _SWEEP,
    ),
    _table(
        "verdicts", "One row per cell and time it was decided; the newest of a cell is current.", ("verdict_id",),
        ("verdict_id", "VARCHAR", "Name of this row"),
        _SUITE, _REVISION, _RUNNER, _RUNNER_REVISION, _CASE, _REPETITION, _EXECUTION,
        ("key", "VARCHAR", "Identity of the cell's content"),
        ("status", "VARCHAR", "passed, failed, expected-failed, unexpected-passed or error"),
        ("score", "DOUBLE", "Weighted mean in [0, 1], 0 when a gate failed; NULL: could not be graded"),
        ("ungated_score", "DOUBLE", "Weighted mean before gates"),
        ("threshold", "DOUBLE", "Least score that passes"),
        ("failure_class", "VARCHAR", "Why it did not pass; NULL when it did"),
        ("reason", "VARCHAR", "The same in words"),
        ("tags", "VARCHAR[]", "Tags of the case"),
        ("decision_key", "VARCHAR", "Identity of everything the verdict was decided from"),
        ("normalizer", "VARCHAR", "Raw format and version of the normalizer"),
        ("score_keys", "VARCHAR[]", "spec_key of each score it was decided from"),
        ("duration_ms", "DOUBLE", "Time the target took, milliseconds"),
        ("input_tokens", "BIGINT", "Gross input tokens"),
        ("output_tokens", "BIGINT", "Output tokens"),
        ("cost_usd", "DOUBLE", "Money spent, USD"),
        ("decided_at", "TIMESTAMP", "When (UTC)"),
        _SWEEP,
    ),
    _table(
        "leaderboards", "Standings as they were computed: one row per board, scope, suite and runner.",
        ("board_id", "scope", "suite", "runner"),
        ("board_id", "VARCHAR", "The board; its rows were computed together"),
        ("scope", "VARCHAR", "suite: one suite; overall: the mean over suites"),
        _SUITE, _RUNNER, _REVISION, _RUNNER_REVISION,
        ("suites", "BIGINT", "Suites that the row covers"),
        ("rank", "INTEGER", "1 is best; runners whose intervals cannot tell them apart may still differ in rank"),
        ("tied_with_best", "BOOLEAN", "Whether its interval overlaps that of the best"),
        ("planned", "BIGINT", "Cells of the suite: cases × repetitions"),
        ("graded", "BIGINT", "Cells with a verdict that judges the answer"),
        ("passed", "BIGINT", "Graded cells that passed, or failed as expected"),
        ("failed", "BIGINT", "Graded cells that failed, or passed unexpectedly"),
        ("expected_failed", "BIGINT", "Part of passed: failed as expected"),
        ("unexpected_passed", "BIGINT", "Part of failed: passed although failing was expected"),
        ("errored", "BIGINT", "Cells carried out that could not be graded"),
        ("pass_rate", "DOUBLE", "passed / graded"),
        ("pass_rate_low", "DOUBLE", "Wilson 95 % interval, low end"),
        ("pass_rate_high", "DOUBLE", "Wilson 95 % interval, high end"),
        ("pass_rate_worst", "DOUBLE", "If every ungraded cell had failed: passed / planned"),
        ("pass_rate_best", "DOUBLE", "If every ungraded cell had passed"),
        ("mean_score", "DOUBLE", "Mean score of graded cells"),
        ("mean_score_low", "DOUBLE", "95 % interval of the mean by Student's t, cases as units, low end"),
        ("mean_score_high", "DOUBLE", "The same, high end"),
        ("coverage", "DOUBLE", "graded / planned"),
        ("latency_p50_ms", "DOUBLE", "Median time of the target"),
        ("latency_p95_ms", "DOUBLE", "95th percentile of it"),
        ("input_tokens", "BIGINT", "Sum over cells that report it; NULL when none does"),
        ("output_tokens", "BIGINT", "Sum over cells that report it"),
        ("cost_usd", "DOUBLE", "Sum over cells whose cost is known; NULL when none is"),
        ("cost_known", "BIGINT", "Cells whose cost is known"),
        ("computed_at", "TIMESTAMP", "When (UTC)"),
        _SWEEP,
    ),
    _table(
        "failure_classes", "Why cells did not pass: class × runner × suite, of the newest board.",
        ("suite", "runner", "failure_class"),
        _SUITE, _RUNNER, _REVISION,
        ("failure_class", "VARCHAR", "Class of the failure"),
        ("label", "VARCHAR", "The class for people"),
        ("origin", "VARCHAR", "Who has to act: quality, target, infrastructure, harness or grader"),
        ("count", "BIGINT", "Cells of this class"),
        ("share", "DOUBLE", "count / cells carried out"),
        ("examples", "VARCHAR[]", "Up to five case ids"),
        ("example_reason", "VARCHAR", "What the first of them says"),
        ("computed_at", "TIMESTAMP", "When (UTC)"),
    ),
    _table(
        "comparisons", "Two runners or two sweeps, paired by case.", ("comparison_id",),
        ("comparison_id", "VARCHAR", "Name of the comparison"),
        _SUITE,
        ("baseline", "VARCHAR", "What is compared with"),
        ("candidate", "VARCHAR", "What is compared"),
        ("details", "JSON", "Numbers of the comparison"),
        ("computed_at", "TIMESTAMP", "When (UTC)"),
    ),
    _table(
        "token_snapshots", "Stored token baselines.", ("suite", "case_id", "runner"),
        _SUITE, _CASE, _RUNNER,
        ("metric", "VARCHAR", "Which token count"),
        ("value", "BIGINT", "The baseline"),
        ("taken_at", "TIMESTAMP", "When (UTC)"),
    ),
    _table(
        "schema_migrations", "Versions this warehouse has been brought to.", ("version",),
        ("version", "INTEGER", "Schema version"),
        ("description", "VARCHAR", "What changed"),
        ("applied_at", "TIMESTAMP", "When (UTC)"),
    ),
)  # fmt: skip

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}

_CURRENT_CELLS = """
    SELECT * EXCLUDE (newest) FROM (
        SELECT c.*, row_number() OVER (PARTITION BY suite, runner ORDER BY finished_at DESC, sweep_id DESC) AS newest
        FROM sweep_cells c)
    WHERE newest = 1"""

_STUDENT_95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
)  # fmt: skip
"""Student's t, two-sided 95 %, for 1 to 29 degrees of freedom; above, the normal quantile is near enough."""


def _student(degrees: str) -> str:
    """The SQL for Student's t of an SQL expression of degrees of freedom."""
    return f"coalesce({list(_STUDENT_95)}[{degrees}], 1.96)"


VIEWS: tuple[View, ...] = (
    View("current_cells", "The newest sweep's row of each suite × runner.", _CURRENT_CELLS),
    View(
        "current_verdicts",
        "The newest verdict of each cell, at the suite and runner revision swept last.",
        """
    SELECT v.* EXCLUDE (newest) FROM (
        SELECT v.*, row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) AS newest
        FROM verdicts v
        JOIN current_cells c USING (suite, runner, suite_revision, runner_revision)) v
    WHERE newest = 1""",
    ),
    View(
        "current_executions",
        "The execution that stands for each cell now: the one selected last.",
        """
    SELECT * EXCLUDE (newest) FROM (
        SELECT e.*, row_number() OVER (
            PARTITION BY suite, runner, case_id, repetition ORDER BY selected_at DESC, execution_id DESC) AS newest
        FROM target_executions e)
    WHERE newest = 1""",
    ),
    View(
        "current_scores",
        "The scores that the current verdicts were decided from.",
        """
    SELECT s.* FROM evaluator_scores s
    JOIN current_verdicts v ON s.execution_id = v.execution_id AND list_contains(v.score_keys, s.spec_key)""",
    ),
    *(View(*view) for view in AGREEMENT_VIEWS),
    View(
        "leaderboard",
        "The newest standing of each runner on each suite: who passes how much, with 95 % intervals and coverage.",
        """
    SELECT suite, runner, rank, tied_with_best, planned, graded, passed, failed, errored, pass_rate, pass_rate_low,
           pass_rate_high, pass_rate_worst, pass_rate_best, mean_score, mean_score_low, mean_score_high, coverage,
           latency_p50_ms, latency_p95_ms, input_tokens, output_tokens, cost_usd, expected_failed, unexpected_passed,
           suite_revision, runner_revision, computed_at, board_id
    FROM leaderboards WHERE scope = 'suite' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY suite, rank, runner""",
    ),
    View(
        "leaderboard_overall",
        "The newest overall standing of each runner: the mean over suites, each suite counting the same.",
        """
    SELECT * EXCLUDE (scope, suite, suite_revision, runner_revision) FROM leaderboards
    WHERE scope = 'overall' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY rank, runner""",
    ),
    View(
        "case_matrix",
        "Cases down, runners across (one row per case and runner): pass rate over repetitions and mean score.",
        """
    SELECT suite, case_id, runner, count(*) FILTER (status <> 'error') AS graded,
           avg(CASE WHEN status IN ('passed', 'expected-failed') THEN 1.0
                    WHEN status <> 'error' THEN 0.0 END) AS pass_rate,
           avg(score) AS mean_score, list(DISTINCT status ORDER BY status) AS statuses
    FROM current_verdicts GROUP BY ALL ORDER BY suite, case_id, runner""",
    ),
    View(
        "flaky_cases",
        "Cases that passed in some repetitions and failed in others.",
        """
    SELECT suite, runner, case_id, count(*) AS repetitions,
           count(*) FILTER (status IN ('passed', 'expected-failed')) AS passed,
           count(*) FILTER (status IN ('failed', 'unexpected-passed')) AS failed,
           count(*) FILTER (status = 'error') AS errored
    FROM current_verdicts GROUP BY suite, runner, case_id HAVING passed > 0 AND failed > 0
    ORDER BY suite, runner, case_id""",
    ),
    View(
        "case_results",
        "One row per case and runner: its repetitions and the one answer about it, by the strategy of its suite.",
        f"""
    SELECT *, CASE strategy WHEN 'pass_at_k' THEN best WHEN 'pass_all' THEN worst
                            WHEN 'confidence_interval' THEN interval_low ELSE mean_score END AS score,
           CASE WHEN graded = 0 THEN 'error'
                WHEN strategy = 'pass_at_k' THEN if(passed > 0, 'passed', 'failed')
                WHEN strategy = 'pass_all' OR repetitions = 1 THEN if(passed = graded, 'passed', 'failed')
                WHEN strategy = 'confidence_interval' THEN if(interval_low >= threshold - 1e-9, 'passed', 'failed')
                ELSE if(mean_score >= threshold - 1e-9, 'passed', 'failed') END AS status
    FROM (
        SELECT v.suite, v.runner, v.case_id, coalesce(k.strategy, c.strategy, 'mean') AS strategy,
               count(*) AS repetitions,
               count(*) FILTER (v.status <> 'error') AS graded,
               count(*) FILTER (v.status IN ('passed', 'expected-failed')) AS passed,
               avg(v.score) AS mean_score, min(v.score) AS worst, max(v.score) AS best,
               CASE WHEN count(v.score) < 2 THEN avg(v.score) ELSE greatest(0.0, least(1.0,
                   avg(v.score) - {_student("count(v.score) - 1")} * stddev_samp(v.score) / sqrt(count(v.score))))
               END AS interval_low,
               any_value(v.threshold) AS threshold
        FROM current_verdicts v JOIN current_cells c USING (suite, runner)
        LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id
        GROUP BY ALL)
    ORDER BY suite, runner, case_id""",
    ),
    View(
        "failure_summary",
        "Failure classes over everything that is current: how often, where, and an example.",
        """
    SELECT failure_class, any_value(label) AS label, any_value(origin) AS origin, sum(count)::BIGINT AS count,
           count(DISTINCT suite) AS suites, count(DISTINCT runner) AS runners, any_value(example_reason) AS example
    FROM failure_classes GROUP BY failure_class ORDER BY count DESC, failure_class""",
    ),
    View(
        "cost_by_runner",
        "Money and tokens of every execution ever made, by runner; cost_known says for how many cost is known.",
        """
    SELECT runner, count(*) AS executions, count(cost_usd) AS cost_known, sum(cost_usd) AS cost_usd,
           sum(input_tokens)::BIGINT AS input_tokens, sum(cached_input_tokens)::BIGINT AS cached_input_tokens,
           sum(output_tokens)::BIGINT AS output_tokens,
           sum(cost_usd) / nullif(count(cost_usd), 0) AS cost_per_execution_usd
    FROM session_reports GROUP BY runner ORDER BY cost_usd DESC NULLS LAST, runner""",
    ),
    View(
        "leaderboard_history",
        "Every standing ever computed, newest board first.",
        "SELECT * FROM leaderboards ORDER BY board_id DESC, scope, suite, rank, runner",
    ),
)


def create_statements() -> list[str]:
    """Everything that makes an empty database this schema: tables with comments, then views."""
    return table_statements() + view_statements()


def table_statements() -> list[str]:
    """The tables, where they are not there yet, and what they and their columns say."""
    statements: list[str] = []
    for table in TABLES:
        columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
        statements.append(f'CREATE TABLE IF NOT EXISTS "{table.name}" ({columns})')
        statements.append(f'COMMENT ON TABLE "{table.name}" IS {_quoted(table.comment)}')
        statements += [
            f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS {_quoted(column.comment)}' for column in table.columns
        ]
    return statements


def view_statements() -> list[str]:
    """The views, made anew: they hold no data, so a newer version of the code simply replaces them."""
    statements: list[str] = []
    for view in VIEWS:
        statements.append(f'CREATE OR REPLACE VIEW "{view.name}" AS {view.query}')
        statements.append(f'COMMENT ON VIEW "{view.name}" IS {_quoted(view.comment)}')
    return statements


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
