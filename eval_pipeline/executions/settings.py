"""Reading an adapter's settings: the same few checks for every adapter, each error naming its field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, UnknownName


def _wrong(key: str, expected: str, value: Any) -> InputError:
    shown = "nothing" if value is None else repr(value)
    return InputError(f"expected {expected}, got {shown}", SourceLocation(field=key))


def text(settings: Mapping[str, Any], key: str) -> str:
    """A required, non-blank text."""
    value = settings.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(key, "a text", value)
    return value


def optional_text(settings: Mapping[str, Any], key: str) -> str | None:
    """A text, or None when it is not given."""
    value = settings.get(key)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(key, "a text", value)


def flag(settings: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """A truth value."""
    value = settings.get(key, default)
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def seconds(settings: Mapping[str, Any], key: str, default: float) -> float:
    """A length of time above 0."""
    value = settings.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise _wrong(key, "a number of seconds above 0", value)
    return float(value)


def count(settings: Mapping[str, Any], key: str) -> int | None:
    """A whole number of at least 1, or None when it is not given."""
    value = settings.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise _wrong(key, "a whole number of at least 1", value)


def amount(settings: Mapping[str, Any], key: str) -> float | None:
    """A number above 0 as it is written, or None when it is not given."""
    value = settings.get(key)
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
        return value
    raise _wrong(key, "a number above 0", value)


def mapping(settings: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """A mapping, empty when it is not given."""
    value = settings.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(key, "a mapping", value)
    return value


def texts(settings: Mapping[str, Any], key: str) -> Mapping[str, str]:
    """A mapping of texts to texts (environment, headers); numbers are taken as they are written."""
    values = mapping(settings, key)
    for name, value in values.items():
        if isinstance(value, (dict, list)) or value is None:
            raise _wrong(f"{key}.{name}", "a text", value)
    return {name: str(value) for name, value in values.items()}


def choice(settings: Mapping[str, Any], key: str, options: tuple[str, ...], default: str) -> str:
    """One of `options`."""
    value = settings.get(key, default)
    if value not in options:
        raise UnknownName(key, str(value), options, SourceLocation(field=key))
    return str(value)
