"""What one printed record of a CLI reports while its session runs: a step, an action, tokens, USD.

Each function reads one parsed record and returns what it has of these; a table in `agent.py` of a CLI names it. A step
is a reply of the model: records of one id are one step, a record without an id is always one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.reports.jsonl_records import JsonMap, amount, count, first, listing, mapping, shown, text

_MOST_ACTION = 80
_SHOWN_ARGUMENTS = (
    *("command", "cmd", "file_path", "filePath", "path", "absolute_path", "pattern", "query", "url", "skill", "name"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpse:
    """What a record reports. `step` is the id of a step, empty for one without an id, None for no step.

    `input_tokens`, `output_tokens` and `cost_usd` are added up over the records of a session; with `usage_id` each id
    counts once, by its last record. `is_total` marks counts of the whole session, which replace the sum.
    """

    step: str | None = None
    action: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    usage_id: str | None = None
    is_total: bool = False


LiveReader = Callable[[JsonMap], Iterator[Glimpse]]


def action_of(tool: Any, arguments: Any = None) -> str | None:
    """Return the name of a tool and what it works on, as one short line."""
    named = shown(first(mapping(arguments), *_SHOWN_ARGUMENTS)) if arguments else ""
    words = " ".join(f"{text(tool) or ''} {named}".split())
    return (words[: _MOST_ACTION - 1] + "…" if len(words) > _MOST_ACTION else words) or None


def _id(value: Any) -> str:
    return text(value) or ""


def _sum(record: JsonMap, *names: str) -> int | None:
    values = [value for name in names if (value := count(record.get(name))) is not None]
    return sum(values) if values else None


def _tokens(usage: JsonMap, *, is_total: bool = False) -> Glimpse:
    fed, made = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    return Glimpse(input_tokens=fed, output_tokens=made, is_total=is_total)


class CodexLive:
    """Codex prints no replies of the model: an agent's message is one, and so are tools that begin while none runs,
    unless they follow a message, with which they came. Its rollout has a record for each call of the model."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._seen: set[str] = set()
        self._after_message = False

    def __call__(self, record: JsonMap) -> Iterator[Glimpse]:
        item = mapping(record.get("item"))
        kind, id_ = item.get("type") or item.get("item_type"), _id(item.get("id"))
        if record.get("type") == "item.completed" and kind in ("agent_message", "assistant_message"):
            self._after_message = True
            yield Glimpse(step=id_, action=action_of(item.get("text")))
        elif kind in ("command_execution", "file_change", "mcp_tool_call", "web_search"):
            yield from self._tool(record, item, id_)
        if record.get("type") == "turn.completed":
            usage = mapping(record.get("usage"))
            yield _tokens(usage)
        payload = mapping(record.get("payload"))
        if record.get("type") == "token_usage_record" or payload.get("type") == "token_usage_record":
            usage = mapping(payload.get("turn_token_usage"))
            yield replace(_tokens(usage, is_total=True), step="")  # one for each call of the model

    def _tool(self, record: JsonMap, item: JsonMap, id_: str) -> Iterator[Glimpse]:
        if not id_ or id_ not in self._seen:
            step = None if self._running or self._after_message else f"tool {id_}"
            self._after_message = False
            self._seen.add(id_)
            yield Glimpse(step=step, action=action_of(item.get("command") or item.get("tool") or item.get("type")))
        if record.get("type") == "item.started":
            self._running.add(id_)
        elif record.get("type") == "item.completed":
            self._running.discard(id_)


