"""What a person is shown of finished pairs and boards: counts and Markdown tables. Dagster shows them in its UI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.board_columns import OVERALL
from eval_pipeline.leaderboards.show import (
    BOARD_HEAD,
    board_remarks,
    board_rows,
    counted,
    markdown_table,
    percent,
    ranks_legend,
    suites_left_out,
)
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.failed_cases import FAILED_CASES_SHOWN, FailedCase, FailedCases
from eval_pipeline.sweeps.options import EXECUTE, NORMALIZE
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import ValidatedSuite
from eval_pipeline.sweeps.progress import SweepProgress
from eval_pipeline.warehouse import queries
from eval_pipeline.warehouse.store import Warehouse

FAILED_CASES_NAMED = 3
"""How many of them its summary in one message names."""
NAMES_IN_A_LINE = 20


def problem_list(ready: ValidatedSuite) -> str:
    """Return the errors and warnings of a suite as a Markdown list."""
    return "\n".join(f"- {problem}" for problem in (*ready.errors, *ready.suite.warnings)) or "none"


def stage_counts(stage: str, outcome: PairOutcome) -> dict[str, Any]:
    """Return the counts of a pair that one of STAGES is described by; unknown ones are left out."""
    counts = outcome.counts
    if stage == EXECUTE:
        return {"reused": counts.reused, "executed": counts.executed}
    if stage == NORMALIZE:
        usage = ("input_tokens", "output_tokens", "cost_usd")
        return {name: getattr(counts, name) for name in usage if getattr(counts, name) is not None}
    rates = {"pass_rate": counts.pass_rate, "coverage": counts.coverage}
    verdicts = ("rescored", "passed", "failed", "errored")
    return {name: rate for name, rate in rates.items() if rate is not None} | {
        name: getattr(counts, name) for name in verdicts
    }


def failure_table(failures: pl.DataFrame | None) -> str:
    """Return failure classes as a Markdown table."""
    if failures is None or failures.is_empty():
        return "everything passed"
    rows = [
        (row["label"], row["origin"], str(row["count"]), percent(row["share"]), ", ".join(row["examples"]))
        for row in failures.iter_rows(named=True)
    ]
    return markdown_table(("class", "origin", "count", "share", "examples"), rows)


def board_tables(standings: pl.DataFrame) -> str:
    """Return standings as Markdown tables: one per suite, after one of all suites when there are several."""
    per_suite = standings.filter(pl.col("scope") == "suite")
    boards = {suite: per_suite.filter(pl.col("suite") == suite) for suite in suites_of(standings)}
    if len(boards) > 1:
        boards = {"Overall (mean over suites)": standings.filter(pl.col("suite") == OVERALL), **boards}
    tables = [
        "\n\n".join([f"### {title}", markdown_table(BOARD_HEAD, board_rows(board)), *board_remarks(board)])
        for title, board in boards.items()
    ]
    tables[1:1] = suites_left_out(standings)
    return "\n\n".join([*tables, *ranks_legend(standings)]) or "nothing graded yet"


def suites_of(standings: pl.DataFrame) -> list[str]:
    """Return the suites of standings, in their order."""
    return standings.filter(pl.col("scope") == "suite")["suite"].unique(maintain_order=True).to_list()


def by_reason(errors: Mapping[str, str]) -> str:
    """Return errors by name as lines: each reason once, with its names."""
    names: dict[str, list[str]] = {}
    for name, reason in errors.items():
        names.setdefault(reason, []).append(name)
    return "\n".join(f"{', '.join(each)}: {reason}" for reason, each in names.items())


def failed_cases(
    warehouse: Warehouse,
    outcomes: Sequence[PairOutcome],
    selected: CaseFilter | None = None,
    most: int = FAILED_CASES_SHOWN,
) -> FailedCases:
    """Return the cases of finished pairs that did not pass: failed, passed unexpectedly, or could not be graded.

    Reused executions count as well. Where a suite says how repetitions become one result for a case, a case that passed
    by that rule is left out. `selected` narrows the cases down as the sweep did. Nothing is read where all passed.
    """
    selected = selected or CaseFilter()
    by_case = {
        outcome.pair.name: outcome.pair.ready.suite.settings.strategy is not None
        for outcome in outcomes
        if outcome.error is None and (outcome.counts.failed or outcome.counts.errored)
    }
    if not by_case:
        return FailedCases()
    frame = queries.failed_cases(
        warehouse, by_case, cases=selected.ids, tags=selected.tags, without=_without(outcomes, selected), most=most
    )
    places = queries.workspace_places(warehouse, frame["execution_id"].to_list())
    lines = queries.failed_lines(warehouse, frame["execution_id"].to_list())
    cases = tuple(
        FailedCase(**row, workspace=_existing(places.get(execution_id)), line=lines.get(execution_id))
        for execution_id, row in zip(
            frame["execution_id"], frame.drop("total", "execution_id").iter_rows(named=True), strict=True
        )
    )
    return FailedCases(cases=cases, total=frame["total"][0] if cases else 0)


def _existing(folder: str | None) -> str | None:
    return folder if folder is not None and Path(folder).is_dir() else None


def _without(outcomes: Sequence[PairOutcome], selected: CaseFilter) -> set[tuple[str, str]]:
    """Return suite and id of the cases that are left out by more than id and tags, of which verdicts may exist."""
    chosen = replace(selected, ids=frozenset(), tags=frozenset()) if selected.sample is None else selected
    suites = {outcome.pair.name.suite: outcome.pair.ready.suite for outcome in outcomes}
    narrowed = [suite for suite in suites.values() if chosen or traits_of(suite.cases).has_inactive]
    own = {suite.name: chosen.on(suite) for suite in narrowed}
    return {(suite.name, case.id) for suite in narrowed for case in suite.cases if not own[suite.name](case)}


def sweep_summary(progress: SweepProgress, failed: FailedCases) -> str:
    """Return the end of a sweep as text: counts, and the first failed cases with their reasons."""
    lines = [f"finished: {progress}"]
    lines += [
        f"{case.suite}/{case.case_id} with {case.runner}: {case.label}: {' '.join((case.reason or '').split())}"
        for case in failed.cases[:FAILED_CASES_NAMED]
    ]
    if failed.total > FAILED_CASES_NAMED:
        lines.append(f"… and {counted(failed.total - FAILED_CASES_NAMED, 'more case')} that did not pass")
    return "\n".join(lines)


def name_list(names: Sequence[str]) -> str:
    """Return names in one line, each once; of many, the first and how many more."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - NAMES_IN_A_LINE
    return ", ".join(distinct[:NAMES_IN_A_LINE]) + (f", and {more} more" if more > 0 else "")
