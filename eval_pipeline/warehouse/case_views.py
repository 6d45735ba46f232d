"""The views of results by what their cases are: tag, difficulty, persona, metric; by who played the user; snapshots.

Values only: each is a name, a comment and a query; `views.VIEWS` turns them into views. A rate and a mean are over
cases, whose repetitions are averaged first; results of different simulators are rows of their own.
"""

from __future__ import annotations

from eval_pipeline.executions.agent_setup import PROMPT_SETTINGS, RETURNED_PROMPT
from eval_pipeline.statistics.agreement import kappa
from eval_pipeline.warehouse.expressions import Sql

_PASSED = """CASE WHEN v.status IN ('passed', 'expected-failed') THEN 1.0 WHEN v.status <> 'error' THEN 0.0 END"""
_PLAYED = """
    SELECT execution_id, string_agg(DISTINCT simulator, ', ' ORDER BY simulator) AS simulator FROM (
        SELECT execution_id, unnest(json_extract_string(turns, '$[*].speech.simulator')) AS simulator
        FROM session_reports WHERE json_array_length(turns) > 0)
    WHERE simulator IS NOT NULL GROUP BY execution_id"""


_WEIGHTS = """
    SELECT c.suite, c.runner, unnest(s.cases) AS case_id, unnest(s.weights) AS weight
    FROM current_pairs c JOIN pair_statistics s USING (statistics_id) WHERE s.weights IS NOT NULL"""


def _mean(value: str) -> str:
    """Return the SQL of the mean over cases by their weights; NULL where no case has the value."""
    return f"sum(weight * ({value})) / nullif(sum(weight) FILTER (({value}) IS NOT NULL), 0)"


def _grouped(column: str, expression: str, joined: str = "") -> str:
    """Return the query of results by a property of their cases."""
    return f"""
    WITH played AS ({_PLAYED}), weights AS ({_WEIGHTS}),
    by_case AS (
        SELECT v.suite, v.runner, p.simulator, {expression} AS {column}, v.case_id,
               coalesce(max(w.weight), 1.0) AS weight,
               count(*) FILTER (v.status <> 'error') AS graded, avg({_PASSED}) AS pass_rate,
               avg(v.score) FILTER (v.status <> 'error') AS score
        FROM first_verdicts v LEFT JOIN played p USING (execution_id)
        LEFT JOIN weights w ON w.suite = v.suite AND w.runner = v.runner AND w.case_id = v.case_id {joined}
        GROUP BY ALL)
    SELECT suite, runner, simulator, {column}, count(*) AS cases, count(*) FILTER (graded > 0) AS graded_cases,
           {_mean("pass_rate")} AS pass_rate, {_mean("score")} AS mean_score
    FROM by_case GROUP BY suite, runner, simulator, {column} ORDER BY suite, runner, simulator, {column}"""


_CASES = "LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id"


def upper_quantile(values: str, share: float) -> str:
    """Return the SQL of a quantile near the upper end of an ascending list (see `statistics.summaries`)."""
    place = f"least({share} * (len({values}) + 1), len({values}))"
    below = f"greatest(floor({place}), 1)::BIGINT"
    above = f"least({below} + 1, len({values}))"
    return f"{values}[{below}] + ({values}[{above}] - {values}[{below}]) * greatest({place} - {below}, 0)"


_RETURNED_PROMPT = ", ".join(f"e.payload ->> '$.metadata.{name}'" for name in RETURNED_PROMPT)
_SETTING = "coalesce({})".format(", ".join(f"r.settings ->> '$.{name}'" for name in PROMPT_SETTINGS))

