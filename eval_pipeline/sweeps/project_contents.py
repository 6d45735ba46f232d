"""A project as it is on disk now: its suites, its runners, and the pairs that the suites request."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import RunnerIdentity, runner_identity
from eval_pipeline.executions.model import Runner
from eval_pipeline.suites.load import read_suites
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite, requested_pairs
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


@dataclass(frozen=True, slots=True)
class ProjectContents:
    """The suites and runners of a project as they are on disk, and the files that cannot be used."""

    suites: dict[str, ValidatedSuite]
    runners: dict[str, Runner]
    problems: list[str]

    def pairs(self) -> list[PairKey]:
        """Return the pairs that the suites request."""
        runners = list(self.runners.values())
        return [pair for ready in self.suites.values() for pair in requested_pairs(ready, runners)]


def read_project(session: ProjectSession) -> ProjectContents:
    """Return the contents of a project; the session has them from now on. Raises InputError without any suites."""
    if session.project.runners:
        session.load_runners()
    suites, broken = read_suites(session.project.suites, session.project.root, session.load_options)
    session.suites = {suite.name: session.validate_suite(suite) for suite in suites}
    return ProjectContents(dict(session.suites), dict(session.runners), [str(error) for error in broken])


def usable_pairs(session: ProjectSession, contents: ProjectContents) -> list[Pair]:
    """Return the pairs that the suites request, without those whose runner cannot be used: their runs report why."""
    identities: dict[str, RunnerIdentity] = {}
    for runner in contents.runners.values():
        with suppress(InputError):
            identities[runner.name] = runner_identity(runner)
    return session.identified_pairs((pair for pair in contents.pairs() if pair.runner in identities), identities)
