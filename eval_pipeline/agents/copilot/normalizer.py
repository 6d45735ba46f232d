"""`copilot`: what GitHub Copilot CLI prints with `--output-format json`, and the log of its session (`events.jsonl`).

Both hold the same events. The log has usage, version and folder as well and is read first when it is there; standard
output then adds what is not kept: retries, and the exit code. Copilot counts in premium requests, never in money, so
cost stays unknown. Sources: recordings and logs of 1.0.102; for older logs (exit codes in the text of a result, usage
in `session.shutdown` alone) public parsers of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval_pipeline.agents.copilot.ending import ending_of
from eval_pipeline.agents.copilot.events import events_of, session_context
from eval_pipeline.agents.copilot.records import TURNING_POINTS, data_of, first_text
from eval_pipeline.agents.copilot.usage import call_usages, telemetry_usage, usage_of
from eval_pipeline.agents.session_events import detected_skills, within
from eval_pipeline.reports.jsonl_records import Record, Records, amount, mapping, text
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.reports.moments import milliseconds_between, span_of
from eval_pipeline.reports.normalize import RawSession

ESSENTIAL = ("session.usage_record", "session.shutdown")
"""Records that are read even from the middle of a large output: sums and the ending need them."""


class CopilotNormalizer:
    """One run of Copilot CLI: its standard output and, when it was kept, the log of its session (`session`)."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, log = material.records("stdout", ESSENTIAL), material.records("session", ESSENTIAL)
        records = log.rows if _has_messages(log) else stdout.rows
        everything = (*log.rows, *stdout.rows)
        end = ending_of(records, stdout.rows, material.ends("stderr"))
        session = session_context(records, everything, end, material)
        events = within(events_of(records, stdout.rows, session), session.folder, material.folder)
        usage = usage_of(everything)
        # The log of a resumed session spans earlier runs, too.
        started_at, ended_at = span_of(() if stdout.rows else log.rows)
        calls = len(call_usages(everything)) or sum(row.type == "assistant.message" for row in records)
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=first_text(everything, "sessionId"),
            model=_answering_model(records) or first_text(everything, "selectedModel", "newModel", "model"),
            agent_version=first_text(everything, "copilotVersion"),
            usage=usage if usage != Usage() else telemetry_usage(material.records("telemetry").rows),
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            started_at=started_at,
            ended_at=ended_at,
            duration_ms=_own_time(stdout.rows) or milliseconds_between(started_at, ended_at),
            ttft_ms=next((amount(usage.get("timeToFirstTokenMs")) for usage in call_usages(everything)), None),
            model_calls=calls or None,
            unknown_events=dict(session.unknown),
            unparsed_lines=stdout.unparsed_lines + log.unparsed_lines,
        )


def _has_messages(records: Records) -> bool:
    return any(record.type in TURNING_POINTS for record in records.rows)


def _answering_model(rows: Iterable[Record]) -> str | None:
    return next(
        (model for row in rows if row.type == "assistant.message" and (model := text(data_of(row).get("model")))), None
    )


def _own_time(printed: Sequence[Record]) -> float | None:
    """The duration of this run that the CLI reports."""
    results = (mapping(row.value.get("usage")) for row in reversed(printed) if row.type == "result")
    return amount(next(results, {}).get("sessionDurationMs"))
