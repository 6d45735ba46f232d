"""`agentv-otel`: the traces of `otel` with the attribute names of AgentV's own traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.exports.otel import OpenTelemetry
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Score
from eval_pipeline.scores.trace import summarize_trace


class AgentVOpenTelemetry(OpenTelemetry):
    """One JSON document as `otel` writes it, with `agentv.*` attributes beside ours."""

    def root_name(self, record: ResultRow) -> str:
        return "agentv.eval"

    def root_attributes(self, record: ResultRow) -> Mapping[str, Any]:
        trace = summarize_trace(record.report) if record.report is not None else None
        usage = record.report.usage if record.report is not None else None
        return {
            **super().root_attributes(record),
            "agentv.test_id": record.case_id,
            "agentv.target": record.runner,
            "agentv.suite": record.suite,
            "agentv.score": record.verdict.score,
            "agentv.trace.duration_ms": record.duration_ms,
            "agentv.trace.cost_usd": usage.cost_usd if usage is not None else None,
            "agentv.trace.token_input": usage.uncached_input_tokens if usage is not None else None,
            "agentv.trace.token_output": usage.output_tokens if usage is not None else None,
            "agentv.trace.token_cached": usage.cached_input_tokens if usage is not None else None,
            "agentv.trace.event_count": trace.event_count if trace is not None else None,
            "agentv.trace.tool_names": sorted(trace.tool_calls) if trace is not None else None,
            "agentv.trace.llm_call_count": trace.model_calls if trace is not None else None,
        }

    def score_attributes(self, score: Score) -> Mapping[str, Any]:
        return {"agentv.grader.type": score.type, "agentv.grader.weight": score.weight}
