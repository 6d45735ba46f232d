"""skillgym's rows about sessions and their ends: reports, steps, limits, refused models and processes.

Reports come of raw files as after a run. Steps are counted by the watch that looks at a session while it runs, over a
growing file or over a real process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_watch import GrowingFile, SessionWatch
from eval_pipeline.executions.live_sessions import LiveSession
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.executions.process import ProgramStopped, run_program
from eval_pipeline.reports.model import MessageEvent, SessionReport
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of

REPORTS, STEPS, LIMITS = "oracle_normalize", "oracle_step_counting", "max_steps"
REJECTED, PROCESSES = "model_rejection", "process"
_FOLDER = "/proj"
_SESSION_ROLES = {"codex": "session", "opencode": "session"}


def is_watched(row: Row) -> bool:
    return row.family == "skillgym" and row.file in _OBSERVERS


def observe(row: Row) -> Observations:
    """Return the report, the steps or the end of the row's session."""
    return {AS_WRITTEN: Observation(values=_OBSERVERS[row.file](row.data if row.file != STEPS else _with_earlier(row)))}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the row holds."""
    _CHECKS[row.file](row.data if row.file != STEPS else _with_earlier(row), seen.values)


def report_of(agent: str, texts: Mapping[str, str]) -> SessionReport:
    """Return our report of what a session printed and wrote."""
    raw = RawExecution(format=AGENTS.get(agent).output_format, payload=dict(texts))
    return normalize_raw(RawSession(execution_id="row", raw=raw, case=Case(id="row", input=()), cwd=Path(_FOLDER)))


# Reports


def _report(data: Mapping[str, Any]) -> dict[str, Any]:
    report = report_of(data["adapter"], _texts(data))
    usage = report.usage
    return {
        "output": report.final_output,
        "reads": [str(Path(_folder(data)) / path) for path in report.file_reads],
        "commands": list(report.commands),
        "skills": [(skill.skill, skill.confidence) for skill in report.skills],
        "tools": [call.tool for call in report.tool_calls],
        "messages": [event.text for event in report.events if isinstance(event, MessageEvent)],
        "input": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached": usage.cached_input_tokens,
        "failure": report.failure_class,
    }


def _folder(data: Mapping[str, Any]) -> str:
    """The folder that a session names, or was started in: our paths are relative to it."""
    records = data["raw"] if isinstance(data["raw"], list) else []
    named = (record["cwd"] for record in records if isinstance(record, dict) and "cwd" in record)
    return str(next(named, _FOLDER))


def _texts(data: Mapping[str, Any]) -> dict[str, str]:
    raw, stdout = data["raw"], data.get("stdout") or ""
    if data["adapter"] == "opencode":
        return {"stdout": stdout, "session": json.dumps(raw)}
    if data["adapter"] == "copilot":
        telemetry = {"telemetry": _lines(raw["telemetryRecords"])} if raw.get("telemetryRecords") else {}
        return {"stdout": _lines(raw["records"]), **telemetry}
    role = _SESSION_ROLES.get(data["adapter"], "stdout")
    return {"stdout": stdout, role: _lines(raw)} if raw else {"stdout": stdout}


def _lines(records: Sequence[Any]) -> str:
    unparsed = [item["raw"] if isinstance(item, dict) and item.get("type") == "unparsed" else None for item in records]
    return "".join(f"{text or json.dumps(item)}\n" for item, text in zip(records, unparsed, strict=True))


def _check_report(data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if "error" in data:
        assert values["failure"] is not None
        return
    theirs, events = data["report"], data["report"]["events"]
    usage, reasoning = theirs["usage"], theirs["usage"].get("reasoningTokens", 0)
    assert (values["output"] or "") == theirs["finalOutput"]
    assert values["reads"] == list(dict.fromkeys(theirs["files"]["observedReads"]))
    assert values["skills"] == [(item["skill"], item["confidence"]) for item in theirs["detectedSkills"]]
    assert values["commands"] == [event["command"] for event in events if event["type"] == "command"]
    assert values["tools"] == [event["tool"] for event in events if event["type"] == "toolCall"]
    assert values["messages"] == [event["text"] for event in events if event["type"] == "message"]
    assert (values["input"], values["cached"]) == (usage.get("inputTokens"), usage.get("cacheTokens"))
    given = usage.get("outputTokens")
    assert values["output_tokens"] in (given, None if given is None else given + reasoning)


# Steps and limits


def _watch(agent: str, file: Path, most: int | None) -> SessionWatch:
    session = LiveSession(suite="s", runner="r", case_id="c")
    return SessionWatch(session=session, read=AGENTS.get(agent).live(), stdout=GrowingFile(file), max_steps=most)


def _with_earlier(row: Row) -> dict[str, Any]:
    """The row and those before it of its agent, one sequence. Lines that the file leaves out are in none."""
    agent = row.data["agent"]
    rows = [each for each in rows_of("skillgym") if each.file == STEPS and each.data["agent"] == agent]
    earlier = [each.data for each in rows if each.number < row.number]
    return {**row.data, "earlier": earlier, "lines": len(rows)}


def _steps(data: Mapping[str, Any]) -> dict[str, Any]:
    file = new_folder() / "stdout"
    watch, counted = _watch(data["agent"], file, None), []
    for each in [*data["earlier"], data]:
        with file.open("a", encoding="utf-8") as output:
            output.write(f"{each['line']}\n")
        watch(False)
        counted.append(watch.steps)
    return {"counted": counted}


_LEFT_OUT: Mapping[str, Sequence[int]] = {
    "codex": (0, 1, 1), "opencode": (0,) * 6, "claude-code": (0, 1, 1), "cursor-agent": (0, 0, 0, 2),
    "copilot": (1,) * 5,
}  # fmt: skip
"""How many steps are of lines that the file leaves out, up to each of its rows."""


def _check_steps(data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Assert our counts. In a file of other lines, what is left out is not known: there the count of no line is more
    than what it is there."""
    theirs = [*(each["steps_after"] for each in data["earlier"]), data["steps_after"]]
    differences = [more - ours for ours, more in zip(values["counted"], theirs, strict=True)]
    known = _LEFT_OUT[data["agent"]]
    if data["lines"] == len(known):
        assert differences == list(known[: len(differences)])
    else:
        assert differences == sorted(differences) and differences[0] >= 0


