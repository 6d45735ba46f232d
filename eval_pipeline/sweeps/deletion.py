"""Deleting what sweeps stored: rows, then the files that belong to no row any more, under the lock of sweeps.

Journals go first, so that no later run takes a deleted execution in again; then the rows, in one transaction with the
new standings; then files. A process that is killed in between leaves files without rows: the next deletion finds them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eval_pipeline.executions.workspaces.folders import ARTIFACTS
from eval_pipeline.sweeps.retention import Age
from eval_pipeline.sweeps.storing import update_failure_classes
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.deletion import DeletedRows, Owner, StoredFolders, delete_rows, stored_folders
from eval_pipeline.warehouse.queries import pair_sizes, sweeps_of_runs
from eval_pipeline.warehouse.storage import Storage

DEPTH = 4
"""Levels of folders above the files of one execution, of artifacts and of workspaces."""
_JOURNAL_LEVELS: dict[Owner, int] = {"sweep": 1, "runner": 2, "suite": 3}


@dataclass(frozen=True, slots=True)
class FileCount:
    """Files and their size."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: FileCount) -> FileCount:
        return FileCount(self.files + other.files, self.bytes + other.bytes)


NO_FILES = FileCount()


def delete_stored(
    store: SweepStore, owner: Owner, names: Sequence[str], *, dry_run: bool
) -> tuple[DeletedRows, FileCount]:
    """Delete everything of suites, runners or sweeps; the caller holds the lock of sweeps. A dry run only counts.

    Standings and failure classes are computed anew from what is left.
    """
    warehouse = store.warehouse
    journals = _journals(warehouse.storage, owner, names)
    if dry_run:
        deleted = delete_rows(warehouse, owner, names, dry_run=True)
        return deleted, _count([*journals, *orphans(warehouse.storage, deleted.remaining, besides=journals)])
    counted = _remove(journals)
    with warehouse.transaction():
        deleted = delete_rows(warehouse, owner, names, dry_run=False)
        if deleted.total:
            _summarize_again(store, deleted)
    warehouse.compact()
    warehouse.publish()
    return deleted, counted + remove_orphans(store)


def _summarize_again(store: SweepStore, deleted: DeletedRows) -> None:
    left = {(suite, runner) for suite, runner, _ in pair_sizes(store.warehouse).iter_rows()}
    changed = [pair for pair in deleted.pairs if (pair.suite, pair.runner) in left]
    if changed:
        update_failure_classes(store.warehouse, changed, store.clock.now())
    if left:
        store.update_leaderboards()


def remove_orphans(store: SweepStore) -> FileCount:
    """Remove the files of executions that are in no table; those of journals are left for the next run."""
    storage, stored = store.warehouse.storage, stored_folders(store.warehouse)
    counted = _remove(orphans(storage, stored))
    for folder in (storage.artifacts, storage.journals):
        _remove_empty(folder)
    sweeps = {parts[-1] for parts in stored.artifacts}
    for sweep in _subfolders(storage.workspaces, 1):
        of_hooks = sweep.name in sweeps and (sweep / ARTIFACTS).is_dir()
        if not of_hooks and not _subfolders(sweep, DEPTH - 1) and sweep.name not in _journaled(storage):
            counted += _remove([sweep])
    return counted


def remove_what_was_under_way(store: SweepStore, dagster_run_ids: Iterable[str]) -> FileCount:
    """Remove the files of executions that the killed sweeps of these runs did not finish; those of journals stay."""
    sweeps = sweeps_of_runs(store.warehouse, dagster_run_ids)
    storage = store.warehouse.storage
    if not sweeps:
        return NO_FILES
    left = orphans(storage, stored_folders(store.warehouse))
    counted = _remove([folder for folder in left if not sweeps.isdisjoint(_parts(folder))])
    folders = [storage.workspaces / sweep for sweep in sweeps - _journaled(storage)]
    return counted + _remove([each for each in folders if each.is_dir() and not _subfolders(each, DEPTH - 1)])


def orphans(storage: Storage, stored: StoredFolders, besides: Iterable[Path] = ()) -> list[Path]:
    """Return the folders of artifacts and workspaces that belong to no stored execution, nor to one in a journal.

    Journals `besides` do not count: they are about to be deleted.
    """
    waiting = _journaled(storage, besides)
    artifacts = [
        folder
        for folder in _artifact_folders(storage)
        if _parts(folder) not in stored.artifacts and folder.name not in waiting
    ]
    workspaces = [
        folder
        for folder in _subfolders(storage.workspaces, DEPTH)
        if _parts(folder) not in stored.workspaces and _parts(folder)[0] not in waiting
    ]
    return artifacts + workspaces


def old_artifacts(storage: Storage, stored: StoredFolders, age: Age, sweeps: Sequence[str]) -> list[Path]:
    """Return the folders of artifacts of old executions."""
    kept = _newest(sweeps, age)
    folders = {folder: stored.artifacts.get(_parts(folder)) for folder in _artifact_folders(storage)}
    waiting = _journaled(storage)
    return [
        folder
        for folder, finished in folders.items()
        if folder.name not in kept and folder.name not in waiting and _is_old(finished, age)
    ]


