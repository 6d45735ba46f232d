"""Reading the settings of an adapter: the readers of `parsing/fields.py`, with defaults; each error names its field.

An adapter does not know where its settings are in a file; whoever builds it adds the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import DETACHED

Settings = Mapping[str, Any]


def text(settings: Settings, key: str) -> str:
    """A required, non-blank text."""
    value = fields.text(settings, key, DETACHED)
    if value is None or not value.strip():
        raise DETACHED.error(f"expected a text, got {fields.kind(value) if value is None else 'an empty one'}", key)
    return value


def optional_text(settings: Settings, key: str) -> str | None:
    """A text, or None when it is not given."""
    return fields.text(settings, key, DETACHED)


def flag(settings: Settings, key: str, default: bool = False) -> bool:
    """True or false."""
    value = fields.flag(settings, key, DETACHED)
    return default if value is None else value


def seconds(settings: Settings, key: str, default: float) -> float:
    """A duration above 0, in seconds."""
    value = fields.positive(settings, key, DETACHED)
    return default if value is None else value


def count(settings: Settings, key: str) -> int | None:
    """A whole number of at least 1, or None when it is not given."""
    return fields.count(settings, key, DETACHED)


def amount(settings: Settings, key: str) -> float | None:
    """A number above 0 as it is written, or None when it is not given."""
    return settings[key] if fields.positive(settings, key, DETACHED) is not None else None


def mapping(settings: Settings, key: str) -> Mapping[str, Any]:
    """A mapping, empty when it is not given."""
    return fields.mapping(settings, key, DETACHED)


def texts(settings: Settings, key: str) -> Mapping[str, str]:
    """A mapping of texts to texts (environment, headers); numbers become texts as they are written."""
    values = mapping(settings, key)
    for name, value in values.items():
        if isinstance(value, (dict, list)) or value is None:
            raise DETACHED.error(f"expected a text, got {fields.kind(value)}", key, name)
    return {name: str(value) for name, value in values.items()}


def names(settings: Settings, key: str) -> tuple[str, ...]:
    """Texts; none when it is not given."""
    return tuple(fields.texts(settings, key, DETACHED))


def choice(settings: Settings, key: str, options: tuple[str, ...], default: str) -> str:
    """One of `options`."""
    return fields.choice(settings, key, DETACHED, options) or default
