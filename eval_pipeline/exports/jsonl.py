"""`jsonl`: one full record a line, as AgentV's `--export results.jsonl` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.results import result_json
from eval_pipeline.leaderboards.result_rows import ResultRow


@EXPORTS.register("jsonl")
class JsonLines:
    """Every cell with its scores, messages, measures and verdict; what is not known is absent."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        for record in records:
            yield FileChunk("", to_json(result_json(record)) + b"\n")
