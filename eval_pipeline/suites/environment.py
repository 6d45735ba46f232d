"""`${{ NAME }}` in text that people write, filled in from the environment; and `.env` files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

_PLACEHOLDER = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def interpolate(value: Any, environment: Mapping[str, str]) -> Any:
    """`value` with every `${{ NAME }}` in its strings replaced; an unset name becomes an empty text."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: environment.get(match[1], ""), value) if "${{" in value else value
    if isinstance(value, Mapping):
        return {key: interpolate(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolate(item, environment) for item in value]
    return value


def names_in(value: Any) -> list[str]:
    """The environment names that a text mentions, in order."""
    return _PLACEHOLDER.findall(value) if isinstance(value, str) else []


def unset_names(text: str, environment: Mapping[str, str]) -> list[str]:
    """The names that a file's text mentions and that have no value, each once."""
    return [name for name in dict.fromkeys(names_in(text)) if name not in environment]


def read_environment(folder: Path) -> dict[str, str]:
    """The process environment over the nearest `.env` found from `folder` upward (an exported value wins)."""
    found: dict[str, str] = {}
    for parent in (folder, *folder.parents):
        if (parent / ".env").is_file():
            found = {key: value for key, value in dotenv_values(parent / ".env").items() if value is not None}
            break
    return found | dict(os.environ)
