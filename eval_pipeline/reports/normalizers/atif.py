"""Format `atif`: a trajectory in the Agent Trajectory Interchange Format (1.0 to 1.8), of this program or another.

Read from the file `session`, else from standard output. What a tool call did is in its `extra` where this program wrote
the trajectory; of others the commands are known by the kinds of their tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

from eval_pipeline.reports.jsonl_records import JsonMap, amount, count, listing, mapping, parse_json, text
from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    Event,
    MessageEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
    event_from_json,
    is_spoken,
)
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.reports.tool_kinds import usual_kind

Phase = Literal["commentary", "final"]
_BETWEEN = "\n\n"
"""What is between the texts of one step."""
_PHASES: Mapping[str, Phase] = {"commentary": "commentary", "final": "final"}
_COMMAND_KEYS = ("command", "cmd", "keystrokes")


@NORMALIZERS.register("atif")
class AtifNormalizer:
    """A trajectory as the report of its session."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        document = _document(material)
        steps = [mapping(step) for step in listing(document.get("steps"))]
        if not steps:
            raise ValueError("it is no trajectory: a JSON object with schema_version, agent and steps")
        agent, metrics = mapping(document.get("agent")), mapping(document.get("final_metrics"))
        extra = mapping(document.get("extra"))
        about, unknown = mapping(extra.get("eval_pipeline")), Counter[str]()
        own = "eval_pipeline" in extra
        events = tuple(_with_others(steps, listing(extra.get("events")), own, unknown))
        final = next((each.text for each in reversed(events) if _is_answer(each)), None)  # type: ignore[union-attr]
        version = text(agent.get("version"))
        return SessionReport(
            execution_id=material.execution_id,
            final_output=None if about.get("failure_class") else final,
            prompt=next((each.text for each in events if is_spoken(each, "user")), None),
            session_id=_session_id(document, own),
            model=text(agent.get("model_name")),
            agent_version=None if version == "unknown" else version,
            exit_code=count(about.get("exit_code")),
            usage=_usage(metrics, steps),
            events=events,
            skills=tuple(_skills(events)),
            failure_class=text(about.get("failure_class")),
            error=text(about.get("error")),
            started_at=text(about.get("started_at")) or text(steps[0].get("timestamp")),
            ended_at=text(about.get("ended_at")) or text(steps[-1].get("timestamp")),
            duration_ms=amount(about.get("duration_ms")),
            model_calls=count(mapping(metrics.get("extra")).get("model_calls")),
            file_changes=text(about.get("file_changes")),
            unknown_events=dict(unknown),
        )


def _session_id(document: JsonMap, own: bool) -> str | None:
    """Return the session's id; for a session without one this program writes that of the execution."""
    session_id = text(document.get("session_id"))
    return None if own and session_id == document.get("trajectory_id") else session_id


def _document(material: RawSession) -> JsonMap:
    source = material.text("session") or material.text("stdout") or ""
    try:
        return mapping(parse_json(source))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None


def _with_others(steps: Sequence[JsonMap], others: Sequence[Any], own: bool, unknown: Counter[str]) -> Iterator[Event]:
    """Yield the events of the steps, and after each those that no step has a place for. `own` is a trajectory that this
    program wrote."""
    beside: dict[int, list[JsonMap]] = {}
    for other in map(mapping, others):
        beside.setdefault(count(other.get("after_step")) or 0, []).append(other)
    for number, step in enumerate([{}, *steps]):
        yield from _events_of(step, number, own, unknown) if step else ()
        for other in beside.get(number, ()):
            yield from _stored({name: value for name, value in other.items() if name != "after_step"}, unknown)


def _events_of(step: JsonMap, number: int, own: bool, unknown: Counter[str]) -> Iterator[Event]:
    at, source = text(step.get("timestamp")), text(step.get("source")) or "system"
    if source != "agent":
        injected = mapping(step.get("extra")).get("injected") is True
        yield MessageEvent(role=source, text=_text(step.get("message")), injected=injected, at=at, line=number)
        return
    thinking = text(step.get("reasoning_content"))
    if thinking:
        yield MessageEvent(role="assistant", text=thinking, phase="thinking", at=at, line=number)
    calls = [mapping(call) for call in listing(step.get("tool_calls"))]
    usual: Phase | None = None if own else "commentary" if calls else "final"
    for words, phase in _texts(_text(step.get("message")), mapping(step.get("extra")), usual):
        yield MessageEvent(role="assistant", text=words, phase=phase, at=at, line=number)
    tools: dict[str | None, str] = {}
    for call in calls:
        yield from _call_events(call, at, number, tools, unknown)
    for result in map(mapping, listing(mapping(step.get("observation")).get("results"))):
        yield _result_event(result, at, number, {} if own else tools)


