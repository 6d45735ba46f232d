"""Tokens and cost of a Claude Code session: by its `result` record, else by the messages of its transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eval_pipeline.agents.claude_code.ending import Ending
from eval_pipeline.agents.claude_code.records import SYNTHETIC, THINKING, message_blocks
from eval_pipeline.reports.jsonl_records import JsonMap, Record, Records, amount, count, first, mapping, text
from eval_pipeline.reports.model import Usage

USAGE_NAMES = {
    "input_tokens": "inputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "output_tokens": "outputTokens",
}
"""The measures of a message's usage, with their names in the cost state of a transcript."""


def usage_of(end: Ending, records: Sequence[Record]) -> Usage:
    """Usage of the `result`: input is the sum of what was sent anew, written to and read from the cache.

    All zeros on a failed session mean that nothing was reported.
    """
    raw = mapping(end.result.get("usage"))
    fresh, written = count(raw.get("input_tokens")), count(raw.get("cache_creation_input_tokens"))
    cached, output = count(raw.get("cache_read_input_tokens")), count(raw.get("output_tokens"))
    if end.failure is not None and not any((fresh, written, cached, output)):
        return Usage()
    cost = _cost(end.result)
    return Usage(
        input_tokens=fresh + (written or 0) + (cached or 0) if fresh is not None else None,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=_reasoning(raw, records),
        cost_usd=cost,
        cost_source="reported" if cost is not None else None,
    )


def usage_of_transcript(end: Ending, transcript: Records) -> Usage:
    """Usage of a session that was ended before its `result`: that of the messages it kept, where all were read."""
    if end.result or transcript.left_out:
        return Usage()
    return usage_of(replace(end, result={"usage": message_usage(transcript.rows)}), transcript.rows)


def message_usage(rows: Sequence[Record]) -> dict[str, int | None]:
    """The sum over the model's messages. The records of one message repeat its usage; the last has the final one."""
    by_message: dict[str, JsonMap] = {}
    for record in rows:
        message = mapping(record.value.get("message"))
        if record.type == "assistant" and message.get("model") != SYNTHETIC and message.get("usage"):
            by_message[text(message.get("id")) or f"line {record.line}"] = mapping(message["usage"])
    return {name: summed(list(by_message.values()), name) for name in USAGE_NAMES}


def summed(parts: Sequence[JsonMap], name: str) -> int | None:
    """The sum of a count over the parts that have it; unknown when none has it."""
    values = [value for part in parts if (value := count(part.get(name))) is not None]
    return sum(values) if values else None


def _reasoning(raw: JsonMap, records: Sequence[Record]) -> int | None:
    """Thinking tokens; the CLI prints 0 for "not reported", so 0 counts only where the session shows no thinking."""
    reasoning = count(mapping(raw.get("output_tokens_details")).get("thinking_tokens"))
    kinds = {text(block.get("type")) for record, block in message_blocks(records) if record.type == "assistant"}
    return reasoning if reasoning or (kinds and kinds.isdisjoint(THINKING)) else None


def _cost(result: JsonMap) -> float | None:
    """The cost of this run in USD: the total of a resumed session includes earlier runs.

    None when the CLI has no price for a model: it then reports a made-up cost (`costBasis: unknown`).
    """
    models = [mapping(entry) for entry in mapping(result.get("modelUsage")).values()]
    if any(model.get("costBasis") == "unknown" for model in models):
        return None
    since = mapping(result.get("model_usage_since_last_result"))
    costs = [amount(mapping(entry).get("costUSD")) for entry in since.values()]
    if costs and None not in costs:
        return sum(cost for cost in costs if cost is not None)
    return amount(first(result, "total_cost_usd", "cost_usd", "total_cost"))
