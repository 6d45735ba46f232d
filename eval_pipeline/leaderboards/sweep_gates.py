"""A sweep → whether it is good enough: least pass rates and coverages, and the greatest drops below an earlier one.

Everything is decided by intervals: NO-GO where a rule is shown to be missed, GO where it is shown to hold, else
INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from eval_pipeline.leaderboards.comparisons import compare, one_per_runner
from eval_pipeline.leaderboards.gate_rules import GateRules
from eval_pipeline.leaderboards.gates import Gate, Policy, gates, worst
from eval_pipeline.leaderboards.results import RUNNER_CASE, Results, by_case, weights_of
from eval_pipeline.leaderboards.show import interval, percent
from eval_pipeline.statistics.clusters import case_sums, rate_interval
from eval_pipeline.statistics.gates import Decision, decide

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class GateLine:
    """What one rule says of one runner, or of one runner on a suite."""

    rule: str
    subject: str
    decision: Decision
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


@dataclass(frozen=True, slots=True)
class SweepGate:
    """The decision about a sweep, with what each rule says."""

    lines: tuple[GateLine, ...]

    @property
    def decision(self) -> Decision:
        """NO-GO if any rule decides so, GO if all do, else INCONCLUSIVE."""
        return worst([line.decision for line in self.lines])


NOTHING_MISSING: Mapping[str, str] = MappingProxyType({})
NO_RESULTS = GateLine("results", "the sweep", "INCONCLUSIVE", "it has no results")


def sweep_gate(
    results: Results, before: Results | None, rules: GateRules, missing: Mapping[str, str] = NOTHING_MISSING
) -> SweepGate:
    """Return the gate of a sweep's results against those of an earlier one; None: there is none yet, and no drop is
    shown or excluded. `missing` is what the sweep was to cover and has no results of, with the reason: it has no
    coverage, and without a rule about that it leaves the decision open."""
    decision: Decision = "INCONCLUSIVE" if rules.min_coverage is None else "NO-GO"
    absent = [GateLine("results", subject, decision, reason) for subject, reason in missing.items()]
    if results.frame.is_empty():
        return SweepGate((*absent, NO_RESULTS))
    lines = [*absent, *_of_pairs(results, rules)]
    if rules.compares:
        lines += _of_drops(results, before, rules)
    return SweepGate(tuple(lines))


def _of_pairs(results: Results, rules: GateRules) -> Iterator[GateLine]:
    """The rules about each runner on each suite by itself."""
    pairs = results.frame.sort("suite", "runner").partition_by("suite", "runner", as_dict=True, maintain_order=True)
    for (suite, runner), frame in pairs.items():
        subject = f"{suite} × {runner}"
        if rules.min_coverage is not None:
            yield _coverage(subject, frame, rules.min_coverage)
        if rules.min_pass_rate is not None:
            yield _pass_rate(subject, frame, rules.min_pass_rate)


def _coverage(subject: str, frame: pl.DataFrame, least: float) -> GateLine:
    graded = frame.filter(pl.col("status") != "error").height
    coverage = graded / frame.height
    decision: Decision = "GO" if coverage >= least - _ROUNDING else "NO-GO"
    return GateLine("min_coverage", subject, decision, f"{percent(coverage)} graded, at least {percent(least)}")


def _pass_rate(subject: str, frame: pl.DataFrame, least: float) -> GateLine:
    cases = by_case(frame, RUNNER_CASE).filter(pl.col("graded") > 0)
    clusters = pl.coalesce("cluster", "case_id")
    sums = case_sums(
        cases["pass_rate"].to_list(),
        cases["graded"].to_list(),
        cases.select(clusters).to_series().to_list(),
        weights_of(cases),
    )
    found = rate_interval(sums)
    decision = decide((found[0] - least, found[1] - least), _ROUNDING) if found is not None else "INCONCLUSIVE"
    low, high = found if found is not None else (None, None)
    text = f"pass rate {percent(sums.mean)} ({interval(low, high)}), at least {percent(least)}"
    return GateLine("min_pass_rate", subject, decision, text)


def _of_drops(results: Results, before: Results | None, rules: GateRules) -> Iterator[GateLine]:
    """The rules about drops, runner by runner; all intervals hold together."""
    earlier = {side.name: side for side in one_per_runner(before)} if before is not None else {}
    now = one_per_runner(results)
    policy = Policy(
        max_drop=1.0 if rules.max_drop is None else rules.max_drop, max_relative_drop=rules.max_relative_drop
    )
    decided = gates([compare(earlier[side.name], side) for side in now if side.name in earlier], policy)
    by_runner = {gate.candidate: gate for gate in decided}
    for side in now:
        yield _drop(side.name, by_runner.get(side.name), rules)


def drops_of_pairs(results: Results, before: Results, rules: GateRules) -> dict[tuple[str, str], Gate]:
    """Return the gate of each suite × runner that both have, by the greatest drops of the rules (0 where there are
    none): paired by case, all intervals together at 95 %."""
    earlier, now = _by_pair(before), _by_pair(results)
    policy = Policy(max_drop=rules.max_drop or 0.0, max_relative_drop=rules.max_relative_drop)
    pairs = [pair for pair in now if pair in earlier]
    decided = gates([compare(earlier[pair], now[pair]) for pair in pairs], policy)
    return dict(zip(pairs, decided, strict=True)) if decided else {}


def _by_pair(results: Results) -> dict[tuple[str, str], Results]:
    frames = results.frame.partition_by("suite", "runner", as_dict=True)
    return {
        (str(suite), str(runner)): Results(str(runner), frame, results.at) for (suite, runner), frame in frames.items()
    }


def _drop(runner: str, gate: Gate | None, rules: GateRules) -> GateLine:
    shown = [rule for rule in gate.rules if rules.max_drop is not None or rule.rule != "max-drop"] if gate else []
    if not shown:
        why = "nothing to compare with yet" if gate is None else "no case in common with the sweep before"
        return GateLine("max_drop", runner, "INCONCLUSIVE", why)
    texts = (f"{rule.rule} {rule.margin:g}: change {_change(rule.low, rule.high)}" for rule in shown)
    return GateLine("max_drop", runner, worst([rule.decision for rule in shown]), "; ".join(texts))


def _change(low: float | None, high: float | None) -> str:
    return "unknown (fewer than two cases)" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


def of_decision(lines: Sequence[GateLine], decision: Decision) -> list[str]:
    """Return what the rules of one decision say."""
    return [str(line) for line in lines if line.decision == decision]
