"""A row → one sample of Every Eval Ever: a question with its answer, or a session with its messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.events import MessageEvent, ToolCallEvent, ToolResultEvent, is_spoken
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.suites.model import content_text

JsonMap = dict[str, Any]


def sample_json(row: ResultRow, evaluation: str, model: str, schema: str) -> JsonMap:
    """Return the sample of a graded plan."""
    messages = list(_messages(row.report)) if row.report is not None else []
    kind = _kind(row.report)
    raw = "\n\n".join(content_text(message.get("content")) for message in row.input)
    reference = [content_text(message.get("content")) for message in row.expected_output]
    return {
        "schema_version": schema,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": row.suite,
        "evaluation_result_id": "mean_score",
        "sample_id": row.case_id,
        "sample_hash": hashlib.sha256((raw + "".join(reference)).encode()).hexdigest(),
        "interaction_type": kind,
        "input": {"raw": raw, "reference": reference},
        "output": {"raw": [row.output or ""]} if kind == "single_turn" else None,
        "messages": None if kind == "single_turn" else messages,
        "answer_attribution": [_answer(row, kind, messages)] if row.output else [],
        "evaluation": _grading(row),
        "token_usage": _tokens(row.report),
        "performance": {"latency_ms": row.duration_ms} if row.duration_ms is not None else None,
        "error": None,
        "metadata": {
            "repetition": str(row.repetition),
            "status": row.verdict.status.value,
            "tags": ", ".join(row.tags),
        },
    }


def _kind(report: SessionReport | None) -> str:
    if report is not None and report.tool_calls:
        return "agentic"
    return "multi_turn" if report is not None and len(report.turns) > 1 else "single_turn"


def _answer(row: ResultRow, kind: str, messages: list[JsonMap]) -> JsonMap:
    last = max((message["turn_idx"] for message in messages if message["role"] == "assistant"), default=0)
    single = kind == "single_turn"
    return {
        "turn_idx": 0 if single else last,
        "source": "output.raw" if single else f"messages[{last}].content",
        "extracted_value": row.output,
        "extraction_method": "final message",
        "is_terminal": True,
    }


def _grading(row: ResultRow) -> JsonMap:
    report = row.report
    return {
        "score": row.verdict.score,
        "is_correct": row.verdict.status.as_expected,
        "num_turns": max(1, len(report.turns)) if report is not None else None,
        "tool_calls_count": len(report.tool_calls) if report is not None else None,
    }


def _tokens(report: SessionReport | None) -> JsonMap | None:
    """Return the tokens; None where a count that the schema requires is unknown."""
    if report is None or report.usage.total_tokens is None:
        return None
    usage = report.usage
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_cache_read": usage.cached_input_tokens,
        "input_tokens_cache_write": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def _messages(report: SessionReport) -> Iterator[JsonMap]:
    """Yield the messages of a session; a call without an id is called by its place."""
    number = 0
    for place, event in enumerate(report.events):
        message = _message(event, place)
        if message is not None:
            yield {"turn_idx": number, **message}
            number += 1


def _message(event: Any, place: int) -> JsonMap | None:
    if isinstance(event, MessageEvent) and is_spoken(event):
        return {"role": event.role, "content": event.text}
    if isinstance(event, ToolCallEvent):
        call = {"id": event.call_id or f"call-{place}", "name": event.tool, "arguments": _arguments(event.arguments)}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if isinstance(event, ToolResultEvent):
        answered = [event.call_id] if event.call_id else None
        return {"role": "tool", "content": event.output, "tool_call_id": answered}
    return None


def _arguments(arguments: Any) -> dict[str, str] | None:
    if arguments is None:
        return None
    given = arguments if isinstance(arguments, dict) else {"value": arguments}
    return {str(name): value if isinstance(value, str) else to_json(value).decode() for name, value in given.items()}
