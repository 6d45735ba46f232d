"""`claude-session`: a session's transcript kept by Claude Code, for sessions without stored standard output.

A transcript has no `result` record. This module makes one from the last message, the cost state and the usage of each
message, and the normalizer `claude-code` reads the rest. The work of subagents (`isSidechain`) is left out: the user
does not see it. Sources: transcripts of 2.1.330.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from eval_pipeline.agents.claude_code.normalizer import ESSENTIAL, ClaudeCodeNormalizer
from eval_pipeline.agents.claude_code.records import SYNTHETIC, content_blocks, message_text
from eval_pipeline.agents.claude_code.usage import USAGE_NAMES, message_usage, summed
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, mapping, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.moments import milliseconds_between, span_of
from eval_pipeline.reports.normalize import RawSession

_MESSAGES_SUMMED = ("cost-state",)
_INTERRUPTED = "[Request interrupted by user"
_MESSAGES = frozenset({"assistant", "user", "system"})


class ClaudeSessionNormalizer:
    """A session of Claude Code by its transcript (`session`): `~/.claude/projects/*/<session>.jsonl`."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        records = material.records("session", (*_MESSAGES_SUMMED, *ESSENTIAL))
        of_agent = [record for record in records.rows if not record.value.get("isSidechain")]
        messages = [record for record in of_agent if record.type in _MESSAGES]
        spent = {"type": "result", "subtype": "success", **_cost(records.rows)}
        report = _read(material, [*_at_their_lines(messages), *_as_lines(_result(messages, spent))])
        usage = _read(material, _as_lines([spent])).usage  # known for an unfinished session, too
        started_at, ended_at = span_of(records.rows)
        return replace(
            report,
            usage=usage,
            started_at=started_at,
            ended_at=ended_at,
            duration_ms=milliseconds_between(started_at, ended_at),
            unparsed_lines=records.unparsed_lines,
        )


def _read(material: RawSession, lines: Sequence[str]) -> SessionReport:
    raw = replace(material.raw, files={}, payload={"session": "\n".join(lines)})
    return ClaudeCodeNormalizer().normalize(replace(material, raw=raw))


def _at_their_lines(records: Sequence[Record]) -> list[str]:
    """Return records as JSONL, each in the line that it was read from."""
    by_line: dict[int, list[JsonMap]] = {}
    for record in records:
        by_line.setdefault(record.line, []).append(record.value)
    lines = [""] * max(by_line, default=0)
    for number, values in by_line.items():
        lines[number - 1] = to_json(values[0] if len(values) == 1 else values).decode()
    return lines


def _as_lines(records: Iterable[JsonMap]) -> list[str]:
    return [to_json(record).decode() for record in records]


def _result(messages: Sequence[Record], base: JsonMap) -> Iterator[JsonMap]:
    """Return the `result` record of a finished session; none for a session that stops in the middle of its work."""
    last = next((record for record in reversed(messages) if record.type in ("assistant", "user")), None)
    if last is None:
        return
    message = mapping(last.value.get("message"))
    content = message_text(last)
    if last.type == "user":
        if content.startswith(_INTERRUPTED):
            yield {**base, "is_error": True, "terminal_reason": "aborted_streaming", "result": content}
    elif message.get("model") == SYNTHETIC:
        status = last.value.get("apiErrorStatus")
        yield {**base, "is_error": True, "api_error_status": status, "result": content}
    elif message.get("stop_reason") != "tool_use" and not _has_tool_use(last):
        yield {**base, "is_error": False, "result": _answer(messages, text(message.get("id")))}


def _answer(messages: Sequence[Record], message_id: str | None) -> str:
    """The text of the last message: a transcript has a record for each of its blocks."""
    replies = [record for record in messages if record.type == "assistant"]
    parts = [reply for reply in replies if _message_id(reply) == message_id] if message_id else replies[-1:]
    return "\n".join(content for part in parts if (content := message_text(part)))


def _message_id(record: Record) -> Any:
    return mapping(record.value.get("message")).get("id")


def _has_tool_use(record: Record) -> bool:
    return any(block.get("type") == "tool_use" for block in content_blocks(record))


def _cost(rows: Sequence[Record]) -> dict[str, Any]:
    """Usage and cost: of the cost state when no message follows it, else of the messages, without a cost."""
    records = [record for record in rows if record.type in ("cost-state", "assistant")]
    state = records[-1].value if records and records[-1].type == "cost-state" else {}
    models = [mapping(model) for model in mapping(state.get("modelUsage")).values()]
    if not models:
        return {"usage": message_usage(rows)}
    known = state.get("hasUnknownModelCost") is False
    usage: dict[str, Any] = {name: summed(models, theirs) for name, theirs in USAGE_NAMES.items()}
    usage["output_tokens_details"] = {"thinking_tokens": summed(models, "thinkingTokens")}
    return {"usage": usage, "total_cost_usd": amount(state.get("totalCostUSD")) if known else None}
