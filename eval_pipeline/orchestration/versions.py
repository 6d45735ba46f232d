"""Data versions: what each asset of a pair is made from. By them the UI shows which partitions are stale, and why.

`plans` and `evaluators` are external assets that no run makes. The sensor and every sweep report their versions, so
that an edited evaluator makes scores stale and not executions. The versions are the identities that a sweep decides
by. Dagster compares versions partition by partition where both sides have the same partitions; those of `suites`
differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import dagster as dg

from eval_pipeline.orchestration.asset_keys import AssetKeys, keys_of
from eval_pipeline.orchestration.event_batches import events_together, newest_storage_id
from eval_pipeline.orchestration.partitions import partition_key
from eval_pipeline.sweeps.input_versions import InputVersions
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.warehouse.journal import PairKey

PLANS, EVALUATORS = INPUTS = ("plans", "evaluators")
LEADERBOARDS = "leaderboards"
UPSTREAM: dict[str, tuple[str, ...]] = {
    PLANS: ("suites",),
    EVALUATORS: ("suites",),
    "target_executions": (PLANS,),
    "session_reports": ("target_executions",),
    "evaluator_scores": ("session_reports", EVALUATORS),
    "failure_classes": ("evaluator_scores",),
    LEADERBOARDS: ("evaluator_scores", EVALUATORS),
}
_HAS_DOWNSTREAM = frozenset(upstream for assets in UPSTREAM.values() for upstream in assets)
CODE_VERSION = "1"
_VERSION = "dagster/data_version"
_INPUT_VERSION, _INPUT_EVENT = "dagster/input_data_version", "dagster/input_event_pointer"
_CURSOR = "eval_pipeline/inputs/"
_PAIRS_AT_ONCE = 250
"""Pairs whose events are stored in one transaction, for which others wait."""


def provenance(data_version: str) -> dict[str, str]:
    """Return the tags from which Dagster decides what is up to date."""
    return {"dagster/code_version": CODE_VERSION, _VERSION: data_version}


class NewestEvents:
    """The newest event of each partition: its data version and storage id, read once per asset."""

    def __init__(self, instance: dg.DagsterInstance, assets: AssetKeys, keys: Sequence[str]) -> None:
        self._instance, self._assets = instance, assets
        self._keys = list(keys)
        self._versions: dict[str, dict[str, str]] = {}
        self._ids: dict[str, dict[str, int]] = {}

    def version(self, asset: str, key: str) -> str | None:
        """Return the data version of a partition, None when it has none yet."""
        if asset not in self._versions:
            tags = self._instance.event_log_storage.get_latest_tags_by_partition(
                self._assets.key(asset), _event_type(asset), [_VERSION], self._keys
            )
            self._versions[asset] = {key: tag[_VERSION] for key, tag in tags.items()}
        return self._versions[asset].get(key)

    def storage_id(self, asset: str, key: str) -> int | None:
        """Return the storage id of the newest event of a partition, None when it has none yet."""
        if asset not in self._ids:
            log, requested = self._instance.event_log_storage, set(self._keys)
            ids = log.get_latest_storage_id_by_partition(self._assets.key(asset), _event_type(asset), requested)
            self._ids[asset] = dict(ids)
        return self._ids[asset].get(key)

    def add(self, asset: str, key: str, version: str) -> None:
        """Take note of a materialization that was just stored."""
        self.version(asset, key)
        self._versions[asset][key] = version
        if asset not in _HAS_DOWNSTREAM:
            return
        storage_id = newest_storage_id(self._instance, self._assets.key(asset), key)
        if storage_id is not None:
            self._ids.setdefault(asset, {})[key] = storage_id

    def upstream_tags(self, asset: str, key: str) -> dict[str, str]:
        """Return the tags that name the upstream partitions of a materialization: data versions and storage ids.

        Dagster writes them itself for what a step returns, but not for what a step logs. Without them the UI shows
        every partition as unsynced.
        """
        tags: dict[str, str] = {}
        for upstream in UPSTREAM[asset]:
            version, storage_id = self.version(upstream, key), self.storage_id(upstream, key)
            if version is not None:
                named = self._assets.key(upstream).to_user_string()
                tags[f"{_INPUT_VERSION}/{named}"] = version
                tags[f"{_INPUT_EVENT}/{named}"] = str(storage_id)
        return tags


def newest_tags(instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey]) -> dict[str, str]:
    """Return the tags that name the newest materialization of each asset, whatever its partition, as what something
    was made from. Dagster compares later ones of each partition with them."""
    tags: dict[str, str] = {}
    for record in instance.get_asset_records(assets):
        newest = record.asset_entry.last_materialization_record
        version = (newest.event_log_entry.tags or {}).get(_VERSION) if newest is not None else None
        if newest is not None and version is not None:
            named = record.asset_entry.asset_key.to_user_string()
            tags[f"{_INPUT_VERSION}/{named}"] = version
            tags[f"{_INPUT_EVENT}/{named}"] = str(newest.storage_id)
    return tags


def _event_type(asset: str) -> dg.DagsterEventType:
    observed = asset in INPUTS
    return dg.DagsterEventType.ASSET_OBSERVATION if observed else dg.DagsterEventType.ASSET_MATERIALIZATION


@dataclass(frozen=True, slots=True)
class _News:
    """What is reported of a pair whose inputs are not the newest reported ones, and remembered of it then. `events` are
    empty where only what the versions were made from is new."""

    pair: PairKey
    cursor: str
    value: str
    events: Sequence[dg.AssetObservation | dg.AssetMaterialization]


def _news(
    instance: dg.DagsterInstance, session: ProjectSession, pairs: Sequence[Pair], options: SweepOptions
) -> Iterator[_News]:
    """Yield the news of pairs whose plans or evaluators, under these options, are not the newest reported ones.

    Dagster reads the version of an external asset from observations, and the colour of its partitions from
    materializations.
    """
    keys = [partition_key(pair.name) for pair in pairs]
    assets = keys_of(session.project)
    newest = NewestEvents(instance, assets, keys)
    graders = make_graders(options, session.warehouse, session.runner)
    known = instance.daemon_cursor_storage.get_cursor_values({_CURSOR + key for key in keys})
    for key, pair in zip(keys, pairs, strict=True):
        inputs, ready = InputVersions(pair, options, graders), pair.ready
        reported = {asset: newest.version(asset, key) for asset in INPUTS}
        if known.get(_CURSOR + key) == _cursor(inputs, reported):
            continue  # the versions cost time, and nothing that they are made from has changed
        events: list[dg.AssetObservation | dg.AssetMaterialization] = []
        for asset, version in inputs.by_asset().items() if reported != inputs.by_asset() else ():
            metadata = {"suite_revision": ready.suite.revision[:16], "runner_revision": pair.revision[:16]}
            tags = {_VERSION: version}
            # The leaderboards' step points at the newest materialization; an observation after it would look newer.
            events.append(dg.AssetObservation(assets.key(asset), partition=key, tags=tags))
            events.append(dg.AssetMaterialization(assets.key(asset), partition=key, metadata=metadata, tags=tags))
        yield _News(pair.name, _CURSOR + key, _cursor(inputs, inputs.by_asset()), events)


def _cursor(inputs: InputVersions, versions: Mapping[str, str | None]) -> str:
    """Return what is remembered of a pair whose inputs are reported: what they were made from, and their versions. A
    report that was lost is found by the versions."""
    return " ".join([inputs.token, *(versions[asset] or "" for asset in INPUTS)])


def report_inputs(
    instance: dg.DagsterInstance,
    session: ProjectSession,
    pairs: Sequence[Pair],
    options: SweepOptions,
    most: int | None = None,
) -> list[PairKey]:
    """Report what pairs are made from, under these options; return those that had news, `most` at most (None: all)."""
    news, reported = islice(_news(instance, session, pairs, options), most), list[PairKey]()
    while some := list(islice(news, _PAIRS_AT_ONCE)):
        with events_together(instance):
            for event in chain.from_iterable(each.events for each in some):
                instance.report_runless_asset_event(event)
        instance.daemon_cursor_storage.set_cursor_values({each.cursor: each.value for each in some})
        reported += [each.pair for each in some if each.events]
    return reported
