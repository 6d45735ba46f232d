"""Published results → the document of the page *Ratings*: strengths of runners by their wins over each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.comparisons import Comparison, compare_overall, games_of, one_per_runner, ratings
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.statistics.ratings import rating_intervals
from eval_pipeline.warehouse.page_queries import current_names
from eval_pipeline.warehouse.selections import read_results, select
from eval_pipeline.warehouse.store import Connection

MOST_RUNNERS = 12
"""Runners that the page rates, those with the highest scores: each is compared with each other."""
MOST_EXPORTED = 300
"""Comparisons for the ratings of an exported page; with more, only those of all suites together are in it."""


def ratings_document(connection: Connection, suite: str | None = None, cluster_by: str | None = None) -> dict[str, Any]:
    """Return what `eval-pipeline compare RUNNER… --ratings` has of all runners, on one suite or on all (None).

    Each has strength, interval, wins, losses and ties, the strongest first; `problem` is why there are none.
    """
    names = current_names(connection)
    runners = sorted({runner for name, runner in names if suite in (None, name)})
    sides = _sides(connection, suite, runners, cluster_by)
    suites = sorted({name for name, _ in names})
    document = {"suite": suite, "suites": suites, "ratings": [], "problem": None, "left_out": 0}
    if len(sides) < 2:
        return document | {"problem": "there are no two runners with results of these cases"}
    left_out = len(sides) - MOST_RUNNERS
    pairs = [compare_overall(first, second) for first, second in combinations(sides[:MOST_RUNNERS], 2)]
    try:
        strengths = ratings(pairs)
    except InputError as error:
        return document | {"problem": str(error)}
    intervals = rating_intervals(strengths, [games_of(pair) for pair in pairs])
    ordered = sorted(strengths, key=lambda name: (-strengths[name], name))
    rated = [
        {"runner": name, "strength": strengths[name], "interval": intervals[name], **_counts(pairs, name)}
        for name in ordered
    ]
    return document | {"ratings": rated, "left_out": max(0, left_out)}


def exported_ratings(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the ratings of all suites together (key "") and, where they are few, of each suite."""
    together = ratings_document(connection)
    suites, runners = together["suites"], min(MOST_RUNNERS, len({runner for _, runner in current_names(connection)}))
    few = len(suites) * runners * (runners - 1) // 2 <= MOST_EXPORTED
    chosen = suites if few and len(suites) > 1 else []
    documents = {suite: ratings_document(connection, suite) for suite in chosen}
    return {"": together | {"suites": chosen}, **{name: each | {"suites": chosen} for name, each in documents.items()}}


def _sides(connection: Connection, suite: str | None, runners: Sequence[str], cluster_by: str | None) -> list[Results]:
    """The results of each runner that has any, read together."""
    if not runners:
        return []
    chosen = select(connection, "standing", suites=[suite] if suite else [], runners=list(runners))
    sides = one_per_runner(read_results(connection, chosen, "runners", cluster_by))
    return sorted(sides, key=lambda side: -float(side.frame["score"].mean() or 0.0))  # type: ignore[arg-type]


def _counts(pairs: list[Comparison], name: str) -> dict[str, int]:
    own = [(each.summary, each.candidate == name) for each in pairs if name in (each.candidate, each.baseline)]
    return {
        "wins": sum(summary.wins if is_candidate else summary.losses for summary, is_candidate in own),
        "losses": sum(summary.losses if is_candidate else summary.wins for summary, is_candidate in own),
        "ties": sum(summary.ties for summary, _ in own),
    }
