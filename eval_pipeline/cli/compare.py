"""`eval-pipeline compare`: two or more sets of results, paired by case."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import polars as pl
from rich.console import Console

from eval_pipeline.cli.causes import candidates_of, show_causes
from eval_pipeline.cli.options import project_options
from eval_pipeline.cli.regressions import (
    Candidate,
    regression_options,
    rules_of,
    show_candidates,
)
from eval_pipeline.cli.result_sources import ResultSources, cluster_by_option
from eval_pipeline.cli.tables import Layout, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo_json
from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.leaderboards.comparisons import (
    THRESHOLD,
    Comparison,
    Summary,
    check_names,
    compare,
    details,
    games_of,
    matrix,
    one_per_runner,
    ranks_of,
    ratings,
    tests_of,
)
from eval_pipeline.leaderboards.gates import Gate, GateRule, Policy, details_of, gates, worst
from eval_pipeline.leaderboards.results import RUNNER_CASE, Results
from eval_pipeline.leaderboards.show import UNKNOWN, amount, counted, percent, rank_text
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.ratings import Games, rating_intervals

Ratings = Mapping[str, tuple[float, Interval | None]]
"""The strength of each side with its interval."""
NOTHING_PAIRED = 3
NOT_SHOWN = 4
HEAD = ("suite", "delta", "95 %", "wins", "losses", "ties", "paired", "means", "pass rates", "up", "down", "p")
"""The columns, the most important first: a narrow terminal shows those on the left."""
_LEGEND = (
    "delta: candidate - baseline, mean over cases; 95 %: paired, by cases; up, down: cases whose pass rate rose or "
    "fell; p: exact sign test of those (McNemar's, with one repetition)"
)
_RANKS_LEGEND = (
    "rank: the ranks that a side may have by the mean score, all sides together at 95 %: sides differ where the "
    "sign-flip test of their cases, adjusted for all pairs (Holm), is below 5 %"
)
_STYLES = {"GO": "green", "NO-GO": "red", "INCONCLUSIVE": "yellow"}
_MEANINGS = {
    "GO": "no drop beyond the margin",
    "NO-GO": "a drop beyond the margin",
    "INCONCLUSIVE": "the cases do not show whether it dropped beyond the margin",
}


@click.command(name="compare")
@click.argument("sides", nargs=-1, required=True, metavar="BASELINE CANDIDATE...")
@project_options
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--runner", "runners", multiple=True, help="Only these runners of sweeps and files (repeatable).")
@click.option("--threshold", type=click.FloatRange(0, 1), default=THRESHOLD, help="Minimum change of a win or loss.")
@click.option("--baseline", help="The side that others are compared with (default: the first of several).")
@click.option(
    "--fail-on-regression", "most_losses", type=click.IntRange(1), is_flag=False, flag_value=1, metavar="[N]",
    help="Exit 1 when N or more cases lost, regardless of the mean (default N: 1).",
)  # fmt: skip
@click.option(
    "--max-drop", type=click.FloatRange(0, 1), default=0.0,
    help="The gate's margin: the greatest drop of the mean that is tolerated (default 0).",
)  # fmt: skip
@click.option(
    "--max-relative-drop", type=click.FloatRange(0, 1),
    help="A second margin, as a share of the baseline's mean.",
)  # fmt: skip
@regression_options
@cluster_by_option
@click.option("--require-go", is_flag=True, help=f"Exit {NOT_SHOWN} when the gate is INCONCLUSIVE.")
@click.option("--advisory", is_flag=True, help="Report only: the gate and the rules do not change the exit code.")
@click.option("--ratings", "rated", is_flag=True, help="Rate all sides by their wins over each other (Bradley-Terry).")
@click.option("--explain-with", metavar="RUNNER", help="Ask this runner for the likely causes of what moved.")
@click.option("--allow-changed", is_flag=True, help="Also pair cases whose content differs between the sides.")
@click.option("--most", type=click.IntRange(0), default=20, help="Changed cases to show (default 20).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON on stdout.")
def compare_command(
    sides: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    suites: tuple[str, ...],
    runners: tuple[str, ...],
    threshold: float,
    baseline: str | None,
    most_losses: int | None,
    max_drop: float,
    max_relative_drop: float | None,
    cluster_by: str | None,
    require_go: bool,
    advisory: bool,
    rated: bool,
    explain_with: str | None,
    allow_changed: bool,
    most: int,
    as_json: bool,
    **limits: float | None,
) -> None:
    """Compare a baseline with candidates, case by case: wins, losses, ties, and the mean change with its interval.

    A side is a runner, sweep:ID (or the start of an ID; latest and previous have finished and cover the same; @RUNNER
    selects one runner), board:ID, current, baseline, an AgentV run folder or index.jsonl, or a json or jsonl export. A
    single side with several runners compares those with each other. Ungraded cases are left out; first answers count.

    The gate is NO-GO when the interval of a candidate's change shows a drop beyond --max-drop or --max-relative-drop,
    GO when it excludes one, else INCONCLUSIVE. With --max-pass-rate-drop, --max-score-drop or --max-latency-increase
    these three rules decide in its place, by the means over all repetitions of the cases both graded: a drop beyond
    a limit, however likely by chance, is a regression. The latency of a case is the median of its results' (turns').
    Exit codes: 0 for GO, INCONCLUSIVE and --advisory; 1 for NO-GO, a regression, or by --fail-on-regression; 3 when no
    case could be paired; 4 with --require-go for INCONCLUSIVE.
    """
    rules, policy = rules_of(limits), Policy(max_drop=max_drop, max_relative_drop=max_relative_drop)
    with ResultSources(project, data, suites, runners, cluster_by) as sources:
        results = _sides([sources.find(name) for name in sides])
        reference = _baseline(results, baseline, named=len(sides) > 1)
        _check_baseline(reference, {"--fail-on-regression": most_losses, "--require-go": require_go or None, **limits})
        candidates = candidates_of(sources, results, reference, rules, explain_with, allow_changed=allow_changed)
    pairs, rating = _with_ratings(_compared(results, reference, threshold, allow_changed), reference, rated=rated)
    decided = gates([pair for pair in pairs if pair.baseline == reference], policy)
    code = _exit_code(pairs, reference, decided if rules is None or require_go else (), most_losses, require_go)
    code = _advised(code, candidates, advisory)
    if as_json:
        echo_json(_document(results, pairs) | _more(decided, rating, candidates) | {"exit_code": code})
    else:
        _show(table_console(), results, pairs, most)
        _show_beside(table_console(), decided, _unmoved(pairs), candidates, rating)
    sys.exit(code)


def _show_beside(
    console: Console,
    decided: Sequence[Gate],
    unmoved: Mapping[str, int],
    candidates: Sequence[Candidate],
    strengths: Ratings | None,
) -> None:
    _show_gates(console, decided, unmoved)
    show_candidates(console, candidates)
    show_causes(console, candidates)
    _show_ratings(console, strengths)


def _more(decided: Sequence[Gate], strengths: Ratings | None, candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Return the gate and the ratings as JSON values, where there are any, and what is known of candidates."""
    gate = {"gate": details_of(decided)} if decided else {}
    rating: dict[str, Any] = {}
    if strengths is not None:
        rating["ratings"] = {name: strength for name, (strength, _) in strengths.items()}
        rating["rating_intervals"] = {name: interval for name, (_, interval) in strengths.items()}
    return gate | {"candidates": [each.as_json for each in candidates]} | rating


