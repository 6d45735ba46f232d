"""What a difference of a row of Connexity is, and by what in a row it is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    ends = roles[-1:] == ["user"] and is_unanswered(row["expected"])
    return is_held(row) and given(row).get("agent") != "HTTP 500" and ends


def is_unanswered(expected: JsonMap) -> bool:
    """Return whether the agent was not called for each line of the user: an agent may answer with nothing at all."""
    answered = sum(role == "user" for _, _, role in expected["agent_calls"])
    return bool(expected["roles"].count("user") > answered)


def rounds_left(row: JsonMap) -> bool:
    most = given(row).get("max_turns")
    return most is None or len(row["expected"]["agent_calls"]) < most


def somebody_fails(row: JsonMap) -> bool:
    row_input = given(row)
    fails = row_input.get("agent") == "HTTP 500" or row_input.get("simulator") == "llm raising RuntimeError"
    return "runtime_raises" in row_input or (is_held(row) and fails)


def lacks_counts(row: JsonMap) -> bool:
    """Return whether a turn lacks a count that the sum has."""
    counted = [name for name in ("prompt_tokens", "completion_tokens") if name in (row["expected"]["sum"] or {})]
    return any(name not in (each or {}) for each in given(row)["dicts"] for name in counted)


def costs_unknown(row: JsonMap) -> bool:
    return None in [*given(row).get("agent_costs", ()), *given(row).get("platform_costs", ())]


def has_defaults_of_its_own(row: JsonMap) -> bool:
    """Return whether a set gets limits that nobody wrote."""
    limits = ("concurrency", "timeout_per_test_case_ms", "cases_pass_threshold", "metrics_pass_threshold", "tool_mode")
    set_by_it = (name for name in limits if row["expected"].get(name) is not None)
    return row["op"] == "RunConfig" and any(name not in given(row) for name in set_by_it)


def synthetic_without_a_word(row: JsonMap) -> bool:
    """Return whether tools that nobody implements are simulated without being asked to be."""
    row_input, executor = given(row), row["expected"].get("executor", "")
    modes = [(tool.get("platform_config") or {}).get("mode") for tool in row_input.get("tools") or ()]
    if executor.startswith("composite"):
        return None in modes and "live" not in modes
    return "tools" in row_input and executor == "synthetic" and row_input.get("tool_mode") != "synthetic"


def uncounted(row: JsonMap) -> bool:
    if row["area"] == "conversation_loop":
        return is_held(row) and bool(row["expected"].get("agent_tokens_estimated"))
    return row["area"] != "tokens.sum" or "estimated" in (row["expected"]["sum"] or {})


def asks_first(row: JsonMap) -> bool:
    return row["op"] == "generate_message" and given(row).get("conversation") == []


def shows_what_is_expected(row: JsonMap) -> bool:
    return row["op"] == "system_prompt" and bool(given(row).get("expected_outcomes"))


def says_that_nothing_is_known(row: JsonMap) -> bool:
    return row["op"] == "system_prompt" and not given(row).get("user_context")


def no_script(row: JsonMap) -> bool:
    return given(row).get("mode") == "scripted" and given(row).get("scripted_messages") == []


def live_without_implementation(row: JsonMap) -> bool:
    tools = given(row).get("tools") or ()
    return any((tool.get("platform_config") or {}).get("mode") == "live" for tool in tools)


def matched_by_truth(row: JsonMap) -> bool:
    """Return whether a truth value matches a number, where values are compared."""
    row_input = given(row)
    if row["generations"] == ["g2"]:
        return False
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
    """Whether other answers are given where only the names of arguments are compared."""
    row_input = given(row)
    if row["generations"] != ["g2"]:
        return False
    if "expected_params" in row_input:
        calls = [("t", _object(row_input.get("arguments_raw", "{}")))]
        mocks = [("t", row_input["expected_params"])]
    else:
        calls = [(tool, arguments) for tool, arguments in row_input.get("calls", ())]
        mocks = [(each["tool"], each.get("expected_params")) for each in row_input.get("expected_tool_calls", ())
                 if each.get("mock_response") is not None]  # fmt: skip
    return answers_of(calls, mocks, has_names) != answers_of(calls, mocks, has_values)


Arguments = Mapping[str, Any]
Matches = Callable[[Arguments, Arguments | None], bool]


def answers_of(
    calls: Sequence[tuple[str, Arguments]], mocks: Sequence[tuple[str, Arguments | None]], matches: Matches
) -> list[int | None]:
    """Return the number of the canned answer that each call gets, each answer once; None for a call without one."""
    left = dict(enumerate(mocks))
    answers = []
    for name, arguments in calls:
        found = next((at for at, (tool, params) in left.items() if tool == name and matches(arguments, params)), None)
        if found is not None:
            del left[found]
        answers.append(found)
    return answers


def has_names(arguments: Arguments, expected: Arguments | None) -> bool:
    return all(name in arguments for name in expected or {})


def has_values(arguments: Arguments, expected: Arguments | None) -> bool:
    return all(name in arguments and _same(arguments[name], value) for name, value in (expected or {}).items())


def _same(made: Any, expected: Any) -> bool:
    if isinstance(made, str) and isinstance(expected, str):
        return made.strip().casefold() == expected.strip().casefold()
    return isinstance(made, bool) is isinstance(expected, bool) and bool(made == expected)


def sets_a_provider(row: JsonMap) -> bool:
    if row["area"] == "agent_simulator":
        return "provider" in given(row).get("config", {})
    return row["expected"].get("agent_provider") is not None


def named_beside_the_type(row: JsonMap) -> bool:
    entry = given(row).get("entry")
    return any("name" in tool for tool in given(row).get("raw", ())) or (
        isinstance(entry, Mapping) and bool(entry.get("name"))
    )


def sent_otherwise(row: JsonMap) -> bool:
    """Return whether a model's name is rewritten, or settings are removed or added."""
    row_input, expected = given(row), row["expected"]
    extra = row_input.get("extra", {})
    removed = any(name in extra for name in expected.get("sent_lacks", ()))
    added = any(name not in extra for name in expected.get("sent_has", {}))
    return bool(row_input.get("model") != expected.get("resolved", row_input.get("model"))) or removed or added


