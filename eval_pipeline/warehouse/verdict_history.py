"""Why verdicts became others: the query that finds changes, and the view that names their causes."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.failures import SNAPSHOT
from eval_pipeline.warehouse.answer_counts import REFUSED
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse

_CHANGES = """
    INSERT INTO verdict_changes
    SELECT verdict_id, previous_id, suite, runner, case_id, repetition, from_status, status, from_score, score,
           decided_at, sweep_id
    FROM (
        SELECT verdict_id, suite, runner, case_id, repetition, status, score, decided_at, sweep_id,
               lag(verdict_id) OVER plan AS previous_id, lag(status) OVER plan AS from_status,
               lag(score) OVER plan AS from_score
        FROM (SELECT * FROM verdicts {pairs} QUALIFY row_number() OVER (
            PARTITION BY suite, runner, case_id, repetition, sweep_id ORDER BY decided_at DESC, verdict_id DESC) = 1)
        WINDOW plan AS (PARTITION BY suite, runner, case_id, repetition ORDER BY decided_at, verdict_id)) v
    WHERE previous_id IS NOT NULL
      AND (from_status <> status OR (from_score IS NULL) <> (score IS NULL) OR abs(from_score - score) > 1e-9)
      AND verdict_id NOT IN (SELECT verdict_id FROM verdict_changes)"""
STORED_CHANGES = _CHANGES.format(pairs="")
"""Records the changes among all stored verdicts: a statement of a migration."""


def record_changes(warehouse: Warehouse, pairs: Sequence[PairKey]) -> None:
    """Record the changes among the stored verdicts of pairs; those that are recorded stay as they are."""
    if not pairs:
        return
    query = _CHANGES.format(pairs="WHERE (suite, runner) IN (SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]))")
    with warehouse.transaction() as connection:
        connection.execute(query, [[pair.suite for pair in pairs], [pair.runner for pair in pairs]])


_SPEC = """md5(concat_ws(chr(30), e.type, e.version, e.arguments::VARCHAR, e.negated::VARCHAR, e.weight::VARCHAR,
                   coalesce(e.minimum::VARCHAR, ''), coalesce(e.failure_class, ''), coalesce(e.files::VARCHAR, '')))"""
_SIDE = """
        SELECT c.verdict_id AS change_id, v.suite, v.runner, unnest(v.score_keys) AS spec_key,
               unnest(range(len(v.score_keys))) AS position
        FROM verdict_changes c JOIN verdicts v ON v.verdict_id = c.{verdict}"""
_SPECS = """
        SELECT s.change_id, s.spec_key, e.evaluator, {spec} AS spec, e.spec_key IS NULL AS unrecorded,
               coalesce(e.graders::VARCHAR, '') AS graders, coalesce(e.reads::VARCHAR, '') AS reads,
               coalesce(e.pass_mark, '') AS pass_mark,
               row_number() OVER (PARTITION BY s.change_id, e.evaluator ORDER BY s.position) AS number
        FROM ({side}) s LEFT JOIN evaluator_specs e
            ON e.suite = s.suite AND e.runner = s.runner AND e.spec_key = s.spec_key"""
_BEFORE = _SPECS.format(spec=_SPEC, side=_SIDE.format(verdict="previous_id"))
_AFTER = _SPECS.format(spec=_SPEC, side=_SIDE.format(verdict="verdict_id"))
_INPUT = """json_merge_patch(coalesce({}.identity, '{{}}'), '{{"fallback": null}}')::VARCHAR"""

CAUSES = f"""
    WITH before AS ({_BEFORE}),
    after AS ({_AFTER}),
    compared AS (
        SELECT change_id, bool_or(a.spec IS DISTINCT FROM b.spec) AS evaluator,
               bool_or(a.graders <> b.graders) AS grader, bool_or(a.reads <> b.reads) AS read,
               bool_or(a.pass_mark <> b.pass_mark) AS pass_mark,
               string_agg(DISTINCT CASE WHEN a.spec_key IS DISTINCT FROM b.spec_key THEN evaluator END, ', ')
                   AS evaluators,
               bool_or((a.unrecorded OR b.unrecorded) AND a.spec_key IS DISTINCT FROM b.spec_key) AS unrecorded
        FROM before b FULL JOIN after a USING (change_id, evaluator, number)
        WHERE change_id IN (SELECT change_id FROM before) AND change_id IN (SELECT change_id FROM after)
        GROUP BY change_id),
    facts AS (
        SELECT c.*, f.execution_id AS from_execution_id, t.execution_id AS to_execution_id,
               f.threshold AS from_threshold, t.threshold AS to_threshold, t.failure_class, t.reason,
               f.verdict_id IS NULL AS deleted, f.execution_id <> t.execution_id AS answered, s.evaluators,
               coalesce(s.unrecorded, false) AS unrecorded,
               coalesce(s.evaluator, false) AND NOT coalesce(s.unrecorded, false) AS evaluator,
               coalesce(s.grader, false) AS grader,
               f.threshold <> t.threshold OR coalesce(s.pass_mark, false) AS threshold,
               f.execution_id <> t.execution_id AND f.runner_revision <> t.runner_revision AS other_runner,
               coalesce(s.read, false) OR coalesce(cf.expected_fail <> ct.expected_fail, false) OR (
                   f.execution_id <> t.execution_id AND coalesce(
                       {_INPUT.format("fe")} <> {_INPUT.format("te")}, false)) AS other_case,
               f.normalizer <> t.normalizer AS normalizer, f.suite_revision <> t.suite_revision AS suite_changed,
               f.status = 'error' AND f.decision_key = t.decision_key AS ungraded,
               '{SNAPSHOT.id}' IN (coalesce(f.failure_class, ''), coalesce(t.failure_class, '')) AS tokens
        FROM verdict_changes c JOIN verdicts t ON t.verdict_id = c.verdict_id
        LEFT JOIN verdicts f ON f.verdict_id = c.previous_id
        LEFT JOIN compared s ON s.change_id = c.verdict_id
        LEFT JOIN target_executions fe ON fe.execution_id = f.execution_id
        LEFT JOIN target_executions te ON te.execution_id = t.execution_id
        LEFT JOIN cases cf ON cf.suite = f.suite AND cf.suite_revision = f.suite_revision AND cf.case_id = f.case_id
        LEFT JOIN cases ct ON ct.suite = t.suite AND ct.suite_revision = t.suite_revision AND ct.case_id = t.case_id)
    SELECT verdict_id, previous_id, suite, runner, case_id, repetition, from_status, to_status, from_score, to_score,
           coalesce(nullif(concat_ws(', ', CASE WHEN other_case THEN 'case' END,
                                     CASE WHEN other_runner THEN 'runner' END,
                                     CASE WHEN answered AND NOT other_case AND NOT other_runner THEN 'new answer' END,
                                     CASE WHEN evaluator THEN 'evaluator' END, CASE WHEN grader THEN 'grader' END,
                                     CASE WHEN threshold THEN 'threshold' END,
                                     CASE WHEN normalizer THEN 'normalizer' END), ''),
                    CASE WHEN deleted OR unrecorded THEN 'not recorded' WHEN ungraded THEN 'graded again'
                         WHEN tokens THEN 'token snapshot'
                         WHEN suite_changed THEN 'suite' ELSE 'scored again' END) AS cause,
           evaluators, from_threshold, to_threshold, failure_class, reason, from_execution_id, to_execution_id,
           changed_at, sweep_id
    FROM facts ORDER BY changed_at DESC, suite, runner, case_id, repetition"""

_SEEN = "row({0}.input, {0}.conversation, {0}.workspace, {0}.simulated_user, {0}.mocks, {0}.depends_on)"
"""What of a case its target can see, as far as it has columns; all of it is in `input_key`."""
_JUDGED = "row({0}.expected_output, {0}.criteria, {0}.metadata, {0}.tags)"
"""What of a case only its evaluators may read."""
_LISTS = """regexp_extract_all(n.evaluator, '"(?:assertions|assert|evaluators)" *:')"""
_TYPES = """regexp_extract_all(n.evaluator, '"type" *: *"([^"]*)"', 1)"""
"""Types that a spec names: its own, and where it has members, theirs and that of what combines their values."""
_ARITHMETIC = "['weighted-average', 'weighted_average', 'threshold']"
"""Combinations of values that call nothing."""
_PLAIN = f"""(len({_LISTS}) = 0 OR len({_LISTS}) = 1 AND coalesce(
    len(json_extract_string(n.evaluator, '$.config.assertions[*].type'))
        = json_array_length(n.evaluator, '$.config.assertions'), false))"""
"""Whether the types of all members of a spec are known: it has none, or one list of entries that each have a type."""
_MOVED = f"""
    WITH newest_runners AS (
        SELECT runner, arg_max(runner_revision, used_at) AS newest FROM runners GROUP BY runner),
    moved AS (
        SELECT c.suite, c.runner, c.suite_revision AS before, s.newest AS after, c.suite_plans::BIGINT AS plans,
               coalesce(c.repetitions, 1) AS repetitions, c.finished_at, c.sweep_id, s.loaded_at
        FROM current_pairs c JOIN (
            SELECT suite, arg_max(suite_revision, loaded_at) AS newest, max(loaded_at) AS loaded_at
            FROM suites GROUP BY suite) s
            ON s.suite = c.suite
        WHERE s.newest <> c.suite_revision),
    suites_moved AS (SELECT DISTINCT suite, before, after FROM moved),
    compared AS (
        SELECT m.suite, m.before, m.after, n.case_id, o.case_id IS NULL AS added,
               {_SEEN.format("n")} IS DISTINCT FROM {_SEEN.format("o")}
                   OR coalesce(n.input_key <> o.input_key, false) AS seen,
               {_JUDGED.format("n")} IS DISTINCT FROM {_JUDGED.format("o")} AS judged,
               o.repetitions AS had, n.repetitions AS has
        FROM suites_moved m JOIN cases n ON n.suite = m.suite AND n.suite_revision = m.after
        LEFT JOIN cases o ON o.suite = m.suite AND o.suite_revision = m.before AND o.case_id = n.case_id),
    executing AS (
        SELECT m.suite, m.runner, bool_and(c.added) AS unknown,
               bool_or(c.added OR c.seen OR coalesce(c.has > coalesce(c.had, m.repetitions), false)) AS yes,
               bool_or(c.has IS NULL AND c.had IS NOT NULL) AS usual
        FROM moved m JOIN compared c ON c.suite = m.suite AND c.before = m.before AND c.after = m.after
        GROUP BY m.suite, m.runner),
    evaluated AS (
        SELECT suite, suite_revision, case_id, unnest(from_json(evaluators, '["JSON"]'))::VARCHAR AS evaluator
        FROM cases SEMI JOIN suites_moved USING (suite)),
    types AS (SELECT type, bool_or(graders IS NOT NULL) AS graded FROM evaluator_specs GROUP BY type),
    graded_types AS (
        SELECT coalesce(list(type) FILTER (graded), []) AS graded, coalesce(list(type), []) AS known FROM types),
    specs AS (
        SELECT c.suite, c.before, c.after, c.judged, o.suite IS NULL AS changed,
               CASE WHEN t.graded THEN true
                    WHEN o.suite IS NOT NULL THEN t.graded
                    WHEN len({_LISTS}) > 0 AND list_has_any({_TYPES}, g.graded) THEN true
                    WHEN t.type IS NULL OR NOT {_PLAIN} THEN NULL
                    WHEN len({_LISTS}) > 0 AND NOT list_has_all(list_concat(g.known, {_ARITHMETIC}), {_TYPES}) THEN NULL
                    ELSE false END AS graded
        FROM compared c JOIN evaluated n ON n.suite = c.suite AND n.suite_revision = c.after AND n.case_id = c.case_id
        LEFT JOIN evaluated o ON o.suite = c.suite AND o.suite_revision = c.before AND o.case_id = n.case_id
            AND o.evaluator = n.evaluator
        LEFT JOIN types t ON t.type = n.evaluator ->> '$.type'
        CROSS JOIN graded_types g),
    grading AS (
        SELECT suite, before, after,
               bool_or(CASE WHEN judged THEN coalesce(graded, true) ELSE changed AND graded END) AS yes,
               bool_or(changed AND graded IS NULL) AS unknown
        FROM specs GROUP BY suite, before, after)"""
_NEEDS = """
    SELECT m.suite, m.runner, 'suite' AS reason, m.plans, m.finished_at, m.sweep_id,
           CASE WHEN p.seen_at > greatest(m.loaded_at, m.finished_at) AND p.to_execute + p.to_score > 0 THEN p.needs
                WHEN coalesce(e.unknown, true) THEN NULL WHEN e.yes THEN 'executions' WHEN e.usual THEN NULL
                WHEN g.yes THEN 'graders' WHEN g.unknown THEN NULL ELSE 'nothing' END AS needs
    FROM moved m LEFT JOIN executing e ON e.suite = m.suite AND e.runner = m.runner
    LEFT JOIN grading g ON g.suite = m.suite AND g.before = m.before AND g.after = m.after
    LEFT JOIN seen_plans p ON p.suite = m.suite AND p.runner = m.runner"""

_BY_FILES = """
    SELECT c.suite, c.runner, array_to_string(p.reasons, '; '), p.to_execute + p.to_score, c.finished_at, c.sweep_id,
           p.needs
    FROM current_pairs c JOIN seen_plans p ON p.suite = c.suite AND p.runner = c.runner
    ANTI JOIN moved m ON m.suite = c.suite AND m.runner = c.runner
    ANTI JOIN newest_runners r ON r.runner = c.runner AND r.newest <> c.runner_revision
    WHERE p.seen_at > c.finished_at AND len(p.reasons) > 0"""
"""What a suite's revision does not have: files that evaluators name, the project's defaults, graders and prices."""
STALE_PAIRS = f"""{_MOVED}
    {_NEEDS}
    UNION ALL
    {_BY_FILES}
    UNION ALL
    SELECT c.suite, c.runner, 'runner', c.suite_plans::BIGINT, c.finished_at, c.sweep_id, 'executions'
    FROM current_pairs c JOIN newest_runners r ON r.runner = c.runner
    WHERE r.newest <> c.runner_revision
    UNION ALL
    SELECT c.suite, c.runner, 'not carried out', s.missing, c.finished_at, c.sweep_id, 'executions'
    FROM current_pairs c JOIN pair_statistics s ON s.statistics_id = c.statistics_id WHERE s.missing > 0
    UNION ALL
    SELECT c.suite, c.runner, 'did not complete', count(*), any_value(c.finished_at), any_value(c.sweep_id),
           'executions'
    FROM current_verdicts v JOIN current_pairs c ON c.suite = v.suite AND c.runner = v.runner
    JOIN target_executions e ON e.execution_id = v.execution_id
    WHERE v.status = 'error' AND NOT e.completed AND coalesce(v.failure_class, '') NOT IN {REFUSED}
    GROUP BY c.suite, c.runner
    ORDER BY ALL"""
