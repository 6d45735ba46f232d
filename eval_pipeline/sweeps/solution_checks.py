"""Suites checked by their own solutions: which cases cannot be solved, and which are solved by doing nothing.

The adapters `oracle` (cases with a solution) and `nop` carry them out in a warehouse of their own that is removed
afterwards. Of the evaluators those count that look at the workspace and ask no model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from eval_pipeline.errors import SourceLocation
from eval_pipeline.executions.identity import runner_identity
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.workspaces.contents import WorkspaceContents
from eval_pipeline.parsing.source import show_path
from eval_pipeline.scores.evaluate import build, requires_client, sees_workspace
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite
from eval_pipeline.sweeps.options import Defaults, SweepOptions
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, validate_suite
from eval_pipeline.sweeps.sweep import carry_out
from eval_pipeline.sweeps.sweep_store import new_id
from eval_pipeline.warehouse.queries import failed_cases
from eval_pipeline.warehouse.store import open_warehouse

ORACLE, NOP = "oracle", "nop"


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionProblem:
    """What is wrong with a case, and where the case is; `unchecked` where no solution says that it is wrong."""

    problem: str
    place: SourceLocation
    unchecked: bool = False


def check_solutions(suites: Sequence[ValidatedSuite], defaults: Defaults) -> Iterator[SolutionProblem]:
    """Carry out the solutions of all suites; yield cases that they do not solve, and that nothing solves too."""
    filtered = [replace(ready.suite, cases=tuple(_checkable(ready.suite))) for ready in suites]
    for ready, suite in zip(suites, filtered, strict=True):
        yield from _unchecked(ready.suite, {case.id for case in suite.cases if case.solution is not None})
    filtered = [suite for suite in filtered if suite.cases]
    if not filtered:
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        reasons = _reasons(filtered, defaults, Path(folder))
    for suite in filtered:
        for case in suite.cases:
            yield from _problems_of(suite, case, reasons)


def _checkable(suite: Suite) -> list[Case]:
    """Return the cases that can be checked, with the evaluators that can tell whether they are solved."""
    cases = (replace(case, evaluators=tuple(filter(_tells, case.evaluators))) for case in suite.cases)
    return [
        replace(case, runners=None, conversation=None, user=None, expected_fail=False, depends_on=())
        for case in cases
        if case.workspace is not None and case.evaluators
    ]


def _tells(spec: EvaluatorSpec) -> bool:
    """Return whether an evaluator looks at the workspace and asks no model."""
    evaluator = build(spec)
    return sees_workspace(evaluator) and not (requires_client(evaluator) and evaluator.graders)


def _unchecked(suite: Suite, checked: set[str]) -> Iterator[SolutionProblem]:
    for case in suite.cases:
        if case.id not in checked:
            problem = f"whether it can be solved is not checked: {_missing(case)}"
            yield SolutionProblem(problem=problem, place=_place(suite, case), unchecked=True)


def _missing(case: Case) -> str:
    if case.solution is None:
        return "the case has no solution"
    return "no workspace" if case.workspace is None else "none of its evaluators looks at the workspace without a model"


def _reasons(suites: Sequence[Suite], defaults: Defaults, folder: Path) -> dict[tuple[str, str, str], str]:
    """Return why cases did not pass, by suite, runner and case."""
    warehouse = open_warehouse(folder / "data")
    contents = WorkspaceContents(folder / "contents")
    with_solutions = [replace(suite, cases=tuple(filter(_has_solution, suite.cases))) for suite in suites]
    solved = [_pair(suite, ORACLE, contents) for suite in with_solutions if suite.cases]
    pairs = [*solved, *(_pair(suite, NOP, contents) for suite in suites)]
    unkept = defaults.model_copy(update={"keep_workspaces": "never"})
    options = SweepOptions(any_runner=True, repetitions=1, defaults=unkept)
    carry_out(pairs, options, warehouse=warehouse, sweep_id=new_id(datetime.now(UTC)))
    most = sum(len(suite.cases) for suite in suites) * 2
    frame = failed_cases(warehouse, dict.fromkeys((pair.name for pair in pairs), False), most=most)
    return {(row["suite"], row["runner"], row["case_id"]): row["reason"] for row in frame.iter_rows(named=True)}


def _has_solution(case: Case) -> bool:
    return case.solution is not None


def _pair(suite: Suite, name: str, contents: WorkspaceContents) -> Pair:
    runner = Runner(name=name, adapter=name, folder=suite.path.parent)
    identity = runner_identity(runner)
    return Pair(
        ready=validate_suite(suite), runner=runner, revision=identity.revision, identity=identity, contents=contents
    )


def _problems_of(suite: Suite, case: Case, reasons: dict[tuple[str, str, str], str]) -> Iterator[SolutionProblem]:
    unsolved = reasons.get((suite.name, ORACLE, case.id))
    if unsolved is not None:
        yield SolutionProblem(problem=f"its solution does not solve it: {unsolved}", place=_place(suite, case))
    if (suite.name, NOP, case.id) not in reasons:
        problem, place = "it is solved by doing nothing", _place(suite, case)
        yield SolutionProblem(problem=problem, place=place, unchecked=case.solution is None)


def _place(suite: Suite, case: Case) -> SourceLocation:
    return SourceLocation(show_path(case.origin or suite.path), case.line, f"case '{case.id}'")