def delete_artifacts(store: SweepStore, sweeps: Collection[str], before: datetime) -> FileCount:
    """Delete the artifacts of what these sweeps executed before a time (UTC); the caller holds the lock of sweeps."""
    found = old_artifacts(store.warehouse.storage, stored_folders(store.warehouse), Age(before=before), ())
    return _remove([folder for folder in found if folder.name in sweeps])


def old_workspaces(storage: Storage, stored: StoredFolders, age: Age, sweeps: Sequence[str]) -> list[Path]:
    """Return the kept workspaces of old executions."""
    kept = _newest(sweeps, age) | _journaled(storage)
    return [
        folder
        for folder in _subfolders(storage.workspaces, DEPTH)
        if _parts(folder)[0] not in kept and _is_old(stored.workspaces.get(_parts(folder)), age)
    ]


def old_replies(storage: Storage, stored: StoredFolders, age: Age, sweeps: Sequence[str]) -> list[Path]:
    """Return the cached replies of graders that were written before a time, and the files that graders wrote."""
    files = (path for root in (storage.grader_replies, storage.grading) for path in _files([root]))
    return [path for path in files if _is_old(_written(path), age)]


def old_conversations(storage: Storage, stored: StoredFolders, age: Age, sweeps: Sequence[str]) -> list[Path]:
    """Return the files of conversations that a killed process left unfinished."""
    return [path for path in _files([storage.conversations]) if _is_old(_written(path), age)]


def _written(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


FileFinder = Callable[[Storage, StoredFolders, Age, Sequence[str]], list[Path]]


def delete_files(store: SweepStore, find: FileFinder, age: Age, sweeps: Sequence[str], *, dry_run: bool) -> FileCount:
    """Delete old files of one kind; the caller holds the lock of sweeps. Rows keep the names and hashes of files."""
    paths = find(store.warehouse.storage, stored_folders(store.warehouse), age, sweeps)
    return _count(paths) if dry_run else _remove(paths) + remove_orphans(store)


def stored_sizes(storage: Storage) -> dict[str, FileCount]:
    """Return the files of each kind: artifacts, workspaces, grader-replies, conversations."""
    grading = _count([storage.grading])
    artifacts = _count([storage.artifacts])
    return {
        "artifacts": FileCount(artifacts.files - grading.files, artifacts.bytes - grading.bytes),
        "workspaces": _count(_subfolders(storage.workspaces, 1)),
        "grader-replies": _count([storage.grader_replies]) + grading,
        "conversations": _count([storage.conversations]),
    }


def _newest(sweeps: Sequence[str], age: Age) -> set[str]:
    return set(sorted(sweeps)[-age.keep_last :]) if age.keep_last else set()


def _is_old(finished: datetime | None, age: Age) -> bool:
    """Return whether something is old; without a time of its own it is."""
    if age.before is None or finished is None:
        return True
    return finished.replace(tzinfo=UTC) < age.before


def _artifact_folders(storage: Storage) -> list[Path]:
    folders = _subfolders(storage.artifacts, DEPTH)
    return [folder for folder in folders if not folder.is_relative_to(storage.grading)]


def _parts(folder: Path) -> tuple[str, ...]:
    return folder.parts[-DEPTH:]


def _subfolders(root: Path, depth: int) -> list[Path]:
    """Return the folders so many levels below a folder, without hidden ones."""
    level = [root] if root.is_dir() else []
    for _ in range(depth):
        level = [path for folder in level for path in sorted(folder.iterdir()) if _is_folder(path)]
    return level


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _journals(storage: Storage, owner: Owner, names: Sequence[str]) -> list[Path]:
    """Return the folders of journals that an interrupted sweep left of these suites, runners or sweeps."""
    folders = _subfolders(storage.journals, _JOURNAL_LEVELS[owner])
    return [folder for folder in folders if folder.name in names]


def _journaled(storage: Storage, besides: Iterable[Path] = ()) -> set[str]:
    """Return the sweeps with executions in a journal."""
    ignored = tuple(besides)
    return {
        path.relative_to(storage.journals).parts[0]
        for path in _files([storage.journals])
        if path.suffix == ".jsonl" and not any(path.is_relative_to(folder) for folder in ignored)
    }


def _files(roots: Iterable[Path]) -> Iterator[Path]:
    for root in roots:
        if root.is_dir() and not root.is_symlink():
            yield from (path for path in root.rglob("*") if path.is_file() or path.is_symlink())
        elif root.exists():
            yield root


def _count(roots: Iterable[Path]) -> FileCount:
    sizes = [path.lstat().st_size for path in _files(roots)]
    return FileCount(len(sizes), sum(sizes))


def _remove(paths: Sequence[Path]) -> FileCount:
    """Remove files and folders; return what was in them."""
    counted = _count(paths)
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return counted


def _remove_empty(root: Path) -> None:
    """Remove empty folders below a folder."""
    folders = [path for path in root.rglob("*") if path.is_dir() and not path.is_symlink()] if root.is_dir() else []
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()
