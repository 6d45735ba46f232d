"""What a difference of a row of Connexity is, and by what in a row it is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """A deliberate difference, the rows that it concerns (by what is in them, never their number), and a row of ours
    that falls under it."""

    name: str
    reason: str
    concerns: Callable[[JsonMap], bool]
    areas: tuple[str, ...]
    example: JsonMap


def a_row(area: str, op: str, given: JsonMap, expected: JsonMap, *generations: str) -> JsonMap:
    """Return a row of ours."""
    return {"area": area, "op": op, "generations": list(generations or ("g0", "g1", "g2")), "input": given,
            "expected": expected}  # fmt: skip


def given(row: JsonMap) -> JsonMap:
    value: JsonMap = row["input"]
    return value


def results(row: JsonMap) -> list[JsonMap]:
    return list(given(row).get("results") or ())


def rate_of_ungraded(row: JsonMap) -> bool:
    rates = {"pass_rate", "cases_pass_rate_pct"} & set(row["expected"])
    return bool(rates) and (not results(row) or any(each.get("error_message") for each in results(row)))


def estimated_sum(row: JsonMap) -> bool:
    return "total_agent_token_usage" in row["expected"] and any(
        (each.get("agent_token_usage") or {}).get("estimated") for each in results(row)
    )


def money_of_nobody(row: JsonMap) -> bool:
    return "total_estimated_cost_usd" in row["expected"] and any(
        "estimated_cost_usd" in each and "agent_cost_usd" not in each for each in results(row)
    )


def few_latencies(row: JsonMap) -> bool:
    """Return whether a percentile of fewer than 20 times is left out."""
    times = [each.get("agent_latency_p50_ms") for each in results(row)]
    known = [time for time in times if time is not None]
    return row["expected"].get("latency_p95_ms", 0) is None and bool(known)


def has_stored_totals(row: JsonMap) -> bool:
    return "baseline_metrics" in given(row)


def one_side_missing(row: JsonMap) -> bool:
    row_input = given(row)
    sides = [row_input[name] for name in ("baseline", "candidate")]
    return any(side.get("passed") is None and not side.get("error_message") for side in sides)


def named_by_us_only(row: JsonMap) -> bool:
    expected = row["expected"]
    return "$raises" in expected or (not expected["changes"] and given(row)["old"] != given(row)["new"])


def is_never_held(row: JsonMap) -> bool:
    row_input = given(row)
    limits = [row_input.get(name) for name in ("max_turns", "timeout_per_test_case_ms")]
    return any(limit is not None and limit < 1 for limit in limits)


def is_cancelled(row: JsonMap) -> bool:
    return "cancel_event" in given(row) or "cancel_event_already_set" in given(row)


def is_held(row: JsonMap) -> bool:
    return not is_never_held(row) and not is_cancelled(row)


def ends_on_a_line(row: JsonMap) -> bool:
    roles = row["expected"].get("roles") or []
    return is_held(row) and given(row).get("agent") != "HTTP 500" and roles[-1:] == ["user"]


def rounds_left(row: JsonMap) -> bool:
    most = given(row).get("max_turns")
    return most is None or len(row["expected"]["agent_calls"]) < most


def somebody_fails(row: JsonMap) -> bool:
    row_input = given(row)
    fails = row_input.get("agent") == "HTTP 500" or row_input.get("simulator") == "llm raising RuntimeError"
    return "runtime_raises" in row_input or (is_held(row) and fails)


def uncounted(row: JsonMap) -> bool:
    if row["area"] == "conversation_loop":
        return is_held(row) and bool(row["expected"].get("agent_tokens_estimated"))
    return row["area"] != "tokens.sum" or "estimated" in (row["expected"]["sum"] or {})


def asks_first(row: JsonMap) -> bool:
    return row["op"] == "generate_message" and "messages_sent" in row["expected"]


def of_prompt(row: JsonMap, *, known: bool) -> bool:
    return row["op"] == "system_prompt" and (given(row)["user_context"] is not None) is known


def no_script(row: JsonMap) -> bool:
    return given(row).get("mode") == "scripted" and given(row).get("scripted_messages") == []


def live_without_implementation(row: JsonMap) -> bool:
    tools = given(row).get("tools") or ()
    return any((tool.get("platform_config") or {}).get("mode") == "live" for tool in tools)


def matched_by_truth(row: JsonMap) -> bool:
    """Return whether a truth value matches a number."""
    row_input = given(row)
    expected, arguments = row_input.get("expected_params") or {}, row_input.get("arguments_raw", "{}")
    return bool(row["expected"].get("matched")) and any(
        name in (made := _object(arguments)) and isinstance(value, bool) is not isinstance(made[name], bool)
        for name, value in expected.items()
    )


def _object(text: str) -> JsonMap:
    """Return the object of a JSON text; none of another text."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def matched_by_names(row: JsonMap) -> bool:
    """Whether a call gets an answer whose arguments are others."""
    row_input = given(row)
    if row["generations"] != ["g2"] or "calls" not in row_input:
        return False
    answered = not any("error" in each or "has_key" in each for each in row["expected"]["results"])
    return answered and not all(has_an_answer(call, row_input["expected_tool_calls"]) for call in row_input["calls"])


def has_an_answer(call: tuple[str, JsonMap], expected_calls: Sequence[JsonMap]) -> bool:
    """Return whether an expected call has the name of a call, and no other values."""
    name, arguments = call
    return any(
        each["tool"] == name
        and all(same(arguments.get(key), value) for key, value in (each.get("expected_params") or {}).items())
        for each in expected_calls
    )


def same(given: Any, expected: Any) -> bool:
    return str(given).strip().lower() == str(expected).strip().lower()


def sets_a_provider(row: JsonMap) -> bool:
    if row["area"] == "agent_simulator":
        return "config" in given(row)
    return row["expected"].get("agent_provider") is not None


def nameless(row: JsonMap) -> bool:
    return "entry" not in given(row) and "$raises" not in row["expected"]


def sent_otherwise(row: JsonMap) -> bool:
    row_input = given(row)
    return bool(row_input.get("model", "m") != row["expected"].get("resolved", "other"))


def becomes_active(row: JsonMap) -> bool:
    row_input = given(row)
    return ("item.status" in row_input and row["expected"].get("status") == "active") or (
        "args" in row_input and "args.difficulty" not in row_input
    )


def stored_totals(*, passed: int, score: float) -> JsonMap:
    """Return the totals of a run of two cases as it once stored them."""
    return {"total_executions": 2, "passed_count": passed, "avg_overall_score": score, "latency_avg_ms": 5.0,
            "total_estimated_cost_usd": 0.5}  # fmt: skip
