"""The views of conversations: who said how much in each turn, and what each side spent.

Values only: each is a name, a comment and a query; `views.VIEWS` turns them into views.
"""

from __future__ import annotations

_SPOKEN = """
    SELECT execution_id, turn, (event ->> '$.role') = 'assistant' AS by_agent,
           sum(len(regexp_extract_all(text, '\\S+'))) AS words
    FROM session_events
    WHERE kind = 'message' AND turn IS NOT NULL AND coalesce(event ->> '$.phase', '') <> 'thinking'
          AND (event ->> '$.role') IN ('user', 'assistant')
    GROUP BY ALL"""
_TURNS = """
    SELECT * EXCLUDE (turns), json_extract(turns, '$[' || (turn - 1)::VARCHAR || ']') AS start FROM (
        SELECT execution_id, suite, runner, case_id, repetition, turns,
               unnest(range(1, json_array_length(turns)::BIGINT + 1)) AS turn
        FROM session_reports WHERE json_array_length(turns) > 0)"""

_GIVEN_UP = """
    SELECT suite, runner, unnest(from_json(given_up, '["JSON"]')) AS start
    FROM session_reports WHERE given_up IS NOT NULL"""
GIVEN_UP_TOKENS = """list_concat(
    TRY_CAST(json_extract_string(r.given_up, '$[*].usage.input_tokens') AS BIGINT[]),
    TRY_CAST(json_extract_string(r.given_up, '$[*].usage.output_tokens') AS BIGINT[]))"""
"""The known tokens of targets in turns that are given up (of `session_reports r`)."""
_LINES = ("turns", "given_up")
"""Columns with what is known of the lines of a simulator: those of the turns, and those of turns that are given up."""


def _of_lines(*fields: str) -> str:
    """Return the values of fields of all lines (of `session_reports r`)."""
    lists = (f"json_extract_string(r.{lines}, '$[*].speech.{field}')" for lines in _LINES for field in fields)
    return f"list_concat({', '.join(lists)})"


SPEAKERS = _of_lines("simulator", "review.reviewer")
"""Who was asked for the lines of a conversation (of `session_reports r`): a name for each line of simulator and
reviewer."""
_FAULT = "(start ->> '$.speech.fault')"


def speech_usage(name: str, type_: str) -> str:
    """Return the known values of what simulator and reviewer used, line by line (of `session_reports r`)."""
    return f"TRY_CAST({_of_lines(f'usage.{name}', f'review.usage.{name}')} AS {type_}[])"


COST_OF_BOTH_SIDES = f"r.cost_usd + coalesce(list_sum({speech_usage('cost_usd', 'DOUBLE')}), 0)"
"""What the agent of an execution cost, and what is known of its simulator and reviewer (of `session_reports r`)."""


def _measures(usage: str, source: str) -> str:
    return f"""
           TRY_CAST(start ->> '{source}duration_ms' AS DOUBLE) AS duration_ms,
           TRY_CAST(start ->> '{usage}.input_tokens' AS BIGINT) AS input_tokens,
           TRY_CAST(start ->> '{usage}.output_tokens' AS BIGINT) AS output_tokens,
           TRY_CAST(start ->> '{usage}.cost_usd' AS DOUBLE) AS cost_usd,
           start ->> '{source}model' AS model"""


