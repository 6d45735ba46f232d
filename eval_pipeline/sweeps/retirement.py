"""What a project has no more: pairs whose suite is deleted or has another name, or whose runner is removed, and cases
that the file of their suite has no more. They leave boards and current views; history keeps them, and a later sweep
makes them current again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.project_pairs import CurrentPair, stored_pairs
from eval_pipeline.warehouse.retired_cases import current_cases, shown_revisions

_LARGE = 1 << 20
"""Bytes of a suite file above which its name and cases are not looked up each time that results are shown."""

_WAIT_S = 10.0
"""How long a command that shows results waits while another process writes."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """What was retired: pairs, and cases by suite."""

    pairs: list[PairKey] = field(default_factory=list)
    cases: dict[str, list[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.pairs or self.cases)


def retire_vanished(session: ProjectSession) -> Vanished:
    """Retire and return what the project has no more. The session has loaded all its suites without error.

    A suite is gone when the project has none of its name, and its file, below the project, is gone or is a suite of
    another name. Other files, such as one that was run by its path, are not the project's, and neither are the runners
    of a runners file that an option named.
    """
    if not session.warehouse.exists():
        return Vanished()
    files = {path for ready in session.suites.values() for path in (ready.suite.path, *ready.suite.parts)}
    stored = stored_pairs(session.warehouse)
    gone = [each.pair for each in stored if _is_gone(each, session, files)]
    if gone:
        session.store.retire(gone)
    cases = _vanished_cases(session, stored)
    if cases:
        session.store.retire_cases(cases)
    return Vanished(gone, cases)


def _vanished_cases(session: ProjectSession, stored: Iterable[CurrentPair]) -> dict[str, list[str]]:
    """Return the cases, by suite, that are shown and that the suite's file has no more. They are looked up where the
    suite has another revision than what is shown; while one of its cases cannot be loaded, they are not known."""
    gone: dict[str, list[str]] = {}
    files = {(each.pair.suite, each.path) for each in stored}
    for name, revisions in shown_revisions(session.warehouse).items():
        ready = session.suites.get(name)
        if ready is None or ready.errors or revisions == {ready.suite.revision}:
            continue
        if {path for suite, path in files if suite == name} - {None, str(ready.suite.path)}:
            continue  # carried out from another file
        shown = session.warehouse.read(partial(current_cases, suite=name))
        if lost := sorted(shown - {case.id for case in ready.suite.cases}):
            gone[name] = lost
    return gone


def _is_gone(current: CurrentPair, session: ProjectSession, files: Collection[Path]) -> bool:
    pair = current.pair
    ready = session.suites.get(pair.suite)
    if ready is not None and (pair.runner in ready.suite.settings.runners or _is_guest(current, session)):
        return False
    if ready is not None:
        return not _has_runner(session, pair.runner, ready.suite)
    file = Path(current.path) if current.path is not None else None
    if file is None or not file.is_relative_to(session.project.root.absolute()):
        return False
    return file in files or not file.exists()


def _is_guest(current: CurrentPair, session: ProjectSession) -> bool:
    """Return whether the runner of a pair is of another runners file than those of the project."""
    own = session.project.runners
    if current.runners_file is None:
        return False
    return own is None or Path(current.runners_file).resolve() != own.resolve()


def _has_runner(session: ProjectSession, name: str, suite: Suite) -> bool:
    """Return whether a suite may use a runner of this name; also where that is unknown, as a file cannot be read."""
    try:
        return name in session.runners_of(suite)
    except EvalPipelineError:
        return True


def may_lack(project: Project, pairs: Iterable[CurrentPair], cases_of: Callable[[str], Collection[str]]) -> bool:
    """Return whether the project may have no more what it had when these pairs were carried out, by the files that
    changed since: no suite is loaded where none did. A file that was not the project's then is none of its now.
    `cases_of` returns the cases that the pairs of a suite have."""
    changes = _Changes(ProjectSession(project), cases_of)
    return any(changes.may_lack(each) for each in pairs)


@dataclass(slots=True)
class _Changes:
    """What changed of the files of a project; each is looked at once."""

    session: ProjectSession
    cases_of: Callable[[str], Collection[str]]
    _changed: dict[Path, datetime | None] = field(default_factory=dict)
    _suites: dict[Path, Suite | None] = field(default_factory=dict)
    _lacking: dict[Path, bool] = field(default_factory=dict)

    def may_lack(self, pair: CurrentPair) -> bool:
        file = Path(pair.path) if pair.path is not None else None
        if file is None or pair.since is None or not file.is_relative_to(self.session.project.root.absolute()):
            return False
        changed = self._changed_at(file)
        if changed is None:
            return True
        if changed > pair.since and self._lacks_suite_or_cases(file, pair):
            return True
        return not _is_guest(pair, self.session) and self._lacks_runner(pair.pair.runner, file.parent, pair.since)

    def _lacks_suite_or_cases(self, file: Path, pair: CurrentPair) -> bool:
        """Return whether a changed file has a suite of another name, or fewer cases than pairs of it have."""
        suite = self._suite(file)
        if suite is None or suite.revision == pair.suite_revision:
            return False
        if suite.name != pair.pair.suite:
            return True
        if file not in self._lacking:
            cases = set() if suite.errors else set(self.cases_of(suite.name)) - {case.id for case in suite.cases}
            self._lacking[file] = bool(cases)
        return self._lacking[file]

    def _lacks_runner(self, name: str, folder: Path, since: datetime) -> bool:
        registry, project = self.session.registry, self.session.project
        files = [file for file in (project.file, project.runners, registry.file_for(folder)) if file is not None]
        times = [self._changed_at(file) for file in files]
        if all(at is not None and at <= since for at in times):
            return False
        with suppress(EvalPipelineError):
            return name not in registry.at(folder)
        return False

    def _changed_at(self, file: Path) -> datetime | None:
        """Return when a file was written or came to its place; None when it is not there."""
        if file not in self._changed:
            self._changed[file] = None
            with suppress(OSError):
                status = file.stat()
                self._changed[file] = datetime.fromtimestamp(max(status.st_mtime, status.st_ctime), UTC)
        return self._changed[file]

    def _suite(self, file: Path) -> Suite | None:
        """Return the suite in a file; None where it is unknown."""
        if file not in self._suites:
            self._suites[file] = None
            with suppress(EvalPipelineError, OSError):
                if file.stat().st_size <= _LARGE:
                    self._suites[file] = load_suite(file, self.session.load_options)
        return self._suites[file]


def retire_now(project: Project) -> Vanished:
    """Retire what the project has no more, rank and publish what is left, and return what was retired.

    Nothing is retired while a suite file cannot be read. Where a file or folder that the project names is gone, only
    suites whose file is gone are.
    """
    session = ProjectSession(project)
    session.warehouse.lock_timeout_s = _WAIT_S
    with suppress(EvalPipelineError):  # no suite is left, or not all that the project names is there
        session.load_suites()
    gone = retire_vanished(session) if not session.broken else Vanished()
    if gone:
        session.store.update_leaderboards()
        session.warehouse.publish()
    return gone
