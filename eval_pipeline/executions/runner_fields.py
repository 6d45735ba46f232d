"""The fields of every runner beside its adapter's settings, and their readers. Errors name their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.adapters import ADAPTERS, settings_of
from eval_pipeline.executions.model import ISOLATIONS, Isolation, RetryPolicy
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map
from eval_pipeline.parsing.tables import (
    COUNT,
    MAPPING,
    POSITIVE,
    TEXT,
    TEXTS,
    WEIGHT,
    WHOLE,
    Field,
    FieldTable,
    Kind,
    either,
    list_of,
    mapping_of,
    one_of,
)

_MOST = 1e15
PAYLOADS = ("messages", "text")
RETRIES = FieldTable(
    "retries",
    (
        Field("max_retries", WHOLE, "How often a failed attempt is retried.", 5),
        Field("initial_delay_s", WEIGHT, "The delay before the first retry, in seconds.", 0.5),
        Field("factor", WEIGHT, "The factor by which each delay is longer than the one before.", 2.0),
        Field("max_delay_s", WEIGHT, "The longest delay, in seconds.", 30.0),
        Field("jitter", WEIGHT, "How much delays vary at random, as a share of the delay.", 0.5),
        Field("max_retry_after_s", WEIGHT, "The longest delay that a provider's `Retry-After` may ask for.", 120.0),
        Field("statuses", list_of(WHOLE), "The HTTP statuses that are retried (default: those of the adapter)."),
    ),
    "How often and how patiently failed attempts are retried.",
)
PRICES = FieldTable(
    "prices",
    (
        Field("input_per_million", WEIGHT, "USD per million input tokens."),
        Field("cached_input_per_million", WEIGHT, "USD per million input tokens that were read from a cache."),
        Field("cache_write_per_million", WEIGHT, "USD per million input tokens that were written to a cache."),
        Field("output_per_million", WEIGHT, "USD per million output tokens."),
        Field("per_call", WEIGHT, "USD per call."),
    ),
    "Prices from which cost is computed where the target reports none.",
)
RUNNER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAME = Kind("a text", {"type": "string", "pattern": f"^{RUNNER_NAME.pattern}$"}, TEXT.read)
RUNNER = FieldTable(
    "runner",
    (
        Field("name", _NAME, "The name of the runner: letters, digits, `.`, `_` and `-`.", required=True),
        Field("adapter", TEXT, "What drives the runner.", required=True),
        Field("use", TEXT, "Another runner of the file whose settings this one takes over."),
        Field("tags", TEXTS, "Labels to select runners by."),
        Field("timeout_s", POSITIVE, "The time limit of one attempt, in seconds (default: the adapter's)."),
        Field("concurrency", COUNT, "How many executions of the runner run at the same time."),
        Field(
            "max_output_mb",
            POSITIVE,
            "The most that is read of one answer, or of one output of a program, in MB "
            "(10^6 bytes; default: that of the project, else 64).",
        ),
        Field(
            "isolation",
            one_of(*ISOLATIONS),
            "Where the function of a `python` runner is called: in a worker process, or in the process of the sweep, "
            "which it can then end or block (default: that of the project, else `process`).",
        ),
        Field("retries", either(WHOLE, mapping_of(RETRIES)), "How failed attempts are retried."),
        Field("prices", mapping_of(PRICES), "Prices from which cost is computed."),
        Field("description", TEXT, "A remark about the runner."),
        Field("grader", TEXT, "The runner that grades this one's answers where an evaluator names none."),
        Field(
            "grader_payload",
            one_of(*PAYLOADS),
            "What a `code-grader` reads as `output` of its answers where neither its `payload` nor a `package.json` "
            "decides.",
        ),
        Field("simulator", TEXT, "The runner that plays the user in its conversations where a case names none."),
        Field("arms", MAPPING, "Settings that differ, by the name of an arm; each arm is a runner `<runner>-<arm>`."),
        Field("fallbacks", TEXTS, "Runners that are used, in this order, when every attempt of this one failed."),
    ),
    "A system under test; its further fields are the settings of its adapter.",
)


def runner_fields(adapter: str | None = None) -> FieldTable:
    """The fields of an entry in the runners file: those of every runner, and the settings of an adapter if given."""
    return RUNNER if adapter is None else RUNNER.joined(settings_of(ADAPTERS.get(adapter)).without(*RUNNER))


def limit(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    """A number above 0 that clocks can take, None when it is not given."""
    value = fields.positive(raw, key, cursor)
    if value is not None and value >= _MOST:
        raise cursor.error(f"expected a number above 0 and below {_MOST:g}, got {fields.kind(raw[key])}", key)
    return value


def retries(raw: Map, cursor: FieldCursor) -> RetryPolicy:
    """The retries of a runner: a number of them, or a policy with some of its values."""
    value = raw.get("retries")
    if isinstance(value, int) and not isinstance(value, bool):
        value = {"max_retries": value}
    if not isinstance(value, Mapping | None):
        raise cursor.error(f"expected a number of retries or a mapping, got {fields.kind(value)}", "retries")
    policy, at = value or {}, cursor.at("retries")
    _check_names(policy, RETRIES, "retry setting", at)
    values = {key: RETRIES[key].read(policy, at) for key in policy if policy[key] is not None}
    if "statuses" in values:
        values["statuses"] = _statuses(values["statuses"], at)
    return RetryPolicy(**values)


def isolation(raw: Map, cursor: FieldCursor) -> Isolation | None:
    """Where functions of the user are called, None when it is not given."""
    chosen = fields.choice(raw, "isolation", cursor, ISOLATIONS)
    return next((each for each in ISOLATIONS if each == chosen), None)


def _check_names(raw: Map, table: FieldTable, kind: str, cursor: FieldCursor) -> None:
    for key in raw:
        if key not in table:
            raise UnknownName(kind, str(key), table, cursor.place(key))


def _statuses(value: Any, cursor: FieldCursor) -> tuple[int, ...]:
    if isinstance(value, list) and all(isinstance(status, int) and 400 <= status <= 599 for status in value):
        return tuple(value)
    raise cursor.error(f"expected a list of HTTP statuses from 400 to 599, got {value!r}", "statuses")


def prices(raw: Map, cursor: FieldCursor) -> dict[str, float]:
    """USD per million tokens (and per call), from which cost is computed where the target reports none."""
    given, at = raw.get("prices") or {}, cursor.at("prices")
    if not isinstance(given, Mapping):
        raise at.error(f"expected a mapping with some of: {', '.join(PRICES)}; got {fields.kind(given)}")
    _check_names(given, PRICES, "price", at)
    known = {key: PRICES[key].read(given, at) for key in given if given[key] is not None}
    needed = {"input_per_million", "output_per_million"}
    if known.keys() - {"per_call"} and not needed <= known.keys():
        missing = ", ".join(sorted(needed - known.keys()))
        raise at.error(f"prices of tokens need {missing}, too: a price that is not given is not 0")
    return known