def _sides(sides: list[Results]) -> list[Results]:
    if len(sides) == 1:
        sides = one_per_runner(sides[0])
        if len(sides) < 2:
            raise InputError("a comparison needs two sides; the only one named has one runner")
    check_names(sides)
    return sides


def _baseline(sides: Sequence[Results], requested: str | None, *, named: bool) -> str | None:
    """Return the name of the baseline: the requested side, else the first named one."""
    names = [side.name for side in sides]
    if requested is not None and requested not in names:
        raise UnknownName("side", requested, names)
    return requested or (names[0] if named else None)


def _check_baseline(baseline: str | None, options: Mapping[str, object]) -> None:
    """Raise InputError for an option that is given (not None) and needs a baseline where there is none."""
    option = next((name for name, given in options.items() if given is not None), None)
    if baseline is None and option is not None:
        raise InputError(f"--{option.strip('-').replace('_', '-')} needs a baseline: --baseline NAME")


def _pairs(sides: Sequence[Results], baseline: str | None) -> list[tuple[Results, Results]]:
    """Return all pairs of sides, the baseline first."""
    ordered = sorted(sides, key=lambda side: side.name != baseline)
    return list(combinations(ordered, 2))


def _compared(
    sides: Sequence[Results], baseline: str | None, threshold: float, allow_changed: bool
) -> Iterator[Comparison]:
    for pair in _pairs(sides, baseline):
        yield compare(*pair, threshold=threshold, allow_changed=allow_changed)


