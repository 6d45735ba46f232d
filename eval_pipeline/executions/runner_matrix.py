"""`matrix:` of a sweep: its runners with every combination of some settings, each a runner of its own.

The runner `gpt` with `{temperature: [0, 1]}` becomes `gpt.temperature-0` and `gpt.temperature-1`. They take part in
sweeps that have the matrix, and in what names them, in nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.source import FieldPath

FIXED = ("name", "use", "adapter", "arms")
"""Fields of a runner that no matrix varies."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")

Entry = tuple[FieldPath, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RunnerMatrix:
    """Settings with the values that each takes, for the runners of a sweep (empty: every runner)."""

    sweep: str
    runners: tuple[str, ...]
    settings: Mapping[str, Sequence[Any]]

    def combinations(self) -> Iterator[dict[str, Any]]:
        """Yield every combination of the values, by setting."""
        for values in product(*self.settings.values()):
            yield dict(zip(self.settings, values, strict=True))


@dataclass(slots=True)
class Variant:
    """A runner of matrices: the field path and the entry, the runner that it is one of, and the sweeps it is for."""

    at: FieldPath
    entry: Mapping[str, Any]
    of: str
    sweeps: list[str]


def variants(entries: Sequence[Entry], matrices: Sequence[RunnerMatrix]) -> list[Variant]:
    """Return the runners that matrices make of these; what two matrices make alike is one."""
    made: dict[str, Variant] = {}
    for matrix in matrices:
        for at, raw in entries:
            if not matrix.runners or raw["name"] in matrix.runners:
                _add(made, matrix, at, raw)
    return list(made.values())


def _add(made: dict[str, Variant], matrix: RunnerMatrix, at: FieldPath, raw: Mapping[str, Any]) -> None:
    for settings in matrix.combinations():
        name = f"{raw['name']}.{_label(settings)}"
        entry = {**_with(raw, settings), "name": name}
        variant = made.setdefault(name, Variant(at, entry, raw["name"], []))
        if variant.entry != entry:
            place = SourceLocation(field=f"sweeps.{matrix.sweep}.matrix")
            raise InputError(f"two combinations of settings would be one runner '{name}'", place)
        if matrix.sweep not in variant.sweeps:
            variant.sweeps.append(matrix.sweep)


def _with(raw: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with other settings; `a.b` is the field `b` of the mapping `a`."""
    entry = dict(raw)
    for path, value in settings.items():
        first, _, rest = path.partition(".")
        inner = entry.get(first)
        entry[first] = _with(inner if isinstance(inner, Mapping) else {}, {rest: value}) if rest else value
    return entry


def _label(settings: Mapping[str, Any]) -> str:
    """The part of a name for some settings: `temperature-0.5.effort-high`."""
    return ".".join(_NO_NAME.sub("_", f"{path.split('.')[-1]}-{_text(value)}") for path, value in settings.items())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
