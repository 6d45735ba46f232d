CREATE TABLE IF NOT EXISTS "suites" ("suite" VARCHAR, "suite_revision" VARCHAR, "path" VARCHAR, "format" VARCHAR, "description" VARCHAR, "tags" VARCHAR[], "metadata" JSON, "case_count" INTEGER, "invalid_cases" INTEGER, "errors" VARCHAR[], "warnings" VARCHAR[], "loaded_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "cases" ("suite" VARCHAR, "suite_revision" VARCHAR, "case_id" VARCHAR, "position" INTEGER, "line" INTEGER, "input" JSON, "criteria" VARCHAR, "expected_output" JSON, "tags" VARCHAR[], "metadata" JSON, "evaluators" JSON, "threshold" DOUBLE, "expected_fail" BOOLEAN, "conversation" JSON, "workspace" JSON, "depends_on" VARCHAR[], "conversation_id" VARCHAR, "case_group" VARCHAR, "strategy" VARCHAR);
CREATE TABLE IF NOT EXISTS "runners" ("runner" VARCHAR, "runner_revision" VARCHAR, "adapter" VARCHAR, "model" VARCHAR, "tags" VARCHAR[], "settings" JSON, "used_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "sweeps" ("sweep_id" VARCHAR, "started_at" TIMESTAMP, "finished_at" TIMESTAMP, "status" VARCHAR, "dagster_run_id" VARCHAR, "refresh" VARCHAR, "selection" JSON);
CREATE TABLE IF NOT EXISTS "sweep_cells" ("sweep_id" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "suite_revision" VARCHAR, "runner_revision" VARCHAR, "suite_cells" INTEGER, "planned" INTEGER, "reused" INTEGER, "rescored" INTEGER, "executed" INTEGER, "passed" INTEGER, "failed" INTEGER, "errored" INTEGER, "repetitions" INTEGER, "strategy" VARCHAR, "threshold" DOUBLE, "skipped" INTEGER, "invalid_cases" INTEGER, "finished_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "target_executions" ("execution_id" VARCHAR, "key" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "case_id" VARCHAR, "repetition" INTEGER, "sweep_id" VARCHAR, "runner_revision" VARCHAR, "completed" BOOLEAN, "failure_class" VARCHAR, "error" VARCHAR, "started_at" TIMESTAMP, "finished_at" TIMESTAMP, "selected_at" TIMESTAMP, "duration_ms" DOUBLE, "attempt_count" INTEGER, "attempts" JSON, "exit_code" INTEGER, "format" VARCHAR, "raw" JSON, "artifacts" JSON, "workspace" JSON, "answered_by" VARCHAR);
CREATE TABLE IF NOT EXISTS "session_reports" ("execution_id" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "case_id" VARCHAR, "repetition" INTEGER, "normalizer" VARCHAR, "final_output" VARCHAR, "prompt" VARCHAR, "session_id" VARCHAR, "model" VARCHAR, "agent_version" VARCHAR, "failure_class" VARCHAR, "error" VARCHAR, "input_tokens" BIGINT, "cached_input_tokens" BIGINT, "cache_write_tokens" BIGINT, "output_tokens" BIGINT, "reasoning_tokens" BIGINT, "total_tokens" BIGINT, "cost_usd" DOUBLE, "cost_source" VARCHAR, "duration_ms" DOUBLE, "ttft_ms" DOUBLE, "model_calls" INTEGER, "tool_calls" INTEGER, "commands" INTEGER, "file_reads" VARCHAR[], "skills" JSON, "event_count" INTEGER, "unknown_events" JSON, "unparsed_lines" INTEGER, "started_at" VARCHAR, "ended_at" VARCHAR, "exit_code" INTEGER, "selected_at" TIMESTAMP, "file_changes" VARCHAR);
CREATE TABLE IF NOT EXISTS "session_events" ("execution_id" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "case_id" VARCHAR, "position" INTEGER, "kind" VARCHAR, "text" VARCHAR, "tool" VARCHAR, "ok" BOOLEAN, "event" JSON);
CREATE TABLE IF NOT EXISTS "evaluator_scores" ("execution_id" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "case_id" VARCHAR, "repetition" INTEGER, "spec_key" VARCHAR, "evaluator" VARCHAR, "type" VARCHAR, "value" DOUBLE, "reason" VARCHAR, "weight" DOUBLE, "minimum" DOUBLE, "failure_class" VARCHAR, "findings" JSON, "details" JSON, "duration_ms" DOUBLE, "scored_at" TIMESTAMP, "sweep_id" VARCHAR, "passes" BOOLEAN);
CREATE TABLE IF NOT EXISTS "member_scores" ("execution_id" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "case_id" VARCHAR, "repetition" INTEGER, "spec_key" VARCHAR, "evaluator" VARCHAR, "position" INTEGER, "member" VARCHAR, "type" VARCHAR, "grader" VARCHAR, "value" DOUBLE, "reason" VARCHAR, "weight" DOUBLE, "details" JSON, "scored_at" TIMESTAMP, "sweep_id" VARCHAR);
CREATE TABLE IF NOT EXISTS "verdicts" ("verdict_id" VARCHAR, "suite" VARCHAR, "suite_revision" VARCHAR, "runner" VARCHAR, "runner_revision" VARCHAR, "case_id" VARCHAR, "repetition" INTEGER, "execution_id" VARCHAR, "key" VARCHAR, "status" VARCHAR, "score" DOUBLE, "ungated_score" DOUBLE, "threshold" DOUBLE, "failure_class" VARCHAR, "reason" VARCHAR, "tags" VARCHAR[], "decision_key" VARCHAR, "normalizer" VARCHAR, "score_keys" VARCHAR[], "duration_ms" DOUBLE, "input_tokens" BIGINT, "output_tokens" BIGINT, "cost_usd" DOUBLE, "decided_at" TIMESTAMP, "sweep_id" VARCHAR);
CREATE TABLE IF NOT EXISTS "leaderboards" ("board_id" VARCHAR, "scope" VARCHAR, "suite" VARCHAR, "runner" VARCHAR, "suite_revision" VARCHAR, "runner_revision" VARCHAR, "suites" BIGINT, "rank" INTEGER, "tied_with_best" BOOLEAN, "planned" BIGINT, "graded" BIGINT, "passed" BIGINT, "failed" BIGINT, "expected_failed" BIGINT, "unexpected_passed" BIGINT, "errored" BIGINT, "pass_rate" DOUBLE, "pass_rate_low" DOUBLE, "pass_rate_high" DOUBLE, "pass_rate_worst" DOUBLE, "pass_rate_best" DOUBLE, "mean_score" DOUBLE, "mean_score_low" DOUBLE, "mean_score_high" DOUBLE, "coverage" DOUBLE, "latency_p50_ms" DOUBLE, "latency_p95_ms" DOUBLE, "input_tokens" BIGINT, "output_tokens" BIGINT, "cost_usd" DOUBLE, "cost_known" BIGINT, "computed_at" TIMESTAMP, "sweep_id" VARCHAR);
CREATE TABLE IF NOT EXISTS "failure_classes" ("suite" VARCHAR, "runner" VARCHAR, "suite_revision" VARCHAR, "failure_class" VARCHAR, "label" VARCHAR, "origin" VARCHAR, "count" BIGINT, "share" DOUBLE, "examples" VARCHAR[], "example_reason" VARCHAR, "computed_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "comparisons" ("comparison_id" VARCHAR, "suite" VARCHAR, "baseline" VARCHAR, "candidate" VARCHAR, "details" JSON, "computed_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "token_snapshots" ("suite" VARCHAR, "case_id" VARCHAR, "runner" VARCHAR, "metric" VARCHAR, "value" BIGINT, "taken_at" TIMESTAMP);
CREATE TABLE IF NOT EXISTS "schema_migrations" ("version" INTEGER, "description" VARCHAR, "applied_at" TIMESTAMP);
CREATE OR REPLACE VIEW "current_cells" AS 
    SELECT * EXCLUDE (newest) FROM (
        SELECT c.*, row_number() OVER (PARTITION BY suite, runner ORDER BY finished_at DESC, sweep_id DESC) AS newest
        FROM sweep_cells c)
    WHERE newest = 1;
CREATE OR REPLACE VIEW "current_verdicts" AS 
    SELECT v.* EXCLUDE (newest) FROM (
        SELECT v.*, row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) AS newest
        FROM verdicts v
        JOIN current_cells c USING (suite, runner, suite_revision, runner_revision)) v
    WHERE newest = 1;
CREATE OR REPLACE VIEW "current_executions" AS 
    SELECT * EXCLUDE (newest) FROM (
        SELECT e.*, row_number() OVER (
            PARTITION BY suite, runner, case_id, repetition ORDER BY selected_at DESC, execution_id DESC) AS newest
        FROM target_executions e)
    WHERE newest = 1;
CREATE OR REPLACE VIEW "current_scores" AS 
    SELECT s.* FROM evaluator_scores s
    JOIN current_verdicts v ON s.execution_id = v.execution_id AND list_contains(v.score_keys, s.spec_key);
CREATE OR REPLACE VIEW "grader_agreement" AS 
    WITH ratings AS (
    SELECT m.suite, m.evaluator, m.execution_id, m.spec_key, m.member, m.value,
           coalesce(TRY_CAST(m.details ->> '$.passes' AS BOOLEAN), m.value >= 0.8 - 1e-9) AS passed
    FROM member_scores m SEMI JOIN current_scores s USING (execution_id, spec_key)
    WHERE m.grader IS NOT NULL AND m.value IS NOT NULL),
    units AS (
        SELECT suite, evaluator, execution_id, spec_key, count(*) AS m, sum(value) AS total,
               m * var_samp(value) AS within, m * var_samp(passed::INTEGER) AS passed_within,
               count(*) FILTER (passed) AS yes, m - yes AS no,
               (yes * (yes - 1) + no * (no - 1)) / (m * (m - 1)) AS agreement
        FROM ratings GROUP BY suite, evaluator, execution_id, spec_key HAVING count(*) > 1),
    together AS (
        SELECT r.suite, r.evaluator, count(DISTINCT r.member) AS graders, count(*) AS ratings,
               count(*) * var_samp(r.value) AS overall, count(*) * var_samp(r.passed::INTEGER) AS passed_overall
        FROM ratings r SEMI JOIN units u USING (suite, evaluator, execution_id, spec_key)
        GROUP BY r.suite, r.evaluator)
    SELECT suite, evaluator, graders, count(*) AS units, ratings, avg(agreement) AS agreement,
           avg((yes = 0 OR no = 0)::INTEGER) AS unanimous,
           CASE WHEN overall = 0 THEN 1.0 ELSE 1 - sum(within) / overall END AS krippendorffs_alpha,
           CASE WHEN passed_overall = 0 THEN 1.0 ELSE 1 - sum(passed_within) / passed_overall END
               AS krippendorffs_alpha_passed
    FROM units JOIN together USING (suite, evaluator)
    GROUP BY suite, evaluator, graders, ratings, overall, passed_overall
    ORDER BY suite, evaluator;
CREATE OR REPLACE VIEW "grader_pairs" AS 
    WITH ratings AS (
    SELECT m.suite, m.evaluator, m.execution_id, m.spec_key, m.member, m.value,
           coalesce(TRY_CAST(m.details ->> '$.passes' AS BOOLEAN), m.value >= 0.8 - 1e-9) AS passed
    FROM member_scores m SEMI JOIN current_scores s USING (execution_id, spec_key)
    WHERE m.grader IS NOT NULL AND m.value IS NOT NULL),
    pairs AS (
        SELECT a.suite, a.evaluator, a.member AS grader_a, b.member AS grader_b, count(*) AS units,
               avg((a.passed = b.passed)::INTEGER) AS agreement,
               avg(a.passed::INTEGER) AS pass_rate_a, avg(b.passed::INTEGER) AS pass_rate_b,
               avg(a.value - b.value) AS mean_difference, corr(a.value, b.value) AS correlation,
               pass_rate_a * pass_rate_b + (1 - pass_rate_a) * (1 - pass_rate_b) AS by_chance
        FROM ratings a JOIN ratings b USING (suite, evaluator, execution_id, spec_key)
        WHERE a.member < b.member GROUP BY ALL)
    SELECT suite, evaluator, grader_a, grader_b, units, agreement,
           CASE WHEN by_chance = 1 THEN 1.0 ELSE (agreement - by_chance) / (1 - by_chance) END AS cohens_kappa,
           pass_rate_a, pass_rate_b, mean_difference,
           CASE WHEN isfinite(correlation) THEN correlation END AS correlation
    FROM pairs ORDER BY suite, evaluator, grader_a, grader_b;
CREATE OR REPLACE VIEW "leaderboard" AS 
    SELECT suite, runner, rank, tied_with_best, planned, graded, passed, failed, errored, pass_rate, pass_rate_low,
           pass_rate_high, pass_rate_worst, pass_rate_best, mean_score, mean_score_low, mean_score_high, coverage,
           latency_p50_ms, latency_p95_ms, input_tokens, output_tokens, cost_usd, expected_failed, unexpected_passed,
           suite_revision, runner_revision, computed_at, board_id
    FROM leaderboards WHERE scope = 'suite' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY suite, rank, runner;
CREATE OR REPLACE VIEW "leaderboard_overall" AS 
    SELECT * EXCLUDE (scope, suite, suite_revision, runner_revision) FROM leaderboards
    WHERE scope = 'overall' AND board_id = (SELECT max(board_id) FROM leaderboards)
    ORDER BY rank, runner;
CREATE OR REPLACE VIEW "case_matrix" AS 
    SELECT suite, case_id, runner, count(*) FILTER (status <> 'error') AS graded,
           avg(CASE WHEN status IN ('passed', 'expected-failed') THEN 1.0
                    WHEN status <> 'error' THEN 0.0 END) AS pass_rate,
           avg(score) AS mean_score, list(DISTINCT status ORDER BY status) AS statuses
    FROM current_verdicts GROUP BY ALL ORDER BY suite, case_id, runner;
CREATE OR REPLACE VIEW "flaky_cases" AS 
    SELECT suite, runner, case_id, count(*) AS repetitions,
           count(*) FILTER (status IN ('passed', 'expected-failed')) AS passed,
           count(*) FILTER (status IN ('failed', 'unexpected-passed')) AS failed,
           count(*) FILTER (status = 'error') AS errored
    FROM current_verdicts GROUP BY suite, runner, case_id HAVING passed > 0 AND failed > 0
    ORDER BY suite, runner, case_id;
CREATE OR REPLACE VIEW "case_results" AS 
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
                   avg(v.score) - coalesce([12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045][count(v.score) - 1], 1.96) * stddev_samp(v.score) / sqrt(count(v.score))))
               END AS interval_low,
               any_value(v.threshold) AS threshold
        FROM current_verdicts v JOIN current_cells c USING (suite, runner)
        LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id
        GROUP BY ALL)
    ORDER BY suite, runner, case_id;
CREATE OR REPLACE VIEW "failure_summary" AS 
    SELECT failure_class, any_value(label) AS label, any_value(origin) AS origin, sum(count)::BIGINT AS count,
           count(DISTINCT suite) AS suites, count(DISTINCT runner) AS runners, any_value(example_reason) AS example
    FROM failure_classes GROUP BY failure_class ORDER BY count DESC, failure_class;
CREATE OR REPLACE VIEW "cost_by_runner" AS 
    SELECT runner, count(*) AS executions, count(cost_usd) AS cost_known, sum(cost_usd) AS cost_usd,
           sum(input_tokens)::BIGINT AS input_tokens, sum(cached_input_tokens)::BIGINT AS cached_input_tokens,
           sum(output_tokens)::BIGINT AS output_tokens,
           sum(cost_usd) / nullif(count(cost_usd), 0) AS cost_per_execution_usd
    FROM session_reports GROUP BY runner ORDER BY cost_usd DESC NULLS LAST, runner;
CREATE OR REPLACE VIEW "leaderboard_history" AS SELECT * FROM leaderboards ORDER BY board_id DESC, scope, suite, rank, runner;
