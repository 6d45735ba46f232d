"""`otel`: traces in OTLP/JSON, by OpenTelemetry's semantic conventions for generative AI (development status, 2026).

One trace per plan: a root span with the case, its verdict and one `gen_ai.evaluation.result` event per evaluator; below
it a `chat` span per message of the model and an `execute_tool` span per call. Ids derive from the execution's, so that
exporting twice gives the same spans. A span without a time begins at the last known time before it. Texts of
messages and tools are left out unless `content` is requested.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolUse, Turn, Usage
from eval_pipeline.reports.moments import later, parse_time
from eval_pipeline.scores.model import Score, Status
from eval_pipeline.scores.trace import summarize_trace
from eval_pipeline.suites.model import content_text

INTERNAL, CLIENT = 1, 3
ERROR = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PROVIDERS_BY_MODEL = {
    "claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "gemini": "gcp.gemini",
    "mistral": "mistral_ai", "deepseek": "deepseek", "grok": "x_ai", "command-r": "cohere",
}  # fmt: skip


@EXPORTS.register("otel")
class OpenTelemetry:
    """One JSON document: `{"resourceSpans": [...]}`, the format of OTLP/HTTP and of its file exporters."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        yield FileChunk("", _HEAD)
        between = b""
        for record in records:
            for span in self.spans(record, content=options.content):
                yield FileChunk("", between + to_json(span))
                between = b","
        yield FileChunk("", _TAIL)

    def requests(self, records: Iterable[ResultRow], *, content: bool, most_spans: int = 1_000) -> Iterator[bytes]:
        """Yield the spans as bodies of OTLP/HTTP requests: whole traces, up to a number of spans each."""
        batch: list[bytes] = []
        for record in records:
            batch += (to_json(span) for span in self.spans(record, content=content))
            if len(batch) >= most_spans:
                yield _HEAD + b",".join(batch) + _TAIL
                batch = []
        if batch:
            yield _HEAD + b",".join(batch) + _TAIL

    def spans(self, record: ResultRow, *, content: bool) -> Iterator[dict[str, Any]]:
        """Yield the spans of one plan, the root first."""
        began = record.started_at or record.decided_at or _EPOCH
        ended = record.finished_at or later(began, record.duration_ms or 0.0) or began
        trace = _Trace(self, record, max(began, ended), began, content)
        yield trace.root()
        if record.report is not None:
            yield from trace.children(record.report)

    def root_name(self, record: ResultRow) -> str:
        """Return the name of the root span."""
        return f"invoke_agent {record.runner}"

    def root_attributes(self, record: ResultRow) -> Mapping[str, Any]:
        """Return the attributes of the root span beside OpenTelemetry's own."""
        trace = summarize_trace(record.report) if record.report is not None else None
        return {
            "eval_pipeline.suite": record.suite,
            "eval_pipeline.case_id": record.case_id,
            "eval_pipeline.runner": record.runner,
            "eval_pipeline.repetition": record.repetition,
            "eval_pipeline.status": record.verdict.status.value,
            "eval_pipeline.score": record.verdict.score,
            "eval_pipeline.threshold": record.verdict.threshold,
            "eval_pipeline.failure_class": record.verdict.failure_class,
            "eval_pipeline.execution_id": record.execution_id,
            "eval_pipeline.suite_revision": record.suite_revision,
            "eval_pipeline.sweep_id": record.sweep_id,
            "eval_pipeline.tags": list(record.tags),
            "eval_pipeline.duration_ms": record.duration_ms,
            "eval_pipeline.cost_usd": record.report.cost_usd if record.report is not None else None,
            "eval_pipeline.tool_calls": trace.event_count if trace is not None else None,
            "eval_pipeline.tools": sorted(trace.tool_calls) if trace is not None else None,
            "eval_pipeline.model_calls": trace.model_calls if trace is not None else None,
        }

    def score_attributes(self, score: Score) -> Mapping[str, Any]:
        """Return the attributes of an evaluation event beside OpenTelemetry's own."""
        return {"eval_pipeline.evaluator.type": score.type, "eval_pipeline.evaluator.weight": score.weight}


