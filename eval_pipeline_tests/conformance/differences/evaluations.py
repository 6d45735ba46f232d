"""Differences about evaluators and whole tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_pipeline.failures import EVALUATOR, GATE, TARGET_ERROR
from eval_pipeline_tests.conformance.agentv_tests import (
    WHOLE_TESTS,
    WrittenTest,
    evaluators_key,
    output_of,
    recorded_scores,
    stop_of,
)
from eval_pipeline_tests.conformance.differences.model import (
    AS_WRITTEN,
    Difference,
    Expected,
    Observations,
    refuses,
)
from eval_pipeline_tests.conformance.differences.wrong_entries import (
    LIMITS,
    errors_of,
    kind_of,
    unknown_types,
    wrong_arguments,
    wrong_common_fields,
)
from eval_pipeline_tests.conformance.evaluation_answers import agrees, recorded_values
from eval_pipeline_tests.conformance.recorded_facts import Row

Json = Mapping[str, Any]
COUNTED, BROKEN_FAILS, CUT, ALONE = "counted", "fails", "cut", "alone"
_FILES = ("evaluators", "evaluators_later", "deterministic_observed")


def entries_of(row: Row) -> list[Any]:
    """Return the entries of a row's test as they are recorded."""
    if row.kind == "observed-test":
        return list(row.data["test"].get(evaluators_key(row.data["test"])) or ())
    if row.file not in _FILES or row.kind == "trials":
        return []
    if row.kind in ("test-aggregate", "negate"):
        return list((row.data.get("config") or {}).get("assertions") or ())
    return [{"type": row.kind, **(row.data.get("config") or {})}]


def _mappings(row: Row) -> list[Json]:
    return [entry for entry in entries_of(row) if isinstance(entry, Mapping)]


def _refused_entries(row: Row) -> Sequence[Expected]:
    test = row.data.get("test") or {}
    return errors_of(entries_of(row), test.get("id", "row"), evaluators_key(test))


# What is refused


def _wrong_common(row: Row) -> bool:
    return any(any(wrong_common_fields(entry)) for entry in _mappings(row))


def _unknown(row: Row) -> bool:
    made = row.kind in ("inline-assert", "negate")  # written as evaluators of ours
    return not made and any(any(unknown_types(entry)) for entry in _mappings(row))


def _wrong_arguments(row: Row) -> bool:
    return any(any(wrong_arguments(entry)) for entry in _mappings(row))


def _bands(row: Row) -> list[Sequence[Json]]:
    rubrics = next(iter(_mappings(row)), {}).get("rubrics") or ()
    return [
        rubric["score_ranges"]
        for rubric in rubrics
        if isinstance(rubric, dict) and isinstance(rubric.get("score_ranges"), list)
    ]


def _gap(row: Row) -> bool:
    return any(
        sum(high - low + 1 for low, high in (band["score_range"] for band in bands)) < 11 for bands in _bands(row)
    )


def _refused_gap(row: Row) -> Sequence[Expected]:
    return [(f"case 'row' {row.kind}", r"rubrics, criterion 1 \('r1'\): score_ranges: they (leave a gap at|end)")]


def _unknown_argument_of_a_turn(row: Row) -> bool:
    return any("criteria" in entry and kind_of(entry) == "llm-grader" for entry in _entries_of_turns(row))


def _entries_of_turns(row: Row) -> list[Json]:
    turns = (row.data.get("config") or {}).get("turns") or ()
    return [entry for turn in turns for entry in turn.get("assertions") or () if isinstance(entry, Mapping)]


def _refused_turn(row: Row) -> Sequence[Expected]:
    return [("case 'row' turn", "^member 'llm-grader': llm-grader criteria: unknown argument")]


# What is scored otherwise


def _left_out(row: Row) -> list[str]:
    """The names of entries that AgentV left out of an observed test, and that we score: of no name, or of no text."""
    if row.kind != "observed-test":
        return []
    kinds = [kind_of(entry) for entry in _mappings(row) if "name" not in entry and _is_left_out(entry)]
    return [kind if kind in LIMITS else f"{kind}-" for kind in kinds]


