"""The chat log of Gemini CLI (`tmp/*/chats/session-*.jsonl`): its messages, and the answers of one run.

A message is written anew when its tools have answered: the last one counts. A session that goes on begins another part
(often another file) with a head of its own and all earlier messages in one record; its own messages follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.agents.logged_answers import LoggedAnswer, LoggedCall, exit_code_in
from eval_pipeline.agents.session_store import JsonlSessions, SessionFacts
from eval_pipeline.reports.jsonl_records import JsonMap, count, listing, mapping, read_records, text
from eval_pipeline.reports.model import MessageEvent

_COMMAND = "run_shell_command"
_FOLDERS = re.compile(r"Workspace Directories:\*\*\n\s*- (?P<folder>[^\n]+)")
_TOKENS: Mapping[str, str] = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cached": "cached",
    "total_tokens": "total",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiSessions(JsonlSessions):
    """The chat logs of Gemini CLI. Only the context that it sends the model names the folder that it worked in."""

    def facts(self, content: str) -> SessionFacts:
        known = JsonlSessions.facts(self, content)
        texts = (message_words(message) for message in messages_of([row.value for row in read_records(content).rows]))
        match = next((match for words in texts if (match := _FOLDERS.search(words))), None)
        return SessionFacts(session_id=known.session_id, cwd=str(Path(match["folder"])) if match else None)


def messages_of(rows: Sequence[JsonMap]) -> list[JsonMap]:
    """Return the last version of each message, in the order in which they came first."""
    return _latest(message for row in rows for message in [row, *listing(mapping(row.get("$set")).get("messages"))])


def message_words(message: JsonMap) -> str:
    """Return the texts of a message."""
    content = message.get("content")
    parts = [text(mapping(part).get("text")) for part in listing(content)]
    return content if isinstance(content, str) else "\n".join(part for part in parts if part)


def answers_of_run(rows: Sequence[JsonMap]) -> list[JsonMap]:
    """Return the model's messages of the last run that a log holds."""
    begun = max((at for at, row in enumerate(rows) if "startTime" in row and "sessionId" in row), default=0)
    return [message for message in _latest(rows[begun:]) if message.get("type") == "gemini"]


def logged_answers(answers: Sequence[JsonMap]) -> list[LoggedAnswer]:
    """Return the model's messages with their thoughts, which standard output has not."""
    return [
        LoggedAnswer(
            calls={text(call.get("id")) or "": _logged(call) for call in calls_of(answer)},
            words=frozenset([text(answer.get("content")) or ""]) - {""},
            before=tuple(_thoughts(answer)),
        )
        for answer in answers
    ]


def calls_of(answer: JsonMap) -> list[JsonMap]:
    """Return the tool calls of a message."""
    return [mapping(call) for call in listing(answer.get("toolCalls"))]


def result_of(call: JsonMap) -> str:
    """Return the result of a tool call: what a command printed, else the text for the model."""
    display = call.get("resultDisplay")
    return display if isinstance(display, str) and call.get("name") == _COMMAND else "\n".join(_outputs(call))


def stats_of(answers: Sequence[JsonMap]) -> dict[str, Any]:
    """Return the tokens of all answers by the names that standard output has for them; empty without any."""
    tokens = [mapping(answer.get("tokens")) for answer in answers]
    return {name: sum(count(part.get(field)) or 0 for part in tokens) for name, field in _TOKENS.items() if any(tokens)}


def _latest(candidates: Any) -> list[JsonMap]:
    latest: dict[str, JsonMap] = {}
    for message in map(mapping, candidates):
        id_ = text(message.get("id"))
        if id_ is not None and "type" in message:
            latest[id_] = message
    return list(latest.values())


def _logged(call: JsonMap) -> LoggedCall:
    display, is_command = text(call.get("resultDisplay")) or "", call.get("name") == _COMMAND
    return LoggedCall(
        output=result_of(call),
        exit_code=exit_code_in("\n".join(_outputs(call)), display) if is_command else None,
    )


def _outputs(call: JsonMap) -> Iterator[str]:
    for part in map(mapping, listing(call.get("result"))):
        response = mapping(mapping(part.get("functionResponse")).get("response"))
        output = text(response.get("output")) or text(response.get("error"))
        if output is not None:
            yield output


def _thoughts(answer: JsonMap) -> Iterator[MessageEvent]:
    for thought in map(mapping, listing(answer.get("thoughts"))):
        words = "\n".join(part for name in ("subject", "description") if (part := text(thought.get(name))))
        if words:
            yield MessageEvent(role="assistant", text=words, phase="thinking", at=text(thought.get("timestamp")))