def claude_live(record: JsonMap) -> Iterator[Glimpse]:
    """Claude Code, its transcript, and Qwen Code: every record of a reply has the id of its message."""
    message = mapping(record.get("message"))
    if record.get("type") == "assistant" and message.get("model") != "<synthetic>":
        usage = mapping(message.get("usage"))
        blocks = [mapping(block) for block in listing(message.get("content"))]
        tools = [
            action_of(block.get("name"), block.get("input")) for block in blocks if block.get("type") == "tool_use"
        ]
        words = [action_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        yield Glimpse(
            step=text(message.get("id")),
            action=next(iter([*tools, *words]), None),
            input_tokens=_sum(usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            output_tokens=count(usage.get("output_tokens")),
            usage_id=text(message.get("id")),
        )
    elif record.get("type") == "result":
        usage = mapping(record.get("usage"))
        yield Glimpse(
            input_tokens=_sum(usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            output_tokens=count(usage.get("output_tokens")),
            cost_usd=amount(record.get("total_cost_usd")),
            is_total=True,
        )


class QwenLive:
    """Qwen Code prints what Claude Code does, but each record has an id of its own: a reply ends at a tool's result.
    Its log has the tokens of each call of the model."""

    def __init__(self) -> None:
        self._in_reply = False

    def __call__(self, record: JsonMap) -> Iterator[Glimpse]:
        if "sessionId" in record:
            yield from _qwen_logged(record)
            return
        begins = record.get("type") == "assistant" and not self._in_reply
        self._in_reply = record.get("type") == "assistant" or (self._in_reply and record.get("type") != "user")
        for glimpse in claude_live(record):
            yield replace(glimpse, step="" if begins else None)


def _qwen_logged(record: JsonMap) -> Iterator[Glimpse]:
    call = mapping(mapping(record.get("systemPayload")).get("uiEvent"))
    if record.get("type") == "assistant":
        yield Glimpse(step=_id(record.get("uuid")))
    elif call.get("event.name") == "qwen-code.api_response":
        fed, made = count(call.get("input_token_count")), count(call.get("output_token_count"))
        yield Glimpse(input_tokens=fed, output_tokens=made, usage_id=text(record.get("uuid")))


def opencode_live(record: JsonMap) -> Iterator[Glimpse]:
    """OpenCode: a step ends with its tokens and its cost."""
    part = mapping(record.get("part"))
    if record.get("type") == "step_finish":
        tokens = mapping(part.get("tokens"))
        cache = mapping(tokens.get("cache"))
        fresh, read = count(tokens.get("input")), _sum(cache, "read", "write") or 0
        yield Glimpse(
            step="",
            input_tokens=None if fresh is None else fresh + read,
            output_tokens=_sum(tokens, "output", "reasoning"),
            cost_usd=amount(part.get("cost")),
        )
    elif record.get("type") == "tool_use":
        yield Glimpse(action=action_of(part.get("tool"), mapping(part.get("state")).get("input")))


def copilot_live(record: JsonMap) -> Iterator[Glimpse]:
    """Copilot prints no tokens; the events of its session have them, call by call."""
    data = mapping(record.get("data"))
    if record.get("type") == "assistant.message":
        yield Glimpse(step=_id(data.get("messageId")), action=action_of(data.get("content")))
    elif record.get("type") == "tool.execution_start":
        yield Glimpse(action=action_of(data.get("toolName"), data.get("arguments")))
    elif record.get("type") == "session.usage_record":
        usage = mapping(data.get("usage"))
        yield Glimpse(
            input_tokens=count(usage.get("inputTokens")),
            output_tokens=count(usage.get("outputTokens")),
            usage_id=text(record.get("id")),
        )


class GeminiLive:
    """Gemini CLI prints pieces of a reply: tools, or text, after anything else begin the next one. Its log has the
    tokens of each reply."""

    def __init__(self) -> None:
        self._in_reply = False

    def __call__(self, record: JsonMap) -> Iterator[Glimpse]:
        kind = record.get("type")
        is_text = kind == "message" and record.get("role") == "assistant"
        if is_text or kind == "tool_use":
            action = None if is_text else action_of(record.get("tool_name"), record.get("parameters"))
            yield Glimpse(step=None if self._in_reply else "", action=action)
            self._in_reply = True
        elif kind in ("tool_result", "message"):
            self._in_reply = False
        elif kind == "gemini":
            used = mapping(record.get("tokens"))
            fed, total = count(used.get("input")), count(used.get("total"))
            made = total - fed if total is not None and fed is not None and total >= fed else None
            yield Glimpse(
                step=_id(record.get("id")), input_tokens=fed, output_tokens=made, usage_id=text(record.get("id"))
            )
        elif kind == "result":
            stats = mapping(record.get("stats"))
            total, fed = count(stats.get("total_tokens")), count(stats.get("input_tokens"))
            made = total - fed if total is not None and fed is not None and total >= fed else None
            yield Glimpse(input_tokens=fed, output_tokens=made, is_total=True)


def pi_live(record: JsonMap) -> Iterator[Glimpse]:
    """pi: a message of the assistant ends with its tokens and its cost."""
    message = mapping(record.get("message"))
    if record.get("type") == "message_end" and message.get("role") == "assistant":
        usage = mapping(message.get("usage"))
        yield Glimpse(
            step="",
            input_tokens=_sum(usage, "input", "cacheRead", "cacheWrite"),
            output_tokens=count(usage.get("output")),
            cost_usd=amount(mapping(usage.get("cost")).get("total")),
        )
    elif record.get("type") == "tool_execution_start":
        yield Glimpse(action=action_of(record.get("toolName"), record.get("args")))


def cursor_live(record: JsonMap) -> Iterator[Glimpse]:
    """Cursor's agent: every call of the model that calls tools has an id, and every message is a step."""
    if record.get("type") == "assistant":
        yield Glimpse(step="", action=action_of(shown(mapping(record.get("message")).get("content"))))
    elif record.get("type") == "tool_call" and record.get("subtype") == "started":
        calls: Mapping[str, Any] = mapping(record.get("tool_call"))
        name = str(next(iter(calls), ""))
        action = action_of(name.removesuffix("ToolCall"), mapping(calls.get(name)).get("args"))
        yield Glimpse(step=text(record.get("model_call_id")), action=action)
    elif record.get("type") == "result":
        usage = mapping(record.get("usage"))
        fed = _sum(usage, "inputTokens", "cacheReadTokens", "cacheWriteTokens")
        yield Glimpse(input_tokens=fed, output_tokens=count(usage.get("outputTokens")), is_total=True)
