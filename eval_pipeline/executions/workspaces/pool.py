"""Workspaces that outlive a sweep: slots per set of repositories, each used by one process at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
from filelock import FileLock, Timeout

from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import copy_file, folder_beneath
from eval_pipeline.executions.workspaces.folders import block_git_discovery
from eval_pipeline.executions.workspaces.git import GitFailure
from eval_pipeline.executions.workspaces.repositories import CheckedOut, check_out, reset, update_checkout
from eval_pipeline.executions.workspaces.template_copy import fill_from_template
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.suites.workspace import Repository, WorkspaceSpec


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot locked by this process: the folder that targets work in, and what is known of it in `state`."""

    folder: Path
    state: Path
    lock: FileLock

    @property
    def ready(self) -> Path:
        """Path of the file that marks the clones as complete and stores the settings of each."""
        return self.state.with_suffix(".json")

    def source(self, number: int) -> Path:
        """Return the folder of the complete clone of a repository, by its number."""
        return self.state / str(number)

    def release(self) -> None:
        self.lock.release()


class Pool:
    """The slots whose state is below a folder `state`, while targets work below another one, outside of the project."""

    def __init__(self, state: Path, folder: Path, most_slots: int) -> None:
        self._state = state
        self._folder = folder
        self._most_slots = most_slots
        self._held: list[FileLock] = []

    def take(self, spec: WorkspaceSpec) -> Slot | None:
        """Lock a slot for workspaces like this one. Returns None when all slots are in use."""
        name = fingerprint([spec.repositories, dict(spec.content), spec.files])[:16]
        state, folder = self._state / name, self._folder / name
        for each in (state, folder):
            each.mkdir(parents=True, exist_ok=True)
        block_git_discovery(folder)
        for number in range(1, self._most_slots + 1):
            lock = FileLock(state / f"slot-{number}.lock", thread_local=False)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            self._held.append(lock)
            return Slot(folder / str(number), state / f"slot-{number}", lock)
        return None

    def close(self) -> None:
        """Release every slot that this process holds."""
        for lock in self._held:
            lock.release()


async def prepare(slot: Slot, spec: WorkspaceSpec) -> list[CheckedOut]:
    """Bring a slot's folder into the state of the spec: reused, reset, or created anew. Raises GitFailure, OSError."""
    settings = _settings(slot)
    if settings is not None and slot.folder.is_dir():
        try:
            return await _reuse(slot, spec, settings)
        except (GitFailure, OSError, ValueError):
            pass  # an unusable slot is created anew
    slot.ready.unlink(missing_ok=True)
    await in_thread(remove, slot.folder)
    slot.folder.mkdir()
    await fill(spec, slot.folder)
    await in_thread(remove, slot.state)
    checked_out = [
        await check_out(item, folder_beneath(slot.folder, item.path), slot.source(number))
        for number, item in enumerate(outer_first(spec))
    ]
    slot.ready.write_bytes(orjson.dumps([at.settings for at in checked_out]))
    return checked_out


async def _reuse(slot: Slot, spec: WorkspaceSpec, settings: Sequence[Mapping[str, str]]) -> list[CheckedOut]:
    folders = [folder_beneath(slot.folder, item.path) for item in outer_first(spec)]
    await in_thread(_remove_beside, slot.folder, folders)
    updated = [
        await update_checkout(item, folder, files, slot.source(number))
        for number, (item, folder, files) in enumerate(zip(outer_first(spec), folders, settings, strict=True))
    ]
    ignored = any(hook.reset == "strict" for hook in spec.hooks.values())
    for at in updated:
        await reset(at, ignored=ignored, keep=tuple(folders))
    await fill(spec, slot.folder)
    return updated


def outer_first(spec: WorkspaceSpec) -> list[Repository]:
    """Return the repositories sorted so that an outer one precedes those inside it."""
    return sorted(spec.repositories, key=lambda item: item.path.split("/") if item.path != "." else [])


async def fill(spec: WorkspaceSpec, folder: Path) -> None:
    """Copy the template and single files into the folder. Raises OSError."""
    if spec.template is not None:
        await in_thread(fill_from_template, spec.template, folder)
    for file in spec.files:
        await in_thread(copy_file, file.origin, folder, file.path)


def _settings(slot: Slot) -> list[Mapping[str, str]] | None:
    """Return the settings of each clone of a slot; None for a slot that is not complete or of an earlier version."""
    try:
        settings: list[Mapping[str, str]] = orjson.loads(slot.ready.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return settings if all(isinstance(files, dict) for files in settings) else None


def _remove_beside(folder: Path, repositories: Sequence[Path]) -> None:
    """Remove everything beside the repositories."""
    above = {parent for repository in repositories for parent in repository.parents}
    for path in list(folder.iterdir()) if folder not in repositories else ():
        if path in repositories:
            continue
        if path in above and path.is_dir() and not path.is_symlink():
            _remove_beside(path, repositories)
        else:
            remove(path)
