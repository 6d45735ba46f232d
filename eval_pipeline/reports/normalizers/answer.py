"""`replay`, `python`, `mock` and `command`: an answer with the facts that its source reports.

The fields are those of a recording row and of a function's returned mapping: `output`, `messages`, `usage`,
`cost_usd`, `error`, `report`. A command's answer is its output file, else its standard output: JSON with those keys is
parsed, anything else is the text of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson

from eval_pipeline.executions.answers import is_answer
from eval_pipeline.failures import TARGET_ERROR
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.reading import amount, count, json_or_text, mapping
from eval_pipeline.reports.model import (
    DetectedSkill,
    Event,
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    event_from_json,
    turn_start_from_json,
)
from eval_pipeline.reports.moments import parse_time
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.suites.model import content_text

Number = TypeVar("Number", int, float)
_STORED_COUNTS = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_TOOL_ERRORS = {"ok": False, "error": True, "timeout": True, "cancelled": True}


@NORMALIZERS.register("replay", "python", "mock")
class AnswerNormalizer:
    """A mapping with `output` and the like."""

    version = "5"

    def normalize(self, material: RawSession) -> SessionReport:
        payload = material.raw.payload
        if isinstance(payload.get("report"), Mapping):
            return stored_report(payload["report"], material.execution_id)
        return answer_report(payload, material.execution_id)


@NORMALIZERS.register("command")
class CommandNormalizer:
    """A program's output file or standard output."""

    version = "5"

    def normalize(self, material: RawSession) -> SessionReport:
        text = material.text("output")
        if text is None:
            text = material.text("stdout")
        if text is None:
            raise ValueError("neither output nor stdout was kept")
        answer = _structured(text)
        if answer is not None:
            return answer_report(answer, material.execution_id, _folder(material))
        return answer_report({"output": text.removesuffix("\n")}, material.execution_id)


def _structured(text: str) -> Mapping[str, Any] | None:
    """Return the output parsed as a JSON object with keys of an answer; None when the output is the answer itself."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if is_answer(value) else None


def _folder(material: RawSession) -> Path | None:
    """Return the folder in which the program ran without a workspace."""
    cwd = material.raw.payload.get("cwd")
    return Path(cwd) if isinstance(cwd, str) and material.cwd is None else None


def answer_report(answer: Mapping[str, Any], execution_id: str, folder: Path | None = None) -> SessionReport:
    """Return the report of an answer mapping: `output` is a text, a value (kept as JSON) or a list of messages.

    An `error` in the mapping is a failure that the target reports itself. Relative paths of its files begin in
    `folder`, without one in the workspace.
    """
    messages, error = _messages(answer), _error(answer.get("error"))
    events = tuple(_events(messages, folder))
    times = list(_reported_times(messages))
    final = _final_output(answer, messages)
    if not events and final:
        events = (MessageEvent(role="assistant", phase="final", text=final),)
    return SessionReport(
        execution_id=execution_id,
        final_output=final,
        model=answer.get("model") if isinstance(answer.get("model"), str) else None,
        usage=answer_usage(answer),
        events=events,
        failure_class=TARGET_ERROR.id if error is not None else None,
        error=error,
        duration_ms=_first_known(answer, amount, "duration_ms", "latency_ms"),
        started_at=min(times, key=_instant, default=None),
        ended_at=max(times, key=_instant, default=None),
        model_calls=sum(message["role"] == "assistant" for message in messages) if messages else None,
    )


def _error(value: Any) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("message") or to_json(value).decode()
    return value if isinstance(value, str) and value else None


def _final_output(answer: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | None:
    output = answer.get("output")
    if messages and (output is None or output is messages):
        return _last_assistant_text(messages)
    value = answer.get("text") if output is None else output
    return value if value is None or isinstance(value, str) else to_json(value).decode()


def _messages(answer: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    for key in ("output", "output_messages", "messages"):
        value = answer.get(key)
        if isinstance(value, list) and value and all(isinstance(item, Mapping) and "role" in item for item in value):
            return value
    return ()


def _last_assistant_text(messages: Sequence[Mapping[str, Any]]) -> str | None:
    for message in reversed(messages):
        if message["role"] == "assistant":
            return content_text(message.get("content"))
    return None


def _events(messages: Sequence[Mapping[str, Any]], folder: Path | None) -> Iterator[Event]:
    last = max((index for index, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    tools: dict[str, str] = {}
    for index, message in enumerate(messages):
        if message["role"] == "tool" and isinstance(message.get("tool_call_id"), str):
            yield _tool_result(message, tools)
            continue
        text = content_text(message.get("content"))
        files = tuple(_files(message.get("content"), folder))
        if text or files:
            phase = ("final" if index == last else "commentary") if message["role"] == "assistant" else None
            yield MessageEvent(role=str(message["role"]), text=text, phase=phase, files=files, at=_time(message))  # type: ignore[arg-type]
        for call in _items(message.get("tool_calls")):
            for event in _tool_events(call):
                if isinstance(event, ToolCallEvent) and event.call_id is not None:
                    tools[event.call_id] = event.tool
                yield event


def _tool_result(message: Mapping[str, Any], tools: Mapping[str, str]) -> ToolResultEvent:
    """Return the result of a call that is a message of its own, as OpenAI's API has it."""
    call_id = message["tool_call_id"]
    output = content_text(message.get("content"))
    return ToolResultEvent(tool=tools.get(call_id), call_id=call_id, output=output, at=_time(message))


