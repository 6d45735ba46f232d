"""`jsonl`: one row in full per line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.exports.plan_lines import PlanLines
from eval_pipeline.exports.rows import row_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.warehouse.plan_texts import PlanText


@EXPORTS.register("jsonl")
class JsonLines:
    """Every plan with its verdict, scores, session and measures; unknown values are absent."""

    folder: ClassVar[bool] = False

    def row(self, record: ResultRow) -> Mapping[str, Any]:
        """Return the object on the line of one plan."""
        return row_json(record)

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        for record in records:
            yield FileChunk("", to_json(self.row(record)) + b"\n")

    @property
    def joins_texts(self) -> bool:
        """Whether `text_pieces` writes the same, sooner: not where another class writes rows of its own."""
        return type(self).row is JsonLines.row

    def text_pieces(self, plans: Iterable[PlanText], options: ExportOptions) -> Iterator[FileChunk]:
        """As `pieces`, of plans that the warehouse wrote as JSON."""
        lines = PlanLines()
        for plan in plans:
            yield FileChunk("", lines.line(plan) + b"\n")
