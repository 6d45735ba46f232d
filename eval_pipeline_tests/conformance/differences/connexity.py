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


def _refuses(field: str, pattern: str) -> Check:
    return refuses(lambda row: [(field, pattern)])


def _accepts_the_case(row: Row, observations: Observations) -> None:
    observation = observations[AS_WRITTEN]
    assert observation.problems == ()
    assert observation.values == {"name": "n", "accepted": row.data["generations"], "alike": True}


def _refuses_zeros(row: Row, observations: Observations) -> None:
    (name,) = (name for name in _NOT_ZERO if row.data["input"].get(name) == 0)
    _refuses(f"config.{name}", r"^expected a whole number of at least 1, got a number \(0\)$")(row, observations)


_NOT_ZERO = ("concurrency", "timeout_per_test_case_ms")
CONNEXITY = (
    Difference(
        "ids are any text",
        "ids of agents and cases there are UUIDs of a store; here they come from files and are any text",
        lambda row: _of_case(row) and list(row.data["input"]) == ["agent_id"] and not _is_valid(row),
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
        "a number that is written as a text is converted there, and an error here",
        lambda row: _of_case(row) and _is_valid(row) and isinstance(row.data["input"].get("max_turns"), str),
        _refuses("max_turns", r"got a text"),
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
        lambda row: _of_config(row) and sum(row.data["input"].get(name) == 0 for name in _NOT_ZERO) == 1,
        _refuses_zeros,
    ),
    Difference(
        "no source in a file",
        "source within a file is carried out there; here a tool names a function of a module",
        lambda row: row.kind == "run_config.schema" and "code" in row.data["input"] and _is_valid(row),
        _refuses("tools[0].implementation.code", r"source within a file"),
    ),
)
