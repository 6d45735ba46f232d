"""What a section of attacks returns, and how a table of attacks is carried out until the time is over."""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from eval_pipeline_tests.attacks.patience import TookTooLong


@dataclass(frozen=True, slots=True)
class Findings:
    """How often each attack was tried, and what did not hold, one text each. `measured` are further figures: a peak
    memory, the longest time, with their units."""

    figures: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)

    def tried(self, attack: str, times: int = 1) -> None:
        self.figures[attack] += times

    def found(self, attack: str, problem: str) -> None:
        self.findings.append(f"{attack}: {problem}")


class Section(Protocol):
    """A module of this package."""

    def attack(self, seconds: float, seed: str, folder: Path) -> Findings:
        """Attack for about this long, with the random values of a seed, in an empty folder."""


Attack = Callable[[Path, random.Random], str | None]
"""One attack in an empty folder of its own; returns what did not hold, None if everything did."""


def carry_out(attacks: Mapping[str, Attack], seconds: float, seed: str, folder: Path) -> Findings:
    """Carry out attacks in random order, each once and then again, until the time is over; at least one.

    An exception of an attack is a finding. The same seed makes the same order and the same random values.
    """
    findings = Findings()
    end = time.monotonic() + seconds
    number = 0
    while number == 0 or time.monotonic() < end:
        turn, index = divmod(number, len(attacks))
        names = random.Random(f"{seed}/{turn}").sample(list(attacks), len(attacks))
        own = folder / str(number)
        own.mkdir(parents=True)
        findings.tried(names[index])
        problem = _problem_of(attacks[names[index]], own, random.Random(f"{seed}/{number}"))
        if problem is not None:
            findings.found(names[index], problem)
        number += 1
    return findings


def _problem_of(attack: Attack, folder: Path, rng: random.Random) -> str | None:
    try:
        return attack(folder, rng)
    except (Exception, TookTooLong):  # noqa: BLE001 — whatever an attack raises is what it looks for
        return traceback.format_exc()
