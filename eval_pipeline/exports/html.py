"""`html`: one self-contained page, for mail or as an artifact of a CI run.

Every text of a suite or a target is escaped, its control characters are visible; the page has no script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from typing import ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.show import UNKNOWN, amount, interval, milliseconds, money, percent
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.scores.model import Score, Status
from eval_pipeline.statistics.intervals import wilson
from eval_pipeline.suites.model import content_text

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#222}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin:2rem 0 .3rem}p{color:#666;margin:.2rem 0 .8rem}
details{border-top:1px solid #ddd;padding:.25rem 0}summary{cursor:pointer}
summary b{display:inline-block;min-width:9rem}.passed b,.expected-failed b{color:#197a3e}
.failed b,.unexpected-passed b{color:#b3261e}.error b{color:#9a6700}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f6f6f6;padding:.5rem;margin:.3rem 0}
table{border-collapse:collapse;margin:.3rem 0}td,th{text-align:left;padding:.1rem .8rem .1rem 0;vertical-align:top}
"""


@EXPORTS.register("html")
class Html:
    """Every suite and runner with its plans; a plan expands to its prompt, answer and evaluator reasons."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        title = f"{_escaped(options.name)} · {options.at:%Y-%m-%d %H:%M} UTC"
        yield _piece(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
            f"<h1>{title}</h1>\n"
        )
        for (suite, runner), group in groupby(records, key=lambda record: (record.suite, record.runner)):
            yield _piece(f"<h2>{_escaped(suite)} · {_escaped(runner)}</h2>\n")
            statuses: Counter[Status] = Counter()
            for record in group:
                statuses[record.verdict.status] += 1
                yield _piece(_plan(record))
            yield _piece(f"<p>{_escaped(_counted(statuses))}</p>\n")
        yield _piece("</html>\n")


def _escaped(text: str) -> str:
    """Return a text without markup; what hides or reorders text is visible."""
    return escape(escape_controls(text))


def _piece(text: str) -> FileChunk:
    return FileChunk("", text.encode("utf-8", "replace"))


def _counted(statuses: Counter[Status]) -> str:
    passed = sum(count for status, count in statuses.items() if status.as_expected)
    graded = sum(count for status, count in statuses.items() if status.graded)
    low, high = wilson(passed, graded) or (None, None)
    rate = percent(passed / graded) if graded else UNKNOWN
    return (
        f"{passed} of {graded} graded plans passed: {rate} (95 %: {interval(low, high)}); "
        f"{statuses.total() - graded} could not be graded"
    )


def _plan(record: ResultRow) -> str:
    verdict = record.verdict
    name = record.case_id if record.repetition == 1 else f"{record.case_id} #{record.repetition}"
    prompt = "\n\n".join(content_text(message.get("content")) for message in record.input)
    texts = [("asked", prompt), ("answered", record.output), ("error", record.error)]
    parts = [f"<p>{_escaped(what)}</p><pre>{_escaped(text)}</pre>" for what, text in texts if text]
    return (
        f'<details class="{verdict.status.value}"><summary><b>{verdict.status.value}</b> {_escaped(name)} '
        f"<small>{_escaped(_measures(record))}</small></summary><p>{_escaped(verdict.reason)}</p>"
        f"{_scores(record.scores)}{''.join(parts)}</details>\n"
    )


def _measures(record: ResultRow) -> str:
    usage = record.report.usage if record.report is not None else None
    measures = {
        "score": amount(record.verdict.score, 3),
        "time": milliseconds(record.duration_ms),
        "tokens": amount(usage.total_tokens if usage is not None else None),
        "cost": money(usage.cost_usd if usage is not None else None),
    }
    return " · ".join(f"{name} {value}" for name, value in measures.items() if value != UNKNOWN)


def _scores(scores: Iterable[Score]) -> str:
    cells = ((_escaped(score.evaluator), amount(score.value, 3), _escaped(score.reason)) for score in scores)
    rows = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in cells)
    return f"<table>{rows}</table>" if rows else ""
