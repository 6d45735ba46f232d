"""Differences that a row of Connexity shows while it is carried out: a sweep, a comparison, a model's call.

Other differences are checked against one observation (`model.Difference`). Here a row takes several steps, and the
runner of its area asserts what we do in place of the reference. This table alone decides which rows differ: a runner
that takes a way of its own where the table names none fails its row, and so does one that takes none where it does.
"""

from __future__ import annotations

from eval_pipeline_tests.conformance.differences.connexity_row_model import (
    JsonMap,
    RowDifference,
    a_row,
    asks_first,
    becomes_active,
    costs_unknown,
    ends_on_a_line,
    estimated_sum,
    few_latencies,
    given,
    has_defaults_of_its_own,
    has_stored_totals,
    is_cancelled,
    is_never_held,
    lacks_counts,
    live_without_implementation,
    matched_by_names,
    matched_by_truth,
    money_of_nobody,
    named_beside_the_type,
    named_by_us_only,
    no_script,
    one_side_missing,
    rounds_left,
    says_that_nothing_is_known,
    sent_otherwise,
    sets_a_provider,
    shows_what_is_expected,
    somebody_fails,
    stored_totals,
    synthetic_without_a_word,
    uncounted,
)
from eval_pipeline_tests.conformance.differences.connexity_totals import (
    rate_of_uncarried,
    rate_of_ungraded,
    repeated_cases,
)
from eval_pipeline_tests.conformance.recorded_facts import Row


def row_differences(row: Row) -> list[RowDifference]:
    """Return the differences that a row falls under."""
    return [each for each in ROW_DIFFERENCES if row.data["area"] in each.areas and each.concerns(row.data)]