def _with_ratings(
    compared: Iterable[Comparison], baseline: str | None, *, rated: bool
) -> tuple[list[Comparison], Ratings | None]:
    """Return the pairs, and the ratings of their sides where they are `rated`.

    Case rows are kept only for pairs with the baseline (memory: cases × pairs).
    """
    pairs: list[Comparison] = []
    games: list[Games] = []
    for pair in compared:
        games += [games_of(pair)] if rated else []
        is_shown = baseline in (pair.baseline, pair.candidate, None)
        pairs.append(pair if is_shown else replace(pair, cases=pair.cases.head(0)))
    return pairs, _rated(pairs, games) if rated else None


def _rated(pairs: Sequence[Comparison], games: Sequence[Games]) -> Ratings:
    strengths = ratings(pairs)
    return {name: (strengths[name], interval) for name, interval in rating_intervals(strengths, games).items()}


def _exit_code(
    pairs: Sequence[Comparison],
    baseline: str | None,
    decided: Sequence[Gate],
    most_losses: int | None,
    require_go: bool,
) -> int:
    if not any(pair.summary.paired for pair in pairs):
        return NOTHING_PAIRED
    decision = worst([gate.decision for gate in decided])
    losses = max((pair.summary.losses for pair in pairs if pair.baseline == baseline), default=0)
    if decision == "NO-GO" or (most_losses is not None and losses >= most_losses):
        return 1
    return NOT_SHOWN if require_go and decision == "INCONCLUSIVE" else 0


def _advised(code: int, candidates: Sequence[Candidate], advisory: bool) -> int:
    """Return the exit code with that of broken rules; without that of a decision where it is advice."""
    if advisory and code != NOTHING_PAIRED:
        return 0
    return 1 if any(each.regressed for each in candidates) else code


def _unmoved(pairs: Sequence[Comparison]) -> dict[str, int]:
    """Return how many cases the candidates have whose scores are the same as those of their baselines."""
    same = (pair for pair in pairs if pair.paired["score_baseline"].eq_missing(pair.paired["score_candidate"]).all())
    return {pair.candidate: pair.summary.paired for pair in same}


def _show_gates(console: Console, decided: Sequence[Gate], unmoved: Mapping[str, int]) -> None:
    for gate in decided:
        named = f"{gate.candidate}: " if len(decided) > 1 else ""
        rules = "; ".join(map(_rule_text, gate.rules)) or "no case in common"
        text = f"{named}{_MEANINGS[gate.decision]} ({rules})"
        print_line(console, text, mark=gate.decision, style=_STYLES[gate.decision])
        low = min((rule.low for rule in gate.rules if rule.low is not None), default=0.0)
        if gate.decision == "INCONCLUSIVE" and low < 0 and gate.candidate in unmoved:
            number = counted(unmoved[gate.candidate], "case")
            why = f"no score moved, and yet {number} alone cannot exclude that others would drop by up to {-low:.3f}"
            print_line(console, f"{why}: --max-drop tolerates as much, more cases exclude more", style="dim")


