"""A project as it is on disk now: its suites, its runners, and the pairs that the suites request."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import RunnerIdentity, runner_identity
from eval_pipeline.executions.model import Runner, RunnerAddress
from eval_pipeline.suites.load import read_suites
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, requested_pairs
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.runner_registry import RunnerRegistry
from eval_pipeline.warehouse.journal import PairKey


@dataclass(frozen=True, slots=True)
class ProjectContents:
    """The suites of a project as they are on disk, the runner of each pair, and the files that cannot be used."""

    suites: dict[str, ValidatedSuite]
    runners: dict[PairKey, Runner]
    problems: list[str]

    def pairs(self) -> list[PairKey]:
        """Return the pairs that the suites request."""
        return list(self.runners)


def read_project(session: ProjectSession) -> ProjectContents:
    """Return the contents of a project; the session has them from now on. Raises InputError without any suites."""
    session.registry = RunnerRegistry(session.project)
    suites, broken = read_suites(session.project.suites, session.project.root, session.load_options)
    session.suites = {suite.name: session.validate_suite(suite) for suite in suites}
    runners: dict[PairKey, Runner] = {}
    for ready in session.suites.values():
        folder = ready.suite.path.parent
        expected = session.project.file is not None or session.registry.has_any(folder)
        known = session.registry.at(folder) if expected else {}
        used = [runner for runner in known.values() if _is_used(session, runner, ready)]
        runners |= {pair: known[pair.runner] for pair in requested_pairs(ready, used)}
    return ProjectContents(dict(session.suites), runners, [str(error) for error in broken])


def _is_used(session: ProjectSession, runner: Runner, ready: ValidatedSuite) -> bool:
    """Return whether a runner may carry out a suite; one of a matrix only those of its sweeps."""
    project = session.project
    sweeps = [project.sweeps[name] for name in runner.in_sweeps]
    return not sweeps or any(sweep.covers_suite(ready.suite, project.root) for sweep in sweeps)


def usable_pairs(session: ProjectSession, contents: ProjectContents) -> list[Pair]:
    """Return the pairs that the suites request, without those whose runner cannot be used: their runs report why."""
    identities: dict[RunnerAddress, RunnerIdentity] = {}
    for address, runner in {runner.address: runner for runner in contents.runners.values()}.items():
        with suppress(InputError):
            identities[address] = runner_identity(runner)
    usable = {pair: runner for pair, runner in contents.runners.items() if runner.address in identities}
    return session.identified_pairs(usable, identities)