CASE_VIEWS: tuple[tuple[str, str, str], ...] = (
    (
        "results_by_tag",
        "Current results by tag; a case with several tags counts for each.",
        _grouped("tag", "v.tag", "").replace(
            "FROM first_verdicts v", "FROM (SELECT *, unnest(tags) AS tag FROM first_verdicts) v"
        ),
    ),
    (
        "results_by_difficulty",
        "Current results by difficulty.",
        _grouped("difficulty", "coalesce(k.difficulty, 'normal')", _CASES),
    ),
    (
        "results_by_persona",
        "Current results by the persona of the simulated user.",
        _grouped("persona", "k.persona", f"{_CASES} WHERE k.persona IS NOT NULL"),
    ),
    (
        "results_by_metric",
        "Current scores of judges by metric: points from 0 to 5, or the share of yes where a metric is met or not.",
        f"""
    WITH played AS ({_PLAYED}), weights AS ({_WEIGHTS}),
    by_case AS (
        SELECT s.suite, s.runner, p.simulator, m.member AS metric, s.case_id,
               coalesce(max(w.weight), 1.0) AS weight,
               bool_or(coalesce(TRY_CAST(m.details ->> '$.binary' AS BOOLEAN), false)) AS is_binary,
               avg(TRY_CAST(m.details ->> '$.points' AS DOUBLE)) AS points, avg(m.value) AS share
        FROM current_scores s JOIN member_scores m USING (execution_id, spec_key)
        LEFT JOIN played p USING (execution_id)
        LEFT JOIN weights w ON w.suite = s.suite AND w.runner = s.runner AND w.case_id = s.case_id
        WHERE m.type = 'metric' GROUP BY s.suite, s.runner, p.simulator, m.member, s.case_id)
    SELECT suite, runner, simulator, metric, bool_or(is_binary) AS is_binary, count(*) AS cases,
           CASE WHEN bool_or(is_binary) THEN {_mean("share")} ELSE {_mean("points")} END AS mean,
           min(CASE WHEN is_binary THEN share ELSE points END) AS lowest
    FROM by_case GROUP BY suite, runner, simulator, metric ORDER BY suite, runner, simulator, metric""",
    ),
    (
        "conversation_latency",
        "Time of the agent's turns, by suite, runner and simulator: median, 95th percentile, greatest; and by case.",
        f"""
    WITH times AS (
        SELECT t.suite, t.runner, p.simulator, list_sort(list(t.duration_ms)) AS sorted,
               count(DISTINCT t.execution_id) AS conversations
        FROM conversation_turns t LEFT JOIN ({_PLAYED}) p USING (execution_id)
        WHERE t.speaker = 'agent' AND t.duration_ms IS NOT NULL GROUP BY t.suite, t.runner, p.simulator),
    by_execution AS (
        SELECT t.suite, t.runner, p.simulator, t.case_id, median(t.duration_ms) AS middle
        FROM conversation_turns t LEFT JOIN ({_PLAYED}) p USING (execution_id)
        WHERE t.speaker = 'agent' AND t.duration_ms IS NOT NULL
        GROUP BY t.suite, t.runner, p.simulator, t.case_id, t.execution_id),
    by_case AS (
        SELECT suite, runner, simulator, case_id, median(middle) AS middle FROM by_execution
        GROUP BY suite, runner, simulator, case_id),
    of_cases AS (
        SELECT suite, runner, simulator, avg(middle) AS case_mean_ms FROM by_case GROUP BY suite, runner, simulator)
    SELECT t.suite, t.runner, t.simulator, conversations, len(sorted) AS turns, list_avg(sorted) AS latency_mean_ms,
           list_median(sorted) AS latency_p50_ms, {upper_quantile("sorted", 0.95)} AS latency_p95_ms,
           sorted[len(sorted)] AS latency_max_ms, case_mean_ms
    FROM times t JOIN of_cases c
         ON c.suite = t.suite AND c.runner = t.runner AND c.simulator IS NOT DISTINCT FROM t.simulator
    ORDER BY t.suite, t.runner, t.simulator""",
    ),
    (
        "simulator_agreement",
        "How far verdicts depend on who played the user: each two simulators, on the plans that both played.",
        f"""
    WITH played AS ({_PLAYED}),
    newest AS (
        SELECT v.suite, v.suite_revision, v.runner, v.runner_revision, v.case_id, v.repetition, p.simulator,
               {_PASSED} AS passed, v.score
        FROM verdicts v JOIN played p USING (execution_id)
        WHERE v.status <> 'error'
        QUALIFY row_number() OVER (
            PARTITION BY v.suite, v.suite_revision, v.runner, v.runner_revision, v.case_id, v.repetition, p.simulator
            ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1),
    pairs AS (
        SELECT a.suite, a.runner, a.simulator AS simulator_a, b.simulator AS simulator_b, count(*) AS plans,
               count(DISTINCT a.case_id) AS cases, avg((a.passed = b.passed)::INTEGER) AS agreement,
               avg(a.passed) AS pass_rate_a, avg(b.passed) AS pass_rate_b, avg(a.score - b.score) AS mean_difference,
               pass_rate_a * pass_rate_b + (1 - pass_rate_a) * (1 - pass_rate_b) AS by_chance
        FROM newest a JOIN newest b USING (suite, suite_revision, runner, runner_revision, case_id, repetition)
        WHERE a.simulator < b.simulator GROUP BY a.suite, a.runner, a.simulator, b.simulator)
    SELECT suite, runner, simulator_a, simulator_b, plans, cases, agreement,
           CASE WHEN by_chance = 1 THEN 1.0 ELSE {kappa(Sql("agreement"), Sql("by_chance"))} END AS cohens_kappa,
           pass_rate_a, pass_rate_b, mean_difference
    FROM pairs ORDER BY suite, runner, simulator_a, simulator_b""",
    ),
    (
        "execution_snapshots",
        "What each execution ran: prompt, tools, model and settings as used or returned, each with its SHA-256.",
        f"""
    WITH stored AS (
        SELECT execution_id, suite, runner, case_id, repetition, sweep_id, runner_revision,
               coalesce(raw -> '$.payload.turns[#-1].payload', raw -> '$.payload') AS payload
        FROM target_executions)
    SELECT execution_id, suite, runner, case_id, repetition, sweep_id, runner_revision, model,
           prompt, sha256(prompt) AS prompt_sha256, tools, sha256(tools::VARCHAR) AS tools_sha256,
           settings, sha256(settings::VARCHAR) AS settings_sha256
    FROM (
        SELECT e.execution_id, e.suite, e.runner, e.case_id, e.repetition, e.sweep_id, e.runner_revision,
               coalesce(s.model, e.payload ->> '$.settings.model', r.model) AS model,
               coalesce({_RETURNED_PROMPT}, {_SETTING}) AS prompt,
               coalesce(e.payload -> '$.metadata.tools', r.settings -> '$.tools') AS tools,
               CASE WHEN json_type(e.payload, '$.settings') = 'OBJECT'
                    THEN json_merge_patch(r.settings, e.payload -> '$.settings') ELSE r.settings END AS settings
        FROM stored e
        LEFT JOIN runners r ON r.runner = e.runner AND r.runner_revision = e.runner_revision
        LEFT JOIN session_reports s USING (execution_id))""",
    ),
)
