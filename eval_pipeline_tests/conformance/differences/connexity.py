"""Differences about Connexity's test cases and run configurations: what is refused here, and what is accepted."""

from __future__ import annotations

from eval_pipeline_tests.conformance.differences.model import (
    AS_WRITTEN,
    Check,
    Difference,
    Observations,
    refuses,
)
from eval_pipeline_tests.conformance.recorded_facts import Row


def _is_valid(row: Row) -> bool:
    return bool(row.data["expected"].get("valid"))


def _of_case(row: Row) -> bool:
    return row.kind == "test_case.schema"


def _of_config(row: Row) -> bool:
    return row.kind == "run_config.schema" and row.data["op"] == "RunConfig" and _is_valid(row)


_PARTS = {"JudgeConfig": "judge.", "UserSimulatorConfig": "user_simulator.", "AgentSimulatorConfig": "agent_simulator."}


def _part(row: Row) -> str:
    return _PARTS.get(row.data["op"], "")


def _refuses(field: str, pattern: str) -> Check:
    return refuses(lambda row: [(field, pattern)])


def _accepts_the_case(row: Row, observations: Observations) -> None:
    observation = observations[AS_WRITTEN]
    assert observation.problems == ()
    about = {name: observation.values[name] for name in ("name", "accepted", "alike")}
    assert about == {"name": "n", "accepted": row.data["generations"], "alike": True}


def _too_small(row: Row) -> list[str]:
    given = row.data["input"]
    return [name for name in _NOT_ZERO if type(given.get(name)) is int and given[name] < 1]


def _refuses_zeros(row: Row, observations: Observations) -> None:
    (name,) = _too_small(row)
    _refuses(f"config.{name}", r"^expected a whole number of at least 1, got a number \(-?\d+\)$")(row, observations)


def _texts_for_numbers(row: Row) -> list[str]:
    numbers = (*_NOT_ZERO, "pass_threshold", "temperature", "max_tokens", "cases_pass_threshold",
               "metrics_pass_threshold")  # fmt: skip
    return [name for name in numbers if isinstance(row.data["input"].get(name), str | bool)]


def _blank_outcome(row: Row) -> int | None:
    outcomes = row.data["input"].get("expected_outcomes")
    blank = [at for at, each in enumerate(outcomes if isinstance(outcomes, list) else ()) if not str(each).strip()]
    return blank[0] if blank else None


_NOT_ZERO = ("concurrency", "timeout_per_test_case_ms", "max_turns")
CONNEXITY = (
    Difference(
        "ids are any text",
        "ids of agents and cases there are UUIDs of a store; here they come from files and are any text",
        lambda row: (
            _of_case(row)
            and {"agent_id"} <= set(row.data["input"]) <= {"agent_id", "name"}
            and not row.data["expected"].get("valid", row.data["expected"].get("http") != 422)
        ),
        _accepts_the_case,
    ),
    Difference(
        "at least one turn",
        "max_turns below 1 is accepted there; such a conversation has no answer to judge, so it is an error here",
        lambda row: (
            _of_case(row)
            and _is_valid(row)
            and type(row.data["input"].get("max_turns")) is int
            and row.data["input"]["max_turns"] < 1
        ),
        _refuses("max_turns", r"at least 1, got a number"),
    ),
    Difference(
        "a number is no text",
        "a number that is written as a text, a fraction or a truth value is converted there, and an error here",
        lambda row: (
            _of_case(row) and _is_valid(row) and isinstance(row.data["input"].get("max_turns"), str | bool | float)
        ),
        _refuses("max_turns", r"expected a whole number of at least 1, got (?!nothing)"),
    ),
    Difference(
        "a number of a run configuration is no text",
        "a number of a run configuration that is written as a text is converted there, and an error here",
        lambda row: row.kind == "run_config.schema" and _is_valid(row) and len(_texts_for_numbers(row)) == 1,
        refuses(
            lambda row: [
                (f"config.{_part(row)}{_texts_for_numbers(row)[0]}", r"^expected .*number.*, got (?!a number)")
            ]
        ),
    ),
    Difference(
        "a statement says something",
        "a blank statement is accepted there; nothing could be judged by it, so it is an error here",
        lambda row: _of_case(row) and _is_valid(row) and _blank_outcome(row) is not None,
        refuses(lambda row: [(f"expected_outcomes[{_blank_outcome(row)}]", r"^expected a statement")]),
    ),
    Difference(
        "an update keeps the limits of the schema",
        "the length of a name is not checked there when a case is changed; the page has the limit for every case",
        lambda row: (
            _of_case(row)
            and row.data["op"] == "TestCaseUpdate"
            and _is_valid(row)
            and row.data["input"].get("name") == "<256 chars>"
        ),
        _refuses("name", r"^expected at most 255 characters, got 256"),
    ),
    Difference(
        "a mode of tools exists",
        "a mode of tools that does not exist is ignored by the first generation, and an error here",
        lambda row: _of_config(row) and row.data["input"].get("tool_mode", "mock") not in ("mock", "live", "synthetic"),
        _refuses("config.tool_mode", r"^expected one of mock, live, synthetic; got "),
    ),
    Difference(
        "time and place for a conversation",
        "no time, or nothing at the same time, is accepted there; no conversation could be held: an error here",
        lambda row: _of_config(row) and len(_too_small(row)) == 1,
        _refuses_zeros,
    ),
    Difference(
        "no source in a file",
        "source within a file is carried out there; here a tool names a function of a module",
        lambda row: row.kind == "run_config.schema" and "code" in row.data["input"] and _is_valid(row),
        _refuses("tools[0].implementation.code", r"source within a file"),
    ),
)
