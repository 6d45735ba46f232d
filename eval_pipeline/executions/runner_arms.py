"""`arms:` of a runner: the same runner several times, each with settings of its own, as runners `<runner>-<arm>`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import FieldPath, Source

ARMS = "arms"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*\Z")
_FIXED = ("name", "use", "adapter", ARMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Which arm of which runner a runner is; `place` counts from 0, in the order of the file."""

    arm_of: str
    arm: str
    arm_place: int


def arms_problem(raw: Mapping[str, Any], at: FieldPath, source: Source) -> InputError | None:
    """Return what is wrong with the arms of an entry; None without any."""
    arms = raw.get(ARMS)
    if arms is None:
        return None
    if not isinstance(arms, Mapping) or len(arms) < 2:
        return source.error((*at, ARMS), "expected at least two arms, by name: `with: {…}`, `without: {…}`")
    for name, settings in arms.items():
        place = (*at, ARMS, str(name))
        if not isinstance(name, str) or not _NAME.match(name):
            return source.error(place, f"an arm's name has letters, digits and '_' only, got {name!r}")
        if not isinstance(settings, Mapping):
            return source.error(place, f"expected settings that the arm has, got {settings!r}")
        fixed = next((key for key in _FIXED if key in settings), None)
        if fixed is not None:
            return source.error((*place, fixed), "cannot differ between the arms of a runner")
    return None


def expanded(
    entries: Iterator[tuple[FieldPath, Mapping[str, Any]]], source: Source
) -> Iterator[tuple[FieldPath, Mapping[str, Any], Arm | None]]:
    """Yield each entry, one with arms as an entry for each of them; one whose arms are wrong as it is."""
    for at, raw in entries:
        if raw.get(ARMS) is None or arms_problem(raw, at, source) is not None:
            yield at, raw, None
            continue
        shared = {key: value for key, value in raw.items() if key != ARMS}
        for place, (arm, settings) in enumerate(raw[ARMS].items()):
            entry = {**shared, **settings, "name": f"{raw['name']}-{arm}"}
            yield (*at, ARMS, arm), entry, Arm(arm_of=raw["name"], arm=arm, arm_place=place)
