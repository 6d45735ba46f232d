"""`${{ NAME }}` and `{{ env.NAME }}` replaced from the environment; and `.env` files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

_PLACEHOLDER = re.compile(
    r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}|(?<!\$)\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}"
)


def interpolate(value: Any, environment: Mapping[str, str]) -> Any:
    """`value` with every `${{ NAME }}` and `{{ env.NAME }}` in its strings replaced; an unset name becomes empty."""
    return with_texts_changed(value, lambda text: filled_in(text, environment) if "{{" in text else text)


def filled_in(text: str, environment: Mapping[str, str]) -> str:
    """A text with its placeholders replaced."""
    return _PLACEHOLDER.sub(lambda match: environment.get(match[1] or match[2], ""), text)


def is_placeholder(text: str) -> bool:
    """Return whether a text consists of a single placeholder."""
    return _PLACEHOLDER.fullmatch(text.strip()) is not None


def with_texts_changed(value: Any, change: Callable[[str], Any], known: dict[int, Any] | None = None) -> Any:
    """Return `value` with `change` applied to every text in it, except keys.

    Unchanged parts are not copied, and shared parts (YAML aliases) are changed once.
    """
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, (Mapping, list)):
        return value
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if isinstance(value, Mapping):
        changed: Any = {key: with_texts_changed(item, change, known) for key, item in value.items()}
        same = all(changed[key] is item for key, item in value.items())
    else:
        changed = [with_texts_changed(item, change, known) for item in value]
        same = all(new is old for new, old in zip(changed, value, strict=True))
    known[id(value)] = value if same else changed
    return known[id(value)]


def names_in(value: Any) -> list[str]:
    """The environment names that a text mentions, in order."""
    return [match[1] or match[2] for match in _PLACEHOLDER.finditer(value)] if isinstance(value, str) else []


def unset_names(text: str, environment: Mapping[str, str]) -> dict[str, int]:
    """The names that a file's text mentions and that have no value, each with the line of its first mention."""
    unset: dict[str, int] = {}
    for match in _PLACEHOLDER.finditer(text):
        name = match[1] or match[2]
        if name not in environment and name not in unset:
            unset[name] = text.count("\n", 0, match.start()) + 1
    return unset


def read_environment(folder: Path) -> dict[str, str]:
    """The process environment over the nearest `.env` found from `folder` upward (an exported value wins)."""
    return written_environment(folder) | dict(os.environ)


def written_environment(folder: Path) -> dict[str, str]:
    """The values of the nearest `.env` found from `folder` upward."""
    file = nearest_environment_file(folder)
    written = dotenv_values(file) if file is not None else {}
    return {key: value for key, value in written.items() if value is not None}


def nearest_environment_file(folder: Path) -> Path | None:
    """The nearest `.env` found from `folder` upward; None when there is none."""
    return next((parent / ".env" for parent in (folder, *folder.parents) if (parent / ".env").is_file()), None)