def becomes_active(row: JsonMap) -> bool:
    row_input = given(row)
    return ("item.status" in row_input and row["expected"].get("status") == "active") or (
        "args" in row_input and "args.difficulty" not in row_input
    )


def stored_totals(*, passed: int, score: float) -> JsonMap:
    """Return the totals of a run of two cases as it once stored them."""
    return {"total_executions": 2, "passed_count": passed, "avg_overall_score": score, "latency_avg_ms": 5.0,
            "total_estimated_cost_usd": 0.5}  # fmt: skip


_OPERATIONS = {"add": "add", "remove": "remove", "replace": "replace", "replace_with": "replace", "update": "update"}
SetState = tuple[list[Any], JsonMap]


def set_states(row_input: JsonMap) -> list[SetState]:
    """Return the members and the fields of a set before and after each operation of a row."""
    ops = row_input["ops"] if "ops" in row_input else [
        (_OPERATIONS[name], row_input[name]) for name in _OPERATIONS if name in row_input
    ]  # fmt: skip
    states: list[SetState] = [([*row_input.get("members", ())], {})]
    for name, raw in ops:
        before, more = states[-1]
        names: list[Any] = raw if isinstance(raw, list) else [raw]
        if name == "update":
            states.append((before, {**more, **dict(raw)}))
            continue
        members = {"add": [*before, *names], "replace": names, "remove": [each for each in before if each not in names]}
        states.append((members[name], more))
    return states


def content_changes(row_input: JsonMap) -> list[bool]:
    """Return whether each operation of a row changes what is in the set, its name included."""
    return [before != after for before, after in pairwise(set_states(row_input))]


def counted_otherwise(row: JsonMap) -> bool:
    """Return whether an operation is counted there that changes nothing, or a change of name or text is not."""
    row_input = given(row)
    names = [name for name, _ in row_input.get("ops", ())] or [name for name in _OPERATIONS if name in row_input]
    unchanged = [name for name, changed in zip(names, content_changes(row_input), strict=True) if not changed]
    _, fields = set_states(row_input)[-1]
    return any(name != "remove" for name in unchanged) or bool({"name", "description"} & fields.keys())


LASTING = re.compile(r"sleep|time|loop|hang", re.IGNORECASE)
FAILING_SOURCES: Mapping[re.Pattern[str], str] = {
    re.compile(r"rais|excepti|error", re.IGNORECASE): "def t():\n    raise ValueError('boom')\n",
    LASTING: "import time\n\ndef t():\n    time.sleep(9)\n",
    re.compile(r"missing|without|no execute|syntax", re.IGNORECASE): "other = 1\n",
}
"""Modules whose function `t` fails, by the words of a row."""


def failing_source(words: str) -> tuple[re.Pattern[str], str] | None:
    """Return the module of a row whose source fails by itself, with the pattern of its words."""
    return next((each for each in FAILING_SOURCES.items() if each[0].search(words)), None)


def filtered_source(row: JsonMap) -> bool:
    """Return whether a row's source fails only because a name is taken away from it."""
    if row["op"] == "PythonImplementation":
        return True
    fails = bool({"has_key", "error"} & row["expected"].keys())
    return fails and failing_source(given(row).get("impl", "")) is None
