"""Cutting a sweep into chunks: pairs that one process carries out together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eval_pipeline.sweeps.dagster_settings import DagsterSettings
from eval_pipeline.sweeps.estimates import at_once
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


@dataclass(slots=True)
class Chunk:
    """Pairs, and the wall seconds that they are expected to take; None: unknown."""

    pairs: list[PairKey] = field(default_factory=list)
    seconds: float | None = None

    def add(self, pair: PairKey, seconds: float | None) -> None:
        self.pairs.append(pair)
        if seconds is not None:
            self.seconds = (self.seconds or 0.0) + seconds


def cut(pairs: Sequence[PairKey], expected: Mapping[PairKey, float | None], settings: DagsterSettings) -> list[Chunk]:
    """Return chunks of at most the settings' seconds and pairs, those that take longest first.

    Each pair goes, longest first, into the first chunk with room for it (first fit decreasing); one that is longer than
    a chunk has its own. A pair of unknown time counts as the mean of the known ones.
    """
    known = [seconds for pair in pairs if (seconds := expected.get(pair)) is not None]
    usual = sum(known) / len(known) if known else 0.0
    sizes = {pair: usual if (seconds := expected.get(pair)) is None else seconds for pair in pairs}
    chunks: list[Chunk] = []
    filled: list[float] = []
    for pair in sorted(pairs, key=lambda each: -sizes[each]):
        place = next(
            (
                index
                for index, chunk in enumerate(chunks)
                if len(chunk.pairs) < settings.chunk_pairs and filled[index] + sizes[pair] <= settings.chunk_seconds
            ),
            len(chunks),
        )
        if place == len(chunks):
            chunks.append(Chunk())
            filled.append(0.0)
        chunks[place].add(pair, expected.get(pair))
        filled[place] += sizes[pair]
    return chunks


def expected_seconds(
    session: ProjectSession, pairs: Sequence[Pair], options: SweepOptions
) -> dict[PairKey, float | None]:
    """Return how long each pair is expected to take: its executions, as many at once as its runner may."""
    runners = {pair.name: pair.runner for pair in pairs}
    expected: dict[PairKey, float | None] = {}
    for plan in plan_sweep(session, list(runners), options):
        seconds, executions = plan.estimate.seconds, plan.counts.executed
        beside = min(executions, at_once(runners[plan.pair], options)) or 1
        expected[plan.pair] = seconds / beside if seconds is not None else None
    return expected
