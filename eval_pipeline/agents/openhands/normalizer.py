"""`openhands`: what OpenHands CLI prints with `--headless --json`: JSON objects between lines of text.

Its exit code is 0 whatever happened. Tokens are not printed; the file `base_state.json` of its conversation (`session`)
has them. The shell is one for the whole session: a command that
ends it (`exit 3`) has no exit code. Sources: recordings of 1.16.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from eval_pipeline.agents.session_endings import (
    Ending,
    ReadSession,
    cut_short,
    failed,
    json_or_none,
    session_report,
    summed,
    with_answer,
)
from eval_pipeline.agents.session_entries import (
    CallReader,
    Entry,
    ToolCall,
    ToolOutcome,
    command_call,
    file_created,
    file_edited,
    file_read,
    skill_call,
    spoken,
    thinking,
)
from eval_pipeline.failures import MAX_STEPS, FailureClass
from eval_pipeline.reports.jsonl_records import JsonMap, Record, count, mapping, moment, shown, text
from eval_pipeline.reports.model import ErrorEvent, Event, MessageEvent, SessionReport, Usage
from eval_pipeline.reports.moments import span_of
from eval_pipeline.reports.normalize import RawSession
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {
    "file_editor": "edit",
    "invoke_skill": "skill",
    "task": "task",
    "task_tracker": "plan",
    "terminal": "command",
    "think": "plan",
}
_CONVERSATION = re.compile(r"Conversation ID:\s+([0-9a-f]{32})\b")
_QUIET = frozenset({"SystemPromptEvent", "PauseEvent", "Condensation", "CondensationRequest", "TokenEvent"})
_CODES: Mapping[str, FailureClass] = {"MaxIterationsReached": MAX_STEPS}


class OpenHandsNormalizer:
    """One run of OpenHands CLI by its standard output."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        printed = material.ends("stdout") or ""
        stdout, unknown = material.records("stdout"), Counter[str]()
        rows, conversation = stdout.rows, _CONVERSATION.search(printed)
        started_at, ended_at = span_of(rows)
        state = json_or_none(material.document("session"))
        calls = {id_ for row in rows if (id_ := text(row.value.get("llm_response_id")))}
        session = ReadSession(
            entries=tuple(entry for row in rows for entry in _entries(row, unknown, rows[-1])),
            ending=_ending(rows, material.ends("stderr")),
            session_id=str(UUID(conversation[1])) if conversation is not None else None,
            started_at=started_at,
            ended_at=ended_at,
            usage=_usage(mapping(state)),
            model_calls=len(calls),
            unknown=unknown,
            unparsed_lines=stdout.unparsed_lines,
        )
        return session_report(material, session, READERS)


def _file_editor(call: ToolCall) -> Iterator[Event]:
    """A call of the tool that reads and writes files, by its command."""
    command = call.arguments.get("command")
    reader = {"view": file_read, "create": file_created}.get(str(command), file_edited)
    yield from reader(call)


READERS: Mapping[str, CallReader] = {
    "file_editor": _file_editor,
    "invoke_skill": skill_call,
    "terminal": command_call,
}


def _kind(row: Record) -> str:
    return text(row.value.get("kind")) or "no kind"


def _entries(row: Record, unknown: Counter[str], last: Record) -> Iterator[Entry]:
    value, kind, at = row.value, _kind(row), moment(row.value.get("timestamp"))
    if kind == "MessageEvent":
        content = shown(mapping(value.get("llm_message")).get("content"))
        if value.get("source") == "agent":
            yield from spoken(content, at=at, line=row.line)
        elif content:
            yield MessageEvent(role="user", text=content, at=at, line=row.line)
    elif kind == "ActionEvent":
        yield from _action(row, at)
    elif kind in ("ObservationEvent", "AgentErrorEvent"):
        yield _outcome(row, at)
    elif kind == "ConversationErrorEvent":
        yield ErrorEvent(message=_error(value), terminal=row is last, at=at, line=row.line)
    elif kind not in _QUIET:
        unknown[kind] += 1


def _action(row: Record, at: str | None) -> Iterator[Entry]:
    value = row.value
    yield from thinking(text(value.get("reasoning_content")), at=at, line=row.line)
    yield from spoken(shown(value.get("thought")), at=at, line=row.line)
    action = mapping(value.get("action"))
    yield ToolCall(
        id=text(value.get("tool_call_id")),
        tool=text(value.get("tool_name")) or "",
        raw_arguments={name: item for name, item in action.items() if name != "kind" and item is not None},
        at=at,
        line=row.line,
    )


def _outcome(row: Record, at: str | None) -> ToolOutcome:
    observation = mapping(row.value.get("observation"))
    exit_code = count(observation.get("exit_code"))
    error = text(row.value.get("error"))
    return ToolOutcome(
        id=text(row.value.get("tool_call_id")),
        tool=text(row.value.get("tool_name")),
        output=error if error is not None else shown(observation.get("content")),
        is_error=error is not None or observation.get("is_error") is True or bool(exit_code),
        exit_code=exit_code,
        at=at,
        line=row.line,
    )


def _usage(state: JsonMap) -> Usage:
    """The sum over the models of a conversation, as `base_state.json` keeps it; input and output are gross."""
    models = [mapping(each) for each in mapping(mapping(state.get("stats")).get("usage_to_metrics")).values()]
    tokens = [mapping(metrics.get("accumulated_token_usage")) for metrics in models]
    return Usage(
        input_tokens=summed(tokens, "prompt_tokens"),
        cached_input_tokens=summed(tokens, "cache_read_tokens"),
        cache_write_tokens=summed(tokens, "cache_write_tokens"),
        output_tokens=summed(tokens, "completion_tokens"),
        reasoning_tokens=summed(tokens, "reasoning_tokens"),
    )


def _error(value: JsonMap) -> str:
    return text(value.get("detail")) or text(value.get("code")) or "the session failed"


def _ending(rows: Sequence[Record], stderr: str | None) -> Ending:
    last = next((row for row in reversed(rows) if _kind(row) not in _QUIET), None)
    value = last.value if last is not None else {}
    kind = _kind(last) if last is not None else ""
    if kind == "ConversationErrorEvent":
        return failed(_error(value), failure=_CODES.get(str(value.get("code"))))
    if kind == "MessageEvent" and value.get("source") == "agent":
        return with_answer(shown(mapping(value.get("llm_message")).get("content")))
    if value.get("tool_name") == "finish":
        finish = next((mapping(row.value.get("action")) for row in reversed(rows) if _kind(row) == "ActionEvent"), {})
        return with_answer(text(finish.get("message")))
    return cut_short(printed=bool(rows), stderr=stderr)
