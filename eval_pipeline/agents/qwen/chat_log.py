"""The chat log of Qwen Code (`projects/*/chats/<session>.jsonl`): what it has and standard output has not.

The log is in the words of Gemini's API. Between its messages are the events of telemetry: each call of the model with
its tokens (also those of helpers, which have a `subagent_name`), and each call that was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eval_pipeline.agents.logged_answers import LoggedAnswer, LoggedCall, exit_code_in
from eval_pipeline.agents.session_endings import error_status, summed
from eval_pipeline.agents.session_store import JsonlSessions, SessionFacts
from eval_pipeline.reports.jsonl_records import JsonMap, Record, listing, mapping, moment, read_records, shown, text
from eval_pipeline.reports.model import RetryEvent, Usage

_EVENT = "qwen-code."


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenSessions(JsonlSessions):
    """The chat logs of Qwen Code. Claude Code's look like them, and have other messages."""

    def facts(self, content: str) -> SessionFacts:
        rows = read_records(content).rows
        return JsonlSessions.facts(self, content) if any(parts_of(row) for row in rows) else SessionFacts()


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """A call of the model in a log: `api_response` or `api_error`, and what telemetry knows of it."""

    name: str
    facts: JsonMap

    @property
    def is_helper(self) -> bool:
        return bool(self.facts.get("subagent_name"))

    @property
    def error(self) -> str | None:
        return text(self.facts.get("error_message")) if self.name == "api_error" else None


def parts_of(record: Record) -> list[JsonMap]:
    """Return the parts of a message."""
    return [mapping(part) for part in listing(mapping(record.value.get("message")).get("parts"))]


def model_event(record: Record) -> ModelEvent | None:
    """Return the call of the model that a record of telemetry is about."""
    event = mapping(mapping(record.value.get("systemPayload")).get("uiEvent"))
    name = (text(event.get("event.name")) or "").removeprefix(_EVENT)
    return ModelEvent(name, event) if name in ("api_response", "api_error") else None


def logged_answers(rows: Sequence[Record], ended_with: str | None) -> list[LoggedAnswer]:
    """Return the messages of the model with the refused calls before them. `ended_with` is the error that ended the
    session: the call that it came from was not tried again."""
    results = dict(_results(rows))
    answers: list[LoggedAnswer] = []
    refused: list[RetryEvent] = []
    for row in rows:
        event = model_event(row)
        if event is not None and event.error is not None and not event.is_helper:
            status = error_status(event.facts.get("status_code"))
            attempt, at = len(refused) + 1, moment(row.value.get("timestamp"))
            refused.append(RetryEvent(attempt=attempt, status=status, message=event.error, at=at))
        elif row.type == "assistant":
            answers.append(_answer(row, results, refused))
            refused = []
    if refused and refused[-1].message == ended_with:
        refused.pop()
    return [*answers, LoggedAnswer(calls={}, before=tuple(refused))]


def logged_usage(rows: Sequence[Record]) -> Usage:
    """Return the tokens of all calls of the model that a log has, helpers' included."""
    events = [event.facts for row in rows if (event := model_event(row)) is not None and event.error is None]
    return Usage(
        input_tokens=summed(events, "input_token_count"),
        cached_input_tokens=summed(events, "cached_content_token_count"),
        output_tokens=summed(events, "output_token_count"),
        reasoning_tokens=summed(events, "thoughts_token_count"),
    )


def _answer(row: Record, results: dict[str, LoggedCall], refused: Sequence[RetryEvent]) -> LoggedAnswer:
    parts, at = parts_of(row), moment(row.value.get("timestamp"))
    ids = [text(mapping(part.get("functionCall")).get("id")) for part in parts]
    known = {id_: results.get(id_, LoggedCall()) for id_ in ids if id_ is not None}
    calls = {
        id_: LoggedCall(output=call.output, exit_code=call.exit_code, called_at=at, ended_at=call.ended_at)
        for id_, call in known.items()
    }
    words = frozenset(words for part in parts if (words := text(part.get("text"))))
    return LoggedAnswer(calls=calls, words=words, before=tuple(refused))


def _results(rows: Sequence[Record]) -> Iterator[tuple[str, LoggedCall]]:
    for row in rows:
        shown_result = mapping(row.value.get("toolCallResult")).get("resultDisplay")
        printed = shown_result if isinstance(shown_result, str) else ""
        for part in parts_of(row) if row.type == "tool_result" else ():
            answered = mapping(part.get("functionResponse"))
            sent = sent_to_model(answered)
            yield (
                text(answered.get("id")) or "",
                LoggedCall(
                    output=printed or sent,
                    exit_code=exit_code_in(sent, printed) if answered.get("name") == "run_shell_command" else None,
                    ended_at=moment(row.value.get("timestamp")),
                ),
            )


def sent_to_model(answered: JsonMap) -> str:
    """Return the result of a tool as it is sent to the model."""
    response = mapping(answered.get("response"))
    return shown(response.get("output") if response.get("error") is None else response["error"])