def _rule_text(rule: GateRule) -> str:
    if rule.low is None or rule.high is None:
        return "fewer than two cases"
    if rule.rule == "max-relative-drop":
        return f"relative change {100 * rule.low:+.1f} % to {100 * rule.high:+.1f} %, margin {100 * rule.margin:g} %"
    return f"change {rule.low:+.3f} to {rule.high:+.3f}, margin {rule.margin:g}"


def _show_ratings(console: Console, strengths: Ratings | None) -> None:
    if strengths is None:
        return
    console.print()
    print_line(console, "ratings by wins over each other (Bradley-Terry, geometric mean 1)", style="bold")
    ordered = sorted(strengths.items(), key=lambda entry: (-entry[1][0], entry[0]))
    rows = [(name, amount(strength, 3), _range(interval)) for name, (strength, interval) in ordered]
    print_rows(console, ("side", "strength", "95 %"), rows)


def _range(interval: Interval | None) -> str:
    return UNKNOWN if interval is None else f"{interval[0]:.3g} to {interval[1]:.3g}"


def _show(console: Console, sides: Sequence[Results], pairs: Sequence[Comparison], most: int) -> None:
    if len(pairs) == 1:
        _show_pair(console, pairs[0], most)
    else:
        _show_matrix(console, sides, pairs, most)
    print_line(console, _LEGEND, style="dim")


def _show_pair(console: Console, pair: Comparison, most: int) -> None:
    print_line(console, f"{pair.baseline} → {pair.candidate} (threshold {pair.threshold:g})", style="bold")
    summaries = pair.suites if len(pair.suites) == 1 else (*pair.suites, pair.summary)
    print_rows(console, HEAD, [_line(summary) for summary in summaries])
    changes = pair.changes(most)
    if changes.height:
        console.print()
        moved = pair.summary.wins + pair.summary.losses
        heading = "cases with the largest change" + (f" ({most} of {moved})" if moved > most else "")
        print_line(console, heading, style="bold")
        keys = [name for name in RUNNER_CASE if name in changes.columns]
        rows = [
            [*(row[key] for key in keys), f"{row['delta']:+.3f}", row["outcome"],
             amount(row["score_baseline"], 3), amount(row["score_candidate"], 3)]
            for row in changes.iter_rows(named=True)
        ]  # fmt: skip
        head = [*keys, "delta", "outcome", "baseline", "candidate"]
        print_rows(console, head, rows, Layout(keep=len(keys)))
    console.print()
    for line in _left_out(pair):
        print_line(console, line, style="yellow")


def _line(summary: Summary) -> tuple[str, ...]:
    low, high = summary.interval or (None, None)
    return (
        summary.suite or "all",
        UNKNOWN if summary.mean_delta is None else f"{summary.mean_delta:+.3f}",
        UNKNOWN if low is None or high is None else f"{low:+.3f} to {high:+.3f}",
        str(summary.wins),
        str(summary.losses),
        str(summary.ties),
        str(summary.paired),
        f"{amount(summary.mean_baseline, 3)} → {amount(summary.mean_candidate, 3)}",
        f"{percent(summary.pass_rate_baseline)} → {percent(summary.pass_rate_candidate)}",
        str(summary.passes.ups),
        str(summary.passes.downs),
        f"{summary.passes.p_value:.3g}" if summary.paired else UNKNOWN,
    )