def _texts(message: str, extra: JsonMap, usual: Phase | None) -> Iterator[tuple[str, Phase | None]]:
    """Yield the texts of a step with their phases: several where the step tells their lengths, else the whole message
    in its last phase."""
    phases = [_PHASES.get(phase) if isinstance(phase, str) else None for phase in listing(extra.get("phases"))]
    lengths = [count(length) or 0 for length in listing(extra.get("lengths"))]
    ends = list(accumulate(lengths, lambda end, length: end + len(_BETWEEN) + length))
    if len(phases) != len(lengths) or not ends or ends[-1] != len(message):
        yield from [(message, phases[-1] if phases else usual)] if message else ()
        return
    yield from ((message[end - length : end], phase) for end, length, phase in zip(ends, lengths, phases, strict=True))


def _call_events(
    call: JsonMap, at: str | None, line: int, tools: dict[str | None, str], unknown: Counter[str]
) -> Iterator[Event]:
    tool, id_, arguments = text(call.get("function_name")) or "?", text(call.get("tool_call_id")), call.get("arguments")
    extra = mapping(call.get("extra"))
    kind: Any = text(extra.get("tool_kind"))
    tools[id_] = tool
    yield ToolCallEvent(tool=tool, call_id=id_, arguments=arguments, at=at, line=line, tool_kind=kind)
    doings = [mapping(doing) for doing in listing(extra.get("events"))]
    for doing in doings:
        yield from _stored({**doing, "call_id": id_, "at": at, "line": line}, unknown)
    command = next((value for key in _COMMAND_KEYS if isinstance(value := mapping(arguments).get(key), str)), None)
    if not doings and command is not None and (kind or usual_kind(tool)) == "command":
        yield CommandEvent(command=command, call_id=id_, at=at, line=line)


def _result_event(result: JsonMap, at: str | None, line: int, tools: Mapping[str | None, str]) -> ToolResultEvent:
    extra = mapping(result.get("extra"))
    id_ = text(result.get("source_call_id")) or text(extra.get("call_id"))
    is_error = extra.get("is_error")
    return ToolResultEvent(
        tool=text(extra.get("tool")) or tools.get(id_),
        call_id=id_,
        output=_text(result.get("content")),
        is_error=is_error if isinstance(is_error, bool) else None,
        duration_ms=amount(extra.get("duration_ms")),
        at=at,
        line=line,
    )


def _stored(value: JsonMap, unknown: Counter[str]) -> Iterator[Event]:
    """Yield an event that this program wrote; any other is counted."""
    try:
        yield event_from_json(value)
    except (KeyError, TypeError, ValueError):
        unknown[str(value.get("kind") or "event")] += 1


def _text(content: Any) -> str:
    """Return the text of a message: a text, or its parts; an image is its path."""
    if isinstance(content, str):
        return content
    parts = [mapping(part) for part in listing(content)]
    return "\n".join(text(part.get("text")) or f"[{part.get('type')}]" for part in parts)


def _is_answer(event: Event) -> bool:
    return isinstance(event, MessageEvent) and event.role == "assistant" and event.phase != "thinking"


def _usage(final: JsonMap, steps: Sequence[JsonMap]) -> Usage:
    """Return the totals, else the sums of the steps that have metrics."""
    parts, extra = [mapping(step.get("metrics")) for step in steps], mapping(final.get("extra"))

    def total(name: str) -> int | None:
        values = [value for part in parts if (value := count(part.get(name))) is not None]
        known = count(final.get(f"total_{name}"))
        return known if known is not None else sum(values) if values else None

    costs = [value for part in parts if (value := amount(part.get("cost_usd"))) is not None]
    cost = amount(final.get("total_cost_usd"))
    cost = cost if cost is not None else sum(costs) if costs else None
    return Usage(
        input_tokens=total("prompt_tokens"),
        cached_input_tokens=total("cached_tokens"),
        cache_write_tokens=count(extra.get("cache_write_tokens")),
        output_tokens=total("completion_tokens"),
        reasoning_tokens=count(extra.get("reasoning_tokens")),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def _skills(events: Sequence[Event]) -> Iterator[DetectedSkill]:
    by_name: dict[str, SkillEvent] = {}
    for event in events:
        if isinstance(event, SkillEvent) and event.ok is not False:
            by_name.setdefault(event.skill, event)
    for name, event in by_name.items():
        yield DetectedSkill(skill=name, confidence=event.strength, evidence=(f"{event.strength} in the trajectory",))
