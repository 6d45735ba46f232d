"""The fixed rules of `compare`: their options, what they find, and what changed beside the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.console import Console

from eval_pipeline.cli.result_sources import ResultSources
from eval_pipeline.cli.tables import Layout, print_line, print_rows
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.causes import Causes
from eval_pipeline.leaderboards.differences import MISSING, SetupChange, ValueChange, setup_changes
from eval_pipeline.leaderboards.regressions import (
    Regression,
    RegressionRules,
    details_of,
    regression,
)
from eval_pipeline.leaderboards.results import RUNNER_CASE, Results
from eval_pipeline.leaderboards.show import UNKNOWN, amount, counted, milliseconds, money, percent

Command = TypeVar("Command", bound=Callable[..., Any])
_LIMITS = RegressionRules()
_RULES = (
    ("--max-pass-rate-drop", "The greatest drop of the pass rate that is no regression", _LIMITS.max_pass_rate_drop),
    ("--max-score-drop", "The same of the mean score, from 0 to 1", _LIMITS.max_score_drop),
    ("--max-latency-increase", "The same of the mean latency, as a share of it", _LIMITS.max_latency_increase),
)
_SHOWN = 60


def regression_options(command: Command) -> Command:
    """Add the options of the fixed rules."""
    for name, help_, default in reversed(_RULES):
        limit = click.FloatRange(0) if "latency" in name else click.FloatRange(0, 1)
        text = f"{help_} (default with any of these rules: {default:g})."
        command = click.option(name, type=limit, help=text)(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of a candidate beside its comparison: its regression, where rules are given, its changes, and
    what a model holds for their causes, where one was asked."""

    name: str
    regression: Regression | None
    changes: Sequence[SetupChange]
    causes: Causes | None = None

    @property
    def regressed(self) -> bool:
        """Whether a rule is broken."""
        return self.regression is not None and self.regression.detected

    @property
    def as_json(self) -> dict[str, Any]:
        """The candidate as JSON values."""
        found = details_of(self.regression) if self.regression is not None else None
        return {
            "candidate": self.name,
            "regression": found,
            "changes": [change.as_json for change in self.changes if change.changed],
            **({"causes": self.causes.as_json} if self.causes is not None else {}),
        }


def rules_of(given: Mapping[str, float | None]) -> RegressionRules | None:
    """Return the rules with these limits, the others at their defaults; None where none is given."""
    limits = {name: limit for name, limit in given.items() if limit is not None}
    return RegressionRules(**limits) if limits else None


def candidates_of(
    sources: ResultSources,
    sides: Sequence[Results],
    reference: str | None,
    rules: RegressionRules | None,
    *,
    allow_changed: bool = False,
) -> list[Candidate]:
    """Return what is known of each candidate against the baseline; nothing without a baseline."""
    baseline = next((side for side in sides if side.name == reference), None)
    if baseline is None:
        return []
    others = [side for side in sides if side.name != reference]
    before = sources.measured(baseline) if rules is not None else None
    setups = sources.setups(baseline)
    return [
        Candidate(
            name=side.name,
            regression=regression(before, sources.measured(side), rules, allow_changed=allow_changed)
            if before is not None and rules
            else None,
            changes=setup_changes(setups, sources.setups(side)),
        )
        for side in others
    ]


def show_candidates(console: Console, candidates: Sequence[Candidate]) -> None:
    """Print the regression of each candidate, and what changed."""
    for each in candidates:
        named = f"{each.name}: " if len(candidates) > 1 else ""
        for line in _changed_lines(each.changes):
            print_line(console, f"{named}{line}", style="dim")
        if each.regression is not None:
            _show_regression(console, named, each.regression)


def _show_regression(console: Console, named: str, found: Regression) -> None:
    metrics = [metric for metric in found.metrics if metric.delta]
    if metrics:
        console.print()
        rows = [
            (each.metric, each.status, amount(each.baseline, 2), amount(each.candidate, 2), f"{each.delta:+.2f}",
             str(each.cases))
            for each in metrics
        ]  # fmt: skip
        print_rows(console, ("metric", "change", "baseline", "candidate", "delta", "cases"), rows, Layout(keep=1))
    changed = found.cases.filter(found.cases["status"] != "unchanged")
    for row in changed.head(10).iter_rows(named=True):
        name = "/".join(row[key] for key in RUNNER_CASE if key in row)
        delta = UNKNOWN if row["score_delta"] is None else f"{row['score_delta']:+.3f}"
        print_line(console, f"{named}{name} ({delta})", mark=row["status"])
    print_line(console, f"{named}{_totals_line(found)}", style="dim")
    counts = ", ".join(counted(number, status) if status == "error" else f"{number} {status}"
                       for status, number in found.counts.items() if number)  # fmt: skip
    print_line(console, f"{named}{counts or 'no case in common'}", style="dim")
    for reason in found.reasons:
        print_line(console, f"{named}{reason}", mark="REGRESSION", style="red")
    if not found.reasons:
        print_line(console, f"{named}no rule is broken", mark="NO REGRESSION", style="green")


def _totals_line(found: Regression) -> str:
    """Return the totals that the rules compare, of the cases that both sides graded."""
    before, after = found.baseline, found.candidate
    rates, scores = (before.pass_rate, after.pass_rate), (before.mean_score, after.mean_score)
    times, sums = (before.latency_mean_ms, after.latency_mean_ms), (before.total_cost_usd, after.total_cost_usd)
    unknown = before.cost_unknown + after.cost_unknown
    missing = f"money not compared: unknown for {counted(unknown, 'result')}"
    parts = [
        f"pass rate {' → '.join(map(percent, rates))}",
        f"mean score {' → '.join(amount(score, 3) for score in scores)}",
        f"mean of the cases' median times {' → '.join(map(milliseconds, times))}",
        missing if unknown else f"money {' → '.join(map(money, sums))}",
    ]
    return f"{counted(before.cases, 'common case')}: {'; '.join(parts)}"


def _changed_lines(changes: Sequence[SetupChange]) -> Iterator[str]:
    for change in changes:
        parts = [*_prompt_part(change), *_tool_parts(change), *map(_value_part, change.values), *_suite_part(change)]
        if parts:
            yield f"changed on {change.suite}: {'; '.join(parts)}"


def _prompt_part(change: SetupChange) -> Iterator[str]:
    if change.prompt.changed:
        yield f"prompt ({change.prompt.added} lines added, {change.prompt.removed} removed)"


def _tool_parts(change: SetupChange) -> Iterator[str]:
    tools = change.tools
    for what, names in (("added", tools.added), ("removed", tools.removed), ("modified", tuple(tools.modified))):
        if names:
            yield f"tools {what}: {', '.join(names)}"


def _value_part(change: ValueChange) -> str:
    return f"{change.field}: {_short(change.old)} → {_short(change.new)}"


def _short(value: Any) -> str:
    text = "not set" if value is MISSING or value is None else _text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _text(value: Any) -> str:
    return to_json(value).decode() if isinstance(value, Mapping | list) else str(value)


def _suite_part(change: SetupChange) -> Iterator[str]:
    cases = change.cases
    if change.suite_changed:
        yield f"the suite ({len(cases.added)} cases added, {len(cases.removed)} removed)"
