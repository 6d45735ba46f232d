"""`claude-session`: the transcript that Claude Code keeps of a session, when nothing that it printed was kept.

A transcript has no `result` record: what it would have said is put together here from the last words, the cost state
and the usage of each message, and `claude_code` reads the rest. The work of subagents (`isSidechain`) is left out, as
they say nothing to the user. Sources: transcripts of 2.1.330.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_pipeline.agents.claude_code.normalizer import ClaudeCodeNormalizer
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, Record, amount, count, listing, mapping, read_records, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.moments import milliseconds_between, span_of
from eval_pipeline.reports.normalize import RawSession

_SYNTHETIC = "<synthetic>"
_INTERRUPTED = "[Request interrupted by user"
_TOLD = frozenset({"assistant", "user", "system"})
_COST_STATE_NAMES = {
    "input_tokens": "inputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "output_tokens": "outputTokens",
}


class ClaudeSessionNormalizer:
    """A session of Claude Code as its transcript (`session`) tells it: `~/.claude/projects/*/<session>.jsonl`."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        transcript = material.text("session") or ""
        records = read_records(transcript)
        own = [record for record in records.rows if not record.value.get("isSidechain")]
        told = [record for record in own if record.type in _TOLD]
        lines = transcript.split("\n")
        kept = {record.line for record in told}
        shown = [line if number in kept else "" for number, line in enumerate(lines, start=1)]
        spent = {"type": "result", "subtype": "success", **_cost(records.rows)}
        report = _read(material, [*shown, *_as_lines(_result(told, spent))])
        usage = _read(material, _as_lines([spent])).usage  # known of a session that has not ended, too
        begun, ended = span_of(records.rows)
        return replace(
            report,
            usage=usage,
            started_at=begun,
            ended_at=ended,
            duration_ms=milliseconds_between(begun, ended),
            unparsed_lines=records.unparsed_lines,
        )


def _read(material: RawSession, lines: Sequence[str]) -> SessionReport:
    raw = replace(material.raw, files={}, payload={"session": "\n".join(lines)})
    return ClaudeCodeNormalizer().normalize(replace(material, raw=raw))


def _as_lines(records: Iterable[JsonMap]) -> list[str]:
    return [to_json(record).decode() for record in records]


def _result(told: Sequence[Record], base: JsonMap) -> Iterator[JsonMap]:
    """The `result` record of a session that came to an end; none of one that stops in the middle of its work."""
    last = next((record for record in reversed(told) if record.type in ("assistant", "user")), None)
    if last is None:
        return
    message = mapping(last.value.get("message"))
    said = _words(message)
    if last.type == "user":
        if said.startswith(_INTERRUPTED):
            yield {**base, "is_error": True, "terminal_reason": "aborted_streaming", "result": said}
    elif message.get("model") == _SYNTHETIC:
        status = last.value.get("apiErrorStatus")
        yield {**base, "is_error": True, "api_error_status": status, "result": said}
    elif message.get("stop_reason") != "tool_use" and not _asks_for_tools(message):
        yield {**base, "is_error": False, "result": _answer(told, text(message.get("id")))}


def _answer(told: Sequence[Record], message_id: str | None) -> str:
    """The text of the last message: a transcript has a record for each of its blocks."""
    messages = [mapping(record.value.get("message")) for record in told if record.type == "assistant"]
    parts = [message for message in messages if message.get("id") == message_id] if message_id else messages[-1:]
    return "\n".join(words for part in parts if (words := _words(part)))


def _blocks(message: JsonMap) -> list[JsonMap]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else [mapping(b) for b in listing(content)]


def _words(message: JsonMap) -> str:
    return "\n".join(words for block in _blocks(message) if (words := text(block.get("text"))))


def _asks_for_tools(message: JsonMap) -> bool:
    return any(block.get("type") == "tool_use" for block in _blocks(message))


# What it cost


def _cost(rows: Sequence[Record]) -> dict[str, Any]:
    """Usage and cost: of the cost state when nothing was said after it, else of the messages, without a cost."""
    stand = [record for record in rows if record.type in ("cost-state", "assistant")]
    state = stand[-1].value if stand and stand[-1].type == "cost-state" else {}
    models = [mapping(model) for model in mapping(state.get("modelUsage")).values()]
    if not models:
        return {"usage": _message_usage(rows)}
    known = state.get("hasUnknownModelCost") is False
    usage: dict[str, Any] = {name: _sum(models, theirs) for name, theirs in _COST_STATE_NAMES.items()}
    usage["output_tokens_details"] = {"thinking_tokens": _sum(models, "thinkingTokens")}
    return {"usage": usage, "total_cost_usd": amount(state.get("totalCostUSD")) if known else None}


def _message_usage(rows: Sequence[Record]) -> dict[str, Any]:
    """The sum over the model's messages. The records of one message repeat its usage; the last has the final one."""
    by_message: dict[str, Mapping[str, Any]] = {}
    for record in rows:
        message = mapping(record.value.get("message"))
        if record.type == "assistant" and message.get("model") != _SYNTHETIC and message.get("usage"):
            by_message[text(message.get("id")) or f"line {record.line}"] = mapping(message["usage"])
    return {name: _sum(list(by_message.values()), name) for name in _COST_STATE_NAMES}


def _sum(parts: Sequence[JsonMap], name: str) -> int | None:
    """The sum of a count over the parts that tell it; unknown when none does."""
    values = [value for part in parts if (value := count(part.get(name))) is not None]
    return sum(values) if values else None
