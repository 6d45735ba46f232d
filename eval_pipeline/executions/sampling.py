"""A sample of a suite's cases: how many, how many of each difficulty, and which, by a seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eval_pipeline.errors import InputError
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.simulation_fields import DEFAULT_DIFFICULTY


def difficulty_of(case: Case) -> str:
    """Return how hard a case is."""
    return case.difficulty or DEFAULT_DIFFICULTY


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSample:
    """How many cases of a suite are drawn (`size`), and the share of each difficulty (`mix`, empty: as it comes).

    The same seed draws the same cases of a suite, whatever their order; more cases are drawn in addition to fewer.
    """

    size: int
    mix: tuple[tuple[str, float], ...] = ()
    seed: int = 0

    def drawn(self, suite: str, cases: Iterable[Case]) -> list[str]:
        """Return the ids that are drawn of some cases; all, where there are no more than asked for.

        Raises InputError when a difficulty has fewer cases than its share.
        """
        ordered = sorted(cases, key=lambda case: self._place(suite, case.id))
        if not self.mix:
            return [case.id for case in ordered[: self.size]]
        drawn: list[str] = []
        for difficulty, number in quotas(self.size, dict(self.mix)).items():
            found = [case.id for case in ordered if difficulty_of(case) == difficulty]
            if len(found) < number:
                raise InputError(
                    f"suite '{suite}' has {len(found)} {difficulty} cases of the selection, the mix needs {number} of "
                    f"{self.size}: lower --sample, or the share of {difficulty} in --mix"
                )
            drawn += found[:number]
        return drawn

    def _place(self, suite: str, case_id: str) -> bytes:
        return hashlib.sha256(f"{self.seed}\0{suite}\0{case_id}".encode("utf-8", "replace")).digest()


def quotas(size: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return how many of a sample each share is: whole numbers that add up, by largest remainders."""
    exact = {name: size * share for name, share in shares.items()}
    counts = {name: math.floor(value + 1e-9) for name, value in exact.items()}
    by_rest = sorted(exact, key=lambda name: (counts[name] - exact[name], list(exact).index(name)))
    for name in by_rest[: size - sum(counts.values())]:
        counts[name] += 1
    return counts