CONVERSATION_VIEWS: tuple[tuple[str, str, str], ...] = (
    (
        "conversation_turns",
        "One row per turn and speaker of each conversation: the words of the user, then those of the agent.",
        f"""
    WITH turns AS ({_TURNS}), spoken AS ({_SPOKEN}),
    sides AS (
        SELECT execution_id, suite, runner, case_id, repetition, turn, 'user' AS speaker, false AS by_agent,
               start ->> '$.speech.simulator' AS simulator, NULL::DOUBLE AS ttft_ms,
               {_measures("$.speech.usage", "$.speech.")}
        FROM turns WHERE (start ->> '$.speaker') IS NOT NULL OR {_FAULT} IS NOT NULL
        UNION ALL BY NAME
        SELECT execution_id, suite, runner, case_id, repetition, turn, 'agent' AS speaker, true AS by_agent,
               NULL::VARCHAR AS simulator, TRY_CAST(start ->> '$.ttft_ms' AS DOUBLE) AS ttft_ms,
               {_measures("$.usage", "$.")}
        FROM turns WHERE {_FAULT} IS NULL)
    SELECT execution_id, suite, runner, case_id, repetition, turn, speaker, simulator,
           coalesce(words, 0)::BIGINT AS words, duration_ms, ttft_ms, input_tokens, output_tokens, cost_usd, model
    FROM sides LEFT JOIN spoken USING (execution_id, turn, by_agent)
    ORDER BY suite, runner, case_id, repetition, execution_id, turn, speaker DESC""",
    ),
    (
        "conversation_spending",
        "What conversations spent, by suite, runner and role: agent, simulator, reviewer, judge, and other graders, "
        "with the turns that are given up since a conversation began anew.",
        f"""
    SELECT suite, runner, role, count(*) AS lines, sum(input_tokens)::BIGINT AS input_tokens,
           sum(output_tokens)::BIGINT AS output_tokens, sum(cost_usd) AS cost_usd,
           count(*) - count(cost_usd) AS unknown_costs
    FROM (
        SELECT suite, runner, CASE WHEN speaker = 'agent' THEN 'agent' ELSE 'simulator' END AS role,
               input_tokens, output_tokens, cost_usd
        FROM conversation_turns WHERE speaker = 'agent' OR simulator IS NOT NULL
        UNION ALL BY NAME
        SELECT suite, runner, 'agent' AS role, {_measures("$.usage", "$.")}
        FROM ({_GIVEN_UP}) WHERE (start -> '$.usage') IS NOT NULL
        UNION ALL BY NAME
        SELECT suite, runner, 'simulator' AS role, {_measures("$.speech.usage", "$.speech.")}
        FROM ({_GIVEN_UP}) WHERE (start ->> '$.speech.simulator') IS NOT NULL
        UNION ALL BY NAME
        SELECT suite, runner, 'reviewer' AS role, {_measures("$.speech.review.usage", "$.speech.review.")}
        FROM (SELECT suite, runner, start FROM ({_TURNS}) UNION ALL {_GIVEN_UP})
        WHERE (start ->> '$.speech.review.reviewer') IS NOT NULL
        UNION ALL BY NAME
        SELECT s.suite, s.runner, CASE WHEN s.type = 'judge' THEN 'judge' ELSE 'grader' END AS role,
               TRY_CAST(s.details ->> '$.usage.input_tokens' AS BIGINT) AS input_tokens,
               TRY_CAST(s.details ->> '$.usage.output_tokens' AS BIGINT) AS output_tokens,
               s.grading_cost_usd AS cost_usd
        FROM evaluator_scores s SEMI JOIN conversation_turns t USING (execution_id)
        WHERE s.grading_cost_usd IS NULL OR s.grading_cost_usd > 0 OR s.type = 'judge')
    GROUP BY suite, runner, role ORDER BY suite, runner, role""",
    ),
    (
        "simulator_faults",
        "How often each simulator said what cannot be used, by suite and runner.",
        """
    WITH lines AS (
        SELECT suite, runner, execution_id, start -> '$.speech' AS speech FROM (
            SELECT suite, runner, execution_id, unnest(from_json(turns, '["JSON"]')) AS start
            FROM session_reports WHERE json_array_length(turns) > 0)
        WHERE (start ->> '$.speech.simulator') IS NOT NULL OR (start ->> '$.speech.fault') IS NOT NULL),
    counted AS (
        SELECT suite, runner, speech ->> '$.simulator' AS simulator, execution_id,
               coalesce(json_array_length(speech, '$.discarded'), 0)::BIGINT AS discarded,
               (speech ->> '$.fault') IS NOT NULL AS gave_up,
               (speech ->> '$.review.error') IS NOT NULL AS unreviewed
        FROM lines)
    SELECT suite, runner, simulator, count(*) FILTER (NOT gave_up) AS lines, sum(discarded)::BIGINT AS discarded_lines,
           sum(discarded) / nullif(count(*) FILTER (NOT gave_up) + sum(discarded), 0) AS fault_rate,
           count(DISTINCT execution_id) AS conversations,
           count(DISTINCT execution_id) FILTER (gave_up) AS discarded_conversations,
           count(*) FILTER (unreviewed) AS unreviewed_lines
    FROM counted GROUP BY suite, runner, simulator ORDER BY suite, runner, simulator""",
    ),
)
