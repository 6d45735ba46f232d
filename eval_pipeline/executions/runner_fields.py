"""Reading what every runner may say beside its adapter's settings: numbers, lists, retries, prices.

Each error names its place; `at` is the field path of the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import RetryPolicy
from eval_pipeline.parsing.source import FieldPath, Source
from eval_pipeline.parsing.tables import (
    COUNT,
    POSITIVE,
    TEXT,
    TEXTS,
    WEIGHT,
    WHOLE,
    Field,
    FieldTable,
    either,
    list_of,
    mapping_of,
)

_MOST = 1e15
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
RUNNER = FieldTable(
    "runner",
    (
        Field("name", TEXT, "The name of the runner: letters, digits, `.`, `_` and `-`.", required=True),
        Field("adapter", TEXT, "What drives the runner.", required=True),
        Field("use", TEXT, "Another runner of the file whose settings this one takes over."),
        Field("tags", TEXTS, "Labels to select runners by."),
        Field("timeout_s", POSITIVE, "The time limit of one attempt, in seconds (default: the adapter's)."),
        Field("concurrency", COUNT, "How many executions of the runner run at the same time."),
        Field("retries", either(WHOLE, mapping_of(RETRIES)), "How failed attempts are retried."),
        Field("prices", mapping_of(PRICES), "Prices from which cost is computed."),
        Field("description", TEXT, "A remark about the runner."),
        Field("grader", TEXT, "The runner that grades this one's answers where an evaluator names none."),
        Field("fallbacks", TEXTS, "Runners that are used, in this order, when every attempt of this one failed."),
    ),
    "A system under test; its further fields are the settings of its adapter.",
)


def runner_fields(adapter: str | None = None) -> FieldTable:
    """The fields of an entry in the runners file: those of every runner, and the settings of an adapter if given."""
    return RUNNER if adapter is None else RUNNER.joined(ADAPTERS.get(adapter).settings.without(*RUNNER))


def texts(raw: Any, at: FieldPath, source: Source) -> tuple[str, ...]:
    """A list of texts; a single one may stand alone."""
    if raw is None:
        return ()
    if isinstance(raw, str):
        return (raw,)
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return tuple(raw)
    raise source.error(at, "expected a list of texts")


def number(raw: Mapping[str, Any], key: str, at: FieldPath, source: Source, *, above: float) -> float | None:
    """A number above a bound, None when it is not given."""
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value < _MOST:
        expected = f"a number above {above:g}" if above >= 0 else "a number of at least 0"
        raise source.error((*at, key), f"expected {expected}, got {value!r}")
    return float(value)


def whole(raw: Mapping[str, Any], key: str, at: FieldPath, source: Source, least: int = 1) -> int | None:
    """A whole number of at least `least`, None when it is not given."""
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise source.error((*at, key), f"expected a whole number of at least {least}, got {value!r}")
    return value


def retries(raw: Any, at: FieldPath, source: Source) -> RetryPolicy:
    """A number of retries, or a policy with some of its values."""
    if raw is None:
        return RetryPolicy()
    if isinstance(raw, int) and not isinstance(raw, bool):
        raw = {"max_retries": raw}
    if not isinstance(raw, Mapping):
        raise source.error(at, "expected a number of retries or a mapping")
    for key in raw:
        if key not in RETRIES:
            raise UnknownName("retry setting", key, RETRIES, source.place((*at, key)))
    values: dict[str, Any] = {
        key: number(raw, key, at, source, above=-1e-9) for key in raw if key not in ("max_retries", "statuses")
    }
    values["max_retries"] = whole(raw, "max_retries", at, source, least=0)
    values["statuses"] = _statuses(raw.get("statuses"), (*at, "statuses"), source)
    return RetryPolicy(**{key: value for key, value in values.items() if value is not None})


def _statuses(raw: Any, at: FieldPath, source: Source) -> tuple[int, ...] | None:
    if raw is None:
        return None
    if isinstance(raw, list) and all(isinstance(status, int) and 400 <= status <= 599 for status in raw):
        return tuple(raw)
    raise source.error(at, f"expected a list of HTTP statuses from 400 to 599, got {raw!r}")


def prices(raw: Any, at: FieldPath, source: Source) -> dict[str, float]:
    """USD per million tokens (and per call), by which cost is computed where the target reports none."""
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise source.error(at, f"expected a mapping with some of: {', '.join(PRICES)}")
    for key in raw:
        if key not in PRICES:
            raise UnknownName("price", key, PRICES, source.place((*at, key)))
    given = {key: price for key in raw if (price := number(raw, key, at, source, above=-1e-12)) is not None}
    needed = {"input_per_million", "output_per_million"}
    if given.keys() - {"per_call"} and not needed <= given.keys():
        missing = ", ".join(sorted(needed - given.keys()))
        raise source.error(at, f"prices of tokens need {missing}, too: a price that is not given is not 0")
    return given