_RESOURCE = [{"key": "service.name", "value": {"stringValue": "eval-pipeline"}}]
_HEAD, _TAIL = (
    part + b"\n"
    for part in to_json({
        "resourceSpans": [
            {
                "resource": {"attributes": _RESOURCE},
                "scopeSpans": [{"scope": {"name": "eval_pipeline"}, "spans": ["SPANS"]}],
            }
        ]
    }).split(b'"SPANS"')
)  # fmt: skip


@dataclass(slots=True)
class _Trace:
    """Builder of the spans of one plan; `clock` is the last known time."""

    format: OpenTelemetry
    record: ResultRow
    ended: datetime
    clock: datetime
    content: bool
    made: int = 0
    ids: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256(self.record.execution_id.encode("utf-8", "replace")).hexdigest()
        self.ids = {"trace": digest[:32], "root": digest[32:48]}

    def root(self) -> dict[str, Any]:
        record = self.record
        failed = record.verdict.status is Status.ERROR
        return self._span(
            self.format.root_name(record),
            INTERNAL,
            (self.clock, self.ended),
            {
                **_root_attributes(record),
                **self.format.root_attributes(record),
                **(_messages(record) if self.content else {}),
            },
            error=record.verdict.failure_class if failed else None,
            message=(record.error or record.verdict.reason) if failed else None,
            events=[self._evaluation(score) for score in record.scores],
            root=True,
        )

    def children(self, report: SessionReport) -> Iterator[dict[str, Any]]:
        uses, turns = iter(report.tool_uses), _turns_of_only_answers(report)
        for event in report.events:
            if isinstance(event, ToolCallEvent):
                yield self._tool(next(uses))
            elif isinstance(event, MessageEvent):
                at = self._time(parse_time(event.at))
                if _is_answer(event):
                    yield self._chat(event, at, turns.get(id(event)))

    def _chat(self, event: MessageEvent, at: datetime, turn: Turn | None) -> dict[str, Any]:
        """Return the span of a message. The only message of a `turn` has its tokens and time, several have none."""
        record = self.record
        messages = [{"role": "assistant", "parts": [_text_part(event.text)], "finish_reason": "stop"}]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider(record),
            "gen_ai.request.model": _requested_model(record) or record.model,
            "gen_ai.response.model": record.report.model if record.report is not None else None,
            **(_usage(turn.usage) if turn is not None else {}),
            **({"gen_ai.output.messages": to_json(messages).decode()} if self.content else {}),
        }
        times = self._turn_times(turn, at) if turn is not None and event.at is None else (at, at)
        return self._span(f"chat {record.model or ''}".rstrip(), CLIENT, times, attributes)

    def _turn_times(self, turn: Turn, at: datetime) -> tuple[datetime, datetime]:
        """Return start and end: from the last known time for the turn's duration; a single turn spans the execution."""
        assert self.record.report is not None  # the turn comes from this report
        if len(self.record.report.turns) == 1:
            return self.record.started_at or at, self.ended
        return at, self._time(later(at, turn.duration_ms or 0.0))

    def _tool(self, use: ToolUse) -> dict[str, Any]:
        began = self._time(use.started_at)
        ended = min(max(began, use.ended_at or began), self.ended)
        result = use.result
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": use.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": use.call.call_id,
        }
        if self.content:
            attributes["gen_ai.tool.call.arguments"] = _json_text(use.call.arguments)
            attributes["gen_ai.tool.call.result"] = result.output if result is not None else None
        error = "tool_error" if use.is_error else None
        return self._span(f"execute_tool {use.tool}", INTERNAL, (began, ended), attributes, error=error)

    def _time(self, reported: datetime | None) -> datetime:
        """Return a time within the execution, not before the previous one: child spans lie inside their parent."""
        self.clock = min(max(self.clock, reported or self.clock), self.ended)
        return self.clock

    def _evaluation(self, score: Score) -> dict[str, Any]:
        passed = score.passed(self.record.verdict.threshold if score.minimum is None else score.minimum)
        attributes = {
            "gen_ai.evaluation.name": score.evaluator,
            "gen_ai.evaluation.score.value": score.value,
            "gen_ai.evaluation.score.label": None if passed is None else "pass" if passed else "fail",
            "gen_ai.evaluation.explanation": score.reason,
            "error.type": "evaluator" if score.value is None else None,
            **self.format.score_attributes(score),
        }
        return {
            "name": "gen_ai.evaluation.result",
            "timeUnixNano": _nanoseconds(self.ended),
            "attributes": _attributes(attributes),
        }

    def _span(
        self,
        name: str,
        kind: int,
        times: tuple[datetime, datetime],
        attributes: Mapping[str, Any],
        *,
        error: str | None = None,
        message: str | None = None,
        events: Sequence[dict[str, Any]] = (),
        root: bool = False,
    ) -> dict[str, Any]:
        self.made += 1
        span_id = self.ids["root"] if root else _id(self.record.execution_id, self.made)
        status = {"code": ERROR, "message": message} if message is not None else {"code": ERROR}
        return {
            "traceId": self.ids["trace"],
            "spanId": span_id,
            **({} if root else {"parentSpanId": self.ids["root"]}),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": _nanoseconds(times[0]),
            "endTimeUnixNano": _nanoseconds(times[1]),
            "attributes": _attributes({**attributes, "error.type": error}),
            **({"events": list(events)} if events else {}),
            "status": status if error is not None else {},
        }


