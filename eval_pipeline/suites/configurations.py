"""Configuration files of other systems beside their suites: how they are recognized and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """What a configuration file of another system sets of a project.

    `suites` are globs that begin at `folder`; `defaults` are options of every run. The project file wins over both.
    """

    path: Path
    folder: Path
    suites: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One kind of configuration file.

    `schemas` are the accepted names of `$schema` (without a version); `recognizes` tests a path. `check`
    returns its warnings and raises InputError when it cannot be read. `nearest` returns the settings of the file that
    applies to a project in a folder, with `${{ NAME }}` replaced from an environment; None without such a file.
    """

    schemas: tuple[str, ...]
    recognizes: Callable[[Path], bool]
    check: Callable[[Path], Iterable[Diagnostic]]
    nearest: Callable[[Path, Mapping[str, str]], ProjectSettings | None] = lambda folder, environment: None


CONFIGURATIONS: Registry[Configuration] = Registry(
    "configuration file", folder=None, entry_point_group="eval_pipeline.configurations"
)


def project_settings(folder: Path, environment: Mapping[str, str]) -> list[ProjectSettings]:
    """Return what configuration files of other systems set of the project in a folder."""
    nearest = (configuration.nearest(folder, environment) for _, configuration in CONFIGURATIONS)
    return [settings for settings in nearest if settings is not None]
