"""What the UI shows of the partitions of an asset."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from eval_pipeline.orchestration.partitions import pair_partitions


def failed_and_materialized(instance: dg.DagsterInstance, asset: str) -> tuple[set[str], set[str]]:
    """The failed and the materialized partitions of an asset."""
    cached = get_and_update_asset_status_cache_value(
        instance, dg.AssetKey(asset), pair_partitions, dynamic_partitions_loader=instance
    )
    assert cached is not None
    failed = cached.deserialize_failed_partition_subsets(pair_partitions)
    materialized = cached.deserialize_materialized_partition_subsets(pair_partitions)
    return set(failed.get_partition_keys()), set(materialized.get_partition_keys())