def _left_out(pair: Comparison) -> list[str]:
    """Return a line for each reason why cases are not paired, with examples."""
    reasons = {
        "ungraded": "could not be graded on a side",
        "changed": "have another content on each side (--allow-changed pairs them)",
        "only-baseline": f"only in {pair.baseline}",
        "only-candidate": f"only in {pair.candidate}",
    }
    lines = []
    for outcome, reason in reasons.items():
        cases = pair.cases.filter(pl.col("outcome") == outcome)
        if cases.height:
            names = [f"{row['suite']}/{row['case_id']}" for row in cases.head(3).iter_rows(named=True)]
            more = ", …" if cases.height > len(names) else ""
            lines.append(f"not paired: {cases.height} {reason}: {', '.join(names)}{more}")
    return lines


def _show_matrix(console: Console, sides: Sequence[Results], pairs: Sequence[Comparison], most: int) -> None:
    scores = matrix(sides)
    names = [side.name for side in sides]
    keys = [name for name in scores.columns if name not in names]
    spread = pl.max_horizontal(names) - pl.min_horizontal(names)
    widest = scores.sort(spread.fill_null(-1.0), *keys, descending=[True] + [False] * len(keys)).head(most)
    paired = [pair for pair in pairs if pair.summary.paired]
    print_rows(console, ("baseline", "candidate", *HEAD[1:]), [_pair_line(pair) for pair in paired], Layout(keep=2))
    _show_ranks(console, [side.name for side in sides], pairs)
    if len(paired) < len(pairs):
        print_line(
            console,
            f"{counted(len(pairs) - len(paired), 'pair of sides has', 'pairs of sides have')} no case in common",
            style="yellow",
        )
    console.print()
    shown = (
        f" ({widest.height} of {counted(scores.height, 'case')}, the largest differences)"
        if scores.height > most
        else ""
    )
    print_line(console, f"mean score per case{shown}", style="bold")
    scored = [name for name in names if widest[name].null_count() < widest.height]
    rows = [
        [*(row[key] for key in keys), *(amount(row[name], 3) for name in scored)]
        for row in widest.iter_rows(named=True)
    ]
    print_rows(console, [*keys, *scored], rows, Layout(keep=len(keys)))
    if len(scored) < len(names):
        unscored = ", ".join(name for name in names if name not in scored)
        print_line(console, f"no score in these cases: {unscored}", style="dim")
    console.print()


def _show_ranks(console: Console, names: Sequence[str], pairs: Sequence[Comparison]) -> None:
    ranks = sorted(ranks_of(pairs, names).items(), key=lambda entry: (entry[1], entry[0]))
    console.print()
    print_rows(console, ("rank", "side"), [(rank_text(low, high), name) for name, (low, high) in ranks])
    print_line(console, _RANKS_LEGEND, style="dim")


def _pair_line(pair: Comparison) -> tuple[str, ...]:
    return pair.baseline, pair.candidate, *_line(pair.summary)[1:]


def _document(sides: Sequence[Results], pairs: Sequence[Comparison]) -> dict[str, Any]:
    if len(pairs) == 1:
        return _pair_document(pairs[0])
    names = [side.name for side in sides]
    adjusted = [test.adjusted for test in tests_of(pairs, names)]
    return {
        "sides": names,
        "ranks": ranks_of(pairs, names),
        "matrix": [
            {key: value for key, value in row.items() if key not in names} | {"scores": _scores(row, names)}
            for row in matrix(sides).iter_rows(named=True)
        ],
        "pairwise": [
            details(pair) | {"p_value_adjusted": p_value} for pair, p_value in zip(pairs, adjusted, strict=True)
        ],
    }


def _scores(row: dict[str, Any], names: Sequence[str]) -> dict[str, float]:
    return {name: row[name] for name in names if row[name] is not None}


def _pair_document(pair: Comparison) -> dict[str, Any]:
    rows = pair.cases.to_dicts()
    matched = ("win", "loss", "tie")
    return {
        **details(pair),
        "matched": [row for row in rows if row["outcome"] in matched],
        "unmatched": [row for row in rows if row["outcome"] not in matched],
    }
