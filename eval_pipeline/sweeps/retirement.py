"""Pairs that a project has no more: their suite is deleted or has another name, or their runner is removed. They leave
boards and current views; history keeps them, and a later sweep makes them current again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import current_paths


def retire_vanished(session: ProjectSession) -> list[PairKey]:
    """Retire and return the pairs that the project has no more. The session has loaded all its suites without error.

    A suite is gone when the project has none of its name, and its file, below the project, is gone or is a suite of
    another name. Other files, such as one that was run by its path, are not the project's.
    """
    if not session.warehouse.exists():
        return []
    files = {path for ready in session.suites.values() for path in (ready.suite.path, *ready.suite.parts)}
    gone = [pair for pair, path in current_paths(session.warehouse) if _is_gone(pair, path, session, files)]
    if gone:
        session.store.retire(gone)
    return gone


def _is_gone(pair: PairKey, path: str | None, session: ProjectSession, files: Collection[Path]) -> bool:
    ready = session.suites.get(pair.suite)
    if ready is not None:
        return pair.runner not in ready.suite.settings.runners and not _has_runner(session, pair.runner, ready.suite)
    file = Path(path) if path is not None else None
    if file is None or not file.is_relative_to(session.project.root.absolute()):
        return False
    return file in files or not file.exists()


def _has_runner(session: ProjectSession, name: str, suite: Suite) -> bool:
    """Return whether a suite may use a runner of this name; also where that is unknown, as a file cannot be read."""
    try:
        return name in session.runners_of(suite)
    except EvalPipelineError:
        return True
