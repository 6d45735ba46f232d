"""The registry of runners files: ours (`runners:`), and those of other systems, read as entries of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.parsing.source import FieldPath, Source
from eval_pipeline.plugins import Registry

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerEntry:
    """An entry in our words.

    `spelled` maps a field of ours to the name that the file has for it, where they differ. `place` is the folder in
    which its programs run where no suite has another; None for those that do not run in the folder of the suite.
    """

    values: JsonMap
    spelled: Mapping[str, str] = field(default_factory=dict)
    place: Path | None = None


def _as_written(raw: JsonMap, at: FieldPath, source: Source, environment: Mapping[str, str]) -> RunnerEntry:
    return RunnerEntry(values=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnersFormat:
    """One kind of runners file.

    Its entries are a list under `key`; `use_key` is the field of an entry that names another one to take settings from.
    `file_names` are where a project without a project file looks for it, relative to the project. `schemas` are the
    names that its `$schema` may have. `entry` turns an entry into ours; it raises InputError. With `beside_suites` a
    suite has the runners of the nearest such file in its folder or above.
    """

    title: str
    key: str
    use_key: str
    expected_entry: str
    file_names: tuple[str, ...]
    schemas: tuple[str, ...] = ()
    entry: Callable[[JsonMap, FieldPath, Source, Mapping[str, str]], RunnerEntry] = _as_written
    beside_suites: bool = False


NATIVE = RunnersFormat(
    title="runners.yaml",
    key="runners",
    use_key="use",
    expected_entry="runner (a mapping with name and adapter)",
    file_names=("runners.yaml", "runners.yml"),
)
RUNNER_FILES: Registry[RunnersFormat] = Registry(
    "runners file format", folder=None, entry_point_group="eval_pipeline.runner_files"
)
RUNNER_FILES.register("native")(NATIVE)


def runner_formats() -> Iterator[RunnersFormat]:
    """Every format of runners files, ours first."""
    yield NATIVE
    yield from (format_ for _, format_ in RUNNER_FILES if format_ is not NATIVE)


def default_runner_files() -> tuple[str, ...]:
    """Where a project's runners file is looked for, in this order; relative to the project's folder."""
    return tuple(name for format_ in runner_formats() for name in format_.file_names)


def nearest_runners_file(folder: Path) -> Path | None:
    """Return the runners file for suites in a folder: the nearest one there or above, up to the root of the repository;
    outside of one, in that folder only. None when there is none."""
    names = [name for format_ in runner_formats() if format_.beside_suites for name in format_.file_names]
    return next((parent / name for parent in _up_to_root(folder) for name in names if (parent / name).is_file()), None)


def is_kept_beside_suites(path: Path) -> bool:
    """Return whether a runners file is one of a system that keeps it beside its suites: many suites may share it."""
    names = [Path(name).name for format_ in runner_formats() if format_.beside_suites for name in format_.file_names]
    return path.name in names


def _up_to_root(folder: Path) -> Sequence[Path]:
    folders = (folder, *folder.parents)
    root = next((index for index, parent in enumerate(folders) if (parent / ".git").exists()), 0)
    return folders[: root + 1]
