"""`run --report summary`: each case with its time and tokens, runner by runner, and failures grouped by their cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from eval_pipeline.cli.tables import Layout, print_line, print_rows
from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.show import amount, counted, milliseconds
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.failed_cases import FailedCase, FailedCases
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.snapshots import AS_EXPECTED
from eval_pipeline.warehouse.case_usage import CaseUsage, case_usage
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse

MOST_FAILURES = 50
_MOST_CASES = 200
_HEAD = ("case", "", "time", "in", "out", "reasoning", "cache", "billed")
_LABELS = {"expected-failed": "expected failure", "unexpected-passed": "unexpected pass", "error": "not graded"}
_MEASURES = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "billed_tokens")


class _Pair(NamedTuple):
    outcome: PairOutcome
    cases: Sequence[CaseUsage]


def show_summary(
    console: Console, warehouse: Warehouse, outcomes: Sequence[PairOutcome], failed: FailedCases, selected: CaseFilter
) -> None:
    """Print the cases of finished pairs, their failures by class, and what they came to."""
    pairs = [_Pair(outcome, _usage(warehouse, outcome, selected)) for outcome in outcomes if outcome.error is None]
    _show_head(console, pairs, selected)
    for pair in pairs:
        _show_pair(console, pair)
    _show_failures(console, failed)
    _show_counts(console, pairs)
    _show_questions(console, pairs)


def _usage(warehouse: Warehouse, outcome: PairOutcome, selected: CaseFilter) -> Sequence[CaseUsage]:
    cases = outcome.pair.ready.suite.cases
    return case_usage(warehouse, outcome.pair.name, [case.id for case in cases if selected(case)])


def _show_head(console: Console, pairs: Sequence[_Pair], selected: CaseFilter) -> None:
    suites = {pair.outcome.pair.ready.suite.name: pair.outcome.pair.ready.suite for pair in pairs}
    for name, suite in suites.items():
        runners = [pair.outcome.pair.name.runner for pair in pairs if pair.outcome.pair.name.suite == name]
        print_line(console, f"{name} ({show_path(suite.path)}) with {', '.join(runners)}", style="bold")
    if selected.tags:
        print_line(console, f"tags: {', '.join(sorted(selected.tags))}")


def _show_pair(console: Console, pair: _Pair) -> None:
    name = pair.outcome.pair.name
    print_line(console, f"{name.suite} × {name.runner}", style="bold")
    strategy = pair.outcome.pair.ready.suite.settings.strategy
    rows = [
        (case.case_id, label(case, strategy), milliseconds(case.duration_ms), *_tokens(case))
        for case in pair.cases[:_MOST_CASES]
    ]
    print_rows(console, _HEAD, rows, Layout(keep=2, right=frozenset(_HEAD[2:])))
    if len(pair.cases) > _MOST_CASES:
        print_line(console, f"… and {counted(len(pair.cases) - _MOST_CASES, 'more case')}")
    console.print()


def _tokens(case: CaseUsage) -> Iterator[str]:
    return (amount(getattr(case, name)) for name in _MEASURES)


def label(case: CaseUsage, strategy: str | None) -> str:
    """Return what became of a case, with its answers where it has several."""
    if strategy == "on_failure" and case.last_status in AS_EXPECTED:
        retries = case.answers - case.as_expected
        words = [_LABELS[case.last_status]] if case.last_status != "passed" else []
        return " ".join(["✓", *words, *([counted(retries, "retry", "retries")] if retries else [])])
    mark = "✓" if case.as_expected == case.answers else "!" if case.status == "error" else "✗"
    words = [] if case.status in ("passed", "failed") else [_LABELS[case.status]]
    words += [f"{case.as_expected}/{case.answers} answers as expected"] if case.answers > 1 else []
    words += [f"[{case.failure_class}]"] if case.failure_class and case.status != "unexpected-passed" else []
    return " ".join([mark, *words])


def _show_failures(console: Console, failed: FailedCases) -> None:
    """Print failures by class, each with its reason."""
    groups: dict[str | None, list[FailedCase]] = {}
    for case in failed.cases:
        groups.setdefault(case.failure_class, []).append(case)
    for class_, cases in groups.items():
        title = f"{cases[0].label} [{class_ or cases[0].status}] ({len(cases)})"
        print_line(console, title, style="red")
        for case in cases:
            tried = f" ({case.failed} of {counted(case.repetitions, 'answer')})" if case.repetitions > 1 else ""
            print_line(console, f"  {case.suite}/{case.case_id} × {case.runner}{tried}")
            for line in (case.reason or "no reason is stored").splitlines():
                print_line(console, f"    {line}")
            if case.workspace is not None:
                print_line(console, f"    workspace: {show_path(Path(case.workspace))}")
            print_line(console, f"    {case.command}", style="dim")
    if failed.hidden:
        print_line(console, f"… and {counted(failed.hidden, 'more case')}: eval-pipeline show --failed")
    if failed.cases:
        console.print()


def _show_counts(console: Console, pairs: Sequence[_Pair]) -> None:
    cases = {(pair.outcome.pair.name.suite, case.case_id) for pair in pairs for case in pair.cases}
    statuses = Counter(_status(case, pair) for pair in pairs for case in pair.cases)
    parts = [f"{number} {_LABELS.get(status, status)}" for status, number in sorted(statuses.items())]
    total = f"{counted(len(cases), 'case')}, {counted(statuses.total(), 'pair')} of case and runner"
    print_line(console, f"{total}: {', '.join(parts) or 'none carried out'}")
    for pair in pairs:
        parts = [*_times(pair.cases), *_billed(pair.cases)]
        if parts:
            print_line(console, f"{_name(pair.outcome.pair.name)}: {', '.join(parts)}")


def _status(case: CaseUsage, pair: _Pair) -> str:
    """Return the status of a case: where failures are tried again, that of its last answer if it is as expected."""
    tried_again = pair.outcome.pair.ready.suite.settings.strategy == "on_failure"
    return case.last_status if tried_again and case.last_status in AS_EXPECTED else case.status


def _times(cases: Sequence[CaseUsage]) -> Iterator[str]:
    known = _known(cases, "duration_ms")
    if known:
        slowest = max(known, key=lambda case: known[case])
        yield f"{milliseconds(_mean(known))} a case (slowest: {slowest}, {milliseconds(known[slowest])})"


def _billed(cases: Sequence[CaseUsage]) -> Iterator[str]:
    known = _known(cases, "billed_tokens")
    if known:
        most = max(known, key=lambda case: known[case])
        yield f"{amount(_mean(known))} billed tokens a case (most: {most}, {amount(known[most])})"


def _name(pair: PairKey) -> str:
    return f"{pair.suite} × {pair.runner}"


def _known(cases: Sequence[CaseUsage], name: str) -> dict[str, float]:
    """Return a measure by case, without cases of which it is unknown."""
    return {case.case_id: value for case in cases if (value := getattr(case, name)) is not None}


def _mean(known: Mapping[str, float]) -> float:
    return sum(known.values()) / len(known)


def _show_questions(console: Console, pairs: Sequence[_Pair]) -> None:
    failed = [case for pair in pairs for case in pair.cases if not case.as_expected]
    if any(case.has_questions for pair in pairs for case in pair.cases):
        print_line(console, "ask the agents why: eval-pipeline explain", style="dim")
    elif failed:
        print_line(console, "no failed check has a question to its agent", style="dim")
