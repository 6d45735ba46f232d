"""Deleting Dagster's records of deleted sweeps and suites: runs with their events, and partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.instance import end_killed_runs, open_instance
from eval_pipeline.orchestration.partitions import PAIRS, SUITES, pair_key
from eval_pipeline.orchestration.pruning import delete_runs


def forget_in_dagster(
    data: Path,
    root: Path,
    *,
    runs: Sequence[str],
    suites: Sequence[str] = (),
    runners: Sequence[str] = (),
    killed: Sequence[str] = (),
) -> int:
    """Delete runs, and the partitions of suites and runners; return the number of runs. `killed` runs are reported as
    failed.

    A partition that the project still requests comes back with the next sweep, without a materialization.
    """
    with open_instance(data, root) as instance:
        end_killed_runs(instance, killed)
        for name, key in _partitions(instance, suites, runners):
            instance.delete_dynamic_partition(name, key)
        stored = [run_id for run_id in runs if instance.has_run(run_id)]
        delete_runs(instance, stored)
    return len(stored)


def _partitions(
    instance: dg.DagsterInstance, suites: Sequence[str], runners: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the definition and the key of each partition of these suites and runners."""
    yield from ((SUITES, key) for key in instance.get_dynamic_partitions(SUITES) if key in suites)
    for key in instance.get_dynamic_partitions(PAIRS):
        pair = pair_key(key)
        if pair.suite in suites or pair.runner in runners:
            yield PAIRS, key
