"""Small values to test with: a case, a runner, a plan, a call, an execution, a suite. Every field can be named.

Building only; what serves or waits is in `local_server.py` and `virtual_time.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import Attempt, Execution, Plan, RawExecution, Runner
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, Suite

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def make_repository(folder: Path) -> None:
    """What makes a folder the root of a git repository to those who look for one."""
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def a_case(id_: str = "c1", text: str = "What is 2 + 2?", **fields: Any) -> Case:
    """A case whose input is one user message (`input=` takes a tuple of messages instead)."""
    return Case(id=id_, **{"input": (Message(role="user", content=text),), **fields})


def an_evaluator(type_: str = "contains", **config: Any) -> EvaluatorSpec:
    """An evaluator spec; its arguments by their YAML names."""
    return EvaluatorSpec(type=type_, name=type_, config=config)


def a_suite(*cases: Case, name: str = "suite", **fields: Any) -> Suite:
    """A suite of these cases (one plain case when none is given)."""
    given = {"path": Path("suite.yaml"), "format": "agentv-yaml", "revision": "0" * 64, **fields}
    return Suite(name=name, cases=cases or (a_case(),), **given)


def a_runner(name: str = "runner", adapter: str = "replay", *, settings: Any = None, **fields: Any) -> Runner:
    """A runner; `public_settings` are the settings themselves unless given."""
    given = dict(settings or {})
    return Runner(name=name, adapter=adapter, settings=given, **{"public_settings": given, **fields})


def a_plan(
    case: Case | None = None,
    runner: Runner | None = None,
    *,
    suite: str = "suite",
    repetition: int = 1,
    key: str | None = None,
) -> Plan:
    """A plan whose key is readable: it says suite, case, runner and repetition."""
    case, runner = case or a_case(), runner or a_runner()
    name = key or f"{suite}/{case.id}/{runner.name}/{repetition}"
    return Plan(suite=suite, case=case, runner=runner, repetition=repetition, key=name)


def plans(count: int, runner: Runner | None = None, **case_fields: Any) -> list[Plan]:
    """Plans of the cases `c1`, `c2`, … of one runner."""
    return [a_plan(a_case(f"c{number}", **case_fields), runner) for number in range(1, count + 1)]


def a_call(files: Path, plan: Plan | None = None, *, attempt: int = 1, timeout_s: float = 30.0) -> Call:
    """One attempt at a plan; its own folder lies below `files`."""
    return Call(plan=plan or a_plan(), attempt=attempt, timeout_s=timeout_s, files=lambda: files)


def an_attempt(**fields: Any) -> Attempt:
    """An attempt at noon that took a second."""
    return Attempt(**{"started_at": NOON, "duration_ms": 1_000.0, **fields})


def an_execution(plan: Plan | None = None, output: str | None = "4", **fields: Any) -> Execution:
    """A completed execution of a plan in the replay format; with `output=None` there is nothing raw in it."""
    plan = plan or a_plan()
    raw = RawExecution(format="replay", payload={"output": output}) if output is not None else None
    given: dict[str, Any] = {
        "execution_id": f"{plan.key}-1",
        "key": plan.key,
        "suite": plan.suite,
        "case_id": plan.case.id,
        "runner": plan.runner.name,
        "repetition": plan.repetition,
        "started_at": NOON,
        "finished_at": NOON + timedelta(seconds=1),
        "duration_ms": 1_000.0,
        "attempts": (an_attempt(),),
        "raw": raw,
    }
    return Execution(**{**given, **fields})
