"""Counts of pairs by case → standings: the columns of the table `leaderboards`.

A rate is the mean over cases of the share of each case's plans whose first graded answer passed: a case counts once
however often it was repeated, and what was tried again because it failed is no better for it. Coverage and the bounds
of the rate account for what is not graded. Cases may have weights: those of the board, for all of its runners.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import polars as pl

from eval_pipeline.leaderboards.board_columns import COVERAGE_FLOOR, OVERALL, STANDING_COLUMNS
from eval_pipeline.leaderboards.boards import (
    Listed,
    common_suites,
    list_suite,
    missing_suites,
    pairs_of,
)
from eval_pipeline.leaderboards.case_totals import CaseTotals
from eval_pipeline.leaderboards.runner_differences import DifferenceColumns, overall_sums
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.statistics.clusters import rate_interval, score_interval
from eval_pipeline.statistics.outcome_sums import Bits, OutcomeSums, outcome_ranks, outcome_sums
from eval_pipeline.statistics.pair_sums import Array, pair_sums
from eval_pipeline.statistics.ranks import rank_intervals, tests_of_sums
from eval_pipeline.statistics.summaries import mean

_ROUNDING = 9
_UNKNOWN = (None, None)
_COUNTED = ("planned", "graded", "answers", "passed")
_COPIED = (
    "suite_revision", "runner_revision", "panel_revision", "cases_revision", "statistics_id", "sweep_id",
    "expected_failed", "unexpected_passed", "latency_p50_ms", "latency_p95_ms", "input_tokens", "output_tokens",
    "cost_usd", "cost_known", "grading_cost_usd", "oldest_answer_at", "newest_answer_at", "incomplete",
)  # fmt: skip
_SUMMED = (
    "planned", "graded", "answers", "passed", "failed", "expected_failed", "unexpected_passed", "errored", "cost_known",
)  # fmt: skip
_SUMMED_WHERE_KNOWN = ("input_tokens", "output_tokens", "cost_usd", "grading_cost_usd", "incomplete")
_READ_OF_SUITES = (
    "suite", "runner", "rank", "sweep_id", "oldest_answer_at", "newest_answer_at", *_SUMMED, *_SUMMED_WHERE_KNOWN,
    *(f"{name}{end}" for name in ("pass_rate", "mean_score") for end in ("", "_low", "_high")),
    "pass_rate_worst", "pass_rate_best",
)  # fmt: skip
"""What an overall standing is made of."""
Standing = dict[str, Any]
_EMPTY: Standing = dict.fromkeys(STANDING_COLUMNS)
_UNRANKED: Standing = dict.fromkeys(("rank", "rank_best", "rank_worst", "tied_with_best"))
_COMPUTED = {"place": pl.Int64} | {name: type_ for name, type_ in STANDING_COLUMNS.items() if name not in _COPIED}


@dataclass(frozen=True, slots=True)
class SuiteBoards:
    """Boards of suites: `standings`, best first, and the sums of `differences` of any two ranked runners of a suite,
    in the order of their names, with the number of `cases` on the board (DIFFERENCE_COLUMNS)."""

    standings: pl.DataFrame
    differences: pl.DataFrame


def rank(statistics: Iterable[pl.DataFrame], floor: float = COVERAGE_FLOOR) -> pl.DataFrame:
    """Return standings per suite and overall, best first, those apart last.

    `statistics`: one row per pair, some suites at a time, as `counted_pairs` yields them; `floor`: the least coverage
    of a ranked runner.
    """
    return with_overall(suite_boards(statistics, floor))


def suite_boards(statistics: Iterable[pl.DataFrame], floor: float) -> SuiteBoards:
    """Return the board of each suite, ranked by paired tests on the cases of the board."""
    standings = [pl.DataFrame(schema=STANDING_COLUMNS)]
    differences = DifferenceColumns()
    for frame in statistics:
        rows = frame.sort("suite", "runner")
        boards = [_Board.of(suite, list_suite(pairs, floor)) for suite, pairs in pairs_of(rows)]
        _compare(boards, differences)
        standings.append(_standings(boards, rows))
    return SuiteBoards(pl.concat(standings), differences.frame)


def _standings(boards: Iterable[_Board], rows: pl.DataFrame) -> pl.DataFrame:
    """Return the standings of boards; what is not computed of a pair is copied from its row."""
    standings = [standing for board in boards for standing in _in_order(board.standings)]
    if not standings:
        return pl.DataFrame(schema=STANDING_COLUMNS)
    computed = pl.DataFrame(standings, schema=_COMPUTED, orient="row")
    copied = rows.select(pl.col(name).cast(STANDING_COLUMNS[name]) for name in _COPIED)
    return computed.hstack(copied[computed["place"]]).select(*STANDING_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Board:
    """The board of a suite: the `ranked` pairs with their standings in `compared`, and all `standings`."""

    suite: str
    ranked: Sequence[Listed]
    compared: Sequence[Standing]
    standings: Sequence[Standing]

    @classmethod
    def of(cls, suite: str, listed: Sequence[Listed]) -> _Board:
        """Return the board of the listed pairs of a suite, not yet ranked."""
        standings = [_standing(row) for row in listed]
        known = [row.apart is None and own["pass_rate"] is not None for row, own in zip(listed, standings, strict=True)]
        return cls(suite, list(compress(listed, known)), list(compress(standings, known)), standings)

    @property
    def runners(self) -> list[str]:
        """The names of the ranked runners."""
        return [row.pair.runner for row in self.ranked]


def _compare(boards: Sequence[_Board], differences: DifferenceColumns) -> None:
    """Rank the runners of each board by tests of any two, and add their differences."""
    plain: list[tuple[_Board, OutcomeSums]] = []
    for board in filter(lambda board: board.ranked, boards):
        if (outcomes := _outcomes(board.ranked)) is None:
            _rank(board.compared, _compared(board, differences))
            continue
        sums = outcome_sums(*outcomes)
        differences.add_outcomes(board.suite, board.runners, board.ranked[0].totals.cases, sums)
        plain.append((board, sums))
    ranks = outcome_ranks([len(board.ranked) for board, _ in plain], [sums for _, sums in plain])
    for (board, _), intervals in zip(plain, ranks, strict=True):
        _rank(board.compared, intervals)


def _compared(board: _Board, differences: DifferenceColumns) -> list[tuple[int, int]]:
    """Return the best and worst rank that tests of rates by case leave each runner, and add their differences."""
    ranked = board.ranked
    rates = np.array([_case_rates(row) for row in ranked], dtype=np.float64)
    sums = list(pair_sums(rates, ranked[0].clusters, ranked[0].weights))
    differences.add_sums(board.suite, board.runners, rates.shape[-1], sums)
    return rank_intervals(len(ranked), tests_of_sums(sums))


def _outcomes(ranked: Sequence[Listed]) -> tuple[Bits, Bits] | None:
    """Return for each runner and case whether it is graded, and whether it passed; None where bits do not tell all."""
    bits, cases = [each for row in ranked if (each := row.outcomes) is not None], ranked[0].totals.cases
    if len(bits) < len(ranked):
        return None
    packed = np.frombuffer(b"".join(bits), dtype=np.uint8).reshape(len(bits), -1)
    both = np.unpackbits(packed, axis=1)[:, -2 * cases :].astype(bool)
    return both[:, :cases], both[:, cases:]


def _case_rates(listed: Listed) -> Array:
    """Return the pass rate of each case, NaN where nothing is graded."""
    graded = listed.values("graded")
    rates: Array = np.full(len(graded), np.nan)
    np.divide(listed.values("passed"), graded, out=rates, where=graded > 0)
    return rates


def _standing(listed: Listed) -> Standing:
    pair, totals = listed.pair, listed.totals
    counts = {name: getattr(totals, name) for name in _COUNTED}
    errored = counts["planned"] - counts["graded"] if pair.complete else pair.row["errored"]
    counts["planned"] += int(pair.row["broken"])
    return {
        "place": pair.row["place"],
        "suite": pair.suite,
        "runner": pair.runner,
        **_UNRANKED,
        **counts,
        "errored": errored,
        **_rates(totals, pair.row["broken"]),
        "failed": counts["graded"] - counts["passed"],
        "coverage": counts["graded"] / counts["planned"] if counts["planned"] else None,
        "scope": "suite",
        "suites": 1,
        "apart": listed.apart,
        "note": _note(pair.row),
    }


def _rates(totals: CaseTotals, broken: int) -> Standing:
    """Return pass rate, its bounds, mean score, and the intervals."""
    rate_ends = rate_interval(totals.rates) or _UNKNOWN
    score_ends = score_interval(totals.scores) or _UNKNOWN
    worst, best = _bounds(totals, broken)
    return {
        "pass_rate": totals.pass_rate, "pass_rate_low": rate_ends[0], "pass_rate_high": rate_ends[1],
        "pass_rate_worst": worst, "pass_rate_best": best, "mean_score": totals.mean_score,
        "mean_score_low": score_ends[0], "mean_score_high": score_ends[1], "effective_cases": totals.effective_cases,
    }  # fmt: skip


def _bounds(totals: CaseTotals, broken: int) -> tuple[float | None, float | None]:
    """Return the rate if every plan that is not graded had failed, and if it had passed; each case counts once, broken
    cases as many cases as the others have plans on average."""
    if not totals.planned:
        return _UNKNOWN
    broken_cases = broken * totals.cases / totals.planned
    total = totals.cases + broken_cases
    return totals.passed_shares / total, (totals.passed_shares + totals.open_shares + broken_cases) / total


def _note(row: Mapping[str, Any]) -> str | None:
    if row["later_plans"] is None:
        return None
    plans = counted(row["later_plans"], "plan")
    return f"a later run carried out {row['later_carried_out']} of {plans}"


def _rank(standings: Sequence[Standing], intervals: Sequence[tuple[int, int]]) -> None:
    """Set the ranks of standings: by rate, then mean score; and the best and worst rank that the data leaves open."""
    keys = [_key(standing) for standing in standings]
    for standing, key, (best, worst) in zip(standings, keys, intervals, strict=True):
        standing["rank"] = 1 + sum(other < key for other in keys)
        standing["rank_best"], standing["rank_worst"] = best, worst
        standing["tied_with_best"] = best == 1


def _key(standing: Standing) -> tuple[float, float]:
    score = standing["mean_score"]
    return -round(standing["pass_rate"], _ROUNDING), -round(-1.0 if score is None else score, _ROUNDING)


def _in_order(standings: Iterable[Standing]) -> list[Standing]:
    return sorted(standings, key=lambda row: (row["rank"] is None, row["rank"] or 0, row["runner"]))


def with_overall(boards: SuiteBoards) -> pl.DataFrame:
    """Return the standings of suites, then one per runner over the suites that all compared runners are ranked on,
    equally weighted; the others apart."""
    by_runner = _by_runner(boards.standings.select(_READ_OF_SUITES))
    ranked = _ranked_suites(by_runner)
    suites, runners = common_suites(ranked)
    rows = {runner: _overall_standing(own, set(suites)) for runner, own in by_runner.items()}
    for runner, row in rows.items():
        if runner not in runners:
            row["apart"] = missing_suites(suites, ranked[runner]) if suites else "no rank on any suite"
    tests = tests_of_sums(overall_sums(boards.differences, suites, runners))
    _rank([rows[runner] for runner in runners], rank_intervals(len(runners), tests))
    overall = pl.DataFrame(_in_order(rows.values()), schema=STANDING_COLUMNS, orient="row")
    return pl.concat([boards.standings, overall])


def of_sweeps(overall: pl.DataFrame, standings: pl.DataFrame) -> pl.DataFrame:
    """Return overall standings with the newest sweeps that left these standings of suites as they are."""
    by_runner = _by_runner(standings.select("runner", "suite", "rank", "sweep_id"))
    suites, _ = common_suites(_ranked_suites(by_runner))
    newest = {runner: _newest_sweep(_among(own, suites)) for runner, own in by_runner.items()}
    return overall.with_columns(sweep_id=pl.col("runner").replace_strict(newest, return_dtype=pl.String))


def _by_runner(standings: pl.DataFrame) -> dict[str, list[Standing]]:
    by_runner: dict[str, list[Standing]] = {}
    for standing in standings.iter_rows(named=True):
        by_runner.setdefault(standing["runner"], []).append(standing)
    return by_runner


def _ranked_suites(by_runner: Mapping[str, Sequence[Standing]]) -> dict[str, list[str]]:
    return {
        runner: [standing["suite"] for standing in own if standing["rank"] is not None]
        for runner, own in by_runner.items()
    }


def _among(own: Sequence[Standing], suites: Collection[str]) -> list[Standing]:
    """Return the standings of a runner on the suites of the overall board; all, where it has none of them."""
    return [row for row in own if row["suite"] in suites] or list(own)


def _newest_sweep(rows: Sequence[Standing]) -> str | None:
    return max(_known(rows, "sweep_id"), default=None)


def _overall_standing(own: Sequence[Standing], suites: Collection[str]) -> Standing:
    """Return the mean over suites. The intervals take the suites as independent: the distances from each suite's value
    to the ends of its interval are added in quadrature (Zou and Donner 2008, Statistics in Medicine 27)."""
    chosen = _among(own, suites)
    sums = {name: sum(row[name] for row in chosen) for name in _SUMMED}
    known = {name: _known_sum(chosen, name) for name in _SUMMED_WHERE_KNOWN}
    means = {name: mean(list(_known(chosen, name))) for name in ("pass_rate_worst", "pass_rate_best")}
    return {
        **_EMPTY,
        **sums,
        **known,
        **means,
        **_mean_of("pass_rate", chosen),
        **_mean_of("mean_score", chosen),
        "scope": "overall",
        "suite": OVERALL,
        "runner": chosen[0]["runner"],
        "suites": len(chosen),
        "coverage": sums["graded"] / sums["planned"] if sums["planned"] else None,
        "sweep_id": _newest_sweep(chosen),
        "oldest_answer_at": min(_known(chosen, "oldest_answer_at"), default=None),
        "newest_answer_at": max(_known(chosen, "newest_answer_at"), default=None),
    }


def _known(rows: Sequence[Standing], name: str) -> Iterator[Any]:
    return (row[name] for row in rows if row[name] is not None)


def _known_sum(rows: Sequence[Standing], name: str) -> Any:
    """Return the sum of the known values; None, not 0, without any."""
    values = list(_known(rows, name))
    return sum(values) if values else None


def _mean_of(name: str, rows: Sequence[Standing]) -> Standing:
    values = list(_known(rows, name))
    middle = mean(values)
    ends = {(end, sign): list(_known(rows, f"{name}_{end}")) for end, sign in (("low", -1), ("high", 1))}
    return {
        name: middle,
        **{f"{name}_{end}": _end_of_mean(middle, values, limits, sign) for (end, sign), limits in ends.items()},
    }


def _end_of_mean(middle: float | None, values: Sequence[float], limits: Sequence[float], sign: int) -> float | None:
    """Return one end of the interval of a mean; None when a value has no interval."""
    if middle is None or len(limits) != len(values):
        return None
    reach = math.sqrt(sum((limit - value) ** 2 for limit, value in zip(limits, values, strict=True)))
    return min(1.0, max(0.0, middle + sign * reach / len(values)))
