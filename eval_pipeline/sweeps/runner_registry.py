"""The runners that suites may use: those of the project, and where another system keeps them beside its suites, those
of the nearest file, which go first. Suites of one run may so use different runners of one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runner_files import default_runner_files, nearest_runners_file
from eval_pipeline.executions.runners import UnusableRunner, load_runners
from eval_pipeline.parsing.interpolation import nearest_environment_file, read_environment
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.normalize import check_format
from eval_pipeline.sweeps.data_key import DataKey
from eval_pipeline.sweeps.named_sweeps import matrices
from eval_pipeline.sweeps.project import Project

_Key = tuple[Path, Path | None]


@dataclass
class RunnerRegistry:
    """The runners of a project by the folder of the suite that uses them."""

    project: Project
    _read: dict[_Key, dict[str, Runner]] = field(default_factory=dict)
    _added: dict[Path, dict[str, Runner]] = field(default_factory=dict)
    _aliases: dict[Path, dict[str, str]] = field(default_factory=dict)
    _at: dict[Path | None, dict[str, Runner]] = field(default_factory=dict)

    def at(self, folder: Path | None = None) -> Mapping[str, Runner]:
        """Return the runners for suites in a folder (None: the project's), by name. Raises InputErrors."""
        if folder not in self._at:
            known = self._of_project() if folder is None else self._of_suites_in(folder)
            known = {**known, **self._added.get(folder, {})} if folder is not None else known
            self._at[folder] = with_aliases(known, self._aliases.get(folder, {})) if folder is not None else known
        return self._at[folder]

    def add_runner(self, folder: Path, runner: Runner) -> None:
        """Add a runner for the suites in a folder that no file has."""
        self._added.setdefault(folder, {})[runner.name] = replace(runner, place=folder)
        self._at.pop(folder, None)

    def add_aliases(self, folder: Path, aliases: Mapping[str, str]) -> None:
        """Add names that a suite in a folder gives to runners. Raises InputError for a name that another suite there
        gives to another runner."""
        known = self._aliases.setdefault(folder, {})
        for name, used in aliases.items():
            if known.setdefault(name, used) != used:
                raise InputError(f"target '{name}' uses '{used}', in another suite of the folder '{known[name]}'")
        if aliases:
            self._at.pop(folder, None)

    def named(self, name: str, folder: Path | None = None) -> Runner:
        """Return a runner by name. Raises UnknownName, and InputErrors for a file that cannot be read."""
        runners = self.at(folder)
        if name not in runners:
            raise UnknownName("runner", name, runners)
        return runners[name]

    def has_any(self, folder: Path) -> bool:
        """Return whether there is a runners file for suites in a folder."""
        return self.project.runners is not None or self.file_for(folder) is not None

    def everywhere(self, folders: Iterable[Path]) -> dict[str, Runner]:
        """Return the runners of the project and of suites in these folders; of one name, the first."""
        runners = dict(self._of_project()) if self.project.runners is not None else {}
        for folder in folders:
            runners = {**self.at(folder), **runners}
        return runners

    def file_for(self, folder: Path) -> Path | None:
        """Return the file beside suites in a folder whose runners go first; None when there is only the project's."""
        nearest = nearest_runners_file(folder) if self.project.searches_runners else None
        return None if nearest == self.project.runners else nearest

    def _of_project(self) -> dict[str, Runner]:
        if self.project.runners is None:
            raise InputError(_no_runners(self.project))
        return self._load(self.project.runners, None)

    def _of_suites_in(self, folder: Path) -> dict[str, Runner]:
        nearest = self.file_for(folder)
        beside = self._load(nearest, folder) if nearest is not None else {}
        of_project = self._of_project() if nearest is None or self.project.runners is not None else {}
        return {name: replace(runner, place=folder) for name, runner in {**of_project, **beside}.items()}

    def _load(self, path: Path, folder: Path | None) -> dict[str, Runner]:
        key = (path, nearest_environment_file(folder) if folder is not None else None)
        if key not in self._read:
            environment = self.project.environment if folder is None else self.environment(folder)
            rules = self.project.secret_rules
            self._read[key] = {
                runner.name: self._with_defaults(runner)
                for runner in load_runners(
                    path, environment, rules, DataKey(self.project.data).digest, check_format, matrices(self.project)
                )
            }
        return self._read[key]

    def _with_defaults(self, runner: Runner) -> Runner:
        usual = self.project.defaults
        return replace(
            runner,
            max_output_mb=runner.max_output_mb or usual.max_output_mb,
            isolation=runner.isolation or usual.isolation,
        )

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return the environment for suites in a folder: the nearest `.env` over the project's, and under what is
        exported."""
        return {**self.project.environment, **read_environment(folder)}


def with_aliases(runners: Mapping[str, Runner], aliases: Mapping[str, str]) -> dict[str, Runner]:
    """Return the runners with those that suites name otherwise; a name that a runners file has stays its own."""
    return {**{name: _alias(name, used, runners) for name, used in aliases.items()}, **runners}


def _alias(name: str, used: str, runners: Mapping[str, Runner]) -> Runner:
    if used in runners:
        return replace(runners[used], name=name)
    return UnusableRunner(name=name, adapter="", problem=UnknownName("runner", used, runners))


def _no_runners(project: Project) -> str:
    """Return the message for a project without a runners file."""
    others = ", ".join(name for name in default_runner_files() if not name.startswith("runners."))
    beside = show_path(project.file) if project.file is not None else "the suites"
    return f"no runners: write those to be evaluated into runners.yaml beside {beside} (also read: {others})"
