"""`html`: one self-contained page, for mail or as an artifact of a CI run.

Every text of a suite or a target is escaped, its control characters are visible; the page has no script.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.show import UNKNOWN, amount, interval, milliseconds, money, percent
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.reports.model import Event, MessageEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.scores.model import Score, Status
from eval_pipeline.statistics.clusters import case_sums, rate_interval
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
            statuses: dict[str, Counter[Status]] = defaultdict(Counter)
            weights: dict[str, float] = {}
            again = 0
            for record in group:
                statuses[record.case_id][record.verdict.status] += 1
                if record.weight is not None:
                    weights[record.case_id] = record.weight
                again += record.retry_of is not None
                yield _piece(_plan(record))
            yield _piece(f"<p>{_escaped(_counted(statuses, weights, again))}</p>\n")
        yield _piece("</html>\n")


def _escaped(text: str) -> str:
    """Return a text without markup; what hides or reorders text is visible."""
    return escape(escape_controls(text))


def _piece(text: str) -> FileChunk:
    return FileChunk("", text.encode("utf-8", "replace"))


def _counted(statuses: Mapping[str, Counter[Status]], weights: Mapping[str, float], again: int) -> str:
    """Return the rate, the (weighted) mean over cases, with its interval; `again` plans were tried again because they
    failed."""
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


def _plan(record: ResultRow) -> str:
    verdict = record.verdict
    name = record.case_id if record.repetition == 1 else f"{record.case_id} #{record.repetition}"
    prompt = "\n\n".join(content_text(message.get("content")) for message in record.input)
    texts = [("asked", prompt), ("answered", record.output), ("error", record.error)]
    parts = [f"<p>{_escaped(what)}</p><pre>{_escaped(text)}</pre>" for what, text in texts if text]
    return (
        f'<details class="{verdict.status.value}"><summary><b>{verdict.status.value}</b> {_escaped(name)} '
        f"<small>{_escaped(_measures(record))}</small></summary><p>{_escaped(verdict.reason)}</p>"
        f"{_scores(record.scores)}{''.join(parts)}{_conversation(record)}</details>\n"
    )


def _conversation(record: ResultRow) -> str:
    """Return the lines of a conversation and its calls of tools, everything escaped; nothing of a single turn."""
    report = record.report
    if report is None or len(report.turn_starts) < 2:
        return ""
    lines = "".join(
        f"<li><b>{_escaped(speaker)}</b> {_escaped(text)}</li>" for speaker, text in map(_line, report.events) if text
    )
    ended = f"<p>ended by {_escaped(report.ended_by)}</p>" if report.ended_by is not None else ""
    return f"<p>conversation</p><ol>{lines}</ol>{ended}"


def _line(event: Event) -> tuple[str, str]:
    """Return who spoke and what was said, or the tool that was called; no text for what is not shown."""
    if isinstance(event, MessageEvent) and event.phase != "thinking":
        return event.role, event.text
    if isinstance(event, ToolCallEvent):
        return f"calls {event.tool}", to_json(event.arguments).decode()
    if isinstance(event, ToolResultEvent):
        return f"{event.tool or 'tool'} returns", event.output or ""
    return "", ""


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
