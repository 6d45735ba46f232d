"""Coding agents and cases without a workspace: such sessions work where the suites with their answers are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.planning import pair_cases
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair

_MOST_NAMES = 3


def missing_workspaces(pairs: Iterable[Pair], options: SweepOptions) -> Iterator[str]:
    """Yield a warning for each folder that agents work in for cases without a workspace."""
    runners: dict[Path, dict[str, None]] = {}
    suites: dict[Path, dict[str, None]] = {}
    for pair in pairs:
        folder = _folder_without_workspace(pair.runner)
        if folder is None or not traits_of(pair.ready.suite.cases).lacks_workspace:
            continue
        selected = pair_cases(pair.ready.suite, pair.runner, options.cases, any_runner=options.any_runner)
        if any(case.workspace is None for case in selected):
            runners.setdefault(folder, {})[pair.runner.name] = None
            suites.setdefault(folder, {})[pair.name.suite] = None
    for folder, names in runners.items():
        yield (
            f"coding agents {_listed(names)} work in {show_path(folder)} for cases without `workspace` (in "
            f"{_listed(suites[folder])}): they can read the answers of suites and change files there; "
            "`workspace: {}` of a suite is an empty folder elsewhere, `cwd` of a runner a folder that is meant"
        )


def _folder_without_workspace(runner: Runner) -> Path | None:
    """Return the folder of a coding agent's sessions without a workspace; None where it is named, or for others."""
    folder_of = getattr(ADAPTERS.find(runner.adapter), "folder_without_workspace", None)
    return folder_of(runner) if folder_of is not None else None


def _listed(names: Iterable[str]) -> str:
    """Return the first names, quoted, and how many there are beside them."""
    quoted = [f"'{name}'" for name in names]
    more = f" and {counted(len(quoted) - _MOST_NAMES, 'other')}" if len(quoted) > _MOST_NAMES else ""
    return ", ".join(quoted[:_MOST_NAMES]) + more
