"""Recorded runs of agent CLIs kept beside the tests, and reports of what a CLI prints."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_import import Session, read_session
from eval_pipeline.agents.session_store import SessionLog
from eval_pipeline.executions.model import Execution, RawExecution, Runner
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case, Message

FOLDER = Path(__file__).parents[1] / "data" / "recordings"
WORKSPACE = "/agent/workspace"
_PLACEHOLDERS = {"$WORKSPACE": WORKSPACE, "$HOME": "/agent/home", "$CLIS": "/agent/clis", "$TMP": "/agent/tmp"}
_NOW = datetime(2026, 11, 21, tzinfo=UTC)


def printed(cli: str, scenario: str, name: str = "stdout.jsonl") -> str:
    """What a recorded run printed or kept, machine paths put in."""
    text = (FOLDER / cli / scenario / name).read_text("utf-8")
    for placeholder, folder in _PLACEHOLDERS.items():
        text = text.replace(placeholder, folder)
    return text


def lines(*records: Mapping[str, Any]) -> str:
    """Records as JSONL."""
    return "".join(json.dumps(record) + "\n" for record in records)


def report_of(format_: str, **texts: str) -> SessionReport:
    """The report of an execution that left these texts, by role: `stdout`, `session`, `stderr`."""
    execution = Execution(
        execution_id="execution",
        key="key",
        suite="suite",
        case_id="case",
        runner="agent",
        repetition=1,
        started_at=_NOW,
        finished_at=_NOW,
        duration_ms=0.0,
        attempts=(),
        raw=RawExecution(format=format_, payload=texts),
    )
    case = Case(id="case", input=(Message(role="user", content="do it"),))
    report = normalize(execution, case, Runner(name="agent", adapter="command"))
    assert report.failure_class != "normalization", report.error
    return report


def check_storable(report: SessionReport) -> None:
    """A report can be written as JSON, and none of its numbers is negative or no number."""
    to_json(report)
    values = asdict(report)
    for event in values["events"]:
        event.pop("arguments", None)
    for number in _numbers(values):
        assert math.isfinite(number)
        assert number >= 0


def _numbers(value: Any) -> list[float]:
    if isinstance(value, Mapping):
        return [number for item in value.values() for number in _numbers(item)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, (int, float)) and not isinstance(value, bool) else []


ROLLOUT = "rollout-2026-11-22T00-02-05-01a2008f-5e61-7203-b743-08dfb9039ea9.jsonl"
KEPT_LOGS = {
    "claude": ("claude", "files", "projects/-work/c4b57500.jsonl"),
    "codex": ("codex", "patch", f"sessions/2026/11/22/{ROLLOUT}"),
    "copilot": ("copilot", "files", "session-state/176fcf9f-237a-4867-85b7-57327e27d630/events.jsonl"),
}


def keep_log(folder: Path, agent: str, name: str | None = None, age_s: int = 0) -> Path:
    """A recorded log where its agent would keep it, last changed so many seconds after 1970."""
    cli, scenario, where = KEPT_LOGS[agent]
    path = folder / (name or where)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(printed(cli, scenario, "session.jsonl"), "utf-8")
    os.utime(path, (age_s, age_s))
    return path


def log_of(agent: str, path: Path) -> SessionLog:
    """The log in a file, as a log of this agent."""
    log = AGENTS.get(agent).sessions.log_at(path)
    assert log is not None
    return log


def recorded_session(folder: Path, agent: str) -> Session:
    """The session of the recorded log of an agent."""
    return read_session(AGENTS.get(agent), log_of(agent, keep_log(folder, agent)))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """A recording of which some records are changed, dropped, repeated, swapped or cut."""
    records = [json.loads(line) for line in text.splitlines()]
    for _ in range(draw(st.integers(1, 8))):
        index = draw(st.integers(0, len(records) - 1))
        change = draw(st.sampled_from(["replace", "drop", "repeat", "swap"]))
        if change == "replace":
            records[index] = _with_replaced_value(draw, records[index])
        elif change == "drop" and len(records) > 1:
            del records[index]
        elif change == "repeat":
            records.insert(index, records[index])
        else:
            records[index], records[-1] = records[-1], records[index]
    result = lines(*records)
    return result[: draw(st.integers(len(result) // 2, len(result)))]


def _with_replaced_value(draw: st.DrawFn, value: Any) -> Any:
    """The same value with one thing in it, at any depth, become any other JSON."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 6)) == 0:
        return draw(ANY_JSON)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw(st.sampled_from(keys))
    changed = value.copy()
    changed[key] = _with_replaced_value(draw, value[key])
    return changed
