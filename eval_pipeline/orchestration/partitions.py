"""The partitions of the assets: suites (dynamic: they come and go with files) × runners (from the runners file).

Dagster orders the keys of a two-dimensional partition by dimension name, so a key reads `runner|suite`.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from eval_pipeline.orchestration import notices as notices  # first: the lines below would print notices
from eval_pipeline.warehouse.journal import PairKey

SUITES = "suites"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"

dynamic_suites = dg.DynamicPartitionsDefinition(name=SUITES)
by_suite = dg.MultiToSingleDimensionPartitionMapping(partition_dimension_name="suite")


def suite_partitions(suites: Sequence[str] | None = None) -> dg.PartitionsDefinition[str]:
    """The suites that there are, or exactly these (a sweep of the command line)."""
    return dynamic_suites if suites is None else dg.StaticPartitionsDefinition(list(suites))


def grid(suites: dg.PartitionsDefinition[str], runners: Sequence[str]) -> dg.MultiPartitionsDefinition:
    """Suites × runners."""
    return dg.MultiPartitionsDefinition({"suite": suites, "runner": dg.StaticPartitionsDefinition(list(runners))})


def partition_key(pair: PairKey) -> dg.MultiPartitionKey:
    """The partition of a pair."""
    return dg.MultiPartitionKey({"suite": pair.suite, "runner": pair.runner})


def exactly(pairs: Sequence[PairKey]) -> dg.StaticPartitionsDefinition:
    """Just these pairs, under the same keys as in the grid.

    A sweep of the command line has its own definitions: in the grid a run covers a box, and every pair of it costs
    events, also one with nothing to carry out.
    """
    return dg.StaticPartitionsDefinition([str(partition_key(pair)) for pair in pairs])


def pair_key(key: str) -> PairKey:
    """The pair of a partition; names hold no `|`."""
    runner, suite = str(key).split("|")
    return PairKey(suite, runner)


def range_tags(suites: Sequence[str], runners: Sequence[str]) -> dict[str, str]:
    """Run tags that make one run of all partitions between the first and the last of both sides."""
    return between(PairKey(suites[0], runners[0]), PairKey(suites[-1], runners[-1]))


def between(first: PairKey, last: PairKey) -> dict[str, str]:
    """Run tags that make one run of all partitions from one to another."""
    return {RANGE_START: str(partition_key(first)), RANGE_END: str(partition_key(last))}
