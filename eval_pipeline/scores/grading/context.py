"""Subject → the content that a grader sees: texts by the names that templates use, and images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval_pipeline.executions.prompt import message_text
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import CommandEvent, ErrorEvent, Event, MessageEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.scores.grading.fences import Fences, fences_for
from eval_pipeline.scores.model import Subject
from eval_pipeline.suites.model import JsonMap, Message

_LONGEST_RESULT = 2_000


@dataclass(frozen=True, slots=True)
class GraderContext:
    """The content of a subject that a prompt shows: texts by name, and their fences."""

    subject: Subject
    texts: Mapping[str, str]
    fences: Fences


def build_context(subject: Subject, names: Iterable[str], *, grades: bool = False) -> GraderContext:
    """Return the texts of these names (unknown names are ignored, empty texts kept) and fences keyed by them."""
    texts = {name: TEXTS[name](subject) for name in sorted({*names} & TEXTS.keys())}
    return GraderContext(subject, texts, fences_for(texts.values(), grades=grades))


def conversation_text(messages: tuple[Message, ...]) -> str:
    """Return messages as one text: a single message is its text, several have role headings."""
    if len(messages) == 1:
        return message_text(messages[0])
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message_text(message)}" for message in messages)


def tool_calls(subject: Subject) -> str:
    """Return the tool calls and their results, in order."""
    events = (event for event in subject.report.events if isinstance(event, (ToolCallEvent, ToolResultEvent)))
    return "\n".join(line for event in events for line in _event_lines(event))


def transcript(subject: Subject) -> str:
    """Return the session as text: messages, calls and commands, in order."""
    return "\n".join(line for event in subject.report.events for line in _event_lines(event))


def images(subject: Subject) -> list[tuple[str, JsonMap]]:
    """Return the images of the input and of the expected output, each with its location."""
    sources = (("input", subject.case.input), ("expected output", subject.case.expected_output))
    return [(location, part) for location, messages in sources for message in messages for part in _images(message)]


def metadata_value(metadata: JsonMap, path: str) -> str | None:
    """Return the value at a dotted path of the metadata as text; None when there is none."""
    value: Any = metadata
    for step in path.split(".") if path else ():
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value if isinstance(value, str) else to_json(value).decode()


def _images(message: Message) -> Iterator[JsonMap]:
    if isinstance(message.content, list):
        for part in message.content:
            if isinstance(part, Mapping) and part.get("type") == "image" and part.get("source"):
                yield part


def _event_lines(event: Event) -> Iterator[str]:
    if isinstance(event, MessageEvent) and event.text and event.phase != "thinking":
        yield f"({event.role}) {event.text}"
    elif isinstance(event, ToolCallEvent):
        arguments = "" if event.arguments is None else to_json(event.arguments).decode()
        yield f"(call) {event.tool}({arguments[:_LONGEST_RESULT]})"
    elif isinstance(event, ToolResultEvent):
        failed = " failed" if event.is_error else ""
        yield f"(result{failed}) {event.output[:_LONGEST_RESULT]}"
    elif isinstance(event, CommandEvent):
        exit_code = "" if event.exit_code is None else f" → exit code {event.exit_code}"
        yield f"(command) {event.command}{exit_code}"
    elif isinstance(event, ErrorEvent):
        yield f"(error) {event.message}"


TEXTS: Mapping[str, Callable[[Subject], str]] = {
    "input": lambda subject: conversation_text(subject.case.input),
    "expected_output": lambda subject: conversation_text(subject.case.expected_output),
    "output": lambda subject: subject.output,
    "file_changes": lambda subject: subject.report.file_changes or "",
    "tool_calls": tool_calls,
    "transcript": transcript,
}
"""The data that graders see, by the names that templates use."""