def _is_left_out(entry: Json) -> bool:
    return kind_of(entry) in LIMITS or (kind_of(entry) == "equals" and entry.get("value") == "")


def _scores_them_too(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    ours = {score["name"]: score["value"] for score in values["scores"]}
    kept = {score["name"]: score["score"] for score in recorded_scores(row)}

    assert {name: value for name, value in ours.items() if name in kept} == kept
    assert sorted(ours.keys() - kept.keys()) == sorted(_left_out(row))
    assert all(value in (0, 1) for value in ours.values())


_MEASURES = {
    "latency": ("duration_ms",),
    "cost": ("cost_usd",),
    "token-usage": ("token_usage",),
    "tool-trajectory": ("session",),
    "skill-trigger": ("session",),
    "field-accuracy": ("expected_output",),
}
_METRICS = {
    "max_tool_calls": "session",
    "max_llm_calls": "model_calls",
    "max_tokens": "token_usage",
    "max_cost_usd": "cost_usd",
    "max_duration_ms": "duration_ms",
    "target_exploration_ratio": "session",
}
_UNMEASURED = ("not measured", "was not measured", "shows no session", "no expected output", "calls are unknown")


def _measures_of(entry: Json) -> Sequence[str]:
    kind = kind_of(entry)
    if kind == "execution-metrics":
        return [measure for limit, measure in _METRICS.items() if entry.get(limit) is not None]
    return ["session"] if kind.startswith("trajectory:") else _MEASURES.get(kind, ())


def _unmeasured(row: Row) -> set[str]:
    """The measures that the recorded target did not report."""
    data = row.data
    known = {name for name in ("cost_usd", "token_usage", "duration_ms") if data.get(name) is not None}
    known |= {"duration_ms"} if "observed" in data else set()
    trace = data.get("trace") or {}
    messages = data.get("output_messages") if isinstance(data.get("output_messages"), list) else None
    known |= {"session"} if messages is not None or trace else set()
    known |= {"model_calls"} if messages is not None or trace.get("llm_call_count") is not None else set()
    known |= (
        {"expected_output"} if data.get("expected_output") or (data.get("test") or {}).get("expected_output") else set()
    )
    return {measure for measures in (*_MEASURES.values(), _METRICS.values()) for measure in measures} - known


def _unmeasured_entries(row: Row) -> list[int]:
    """The positions of entries that need a measure which was not taken."""
    if stop_of(row) is not None:
        return []
    missing = _unmeasured(row)
    return [
        at
        for at, entry in enumerate(entries_of(row))
        if isinstance(entry, Mapping)
        and entry.get("on_missing") != "fail"
        and missing.intersection(_measures_of(entry))
    ]


def _count_missing(row: Row, test: WrittenTest) -> WrittenTest:
    unmeasured = _unmeasured_entries(row)
    entries = [
        {**entry, "on_missing": "fail"} if at in unmeasured else entry for at, entry in enumerate(test.evaluators)
    ]
    counted = test.with_evaluators(entries)
    return replace(counted, answer={**counted.answer, "output": ""}) if _asks_directly(row) else counted


def _asks_directly(row: Row) -> bool:
    """Whether the row gives an answer to `execution-metrics` alone: in a run, an answer is one model call at least."""
    return row.kind == "execution-metrics" and not {"trace", "output_messages"} & row.data.keys()


def _unscored_unless_counted(row: Row, observations: Observations) -> None:
    values, counted = observations[AS_WRITTEN].values, observations[COUNTED].values
    unscored = [at for at, score in enumerate(values["scores"]) if score["value"] is None]

    assert unscored == _unmeasured_entries(row)
    assert all(any(text in values["scores"][at]["reason"] for text in _UNMEASURED) for at in unscored)
    assert (values["status"], values["score"]) == ("execution_error", None) or values["failure_class"] == GATE.id
    if row.kind in WHOLE_TESTS:
        recorded = row.data.get("observed", row.data)
        assert agrees(counted["score"], recorded)
    else:
        assert agrees(counted["scores"][0]["value"], row.data)


def _is_skipped(row: Row) -> bool:
    return row.file in _FILES and row.data.get("verdict") == "skip" and _asserts_score(row)


def _is_unscored(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    (score,) = values["scores"]

    assert (score["value"], values["score"], values["status"]) == (None, None, "execution_error")
    assert values["failure_class"] == EVALUATOR.id
    replied = [reply for turn in row.data.get("grader_responses") or () for reply in turn]
    if replied:
        assert "could not be read" in score["reason"]
        assert score["details"]["reply"] == replied[-1]
    else:
        assert all(member["value"] is None for member in values["members"])
        assert "no sub-score" in score["reason"] or "no member" in score["reason"]


def _by_target(row: Row) -> bool:
    return row.kind == "test-aggregate" and stop_of(row) == "provider_error" and _asserts_score(row)


def _asserts_score(row: Row) -> bool:
    """Whether a row pins the score, and not only the status that is the same here."""
    return bool({"score", "score_bounds"} & set(row.data["asserted"]))


def _error_of_the_target(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values

    assert (values["status"], values["score"], values["scores"]) == ("execution_error", None, [])
    assert (values["failure_class"], values["reason"]) == (TARGET_ERROR.id, output_of(row.data))


def _by_grader(row: Row) -> bool:
    return row.kind == "test-aggregate" and stop_of(row) == "evaluator_error" and _asserts_score(row)


def _error_of_a_grader(row: Row, observations: Observations) -> None:
    """The others keep their scores. A gate among them that fails decides alone: no other score could mend it."""
    values = observations[AS_WRITTEN].values

    assert [(score["name"], score["value"]) for score in values["scores"]] == recorded_values(row)
    gated = any(score["minimum"] is not None and (score["value"] or 0) < score["minimum"] for score in values["scores"])
    if gated:
        assert (values["status"], values["score"], values["failure_class"]) == ("quality_failure", 0, GATE.id)
    else:
        assert (values["status"], values["score"], values["failure_class"]) == ("execution_error", None, EVALUATOR.id)


def _breaks(row: Row) -> bool:
    """A program of a `code-grader` that ends with an error."""
    command = (row.data.get("config") or {}).get("command") or ()
    return row.kind == "code-grader" and row.data.get("verdict") == "fail" and any("-error" in word for word in command)


def _fail_when_broken(row: Row, test: WrittenTest) -> WrittenTest:
    return test.with_evaluators([{**test.evaluators[0], "on_error": "fail"}])


def _broken_is_unscored(row: Row, observations: Observations) -> None:
    (score,), (failed,) = observations[AS_WRITTEN].values["scores"], observations[BROKEN_FAILS].values["scores"]

    assert score["value"] is None
    assert "ended with 1: it broke" in score["reason"]
    assert failed["value"] == row.data["score"]
    assert observations[BROKEN_FAILS].values["status"] == "quality_failure"


# Tool calls


def _trajectory(row: Row) -> Json:
    """The evaluator of a row about the tool calls of a session; empty for other rows."""
    shown = row.kind == "tool-trajectory" and isinstance(row.data.get("output_messages"), list)
    return _mappings(row)[0] if shown else {}


def _calls(row: Row) -> list[Json]:
    return [call for message in row.data.get("output_messages") or () for call in message.get("tool_calls") or ()]


def _more_calls(row: Row) -> bool:
    entry = _trajectory(row)
    expected = entry.get("expected") or ()
    timed = any("max_duration_ms" in call or "maxDurationMs" in call for call in expected)
    return entry.get("mode") == "exact" and not timed and bool(expected) and len(_calls(row)) > len(expected)


def _cut_calls(row: Row, test: WrittenTest) -> WrittenTest:
    calls = _calls(row)[: len(_trajectory(row)["expected"])]
    return replace(test, answer={**test.answer, "messages": [{"role": "assistant", "tool_calls": calls}]})


def _extra_calls_count(row: Row, observations: Observations) -> None:
    """With only as many calls as expected we agree; each one more is one more that was not expected."""
    (full,), (cut,) = observations[AS_WRITTEN].values["scores"], observations[CUT].values["scores"]
    expected, calls = len(_trajectory(row)["expected"]), len(_calls(row))

    assert agrees(cut["value"], row.data)
    assert abs(full["value"] - cut["value"] * expected / calls) < 1e-9
    assert full["findings"].count(False) >= calls - expected


def _later_calls(row: Row) -> list[Json]:
    """Expected calls that the session makes, after it called the same tool with other arguments."""
    entry = _trajectory(row)
    if entry.get("mode") != "in_order":
        return []
    made = [(call, [other.get("input") for other in _calls(row) if other["tool"] == call["tool"]])
            for call in entry["expected"]]  # fmt: skip
    return [call for call, inputs in made if isinstance(call.get("args"), Mapping) and call["args"] in inputs[1:]
            and inputs[0] != call["args"]]  # fmt: skip


def _only_later_calls(row: Row, test: WrittenTest) -> WrittenTest:
    return test.with_evaluators([{**test.evaluators[0], "expected": _later_calls(row)}])


def _found_alone(row: Row, observations: Observations) -> None:
    (full,), (alone,) = observations[AS_WRITTEN].values["scores"], observations[ALONE].values["scores"]

    assert alone["value"] == 1
    assert full["value"] > row.data["score"]


EVALUATIONS = (
    Difference(
        "wrong common field",
        "AgentV ignores a `negate`, gate or weight of the wrong type, or drops the whole test with a warning",
        _wrong_common,
        refuses(_refused_entries),
    ),
    Difference(
        "unknown evaluator",
        "AgentV scores 0 for a type that nothing answers to; a misspelt type is the author's mistake, not the target's",
        _unknown,
        refuses(_refused_entries),
    ),
    Difference(
        "wrong argument",
        "AgentV leaves out an evaluator with a wrong value, limit, call, field or pattern, scores it 0, or asks its "
        "default grader instead: another thing is measured than was asked",
        _wrong_arguments,
        refuses(_refused_entries),
    ),
    Difference(
        "score ranges with a gap",
        "AgentV's loader refuses bands that leave out scores, its evaluator takes them when it is called directly; "
        "with us a suite cannot get past the check",
        _gap,
        refuses(_refused_gap),
    ),
    Difference(
        "unknown argument of a turn",
        "AgentV passes over `criteria` of an `llm-grader`, which means nothing to it; the grader would judge something "
        "else than its author wrote",
        _unknown_argument_of_a_turn,
        refuses(_refused_turn),
    ),
    Difference(
        "left out by AgentV",
        "AgentV leaves out budgets without a name, and `equals` with an empty text; a name is made up here, and that "
        "nothing is said can be what is expected",
        lambda row: bool(_left_out(row)),
        _scores_them_too,
    ),
    Difference(
        "error of the target",
        "AgentV gives a test whose target failed the score 0; unknown is not zero: no score, and a failure class",
        _by_target,
        _error_of_the_target,
    ),
    Difference(
        "error of a grader",
        "AgentV gives a test that a grader could not judge the score 0; it has none here, unless a gate decides alone",
        _by_grader,
        _error_of_a_grader,
    ),
    Difference(
        "measure missing",
        "what was not measured is unknown, not exceeded; `on_missing: fail` gives AgentV's number",
        lambda row: bool(_unmeasured_entries(row)),
        _unscored_unless_counted,
        {COUNTED: _count_missing},
    ),
    Difference(
        "skipped is unscored",
        "AgentV stores 0 for what it skipped: a reply that stays unreadable, a composite without any result",
        _is_skipped,
        _is_unscored,
    ),
    Difference(
        "broken program is unscored",
        "a program that breaks could not judge; `on_error: fail` gives AgentV's number",
        _breaks,
        _broken_is_unscored,
        {BROKEN_FAILS: _fail_when_broken},
    ),
    Difference(
        "extra calls",
        "AgentV's `exact` gives the full score although more calls were made than expected (a defect in its spec)",
        _more_calls,
        _extra_calls_count,
        {CUT: _cut_calls},
    ),
    Difference(
        "found later",
        "AgentV's `in_order` stops looking for a call at the first of its tool, whatever its arguments (a defect)",
        lambda row: bool(_later_calls(row)),
        _found_alone,
        {ALONE: _only_later_calls},
    ),
)
