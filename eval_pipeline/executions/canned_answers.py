"""Canned answers of tools (`mocks` of a case): given in order, each once in a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.fingerprints import to_json
from eval_pipeline.suites.arguments import have_arguments
from eval_pipeline.suites.simulation import ToolMock

_PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")


@dataclass(slots=True)
class CannedAnswers:
    """The canned answers that a turn may give; `used` are the places of those that it gave."""

    mocks: Sequence[ToolMock] = ()
    used: list[int] = field(default_factory=list)

    def has(self, tool: str) -> bool:
        """Return whether there are canned answers of a tool, given or not."""
        return any(mock.tool == tool for mock in self.mocks)

    def take(self, tool: str, arguments: Any) -> ToolMock | None:
        """Return the first answer for a call that was not given yet, filled in; None where there is none."""
        for place, mock in enumerate(self.mocks):
            if mock.tool == tool and place not in self.used and have_arguments(arguments, mock.params, mock.match):
                self.used.append(place)
                named = arguments if isinstance(arguments, Mapping) else {}
                changes = _filled(mock.state, named) if mock.state is not None else None
                return ToolMock(tool=tool, response=_filled(mock.response, named), state=changes)
        return None

    def why_none(self, tool: str) -> str:
        """Return why there is no answer for a call."""
        of_tool = [place for place, mock in enumerate(self.mocks) if mock.tool == tool]
        if not of_tool:
            return f"there is no canned answer of '{tool}'"
        if all(place in self.used for place in of_tool):
            return f"every canned answer of '{tool}' was given"
        return f"no canned answer of '{tool}' has these arguments"


def merged(state: Any, patch: Any) -> Any:
    """Return a document with changes merged in; null removes an entry (JSON Merge Patch, RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    document = dict(state) if isinstance(state, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        else:
            document[name] = merged(document.get(name), value)
    return document


def _filled(value: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a canned answer with `{{ name }}` replaced by that argument of the call; an unknown name stays."""
    if isinstance(value, Mapping):
        return {_name(key, arguments): _filled(item, arguments) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, arguments) for item in value]
    if not isinstance(value, str):
        return value
    whole = _PLACEHOLDER.fullmatch(value)
    return arguments.get(whole[1], value) if whole is not None else _name(value, arguments)


def _name(text: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a text with its placeholders filled, as a text."""
    return _PLACEHOLDER.sub(lambda found: _text(arguments.get(found[1], found[0])), text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()
