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
from dagster._core.events import DagsterEvent, StepMaterializationData
from dagster._core.events.log import EventLogEntry
from dagster_shared.serdes.serdes import _WHITELIST_MAP

_UNREAD: Mapping[str, frozenset[str]] = {
    DagsterEvent.__name__: frozenset({"logging_tags", "solid_handle", "step_handle", "step_kind_value", "pid"}),
    EventLogEntry.__name__: frozenset({"message"}),
    StepMaterializationData.__name__: frozenset({"asset_lineage"}),
}
"""Fields that no page shows, by class; what a class takes for them when they are missing reads the same."""


def light_event(serialized: str) -> str:
    """Return a serialized event without fields that are at their default, or unread."""
    event = _light(orjson.loads(serialized))
    if "dagster_event" in event:
        event["user_message"] = ""  # the message of the event is read; a line of the log has no other text
    return orjson.dumps(event).decode()


def logged_event(serialized: str) -> str:
    """Return a light materialization as the log of its run shows it: without the tags of where it came from, and
    without tables, which the step's output shows there already."""
    event = orjson.loads(serialized)
    materialization = event["dagster_event"]["event_specific_data"]["materialization"]
    materialization.pop("tags", None)
    entries = materialization.get("metadata_entries", [])
    materialization["metadata_entries"] = [entry for entry in entries if "md_str" not in entry["entry_data"]]
    return orjson.dumps(event).decode()


def indexed_event(serialized: str) -> str:
    """Return a light event as the pages of its asset show it: without the message of the log, and without the step and
    the job that it names twice."""
    event = orjson.loads(serialized)
    for field in ("message", "step_key"):
        event["dagster_event"].pop(field, None)
    event.pop("pipeline_name", None)
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
    defaults, unread = _defaults(name), _UNREAD.get(name, frozenset())
    fields = {key: _light(item) for key, item in value.items() if key not in unread}
    return {key: item for key, item in fields.items() if key not in defaults or item != defaults[key]}


@lru_cache
def _defaults(name: str) -> Mapping[str, Any]:
    """Return the fields of a class that may be left out, with the values that they then have."""
    serializer = _WHITELIST_MAP.object_deserializers.get(name)
    if serializer is None:
        return {}
    parameters = inspect.signature(serializer.klass).parameters.values()
    return {parameter.name: None for parameter in parameters if parameter.default is None}
