"""`atif`: one trajectory per plan, in the Agent Trajectory Interchange Format, version 1.7 (Harbor's RFC 0001).

What the format has no place for (exit codes, files, skills, retries, the verdict) is in its `extra` fields, from which
the normalizer `atif` reads it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from eval_pipeline.executions.workspaces.folders import safe_name
from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.exports.rows import fields_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known
from eval_pipeline.reports.model import (
    CommandEvent,
    Event,
    FileReadEvent,
    FileWriteEvent,
    MessageEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    is_spoken,
)

VERSION = "ATIF-v1.7"
_DOINGS = (CommandEvent, FileReadEvent, FileWriteEvent, SkillEvent)
_OF_DOING = frozenset({"call_id", "at", "line"})


@EXPORTS.register("atif")
class Atif:
    """One JSON file per plan with a session: `<suite>/<runner>/<case>.json`; later repetitions have their number after
    `~`. A name that is not fit for files carries a hash."""

    folder: ClassVar[bool] = True

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        for record in records:
            if record.report is not None:
                yield FileChunk(_path(record), to_json(trajectory(record, record.report)) + b"\n")


def trajectory(record: ResultRow, report: SessionReport) -> dict[str, Any]:
    """Return the trajectory of a session."""
    agent = {"name": record.runner, "version": report.agent_version or "unknown", "model_name": report.model}
    steps = _Steps(report, report.prompt or _asked(record))
    return {
        "schema_version": VERSION,
        "session_id": report.session_id or record.execution_id,
        "trajectory_id": record.execution_id,
        "agent": known(agent),
        "steps": steps.all(),
        **known({"final_metrics": _metrics(report, len(steps.steps)) or None}),
        "extra": known({"eval_pipeline": known(_about(record, report)), "events": steps.others or None}),
    }


def _asked(record: ResultRow) -> str | None:
    """Return what the case asks, of a session that does not show it; None where that is more than one text."""
    users = [message.get("content") for message in record.input if message.get("role") == "user"]
    return users[0] if len(users) == 1 and isinstance(users[0], str) else None


def _path(record: ResultRow) -> str:
    """Return the file of a plan. No name of a case has a `~`: no two plans have one file."""
    suite, runner, case = map(safe_name, (record.suite, record.runner, record.case_id))
    repetition = "" if record.repetition == 1 else f"~{record.repetition}"
    return f"{suite}/{runner}/{case}{repetition}.json"


def _metrics(report: SessionReport, steps: int) -> dict[str, Any]:
    usage = report.usage
    parts = {"reasoning_tokens": usage.reasoning_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return known({
        "total_prompt_tokens": usage.input_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cached_tokens": usage.cached_input_tokens,
        "total_cost_usd": usage.cost_usd,
        "total_steps": steps,
        "extra": known({**parts, "model_calls": report.model_calls}) or None,
    })  # fmt: skip


def _about(record: ResultRow, report: SessionReport) -> dict[str, Any]:
    return {
        "suite": record.suite,
        "case_id": record.case_id,
        "runner": record.runner,
        "repetition": record.repetition,
        "status": record.verdict.status.value,
        "score": record.verdict.score,
        "failure_class": report.failure_class,
        "error": report.error,
        "exit_code": report.exit_code,
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "duration_ms": report.duration_ms,
        "file_changes": report.file_changes,
    }


@dataclass(slots=True)
class _Step:
    """A step of the agent while it is put together: what a call of the model said, and what came of its tools."""

    at: str | None = None
    texts: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)
    phases: list[str | None] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return known({
            "timestamp": self.at,
            "source": "agent",
            "message": "\n\n".join(self.texts),
            "reasoning_content": "\n\n".join(self.thinking) or None,
            "tool_calls": self.calls or None,
            "observation": {"results": self.results} if self.results else None,
            "extra": self._parts() or None,
        })  # fmt: skip

    def _parts(self) -> dict[str, Any]:
        """Return the phases of the texts, and how long each is where there are several."""
        if not any(self.phases):
            return {}
        lengths = [len(text) for text in self.texts]
        return {"phases": self.phases, **({"lengths": lengths} if len(lengths) > 1 else {})}


class _Steps:
    """The events of a session as steps; `others` are those that no step has a place for."""

    def __init__(self, report: SessionReport, prompt: str | None) -> None:
        self.steps: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self._step: _Step | None = None
        self._ids: dict[str, dict[str, Any]] = {}
        self._answered = {id(use.result): id(use.call) for use in report.tool_uses if use.result is not None}
        self._made: dict[int, dict[str, Any]] = {}
        self._count = 0
        if prompt and not any(is_spoken(event, "user") for event in report.events):
            self._add({"source": "user", "message": prompt})
        for event in report.events:
            self._take(event)
        self._end_step()
        said = any(step["source"] == "agent" and step["message"] for step in self.steps)
        if report.final_output is not None and not said:
            self._add({"source": "agent", "message": report.final_output})

    def all(self) -> list[dict[str, Any]]:
        """Return the steps, numbered; a session without any has one that says so."""
        steps = self.steps or [{"source": "system", "message": "The session shows nothing."}]
        return [{"step_id": number, **step} for number, step in enumerate(steps, start=1)]

    def _take(self, event: Event) -> None:
        if isinstance(event, MessageEvent):
            self._message(event)
        elif isinstance(event, ToolCallEvent):
            self._call(event)
        elif isinstance(event, ToolResultEvent):
            self._result(event)
        elif isinstance(event, _DOINGS) and event.call_id in self._ids:
            call = self._ids[str(event.call_id)]
            doings = call.setdefault("extra", {}).setdefault("events", [])
            doings.append({name: value for name, value in fields_json(event).items() if name not in _OF_DOING})
        else:
            self.others.append({"after_step": len(self.steps) + (self._step is not None), **fields_json(event)})

    def _message(self, event: MessageEvent) -> None:
        if event.role != "assistant":
            self._end_step()
            source = event.role if event.role in ("user", "system") else "system"
            extra = {"injected": True} if event.injected else None
            self._add(known({"timestamp": event.at, "source": source, "message": event.text, "extra": extra}))
            return
        step = self._open(event.at)
        if event.phase == "thinking":
            step.thinking.append(event.text)
            return
        step.texts.append(event.text)
        step.phases.append(event.phase)

    def _call(self, event: ToolCallEvent) -> None:
        self._count += 1
        id_ = event.call_id if event.call_id and event.call_id not in self._ids else f"call-{self._count}"
        arguments = event.arguments if isinstance(event.arguments, Mapping) else {"input": event.arguments}
        call = {"tool_call_id": id_, "function_name": event.tool, "arguments": dict(arguments)}
        if event.tool_kind is not None:
            call["extra"] = {"tool_kind": event.tool_kind}
        self._open(event.at).calls.append(call)
        self._ids[event.call_id or id_] = self._made[id(event)] = call

    def _result(self, event: ToolResultEvent) -> None:
        """Add a result to the step that has its call; one without a call of this step names none."""
        step = self._step or self._open(event.at)
        own = [call["tool_call_id"] for call in step.calls]
        call = self._made.get(self._answered.get(id(event), 0))
        id_ = call["tool_call_id"] if call else None
        elsewhere = id_ if id_ not in own else None  # the format allows a call of the same step alone
        extra = known({
            "is_error": event.is_error, "duration_ms": event.duration_ms, "tool": event.tool, "call_id": elsewhere
        })  # fmt: skip
        result = {"source_call_id": id_ if id_ in own else None, "content": event.output, "extra": extra or None}
        step.results.append(known(result))

    def _open(self, at: str | None) -> _Step:
        """Return the step that is put together; results end it."""
        if self._step is None or self._step.results:
            self._end_step()
            self._step = _Step(at)
        return self._step

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is not None:
            self._add(step.as_json())

    def _add(self, step: dict[str, Any]) -> None:
        self.steps.append(step)
