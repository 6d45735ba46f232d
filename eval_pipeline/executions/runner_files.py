"""The registry of runners files: ours (`runners:`), and those of other systems, read as entries of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.parsing.source import FieldPath, Source
from eval_pipeline.plugins import Registry

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerEntry:
    """An entry in our words. `spelled` maps a field of ours to the name that the file has for it, where they differ."""

    values: JsonMap
    spelled: Mapping[str, str] = field(default_factory=dict)


def _as_written(raw: JsonMap, at: FieldPath, source: Source, environment: Mapping[str, str]) -> RunnerEntry:
    return RunnerEntry(values=raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnersFormat:
    """One kind of runners file.

    Its entries are a list under `key`; `use_key` is the field of an entry that names another one to take settings from.
    `file_names` are where a project without a project file looks for it, relative to the project. `schemas` are the
    names that its `$schema` may have. `entry` turns an entry into ours; it raises InputError.
    """

    title: str
    key: str
    use_key: str
    expected_entry: str
    file_names: tuple[str, ...]
    schemas: tuple[str, ...] = ()
    entry: Callable[[JsonMap, FieldPath, Source, Mapping[str, str]], RunnerEntry] = _as_written


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
