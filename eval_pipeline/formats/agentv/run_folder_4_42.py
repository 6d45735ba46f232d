"""`agentv-4-42`: the run folder of AgentV 4.42: experiments, transcripts, answers as they are.

It has no copy of each task (`task/`): suites and targets are where they are. A trace (`outputs/trace.json`) is what the
format `agentv-otel` writes. Differences on purpose are those of `run_folder`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.results import costs, token_usage
from eval_pipeline.formats.agentv.run_folder import AgentVRun, grading, pretty
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known, output_messages
from eval_pipeline.reports.moments import iso

DEFAULT_EXPERIMENT = "default"
TRANSCRIPT_SCHEMA = "agentv.transcript.v1"
_ANSWERS = ("outputs/answer.md", "outputs/response.md")


@EXPORTS.register("agentv-4-42")
class AgentVRun442(AgentVRun):
    """AgentV 4.42's run folder: as `agentv` with answers, transcripts, measures and the experiment in each row."""

    has_experiments: ClassVar[bool] = True
    paths: ClassVar[Sequence[tuple[str, str]]] = (
        ("grading_path", "grading.json"), ("timing_path", "timing.json"), ("input_path", "input.md"),
        ("output_path", _ANSWERS[0]), ("answer_path", _ANSWERS[0]), ("response_path", _ANSWERS[1]),
        ("transcript_path", "outputs/transcript.jsonl"),
    )  # fmt: skip

    def index_row(self, record: ResultRow, folder: str, options: ExportOptions) -> dict[str, Any]:
        measures = known({
            "token_usage": token_usage(record),
            **costs(record),
            "duration_ms": record.duration_ms,
            "start_time": iso(record.started_at),
            "end_time": iso(record.finished_at),
            "metadata": dict(record.metadata) or None,
        })  # fmt: skip
        row = super().index_row(record, folder, options)
        return {**row, **measures, "artifact_dir": folder, "experiment": options.experiment or DEFAULT_EXPERIMENT}

    def benchmark(self, benchmark: dict[str, Any], options: ExportOptions) -> dict[str, Any]:
        experiment = {"experiment": options.experiment or DEFAULT_EXPERIMENT}
        return {**benchmark, "metadata": {**benchmark["metadata"], **experiment}}

    def files(self, record: ResultRow) -> Iterator[tuple[str, bytes]]:
        values = grading(record)
        yield "grading.json", pretty({("graders" if key == "evaluators" else key): values[key] for key in values})
        yield from self.common_files(record)
        if record.output is not None:
            yield from ((name, record.output.encode("utf-8", "replace")) for name in _ANSWERS)
        transcript = b"".join(to_json(line) + b"\n" for line in transcript_lines(record))
        if transcript:
            yield "outputs/transcript.jsonl", transcript


def transcript_lines(record: ResultRow) -> Iterator[dict[str, Any]]:
    """Yield the messages of an execution, the input first, as lines of a transcript file."""
    messages = [*record.input, *(output_messages(record.report) if record.report is not None else ())]
    source = {
        "kind": "agentv_run",
        "provider": record.adapter or "unknown",
        "session_id": record.execution_id,
        "format": "agentv_result",
        "version": "1",
    }
    for index, message in enumerate(messages):
        head = {"schema_version": TRANSCRIPT_SCHEMA, "test_id": record.case_id, "target": record.runner}
        duration = known({"transcript_duration_ms": record.duration_ms})
        yield {**head, "message_index": index, **message, **duration, "source": source}
