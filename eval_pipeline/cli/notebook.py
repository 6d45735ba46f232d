"""`eval-pipeline run` as a Python function for notebooks and scripts: values instead of printed tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_pipeline.cli.options import Selection, select_in
from eval_pipeline.errors import InputError, InputErrors, SourceLocation
from eval_pipeline.orchestration.build import session_of
from eval_pipeline.orchestration.run import run_sweep as run_in_dagster
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.store import Connection

_LISTS = ("runners", "runner_tags", "cases", "tags")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """A finished sweep: an outcome per pair, and access to its rows.

    `invalid` are the files and cases that could not be used; `problem` is why the sweep itself stopped early, None when
    it did not. Failures of targets are in the rows.
    """

    outcomes: tuple[PairOutcome, ...]
    invalid: tuple[InputError, ...]
    problem: str | None
    session: ProjectSession

    def open_results(self) -> AbstractContextManager[Connection]:
        """Open the published results of the project, read-only: `with sweep.open_results() as connection: …`."""
        return self.session.warehouse.published()


def run_sweep(
    project: ProjectSession | Path | str = ".",
    suites: Sequence[Path | str] | Path | str = (),
    *,
    data: Path | str | None = None,
    **options: Any,
) -> SweepResult:
    """Carry out suites × runners of a project, as `eval-pipeline run` does, and return their outcomes.

    Args:
        project: the project's folder, or an open session.
        suites: one or several files, folders or globs, relative to the project's folder; by default the project's own.
        data: the data folder, instead of the project's.
        options: the options of `eval-pipeline run` by name: `runners`, `runner_tags`, `cases`, `tags` (one or several),
            `repeat`, `refresh`, `concurrency`, `threshold`, `budget` (USD), `budget_calls`, `budget_tokens`, `grader`,
            `resume`.

    Raises:
        InputError, InputErrors: no suite, runner or case of the selection can be used.
    """
    if not isinstance(project, ProjectSession) and not Path(project).exists():
        raise InputError("no such folder", SourceLocation(file=str(project)))
    session = session_of(project)
    suites = [suites] if isinstance(suites, (str, Path)) else suites
    options |= {name: [options[name]] for name in _LISTS if isinstance(options.get(name), str)}
    if data is not None:
        session = ProjectSession(replace(session.project, data=Path(data).absolute()))
    selection = select_in(session, [str(session.project.root / suite) for suite in suites], **options)
    _require_cases(selection)
    result = run_in_dagster(session, selection.suites, selection.pairs, selection.launch.as_config())
    invalid = tuple(selection.problems)
    return SweepResult(outcomes=tuple(result.outcomes), invalid=invalid, problem=result.problem, session=session)


def _require_cases(selection: Selection) -> None:
    """Raise InputErrors with the reasons when no case can be executed."""
    try:
        selection.require_cases()
    except InputError as error:
        raise InputErrors([*selection.problems, error]) from None
