"""`markdown`: a table for each suite, and what did not pass, for a page of text or a pull request."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import ClassVar

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.leaderboards.pair_rates import PairRates
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.show import amount, interval, markdown_table, money, percent
from eval_pipeline.parsing.visible import escape_controls

MOST_LISTED = 100
_LONGEST = 300
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&-])")
_HEAD = ("runner", "pass rate", "95 %", "mean score", "graded", "cost")
_LISTED = ("case", "runner", "repetition", "status", "reason")


@EXPORTS.register("markdown")
class Markdown:
    """Rates with their intervals for each suite and runner, and the first plans that did not pass."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        pairs: dict[tuple[str, str], PairRates] = {}
        failed: list[tuple[str, ...]] = []
        others = 0
        for record in records:
            key = record.suite, record.runner
            pairs.setdefault(key, PairRates(*key)).add(record)
            if not record.verdict.status.as_expected:
                others += len(failed) >= MOST_LISTED
                failed += [_failed(record)] if len(failed) < MOST_LISTED else []
        yield _piece(f"# {_text(options.name)}\n\n{options.at:%Y-%m-%d %H:%M} UTC\n")
        for suite, rows in groupby(sorted(pairs.values(), key=lambda pair: pair.suite), key=lambda pair: pair.suite):
            ordered = sorted(rows, key=_best_first)
            table = markdown_table(_HEAD, [_row(pair) for pair in ordered])
            yield _piece(f"\n## {_text(suite)}\n\n{table}\n{_cost_remark(ordered)}")
        if failed:
            more = f"\n{others} more are not listed.\n" if others else ""
            yield _piece(f"\n## Not passed\n\n{markdown_table(_LISTED, failed)}\n{more}")


def _best_first(pair: PairRates) -> tuple[float, str]:
    """Return the sort key of a pair; one without a rate is last."""
    return (-pair.pass_rate if pair.pass_rate is not None else math.inf), pair.runner


def _row(pair: PairRates) -> tuple[str, ...]:
    ends = pair.pass_interval or (None, None)
    score = amount(pair.mean_score, 3)
    graded = f"{pair.graded}/{pair.planned}"
    return _text(pair.runner), percent(pair.pass_rate), interval(*ends), score, graded, money(pair.cost_usd)


def _cost_remark(pairs: Iterable[PairRates]) -> str:
    """Return for which plans the costs of a table do not stand."""
    partly = [pair for pair in pairs if pair.cost_usd is not None and pair.without_cost]
    if not partly:
        return ""
    named = ", ".join(f"{pair.without_cost} of {pair.planned} of {_text(pair.runner)}" for pair in partly)
    return f"\nThe costs are without those of plans whose cost is not known: {named}.\n"


def _failed(record: ResultRow) -> tuple[str, ...]:
    verdict = record.verdict
    case = _text(f"{record.suite}/{record.case_id}")
    return case, _text(record.runner), str(record.repetition), verdict.status.value, _text(verdict.reason or "")


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return _MARKDOWN.sub(r"\\\1", escape_controls(" ".join(short.split()))).replace("\\|", "&#124;")


def _piece(text: str) -> FileChunk:
    return FileChunk("", text.encode())