def _files(content: Any, folder: Path | None) -> Iterator[Mapping[str, Any]]:
    """Yield the files that a content names."""
    for part in _items(content):
        path, media_type = part.get("path", part.get("value")), part.get("media_type")
        if part.get("type") == "file" and isinstance(path, str) and path:
            known = media_type if isinstance(media_type, str) else Path(path).suffix.removeprefix(".")
            yield {"path": path, "media_type": known, **({"folder": str(folder)} if folder is not None else {})}


def _items(value: Any) -> Sequence[Any]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else ()


def _tool_events(call: Mapping[str, Any]) -> Iterator[Event]:
    function, call_id = mapping(call.get("function")), call.get("id")  # a function is the form of OpenAI's API
    tool = str(call.get("tool") or call.get("name") or function.get("name") or "")
    call_id = str(call_id) if call_id is not None else None
    arguments = json_or_text(function.get("arguments")) if function else call.get("input", call.get("args"))
    yield ToolCallEvent(tool=tool, call_id=call_id, arguments=arguments, at=_time(call))
    output, duration = call.get("output"), _tool_duration_ms(call)
    failed = _TOOL_ERRORS.get(str(call.get("status")))
    if output is not None or duration is not None or failed is not None:
        text = output if isinstance(output, str) else "" if output is None else to_json(output).decode()
        value = None if isinstance(output, str) else output
        yield ToolResultEvent(
            tool=tool, call_id=call_id, output=text, value=value, is_error=failed, duration_ms=duration
        )


def _tool_duration_ms(call: Mapping[str, Any]) -> float | None:
    """The reported duration, else the time from start to end; None when unknown."""
    reported = amount(call.get("duration_ms"))
    if reported is not None:
        return reported
    try:
        span = datetime.fromisoformat(call["end_time"]) - datetime.fromisoformat(call["start_time"])
    except (KeyError, TypeError, ValueError):
        return None
    return amount(span.total_seconds() * 1000)


def _reported_times(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield when messages and tool calls began and ended, as far as they report it."""
    for message in messages:
        for item in (message, *_items(message.get("tool_calls"))):
            reported = (item.get("start_time"), item.get("end_time"))
            yield from (time for time in reported if isinstance(time, str) and parse_time(time) is not None)


def _instant(time: str) -> datetime:
    instant = parse_time(time)
    assert instant is not None  # `_reported_times` yields times that can be parsed
    return instant


def _time(value: Mapping[str, Any]) -> str | None:
    time = value.get("start_time")
    return time if isinstance(time, str) else None


def answer_usage(answer: Mapping[str, Any]) -> Usage:
    """Usage by the names of OpenAI (`prompt_tokens`), ours (`input_tokens`, gross) or AgentV (`input`, uncached)."""
    raw = mapping(answer.get("usage") or answer.get("token_usage"))
    cost = amount(answer.get("cost_usd"))
    cached = _first_known(raw, count, "cached_input_tokens", "cached", "cached_tokens")
    gross = _first_known(raw, count, "input_tokens", "prompt_tokens")
    uncached = count(raw.get("input"))
    return Usage(
        input_tokens=gross if gross is not None or uncached is None else uncached + (cached or 0),
        cached_input_tokens=cached,
        cache_write_tokens=count(raw.get("cache_write_tokens")),
        output_tokens=_first_known(raw, count, "output_tokens", "completion_tokens", "output"),
        reasoning_tokens=_first_known(raw, count, "reasoning_tokens", "reasoning"),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def _first_known(raw: Mapping[str, Any], read: Callable[[Any], Number | None], *names: str) -> Number | None:
    """Return the first of these entries that `read` accepts."""
    return next((number for name in names if (number := read(raw.get(name))) is not None), None)


def stored_report(stored: Mapping[str, Any], execution_id: str) -> SessionReport:
    """Return a session report from its JSON form, under a new execution id."""
    values = {key: value for key, value in stored.items() if key in SessionReport.__dataclass_fields__}
    unread = {"events": (), "skills": (), "usage": Usage(), "turn_starts": (), "given_up": (), "retries_cost_usd": 0.0}
    report = SessionReport(**{**values, "execution_id": execution_id, **unread})
    return replace(
        report,
        usage=_stored_usage(mapping(stored.get("usage"))),
        duration_ms=amount(stored.get("duration_ms")),
        ttft_ms=amount(stored.get("ttft_ms")),
        model_calls=count(stored.get("model_calls")),
        events=tuple(event_from_json(event) for event in stored.get("events") or ()),
        skills=tuple(
            DetectedSkill(skill=skill["skill"], confidence=skill["confidence"], evidence=tuple(skill["evidence"]))
            for skill in stored.get("skills") or ()
        ),
        turn_starts=tuple(map(turn_start_from_json, stored.get("turn_starts") or ())),
    )


def _stored_usage(stored: Mapping[str, Any]) -> Usage:
    cost = amount(stored.get("cost_usd"))
    return Usage(
        **{name: count(stored.get(name)) for name in _STORED_COUNTS},
        cost_usd=cost,
        cost_source=None if cost is None else "computed" if stored.get("cost_source") == "computed" else "reported",
    )
