"""The partitions of the assets: suites, and the pairs (suite × runner) that suites request.

Both are dynamic: they come and go with suite files and runners. A pair is one key, `suite@runner`. A grid of both
dimensions would also hold the pairs that no suite requests, which stay missing for ever, and a backfill of it is a run
per runner. The UI reads `|` in a key as two dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from eval_pipeline.orchestration import notices as notices  # first: the lines below would print notices
from eval_pipeline.sweeps.project_contents import ProjectContents
from eval_pipeline.warehouse.journal import PairKey

SUITES = "suites"
PAIRS = "pairs"
PartitionRequest = dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest
PARTITION = "dagster/partition"
RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_NO_PARTITION = (
    f"the run has no partition: launch it with one (tag {PARTITION}), or with a range of them (tags {RANGE_START} and "
    f"{RANGE_END})"
)
suite_partitions = dg.DynamicPartitionsDefinition(name=SUITES)
pair_partitions = dg.DynamicPartitionsDefinition(name=PAIRS)


def partition_key(pair: PairKey) -> str:
    """The partition of a pair."""
    return f"{pair.suite}@{pair.runner}"


def pair_key(key: str) -> PairKey:
    """The pair of a partition; names of runners hold no `@`."""
    suite, _, runner = key.rpartition("@")
    return PairKey(suite, runner)


def exactly(pairs: Sequence[PairKey]) -> dg.StaticPartitionsDefinition:
    """Just these pairs, under the same keys.

    A sweep of the command line has its own definitions: its pairs need not follow each other among all pairs.
    """
    return dg.StaticPartitionsDefinition([partition_key(pair) for pair in pairs])


def range_tags(keys: Sequence[str]) -> dict[str, str]:
    """Run tags that make one run of all partitions from the first to the last of these."""
    return {RANGE_START: keys[0], RANGE_END: keys[-1]}


def run_partitions(context: dg.AssetExecutionContext, definition: dg.PartitionsDefinition[str]) -> list[str]:
    """Return the partitions of a run. A run that was launched with none fails, and says what it needs.

    The tags of a range come first. `context.partition_keys` prefers others, and a run that Dagster made for a range has
    those of its first partition too: it would cover that one alone.
    """
    tags = context.run.tags
    if RANGE_START not in tags and PARTITION not in tags:
        raise dg.Failure(_NO_PARTITION, allow_retries=False)
    if RANGE_START not in tags:
        return [tags[PARTITION]]
    keys = list(definition.get_partition_keys(dynamic_partitions_store=context.instance))
    return keys[keys.index(tags[RANGE_START]) : keys.index(tags[RANGE_END]) + 1]


def partition_requests(instance: dg.DagsterInstance, contents: ProjectContents) -> list[PartitionRequest]:
    """Return what makes an instance's partitions those of the project.

    Nothing is removed while a file is broken, and no partition of an unfinished run: Dagster fails a run whose
    partitions are gone when its step starts.
    """
    requests: list[PartitionRequest] = []
    requested = {SUITES: list(contents.suites), PAIRS: [partition_key(pair) for pair in contents.pairs()]}
    for name, keys in requested.items():
        known = instance.get_dynamic_partitions(name)
        new, gone = _without(keys, known), _without(known, keys)
        if new:
            requests.append(dg.AddDynamicPartitionsRequest(name, new))
        if gone and not contents.problems:
            requests += _deletion(name, _without(gone, _keys_of_unfinished_runs(instance, known)))
    return requests


def _deletion(name: str, keys: Sequence[str]) -> list[PartitionRequest]:
    return [dg.DeleteDynamicPartitionsRequest(name, keys)] if keys else []


def _keys_of_unfinished_runs(instance: dg.DagsterInstance, known: Sequence[str]) -> list[str]:
    """Return the partitions, of these, that runs cover which are queued or under way."""
    keys: list[str] = []
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)):
        first, last = run.tags.get(RANGE_START), run.tags.get(RANGE_END)
        if first in known and last in known:
            keys += known[known.index(first) : known.index(last) + 1]
        elif PARTITION in run.tags:
            keys.append(run.tags[PARTITION])
    return keys


def known_suites(instance: dg.DagsterInstance, asset: dg.AssetKey) -> set[str]:
    """Return the suites that are partitions and are reported under this key: another prefix begins with none."""
    return set(instance.get_dynamic_partitions(SUITES)) & instance.get_materialized_partitions(asset)


def apply_requests(instance: dg.DagsterInstance, requests: Sequence[PartitionRequest]) -> None:
    """Do what a sensor's requests do."""
    for request in requests:
        if isinstance(request, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            continue
        for key in request.partition_keys:
            instance.delete_dynamic_partition(request.partitions_def_name, key)


def _without(keys: Sequence[str], others: Sequence[str]) -> list[str]:
    excluded = set(others)
    return [key for key in keys if key not in excluded]
