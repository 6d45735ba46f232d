"""Reading what every runner may say beside its adapter's settings: numbers, lists, retries, prices.

Each error names its place; `at` is the field path of the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.model import RetryPolicy
from eval_pipeline.parsing.source import FieldPath, Source

_MOST = 1e15
_PRICES = ("input_per_million", "cached_input_per_million", "cache_write_per_million", "output_per_million", "per_call")


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
    known = [item.name for item in fields(RetryPolicy)]
    for key in raw:
        if key not in known:
            raise UnknownName("retry setting", key, known, source.place((*at, key)))
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
        raise source.error(at, f"expected a mapping with some of: {', '.join(_PRICES)}")
    for key in raw:
        if key not in _PRICES:
            raise UnknownName("price", key, _PRICES, source.place((*at, key)))
    given = {key: price for key in raw if (price := number(raw, key, at, source, above=-1e-12)) is not None}
    needed = {"input_per_million", "output_per_million"}
    if given.keys() - {"per_call"} and not needed <= given.keys():
        missing = ", ".join(sorted(needed - given.keys()))
        raise source.error(at, f"prices of tokens need {missing}, too: a price that is not given is not 0")
    return given
