"""`json`: one document with all rows in full and their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.exports.rows import row_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.moments import iso
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Status
from eval_pipeline.statistics.distributions import distribution


@EXPORTS.register("json")
class Json:
    """`{"results": [...], "stats": {...}}`; ungraded plans are counted separately from the pass rate."""

    folder: ClassVar[bool] = False

    def row(self, record: ResultRow) -> Mapping[str, Any]:
        """Return the entry of one plan in `results`."""
        return row_json(record)

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        statuses: Counter[Status] = Counter()
        scores: list[tuple[str, float]] = []
        before = b'{"results":[\n'
        for record in records:
            statuses[record.verdict.status] += 1
            if record.verdict.score is not None:
                scores.append((f"{record.suite}/{record.case_id}", record.verdict.score))
            yield FileChunk("", before + to_json(self.row(record)))
            before = b",\n"
        opening = before if not statuses else b""
        about = {"selection": options.name, "timestamp": iso(options.at), "stats": _stats(statuses, scores)}
        yield FileChunk("", opening + b"\n]," + to_json(about)[1:] + b"\n")


def _stats(statuses: Counter[Status], scores: list[tuple[str, float]]) -> dict[str, Any]:
    passed = sum(count for status, count in statuses.items() if status.as_expected)
    graded = sum(count for status, count in statuses.items() if status.graded)
    spread = distribution(scores, DEFAULT_THRESHOLD)
    return {
        "total": statuses.total(),
        "graded": graded,
        "passed": passed,
        "failed": graded - passed,
        "errors": statuses.total() - graded,
        "pass_rate": passed / graded if graded else None,
        "mean_score": spread.mean,
        "median_score": spread.median,
        "min_score": spread.least,
        "max_score": spread.most,
        "standard_deviation": spread.deviation,
        "histogram": list(spread.buckets),
        "top": list(spread.top),
        "bottom": list(spread.bottom),
    }