_TALK: JsonMap = {"latencies": [], "token_counts": [], "platform_tokens": {}, "agent_tokens_estimated": False}
ROW_DIFFERENCES: tuple[RowDifference, ...] = (
    RowDifference(
        name="what could not be graded is in no rate, and a rate or mean of nothing is unknown, not 0",
        reason="errors count as failures in the rate there, which blames the agent for a judge or a network",
        areas=("aggregate.metrics",),
        concerns=rate_of_ungraded,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {"results": [{"test_case": "a", "error_message": "down"}]},
            {"pass_rate": 0.0},
        ),
    ),
    RowDifference(
        name="a plan that was not carried out is no execution",
        reason="a cancelled run leaves empty results there, which count among its executions",
        areas=("aggregate.metrics",),
        concerns=rate_of_uncarried,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {"results": [{"test_case": "a", "passed": True}, {"test_case": "b", "passed": None}]},
            {"total_executions": 2, "pass_rate": 0.5, "passed_count": 1, "failed_count": 0, "error_count": 0},
        ),
    ),
    RowDifference(
        name="a case counts once, whatever its repetitions",
        reason="a case that was repeated more often than others weighs more there, although its answers are alike",
        areas=("aggregate.metrics",),
        concerns=repeated_cases,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {"results": [{"test_case": name, "passed": name == "a"} for name in "aab"]},
            {"pass_rate": 2 / 3, "unique_test_case_count": 2, "total_executions": 3, "passed_count": 2},
        ),
    ),
    RowDifference(
        name="tokens are those that agents report: none are estimated, so no sum is marked as an estimate",
        reason="a guess by the length of a text is added to counts there",
        areas=("aggregate.metrics",),
        concerns=estimated_sum,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {
                "results": [
                    {"test_case": "a", "passed": True, "agent_token_usage": {"prompt_tokens": 2, "estimated": True}}
                ]
            },
            {"total_agent_token_usage": {"prompt_tokens": 2, "estimated": True}},
        ),
    ),
    RowDifference(
        name="money belongs to a role, agent or platform: there is no sum of what neither spent",
        reason="a sum may be stored without its parts there; here it is made of them",
        areas=("aggregate.metrics",),
        concerns=money_of_nobody,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {"results": [{"test_case": "a", "passed": True, "estimated_cost_usd": 0.5}]},
            {"total_estimated_cost_usd": 0.5},
        ),
    ),
    RowDifference(
        name="the 95th percentile of few times is near the greatest of them",
        reason="it is unknown below 20 values there, although the few are known",
        areas=("aggregate.metrics",),
        concerns=few_latencies,
        example=a_row(
            "aggregate.metrics",
            "compute_aggregate_metrics",
            {"results": [{"test_case": name, "passed": True, "agent_latency_p50_ms": 300} for name in "ab"]},
            {"latency_p95_ms": None},
        ),
    ),
    RowDifference(
        name="totals are computed from results: none are taken from what a run once stored",
        reason="totals are stored with a run there, and cases that only one side carried out count in the deltas",
        areas=("compare.aggregate",),
        concerns=has_stored_totals,
        example=a_row(
            "compare.aggregate",
            "compute_aggregate",
            {
                "baseline_metrics": stored_totals(passed=1, score=50.0),
                "case_statuses": ["improvement", "unchanged"],
                "candidate_metrics": stored_totals(passed=2, score=60.0),
            },
            {
                "pass_rate_delta": 0.5,
                "avg_score_delta": 10.0,
                "latency_avg_delta_ms": 0.0,
                "cost_delta_usd": 0.0,
                "total_regressions": 0,
                "total_improvements": 1,
                "total_unchanged": 1,
                "total_errors": 0,
            },
        ),
    ),
    RowDifference(
        name="a case that one side did not carry out is in no comparison; it is named as unpaired",
        reason="it is called unchanged there, although nothing is known of one side",
        areas=("compare.test_case_status",),
        concerns=one_side_missing,
        example=a_row(
            "compare.test_case_status",
            "test_case_status",
            {
                "baseline": {"passed": True},
                "candidate": {"passed": None},
                "baseline_overall_score": 80.0,
                "candidate_overall_score": None,
            },
            {"status": "unchanged"},
        ),
    ),
    RowDifference(
        name="cases are paired by suite: two suites have none in common, which is said, with exit code 3",
        reason="runs of different sets are compared with a warning there, by chance of equal ids",
        areas=("compare.api",),
        concerns=lambda row: given(row).get("eval_configs") == "different",
        example=a_row("compare.api", "GET /runs/compare", {"eval_configs": "different"}, {"http": 200}),
    ),
    RowDifference(
        name="settings that were added or removed, other types and items of lists are changes, too",
        reason="an added setting is an exception there, and the others are overlooked",
        areas=("diff.config",),
        concerns=named_by_us_only,
        example=a_row("diff.config", "compute_config_diff", {"old": {"x": [1]}, "new": {"x": [2]}}, {"changes": []}),
    ),
    RowDifference(
        name="the version of a set is the hash of its content, which changes with each change of members",
        reason="a counter says that something changed, never what; the content of an old version is lost there",
        areas=("set.versioning",),
        concerns=lambda row: True,
        example=a_row("set.versioning", "sequence", {"ops": [["add", ["s1"]], ["remove", "s1"]]}, {"version": 3}),
    ),
    RowDifference(
        name="a deleted set is a file whose cases are archived: --status archived has them",
        reason="there is no store here that a set could be hidden in",
        areas=("set.deletion",),
        concerns=lambda row: bool(given(row).get("soft")),
        example=a_row("set.deletion", "delete", {"soft": True}, {"hidden_from_list": True}, "g2"),
    ),
    RowDifference(
        name="an order that does not exist is an error that names those there are",
        reason="another order is taken there without a word",
        areas=("test_case.list",),
        concerns=lambda row: "falls_back_to" in row["expected"],
        example=a_row("test_case.list", "list", {"sort_by": "colour"}, {"falls_back_to": "created_at"}),
    ),
    RowDifference(
        name="a set without limits has those of its runners and of the project",
        reason="every set has limits of its own there, where nobody wrote any",
        areas=("schema.defaults",),
        concerns=has_defaults_of_its_own,
        example=a_row("schema.defaults", "RunConfig", {}, {"concurrency": 5}),
    ),
    RowDifference(
        name="source within a file is refused: a tool names a function of a module",
        reason="source of a file is carried out in the process there, behind a filter of names",
        areas=("schema.defaults", "tools.python_sandbox"),
        concerns=lambda row: row["area"] == "tools.python_sandbox" or row["op"] == "PythonImplementation",
        example=a_row("schema.defaults", "PythonImplementation", {"code": "pass"}, {"type": "python"}),
    ),
    RowDifference(
        name="mocks compare values, as the page has it; `match: keys` compares names only",
        reason="the last generation compares the names of arguments only; the page counts first",
        areas=("tools.mock",),
        concerns=matched_by_names,
        example=a_row(
            "tools.mock",
            "mock_sequence",
            {
                "expected_tool_calls": [{"tool": "t", "expected_params": {"a": 1}, "mock_response": {"b": 2}}],
                "calls": [["t", {"a": 3}]],
            },
            {"results": [{"b": 2}]},
            "g2",
        ),
    ),
    RowDifference(
        name="true is not the number 1",
        reason="they are equal in its language; in JSON they are not",
        areas=("tools.mock",),
        concerns=matched_by_truth,
        example=a_row(
            "tools.mock",
            "mock_match",
            {"expected_params": {"b": False}, "arguments_raw": '{"b": 0}'},
            {"matched": True},
        ),
    ),
    RowDifference(
        name="a live tool needs an implementation before anything runs",
        reason="the call of one is an error in the middle of a paid conversation there",
        areas=("tools.executor_choice",),
        concerns=live_without_implementation,
        example=a_row(
            "tools.executor_choice",
            "build_tool_executor",
            {"tools": [{"name": "t", "platform_config": {"mode": "live"}}]},
            {"executor": "composite"},
            "g0",
        ),
    ),
    RowDifference(
        name="a tool without a mode has the mocks of the case; nothing is simulated unless it is asked for",
        reason="a made-up success of a tool without any mode lets an agent pass there that did nothing",
        areas=("tools.executor_choice",),
        concerns=synthetic_without_a_word,
        example=a_row(
            "tools.executor_choice", "build_tool_executor", {"tools": [{"name": "t"}]}, {"executor": "synthetic"}, "g0"
        ),
    ),
    RowDifference(
        name="a tool that is not declared does not exist; the model is told so",
        reason="a made-up success is returned there for a tool that nobody has",
        areas=("tools.executor_choice",),
        concerns=lambda row: row["op"] == "composite_route",
        example=a_row(
            "tools.executor_choice",
            "composite_route",
            {"tool_modes": {"check_balance": "mock", "other": "live"}, "unknown": "unknown"},
            {},
            "g0",
        ),
    ),
    RowDifference(
        name="the words of results and errors are ours",
        reason="texts are written afresh; that a call is answered with an error is the same",
        areas=("tools.live",),
        concerns=lambda row: "error" in row["expected"],
        example=a_row("tools.live", "execute", {"configured": [], "call": "gone"}, {"error": {"$contains": "No"}}),
    ),
    RowDifference(
        name="a tool without an implementation has the mocks of each case; one that is live needs one",
        reason="one mode holds for all tools of a run there, here for each tool",
        areas=("tools.live_validation",),
        concerns=lambda row: "$raises" in row["expected"],
        example=a_row(
            "tools.live_validation",
            "validate_live_tool_snapshot",
            {"tools": [{"name": "empty"}]},
            {"$raises": "ValueError", "message_contains": "empty"},
            "g2",
        ),
    ),
    RowDifference(
        name="variables are written as `${{ NAME }}`; a missing one is an error before anything runs",
        reason="one spelling holds for all files of a project; a missing one ends a call there, in mid conversation",
        areas=("tools.webhook",),
        concerns=lambda row: "env" in given(row),
        example=a_row(
            "tools.webhook",
            "execute_webhook_tool",
            {"url": "https://${NOBODY_SET}/x", "env": {}},
            {"error": {"$contains": "NOBODY_SET"}},
        ),
    ),
    RowDifference(
        name="a name may stand beside the type, as another wire has it",
        reason="such an entry is dropped there without a word",
        areas=("tools.definitions",),
        concerns=named_beside_the_type,
        example=a_row("tools.definitions", "parse", {"raw": [{"name": "t", "parameters": {}}, {}]}, {"parsed": []}),
    ),
    RowDifference(
        name="the wire of the runner is its provider; a run configuration sets none",
        reason="a provider is a prefix of a model's name there; here an address and a wire",
        areas=("agent_simulator", "run.snapshot"),
        concerns=sets_a_provider,
        example=a_row(
            "agent_simulator",
            "generate_response",
            {"agent_model": "a", "agent_provider": "p", "config": {"model": "b", "provider": "q"}},
            {"llm_config": {"model": "b", "provider": "q"}},
        ),
    ),
    RowDifference(
        name="a first message of the user goes with the instructions: providers refuse a request without",
        reason="a request of a system message alone is refused by two of the wires",
        areas=("user_simulator",),
        concerns=asks_first,
        example=a_row(
            "user_simulator",
            "generate_message",
            {"mode": "llm", "conversation": []},
            {"messages_sent": 1, "first_role": "system"},
        ),
    ),
    RowDifference(
        name="the simulator never sees what the conversation is to achieve",
        reason="a simulator that knows the criteria steers the agent towards them",
        areas=("user_simulator",),
        concerns=shows_what_is_expected,
        example=a_row(
            "user_simulator",
            "system_prompt",
            {"user_context": {"seat": "12F"}, "expected_outcomes": ["a window seat is found"]},
            {"prompt_contains": ["12F", "window"]},
        ),
    ),
    RowDifference(
        name="the words of prompts are ours",
        reason="prompts are written afresh; that nothing is known is said in both",
        areas=("user_simulator",),
        concerns=says_that_nothing_is_known,
        example=a_row(
            "user_simulator",
            "system_prompt",
            {"user_context": None, "expected_outcomes": None},
            {"prompt_contains": ["nothing"]},
        ),
    ),
    RowDifference(
        name="a script without lines is an error before anything runs",
        reason="it is an exception in the middle of a run there",
        areas=("user_simulator",),
        concerns=no_script,
        example=a_row(
            "user_simulator",
            "generate_message",
            {"mode": "scripted", "scripted_messages": []},
            {"$raises": "RuntimeError"},
        ),
    ),
    RowDifference(
        name="a sweep that does not execute starts no conversation, and judges none",
        reason="a cancelled conversation is judged with the words of the platform in it there",
        areas=("run.lifecycle", "conversation_loop"),
        concerns=is_cancelled,
        example=a_row("run.lifecycle", "execute_single", {"cancel_event_already_set": True}, {"judge_called": False}),
    ),
    RowDifference(
        name="a conversation without a turn or without time is an error: it has no answer to judge",
        reason="an opener alone is judged there",
        areas=("conversation_loop",),
        concerns=is_never_held,
        example=a_row("conversation_loop", "run_test_case(endpoint)", {"opening": "x", "max_turns": 0}, _TALK),
    ),
    RowDifference(
        name="what fails is a failure class, never words of the agent or the user",
        reason="an error of the network is an assistant's words there, and is judged as such",
        areas=("run.lifecycle", "conversation_loop"),
        concerns=somebody_fails,
        example=a_row(
            "conversation_loop",
            "run_test_case(endpoint)",
            {"opening": "x", "agent": "HTTP 500"},
            {**_TALK, "roles": ["user", "assistant"], "contents": ["x", "[agent_error] 500"], "agent_calls": []},
        ),
    ),
    RowDifference(
        name="every line of a script is answered; the conversation does not end on an unanswered one",
        reason="the last line of a script is said to nobody there",
        areas=("conversation_loop",),
        concerns=lambda row: ends_on_a_line(row) and rounds_left(row),
        example=a_row(
            "conversation_loop",
            "run_test_case(endpoint)",
            {"opening": "x", "scripted": ["y"]},
            {
                **_TALK,
                "roles": ["user", "assistant", "user"],
                "contents": ["x", "A1", "y"],
                "agent_calls": [[1, 1, "user"]],
            },
        ),
    ),
    RowDifference(
        name="max_turns rounds end with the agent's answer, as in the later generations",
        reason="the first generation ends on a line of the user that nobody answers; of the loop, the later one counts",
        areas=("conversation_loop",),
        concerns=lambda row: ends_on_a_line(row) and not rounds_left(row),
        example=a_row(
            "conversation_loop",
            "run_test_case(endpoint)",
            {"opening": "x", "scripted": ["y", "z"], "max_turns": 1},
            {
                **_TALK,
                "roles": ["user", "assistant", "user"],
                "contents": ["x", "A1", "y"],
                "agent_calls": [[1, 1, "user"]],
            },
            "g0",
        ),
    ),
    RowDifference(
        name="tokens that nobody counted are unknown; they are not estimated",
        reason="a quarter of the characters is no count of tokens, and prices are computed from it there",
        areas=("tokens.heuristic", "tokens.estimate", "tokens.sum", "conversation_loop"),
        concerns=uncounted,
        example=a_row("tokens.heuristic", "char_heuristic", {"text": "abcdefgh"}, {"tokens": 2}),
    ),
    RowDifference(
        name="a count that one turn lacks makes the sum unknown, never smaller",
        reason="missing counts are skipped there, and the sum is too small",
        areas=("tokens.sum",),
        concerns=lacks_counts,
        example=a_row(
            "tokens.sum", "sum_usage", {"dicts": [None, {"prompt_tokens": 3}]}, {"sum": {"prompt_tokens": 3}}
        ),
    ),
    RowDifference(
        name="money that nobody counted is unknown, never 0",
        reason="an unknown cost is added as 0 there",
        areas=("tokens.accumulate",),
        concerns=costs_unknown,
        example=a_row(
            "tokens.accumulate",
            "accumulator",
            {"agent_costs": [None, 0.5], "platform_costs": [None, None], "agent_usage": [None]},
            {"agent_cost_usd": 0.5},
        ),
    ),
    RowDifference(
        name="counts of a cache are read in the fields of the provider's own wire",
        reason="they are looked for in one spelling there",
        areas=("cost.estimate",),
        concerns=lambda row: "usage" in given(row),
        example=a_row(
            "cost.estimate",
            "estimate_agent_cost",
            {"usage": {"cache_creation_input_tokens": 80, "cache_read_input_tokens": 20}},
            {},
        ),
    ),
    RowDifference(
        name="prices are those of the runner; nothing is looked up by a model's name",
        reason="a list of prices that ages with its library decides what a run has cost there",
        areas=("cost.estimate",),
        concerns=lambda row: "pricing_lookup" not in given(row) and "usage" not in given(row),
        example=a_row("cost.estimate", "estimate_agent_cost", {"model": "some/model", "provider": "p"}, {}),
    ),
    RowDifference(
        name="settings and names of models are sent as they are configured; the wire of the runner is its provider",
        reason="names and settings are rewritten by a list of models there",
        areas=("llm.model_id", "llm.params"),
        concerns=sent_otherwise,
        example=a_row("llm.model_id", "resolve_model", {"model": "m-1", "provider": "p"}, {"resolved": "p/m-1"}),
    ),
    RowDifference(
        name="one call of a model names causes and what a change of the prompt means",
        reason="a call of its own about the prompt costs as much again and does not know the results",
        areas=("analysis.run",),
        concerns=lambda row: given(row).get("prompt_changed") is True,
        example=a_row("analysis.run", "analyse", {"prompt_changed": True}, {"llm_calls": 2}),
    ),
    RowDifference(
        name="what a model wrote is a draft until a person makes it active",
        reason="later generations carry out what nobody has read",
        areas=("generator.parse", "generator.ai_agent"),
        concerns=becomes_active,
        example=a_row("generator.parse", "parse", {"item.status": "archived"}, {"status": "active"}, "g2"),
    ),
    RowDifference(
        name="cases that are missing are asked for once more; then each is named",
        reason="fewer than were asked for are a line in a log there",
        areas=("generator.parse",),
        concerns=lambda row: "items" in given(row) and "$raises" not in row["expected"],
        example=a_row("generator.parse", "parse", {"items": 1, "expected_count": 3}, {"count": 1}, "g0"),
    ),
    RowDifference(
        name="an agent has one version: that of its runners file",
        reason="versions of an agent are rows of a store there; an older one here is a runner of its own",
        areas=("generator.api",),
        concerns=lambda row: "agent_version" in given(row),
        example=a_row("generator.api", "POST /test-cases/generate", {"agent_version": 3}, {"http": 404}, "g2"),
    ),
    RowDifference(
        name="a patch of a case is an import that overwrites the fields that it has",
        reason="a model writes patches there; here a person imports them",
        areas=("generator.ai_agent",),
        concerns=lambda row: "patch" in given(row),
        example=a_row("generator.ai_agent", "ai_edit", {"patch": {"evaluation_criteria_override": None}}, {}, "g2"),
    ),
)
