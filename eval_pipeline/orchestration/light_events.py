"""Dagster's events in as few bytes as Dagster reads them from.

Dagster writes every field of an event, those at their default among them, with the classes of handles that nothing
reads: 2.1 kB for a materialization, in two databases. What is left out here reads as the default, or as nothing that a
page shows (`_UNREAD`). Nothing else changes: the same classes, the same keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from dagster_shared.serdes.serdes import _WHITELIST_MAP

_UNREAD: Mapping[str, Mapping[str, Any]] = {
    "DagsterEvent": {"logging_tags": {}, "solid_handle": None, "step_handle": None, "pid": None},
    "EventLogEntry": {"user_message": ""},
    "StepMaterializationData": {"asset_lineage": None},
}
"""Fields that no page shows, by class, with what stands in their place."""


def light_event(serialized: str) -> str:
    """Return a serialized event without fields that are at their default, or unread."""
    return orjson.dumps(_light(orjson.loads(serialized))).decode()


def logged_event(serialized: str) -> str:
    """Return a light materialization as the log of its run shows it: without the tags of where it came from."""
    event = orjson.loads(serialized)
    event["dagster_event"]["event_specific_data"]["materialization"].pop("tags", None)
    return orjson.dumps(event).decode()


def bare_check(serialized: str) -> str:
    """Return a light check without what it found: Dagster reads that from its table of checks."""
    event = orjson.loads(serialized)
    found: dict[str, Any] = event["dagster_event"]["event_specific_data"]
    found |= {"metadata": {}}
    found.pop("target_materialization_data", None)
    return orjson.dumps(event).decode()


def _light(value: Any) -> Any:
    if isinstance(value, list):
        return [_light(item) for item in value]
    if not isinstance(value, dict):
        return value
    name = value.get("__class__")
    if name is None:
        return {key: _light(item) for key, item in value.items()}
    defaults, unread = _defaults(name), _UNREAD.get(name, {})
    fields = {key: _light(unread.get(key, item)) for key, item in value.items()}
    return {key: item for key, item in fields.items() if key not in defaults or item != defaults[key]}


@lru_cache
def _defaults(name: str) -> Mapping[str, Any]:
    """Return the fields of a class that may be left out, with the values that they then have."""
    serializer = _WHITELIST_MAP.object_deserializers.get(name)
    if serializer is None:
        return {}
    parameters = inspect.signature(serializer.klass).parameters.values()
    return {parameter.name: None for parameter in parameters if parameter.default is None}