def _is_answer(event: Any) -> bool:
    return isinstance(event, MessageEvent) and event.role == "assistant" and event.phase != "thinking"


def _root_attributes(record: ResultRow) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider(record),
        "gen_ai.agent.name": record.runner,
        "gen_ai.agent.version": record.report.agent_version if record.report is not None else None,
        "gen_ai.conversation.id": record.report.session_id if record.report is not None else None,
        "gen_ai.request.model": _requested_model(record) or record.model,
        **(_usage(record.report.usage) if record.report is not None else {}),
    }


def _turns_of_only_answers(report: SessionReport) -> dict[int, Turn]:
    """Return turns with exactly one message of the model, by the identity of that event."""
    answers = ((turn, [event for event in turn.events if _is_answer(event)]) for turn in report.turns)
    return {id(events[0]): turn for turn, events in answers if len(events) == 1}


def _usage(usage: Usage) -> dict[str, Any]:
    """Return gross counts: the conventions count cache reads as input."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def _messages(record: ResultRow) -> dict[str, Any]:
    prompt = [
        {"role": str(message.get("role")), "parts": [_text_part(content_text(message.get("content")))]}
        for message in record.input
    ]
    answered = [{"role": "assistant", "parts": [_text_part(record.output)], "finish_reason": "stop"}] if (
        record.output is not None
    ) else None  # fmt: skip
    return {
        "gen_ai.input.messages": to_json(prompt).decode(),
        "gen_ai.output.messages": to_json(answered).decode() if answered is not None else None,
    }


def _text_part(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _json_text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else to_json(value).decode()


def _requested_model(record: ResultRow) -> str | None:
    model = record.runner_settings.get("model")
    return model if isinstance(model, str) else None


def provider(record: ResultRow) -> str:
    """Return the model's provider, named as in the conventions: by agent, else by model, else the adapter."""
    model = (record.model or "").lower().rpartition("/")[2]
    by_model = (name for begin, name in _PROVIDERS_BY_MODEL.items() if model.startswith(begin))
    adapter = record.adapter or "unknown"
    agent = AGENTS.find(str(record.runner_settings.get("agent") or adapter))
    return (agent.model_provider if agent is not None else None) or next(by_model, adapter)


def _id(execution_id: str, number: int) -> str:
    return hashlib.sha256(f"{execution_id}/{number}".encode("utf-8", "replace")).hexdigest()[:16]


def _nanoseconds(time: datetime) -> str:
    """Return nanoseconds since the epoch as text: OTLP/JSON writes 64-bit numbers as strings."""
    return str((time - _EPOCH) // timedelta(microseconds=1) * 1_000)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