def _limits(data: Mapping[str, Any]) -> dict[str, Any]:
    options, file = data["options"], new_folder() / "stdout"
    watch, stopped = _watch(options["agentType"], file, options["maxSteps"]), []
    for each in data["observations"]:
        with file.open("a", encoding="utf-8") as output:
            output.write(f"{each['line']}\n")
        stopped.append(watch(False))
    return {"stopped": [None if each is None else each.failure.id for each in stopped], "steps": watch.steps}


def _check_limits(data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    results = [each["result"] for each in data["observations"]]
    assert values["stopped"] == ["max-steps" if result else None for result in results]
    assert values["steps"] == results[-1]["observedSteps"]


# Refused models and processes


def _rejected(data: Mapping[str, Any]) -> dict[str, Any]:
    stderr = data["stderr"] or data.get("error_message", "")  # what a CLI writes there is in the message of theirs
    texts = {"stdout": data["stdout"], "stderr": stderr, "exit_code": 1}
    return {"failure": report_of(data["agent"]["type"], texts).failure_class}


def _check_rejected(data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    assert (values["failure"] == "model-rejected") is data["rejected"]
    assert values["failure"] is not None


_PRINTS_A_SIGN = "import os,time; os.write(1, b'\\xf0\\x9f'); time.sleep(.01); os.write(1, b'\\x98\\x80')"
_STEP = '{"type":"step_finish"}'
_PRINTS_STEPS = f"import time; [(print({_STEP!r}, flush=True), time.sleep(.01)) for _ in '12']; time.sleep(60)"


def _process(data: Mapping[str, Any]) -> dict[str, Any]:
    folder = new_folder()
    is_limit = "max-steps" in data["id"]
    watch = _watch("opencode", folder / "stdout", 1) if is_limit else None
    program = [sys.executable, "-c", _PRINTS_STEPS if is_limit else _PRINTS_A_SIGN]
    try:
        ended = asyncio.run(run_program(program, cwd=folder, folder=folder, timeout_s=20, env={}, watch=watch))
    except ProgramStopped as stopped:
        return {"stopped": stopped.failure.id, "stdout": (folder / "stdout").read_text()}
    return {"code": ended.exit_code, "stdout": ended.stdout.read_text(), "stderr": ended.stderr.read_text()}


def _check_process(data: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    expected = data["expect"]
    if "terminated_error_name" in expected:
        assert values["stopped"] == "max-steps"
        assert expected["stdout_contains"] in values["stdout"].replace(" ", "")
        return
    assert values == {"code": expected["exitCode"], "stdout": expected["stdout"], "stderr": expected["stderr"]}


Values = Mapping[str, Any]
_OBSERVERS: Mapping[str, Callable[[Values], dict[str, Any]]] = {
    REPORTS: _report, STEPS: _steps, LIMITS: _limits, REJECTED: _rejected, PROCESSES: _process,
}  # fmt: skip
_CHECKS: Mapping[str, Callable[[Values, Values], None]] = {
    REPORTS: _check_report, STEPS: _check_steps, LIMITS: _check_limits, REJECTED: _check_rejected,
    PROCESSES: _check_process,
}  # fmt: skip
