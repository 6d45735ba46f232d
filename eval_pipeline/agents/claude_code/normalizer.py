"""`claude-code`: what Claude Code prints with `--output-format stream-json` or `json`, and its transcript file.

Events are read from standard output; from the transcript only when standard output has none (`json`, text). Usage,
cost, the final output and how the session ended come from the `result` record alone: an assistant record's usage is a
placeholder, and the text of an API error takes the place of an answer. A session that was ended before its `result` has
the usage of its transcript. Sources: recordings of 2.1.330, issues of the CLI for older shapes.
"""

from __future__ import annotations

from collections.abc import Iterable

from eval_pipeline.agents.claude_code.ending import ending_of, last_result
from eval_pipeline.agents.claude_code.events import events_of, session_context
from eval_pipeline.agents.claude_code.records import SYNTHETIC, first_text, without_repeats
from eval_pipeline.agents.claude_code.usage import usage_of, usage_of_transcript
from eval_pipeline.agents.session_events import detected_skills, within
from eval_pipeline.reports.jsonl_records import JsonMap, Record, Records, amount, mapping, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession

ESSENTIAL = ("result",)
"""Records that are read even from the middle of a large output: sums and the ending need them."""


class ClaudeCodeNormalizer:
    """One run of Claude Code: its standard output and, when it was kept, its transcript (`session`)."""

    version = "4"

    def normalize(self, material: RawSession) -> SessionReport:
        stdout, transcript = material.records("stdout", ESSENTIAL), material.records("session", ESSENTIAL)
        by_transcript = _has_messages(transcript) and not _has_messages(stdout)
        records, everything = (transcript if by_transcript else stdout).rows, (*stdout.rows, *transcript.rows)
        end = ending_of(last_result(everything), records, printed=bool(stdout.rows), stderr=material.ends("stderr"))
        session = session_context(records, everything, end, material)
        events = within(events_of(without_repeats(records), session), session.folder, material.folder)
        return SessionReport(
            execution_id=material.execution_id,
            final_output=end.final_output,
            session_id=first_text(everything, "session_id", "sessionId"),
            model=first_text(everything, "model") or _answering_model(records) or _only_model(end.result),
            agent_version=first_text(everything, "claude_code_version", "version"),
            usage=usage_of(end, records) if end.result else usage_of_transcript(end, transcript),
            events=events,
            skills=detected_skills(events),
            failure_class=end.failure.id if end.failure is not None else None,
            error=end.error,
            ttft_ms=amount(end.result.get("ttft_ms")),
            model_calls=len(_message_ids(records)) or None,
            unknown_events=dict(session.unknown),
            unparsed_lines=stdout.unparsed_lines + transcript.unparsed_lines,
        )


def _has_messages(records: Records) -> bool:
    return any(record.type in ("assistant", "user") for record in records.rows)


def _answering_model(rows: Iterable[Record]) -> str | None:
    models = (text(mapping(record.value.get("message")).get("model")) for record in rows if record.type == "assistant")
    return next((model for model in models if model is not None and model != SYNTHETIC), None)


def _only_model(result: JsonMap) -> str | None:
    models = list(mapping(result.get("modelUsage")))
    return models[0] if len(models) == 1 else None


def _message_ids(rows: Iterable[Record]) -> set[str]:
    messages = (mapping(record.value.get("message")) for record in rows if record.type == "assistant")
    return {id_ for message in messages if message.get("model") != SYNTHETIC and (id_ := text(message.get("id")))}
