"""Configuration files of other systems beside their suites: how they are recognized and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One kind of configuration file.

    `schemas` are the accepted names of `$schema` (without a version); `recognizes` tests a path. `check`
    returns its warnings and raises InputError when it cannot be read.
    """

    schemas: tuple[str, ...]
    recognizes: Callable[[Path], bool]
    check: Callable[[Path], Iterable[Diagnostic]]


CONFIGURATIONS: Registry[Configuration] = Registry(
    "configuration file", folder=None, entry_point_group="eval_pipeline.configurations"
)
