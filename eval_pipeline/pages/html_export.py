"""`export --format html`: the page of `eval-pipeline view` with its data inside, which needs no server and no network.

The data are JSON in elements that no browser executes; a policy in the page allows its own script and style only.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar

from eval_pipeline.exports import ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.show import interval, percent
from eval_pipeline.pages.cases import plan_document
from eval_pipeline.pages.static_files import script, text_of
from eval_pipeline.pages.suites import grid_document
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.scores.model import Status
from eval_pipeline.statistics.clusters import case_sums, rate_interval
from eval_pipeline.statistics.summaries import mean
from eval_pipeline.warehouse.case_details import CaseDetails
from eval_pipeline.warehouse.page_queries import Grid
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline.warehouse.store import Connection

BATCH = 100
"""Plans of one element: the page parses those that it shows."""
_STYLES = ("uplot.css", "style.css", "case.css")
_MARKS = {
    Status.PASSED: "p", Status.EXPECTED_FAILED: "e", Status.FAILED: "f", Status.UNEXPECTED_PASSED: "u",
    Status.ERROR: "x",
}  # fmt: skip


class Html:
    """The pages of `view` in one file: every suite with its cases, and each case in full."""

    folder: ClassVar[bool] = False

    def documents(self, connection: Connection, selection: Selection) -> Mapping[str, Any]:
        """Return what the page shows beside plans: board, sweeps, histories."""
        from eval_pipeline.pages.export_documents import page_documents  # noqa: PLC0415 — imports numpy

        return page_documents(connection, selection)

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        title = f"{options.name} · {options.at:%Y-%m-%d %H:%M} UTC"
        yield _piece(_head(title))
        contents = _Contents()
        batch: list[dict[str, Any]] = []
        for record in records:
            contents.add(record, len(batch))
            batch.append(plan_document(CaseDetails(row=record, workspace={})))
            if len(batch) == BATCH:
                yield _data(f"plans-{contents.batches}", batch)
                contents.batches += 1
                batch = []
        yield _data(f"plans-{contents.batches}", batch)
        yield _data("documents", {**options.documents, **contents.documents(options.name), "title": title})
        yield _piece(f"<script>{text_of('uplot.js')}</script>\n<script>{script()}</script>\n</body>\n</html>\n")


@dataclass(slots=True)
class _Suite:
    """What is known of the rows of a suite so far."""

    tags: dict[str, Sequence[str]] = field(default_factory=dict)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    plans: dict[str, dict[str, list[tuple[Status, float | None]]]] = field(default_factory=lambda: defaultdict(dict))
    weights: dict[str, float] = field(default_factory=dict)
    again: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Contents:
    """Where each plan is in the page, and the grid of each suite."""

    suites: dict[str, _Suite] = field(default_factory=dict)
    batches: int = 0

    def add(self, record: ResultRow, place: int) -> None:
        suite = self.suites.setdefault(record.suite, _Suite())
        suite.tags.setdefault(record.case_id, record.tags)
        suite.places.setdefault(record.case_id, []).append((self.batches, place))
        plans = suite.plans[record.runner].setdefault(record.case_id, [])
        plans.append((record.verdict.status, record.verdict.score))
        if record.weight is not None:
            suite.weights[record.case_id] = record.weight
        suite.again[record.runner] += record.retry_of is not None

    def documents(self, of: str) -> dict[str, Any]:
        return {
            "places": {name: suite.places for name, suite in self.suites.items()},
            "grids": {
                name: {**grid_document(name, of, _grid(suite)), "summaries": _summaries(suite)}
                for name, suite in self.suites.items()
            },
        }


def _grid(suite: _Suite) -> Grid:
    marks, scores = {}, {}
    for runner, plans in suite.plans.items():
        marks[runner] = ["".join(_MARKS[status] for status, _ in plans.get(case, ())) for case in suite.tags]
        known = [[score for _, score in plans.get(case, ()) if score is not None] for case in suite.tags]
        scores[runner] = [mean(values) for values in known]
    return Grid(cases=list(suite.tags), tags=list(suite.tags.values()), marks=marks, scores=scores)


def _summaries(suite: _Suite) -> dict[str, str]:
    """Return the rate of each runner, the (weighted) mean over cases, with its interval, as a text."""
    return {
        runner: _summary(
            {case: Counter(status for status, _ in plans) for case, plans in cases.items()},
            {case: weight for case, weight in suite.weights.items() if case in cases},
            suite.again[runner],
        )
        for runner, cases in suite.plans.items()
    }


def _summary(statuses: Mapping[str, Counter[Status]], weights: Mapping[str, float], again: int) -> str:
    """Return the rate with its interval; `again` plans were tried again because they failed."""
    cases = statuses.values()
    counts = [(_number(case, "as_expected"), _number(case, "graded")) for case in cases]
    passed, graded = (sum(column) for column in zip(*counts, strict=True))
    rates = [passes / plans for passes, plans in counts if plans]
    graded_cases = (name for name, (_, plans) in zip(statuses, counts, strict=True) if plans)
    shares = [weights.get(name, 1.0) for name in graded_cases] if weights else None
    sums = case_sums(rates, [plans for _, plans in counts if plans], weights=shares)
    low, high = rate_interval(sums) or (None, None)
    retried = f"; {again} tried again because they failed: the rate of first answers, on the board, is lower"
    return (
        f"{passed} of {graded} graded plans passed: {percent(sums.mean)} (95 %: {interval(low, high)}); "
        f"{sum(case.total() for case in cases) - graded} could not be graded{retried if again else ''}"
    )


def _number(statuses: Counter[Status], kind: str) -> int:
    return sum(count for status, count in statuses.items() if getattr(status, kind))


def _head(title: str) -> str:
    style = "\n".join(map(text_of, _STYLES))
    scripts = " ".join(map(_hash, (text_of("uplot.js"), script())))
    policy = f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(escape_controls(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page needs JavaScript.</noscript>\n"
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, value: Any) -> FileChunk:
    """Return an element with JSON; without `<` nothing in it can end the element."""
    data = to_json(value).replace(b"<", b"\\u003c")
    return FileChunk("", b'<script type="application/json" id="%s">%s</script>\n' % (name.encode(), data))


def _piece(text: str) -> FileChunk:
    return FileChunk("", text.encode("utf-8", "replace"))
