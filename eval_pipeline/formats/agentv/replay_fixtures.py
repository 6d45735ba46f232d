"""`agentv-replay`: the answers of targets as AgentV's replay fixtures, which `provider: replay` answers from.

AgentV records them during a run (`--record-replay`); here every run keeps what targets answered, so that any stored
sweep can be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.compatibility import AGENTV
from eval_pipeline.formats.agentv.results import token_usage
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known, output_messages
from eval_pipeline.reports.moments import iso


@EXPORTS.register("agentv-replay")
class AgentVReplay:
    """One JSON line for each answer of a target; executions without an answer have none."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        for record in records:
            if record.report is not None and record.report.failure_class is None:
                yield FileChunk("", to_json(_fixture(record)) + b"\n")


def _fixture(record: ResultRow) -> dict[str, Any]:
    assert record.report is not None
    return {
        "schema_version": AGENTV.recording_schemas[0],
        "suite": record.suite,
        "test_id": record.case_id,
        "source_target": record.runner,
        "attempt": record.repetition - 1,
        "output": output_messages(record.report),
        **known({
            "recorded_at": iso(record.finished_at),
            "token_usage": token_usage(record),
            "cost_usd": record.report.usage.cost_usd,
            "duration_ms": record.duration_ms,
            "start_time": iso(record.started_at),
            "end_time": iso(record.finished_at),
        }),
    }  # fmt: skip
