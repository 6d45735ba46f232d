"""Rows of our own for differences that no recorded row at hand shows: what the specifications say.

They are carried out like recorded rows, in the tests of the table of differences only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline_tests.conformance.recorded_facts import Row


def _observed(number: int, *entries: Mapping[str, Any], kept: tuple[Mapping[str, Any], ...] = ()) -> Row:
    test = {"id": f"synthetic-{number}", "criteria": "c", "input": "a b", "assertions": list(entries)}
    observed = {"score": 1, "execution_status": "ok", "evaluators": list(kept)}
    data = {"test": test, "output": "a b", "observed": observed}
    return Row("agentv", "deterministic_observed", "observed-test", 9000 + number, data)


def _function(number: int, kind: str, *args: Any, result: Any = None) -> Row:
    return Row("agentv", "functions", kind, 9000 + number, {"fn": kind, "args": list(args), "result": result})


def _trajectory(number: int, score: float, expected: list[Any], calls: list[Any]) -> Row:
    config = {"name": "test", "type": "tool-trajectory", "mode": "in_order", "expected": expected}
    messages = [{"role": "assistant", "content": "", "tool_calls": calls}]
    data = {"config": config, "output": "", "output_messages": messages, "score": score, "asserted": ["score"]}
    return Row("agentv", "evaluators", "tool-trajectory", 9000 + number, data)


def _accepted(number: int, area: str, op: str, **given: Any) -> Row:
    generation = "g1" if isinstance(given.get("expected_outcomes"), list) else "g0"
    data = {"area": area, "op": op, "generations": [generation], "input": given, "expected": {"valid": True}}
    return Row("connexity", "observed", area, 9000 + number, data)


def _limit(number: int, limit: Any) -> Row:
    config = {"runners": {"r": {"agent": {"type": "codex", "model": "m"}}}, "defaults": {"timeoutMs": limit}}
    error = "Invalid config at defaults.timeoutMs: expected integer > 1"
    return Row("skillgym", "oracle_config", "None", 9000 + number, {"config": config, "ok": False, "error": error})


def _tolerance(number: int, baseline: float, actual: float, **tolerance: float) -> Row:
    data = {"baseline": baseline, "actual": actual, "tolerance": tolerance, "ok": False}
    return Row("skillgym", "oracle_snapshot_tolerance", "None", 9000 + number, data)


_CONTAINS = {"type": "contains", "value": "a"}
SYNTHETIC_ROWS = (
    _limit(40, 1),
    _limit(41, 0),
    _tolerance(42, 100, 115, percent=15),
    _observed(1, {**_CONTAINS, "negate": "true"}),
    _observed(2, {**_CONTAINS, "weight": -1}),
    _observed(3, {**_CONTAINS, "required": True, "min_score": 2}),
    _observed(4, {"type": "regex", "value": "a", "flags": "q"}),
    _observed(5, {"type": "latency", "name": "l", "threshold": -1}),
    _observed(6, {"type": "token-usage", "name": "l"}),
    _observed(7, {"type": "equals", "value": ""}, _CONTAINS,
              kept=({"name": "contains-a", "type": "contains", "score": 1, "weight": 1, "verdict": "pass"},)),
    _observed(8, {"type": "skill-trigger"}),
    _trajectory(9, 0.5, [{"tool": "a"}, {"tool": "b", "args": {"q": 2}}],
                [{"tool": "a"}, {"tool": "b", "input": {"q": 1}}, {"tool": "b", "input": {"q": 2}}]),
    _function(20, "extractTrialsConfig", {"execution": {"trials": {"count": 1, "strategy": "mean"}}}),
    _function(21, "extractTrialsConfig", {"execution": []}),
    _function(22, "expandInputShorthand", {"question": "an object"}),
    _function(23, "expandExpectedOutputShorthand", 4),
    _function(24, "expandInputFilesShorthand", ["chart.png"], "What?", result=[
        {"role": "user", "content": [{"type": "file", "value": "chart.png"}, {"type": "text", "value": "What?"}]},
    ]),
    _accepted(30, "test_case.schema", "TestCaseCreate", max_turns=0),
    _accepted(31, "test_case.schema", "TestCaseCreate", max_turns="5"),
    _accepted(32, "run_config.schema", "RunConfig", concurrency=0),
    _accepted(34, "run_config.schema", "JudgeConfig", pass_threshold="80"),
    _accepted(35, "test_case.schema", "TestCaseCreate", expected_outcomes=[" "]),
    _accepted(36, "test_case.schema", "TestCaseUpdate", name="<256 chars>"),
    _accepted(33, "run_config.schema", "PythonImplementation", code="c", timeout_s=30),
)  # fmt: skip
"""Their numbers begin at 9000."""
