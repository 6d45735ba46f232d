"""`json`: one document with all rows in full and their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.exports.plan_lines import PlanLines
from eval_pipeline.exports.rows import row_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.moments import iso
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Status
from eval_pipeline.statistics.distributions import NamedScores, distribution
from eval_pipeline.warehouse.plan_texts import PlanText


class Entry(NamedTuple):
    """A plan in `results`: its JSON, and what is counted of it."""

    data: bytes
    status: Status
    score: float | None
    name: str


@EXPORTS.register("json")
class Json:
    """`{"results": [...], "stats": {...}}`; ungraded plans are counted separately from the pass rate."""

    folder: ClassVar[bool] = False

    def row(self, record: ResultRow) -> Mapping[str, Any]:
        """Return the entry of one plan in `results`."""
        return row_json(record)

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        return _document(map(self._entry, records), options)

    @property
    def joins_texts(self) -> bool:
        """Whether `text_pieces` writes the same, sooner: not where another class writes rows of its own."""
        return type(self).row is Json.row

    def text_pieces(self, plans: Iterable[PlanText], options: ExportOptions) -> Iterator[FileChunk]:
        """As `pieces`, of plans that the warehouse wrote as JSON."""
        lines = PlanLines()
        return _document((_text_entry(lines, plan) for plan in plans), options)

    def _entry(self, record: ResultRow) -> Entry:
        verdict = record.verdict
        return Entry(to_json(self.row(record)), verdict.status, verdict.score, f"{record.suite}/{record.case_id}")


def _text_entry(lines: PlanLines, plan: PlanText) -> Entry:
    suite, _, case_id = plan.case.key
    return Entry(lines.line(plan), Status(plan.status), plan.score, f"{suite}/{case_id}")


def _document(entries: Iterable[Entry], options: ExportOptions) -> Iterator[FileChunk]:
    statuses: Counter[Status] = Counter()
    scores = NamedScores()
    before = b'{"results":[\n'
    for entry in entries:
        statuses[entry.status] += 1
        if entry.score is not None:
            scores.add(entry.name, entry.score)
        yield FileChunk("", before + entry.data)
        before = b",\n"
    opening = before if not statuses else b""
    about = {"selection": options.name, "timestamp": iso(options.at), "stats": _stats(statuses, scores)}
    yield FileChunk("", opening + b"\n]," + to_json(about)[1:] + b"\n")


def _stats(statuses: Counter[Status], scores: NamedScores) -> dict[str, Any]:
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
