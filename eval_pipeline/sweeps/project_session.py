"""A project with its suites and runners loaded. Dagster's assets and the command line share it; what is stored of its
sweeps is in `sweep_store.py`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from eval_pipeline.errors import EvalPipelineError, InputError, InputErrors, UnknownName
from eval_pipeline.executions.identity import RunnerIdentity, runner_identity
from eval_pipeline.executions.model import Runner, RunnerAddress
from eval_pipeline.executions.runners import RunnerErrors, require_environment, runner_errors
from eval_pipeline.executions.workspaces.contents import WorkspaceContents
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.stopping import StopRequest
from eval_pipeline.suites.load import LoadOptions, find_suite_files, load_suite, read_suites
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.names import default_name, shared_names, with_stored_names
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, validate_suite
from eval_pipeline.sweeps.project import NO_SUITES, Project
from eval_pipeline.sweeps.runner_registry import RunnerRegistry
from eval_pipeline.sweeps.snapshots import require_usable
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import suite_files
from eval_pipeline.warehouse.store import Warehouse


@dataclass
class ProjectSession:
    """A project with what has been loaded of it. `broken` are files that cannot be read as suites, and suites whose
    token baselines cannot be used; `observer` follows its sweeps, `clock` orders what they store, and a request to
    `stop` ends them."""

    project: Project
    suites: dict[str, ValidatedSuite] = field(default_factory=dict)
    broken: list[InputError] = field(default_factory=list)
    observer: SweepObserver = field(default_factory=SweepObserver)
    clock: OrderClock = field(default_factory=OrderClock)
    stop: StopRequest = field(default_factory=StopRequest)

    def __post_init__(self) -> None:
        project = self.project
        self.store = SweepStore(
            project.open_warehouse(),
            self.clock,
            project.defaults.ranked_coverage,
            project.secret_rules,
            None if project.searches_runners else project.runners,
        )
        self.registry = RunnerRegistry(self.project)

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse of the project."""
        return self.store.warehouse

    @property
    def load_options(self) -> LoadOptions:
        project = self.project
        return LoadOptions(
            environment=project.environment,
            evaluators=EVALUATORS,
            configurations=project.configurations,
            environment_in=self.registry.environment,
            secret_rules=project.secret_rules,
            versions=project.versions,
            arguments=project.defaults.evaluator_arguments,
            load_limit_s=project.defaults.load_limit_s,
        )

    def load_suites(self, patterns: Sequence[str] | None = None) -> list[ValidatedSuite]:
        """Return the suites of these patterns (None: the project's); files that cannot be read join `broken`.

        Raises InputErrors when there is no suite at all.
        """
        chosen = list(patterns if patterns is not None else self.project.suites)
        if not chosen:
            raise InputError(NO_SUITES)
        suites, broken = read_suites(chosen, self.project.root, self.load_options, self._project_files)
        suites, refused = self._with_baselines(suites)
        self.broken = broken + refused
        if not suites:
            raise InputErrors(self.broken or [InputError(f"no suite found in: {', '.join(chosen)}")])
        if patterns is not None:
            suites = self._beside_stored(suites)
        loaded = [self.validate_suite(suite) for suite in suites]
        self.suites.update((ready.suite.name, ready) for ready in loaded)
        return loaded

    def _with_baselines(self, suites: Sequence[Suite]) -> tuple[list[Suite], list[InputError]]:
        """Return the suites whose tokens can be compared, and why others cannot."""
        usable: list[Suite] = []
        refused: dict[str, InputError] = {}
        for suite in suites:
            try:
                require_usable(suite, self.project)
            except InputError as error:
                refused.setdefault(str(error), error)  # settings of the project are wrong for several
            else:
                usable.append(suite)
        return usable, list(refused.values())

    def _beside_stored(self, suites: Sequence[Suite]) -> list[Suite]:
        """Return the suites; a file that is none of the project's takes no name that another file's results have."""
        of_project = set(self._project_files())
        others = [suite for suite in suites if suite.path not in of_project]
        if not others or not self.warehouse.exists():
            return list(suites)
        holders = {name: Path(path) for name, path in suite_files(self.warehouse).items() if Path(path).is_file()}
        renamed = {suite.path: suite for suite in with_stored_names(others, holders)}
        return [renamed.get(suite.path, suite) for suite in suites]

    def _project_files(self) -> list[Path]:
        """Return the suite files of the project, whose names count even where only some are chosen."""
        try:
            return find_suite_files(self.project.suites, self.project.root)
        except InputError:  # reported where they are loaded
            return []

    def validate_suite(self, suite: Suite) -> ValidatedSuite:
        """Return the suite with its evaluators checked. One that names no runner gets those of the project's
        defaults, else the runner `default`, if there is one, else every runner."""
        self.registry.add_aliases(suite.path.parent, suite.settings.runner_aliases)
        chosen = suite.settings.runners or self.project.defaults.runners
        if not chosen and "default" in self._runner_names(suite.path.parent):
            chosen = ("default",)
        return validate_suite(replace(suite, settings=replace(suite.settings, runners=tuple(chosen))))

    def _runner_names(self, folder: Path) -> Collection[str]:
        with suppress(EvalPipelineError):  # reported where the runners are needed
            return self.registry.at(folder).keys()
        return ()

    def runners_of(self, suite: Suite) -> Mapping[str, Runner]:
        """Return the runners that a suite may name, by name. Raises InputErrors."""
        return self.registry.at(suite.path.parent)

    def load_runners(self) -> list[Runner]:
        """Return the runners of the project and of the suites that are loaded; of one name, the first.

        Raises InputErrors for runners files that cannot be read, and InputError when there is no runner at all.
        """
        folders = dict.fromkeys(ready.suite.path.parent for ready in self.suites.values())
        found = self.registry.everywhere(folders)
        return list(found.values()) or list(self.registry.at().values())

    def all_runners(self) -> Iterator[Runner]:
        """Yield the runners of the project and beside any of its suites, loaded or not; several may have one name.

        Raises InputErrors for runners files that cannot be read, and InputError when there is no runner at all.
        """
        loaded = (ready.suite.path for ready in self.suites.values())
        for folder in {path.parent for path in (*self._project_files(), *loaded)}:
            yield from self.registry.at(folder).values()

    def suite(self, name: str) -> ValidatedSuite:
        """Return a suite by name, loaded if it is not yet. Raises UnknownName."""
        if name not in self.suites:
            self._load_one(name)
        if name not in self.suites:
            raise UnknownName("suite", name, self.suites)
        return self.suites[name]

    def _load_one(self, name: str) -> None:
        """Load suite files until one has this name, and keep them all; other broken files are skipped.

        A name that several files may claim, or share, is found among all of them.
        """
        errors: list[InputError] = []
        files = find_suite_files(self.project.suites, self.project.root)
        loaded = {ready.suite.path for ready in self.suites.values()}
        shared = shared_names(files)
        for path in files:
            if path in loaded or default_name(path) in shared:
                continue
            try:
                suite = load_suite(path, self.load_options)
                require_usable(suite, self.project)
            except InputError as error:
                errors.append(error)
                continue
            if suite.folder is not None:
                shared.add(suite.name)
                continue
            self.suites.setdefault(suite.name, self.validate_suite(suite))
            if suite.name == name:
                return
        if shared:
            suites, broken = read_suites(self.project.suites, self.project.root, self.load_options)
            suites, refused = self._with_baselines(suites)
            errors = broken + refused
            self.suites = {suite.name: self.validate_suite(suite) for suite in suites} | self.suites
        if errors and name not in self.suites:
            raise InputErrors(errors)

    def runner(self, name: str, place: Path | None = None) -> Runner:
        """Return a runner by name, for suites in a folder (None: the project's). Raises UnknownName."""
        return self.registry.named(name, place)

    def runner_of(self, pair: PairKey) -> Runner:
        """Return the runner of a pair. Raises UnknownName."""
        return self.registry.named(pair.runner, self.suite(pair.suite).suite.path.parent)

    def pairs(self, names: Iterable[PairKey]) -> list[Pair]:
        """Return the pairs of these names, ready to be carried out. Raises InputErrors for unusable runners."""
        chosen = {name: self.runner_of(name) for name in names}
        used = {runner.address: runner for runner in chosen.values()}
        helpers = [self.runner(name, runner.place) for runner in used.values() for name in _helpers(runner)]
        require_environment({runner.address: runner for runner in [*used.values(), *helpers]}.values())
        return self.identified_pairs(chosen, {key: runner_identity(runner) for key, runner in used.items()})

    def unusable(self, names: Iterable[PairKey]) -> dict[PairKey, RunnerErrors]:
        """Return why pairs cannot be carried out: their runner, its grader or a fallback cannot be used. Raises
        InputErrors where none can, and UnknownName."""
        found: dict[RunnerAddress, list[InputError]] = {}
        runners = {name: self.runner_of(name) for name in names}
        for runner in runners.values():
            if runner.address not in found:
                helpers = [self.runner(name, runner.place) for name in _helpers(runner)]
                found[runner.address] = [error for each in (runner, *helpers) for error in runner_errors(each)]
        unusable = {name: RunnerErrors(errors) for name, runner in runners.items() if (errors := found[runner.address])}
        if runners and len(unusable) == len(runners):
            raise InputErrors(list({str(error): error for errors in found.values() for error in errors}.values()))
        return unusable

    def identified_pairs(
        self, chosen: Mapping[PairKey, Runner], identities: Mapping[RunnerAddress, RunnerIdentity]
    ) -> list[Pair]:
        """Return the pairs of these names and runners, with the identities of the runners."""
        contents = WorkspaceContents(self.warehouse.storage.workspaces / "static")
        return [
            Pair(
                ready=self.suite(name.suite),
                runner=runner,
                revision=identities[runner.address].revision,
                identity=identities[runner.address],
                contents=contents,
                runner_named=self.runner,
            )
            for name, runner in chosen.items()
        ]

    def is_gone(self, name: PairKey) -> bool:
        """Return whether the project has no suite of this name, or its suite does not request this unknown runner."""
        try:
            ready = self.suite(name.suite)
        except UnknownName:
            return True
        except EvalPipelineError:  # a file that cannot be read may be the one
            return False
        known = self._runner_names(ready.suite.path.parent)
        return name.runner not in known and name.runner not in ready.suite.settings.runners

    def usable_pairs(self, names: Sequence[PairKey]) -> tuple[list[Pair], dict[PairKey, str]]:
        """Return the usable pairs of these names, and the reason of each unusable one; those do not stop the others."""
        try:
            return self.pairs(names), {}
        except EvalPipelineError:
            pairs: list[Pair] = []
            unusable: dict[PairKey, str] = {}
        for name in names:
            try:
                pairs += self.pairs([name])
            except EvalPipelineError as error:
                unusable[name] = str(error)
        return pairs, unusable


def _helpers(runner: Runner) -> Iterator[str]:
    """Yield the names of the runners that a runner cannot do without."""
    yield from runner.fallbacks
    if runner.grader and runner.missing_grader is None:
        yield runner.grader
