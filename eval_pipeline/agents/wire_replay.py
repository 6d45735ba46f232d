"""Recorded calls of a session as answers to the calls of another one.

Calls are answered in their order, apart by address and by whether they offer tools, since an agent asks for titles
beside its work. Folders of the recorded session are named by placeholders: those of the new one
take their place.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval_pipeline.agents.wire_records import WireCall, read_call
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.jsonl_records import mapping

_Key = tuple[str, str, bool]


class Recording:
    """The calls of one recorded session that are not given yet. `places` are the folders of the new one by name."""

    def __init__(self, calls: Sequence[WireCall], places: Mapping[str, str]) -> None:
        self._places = places
        self._calls: dict[_Key, deque[WireCall]] = defaultdict(deque)
        for call in calls:
            self._calls[_key(call)].append(call)

    def answer_to(self, asked: WireCall) -> WireCall | None:
        """Return the next recorded call of this kind, with the answer for this session; None when there is none."""
        waiting = self._calls.get(_key(asked))
        if not waiting:
            return None
        recorded = waiting.popleft()
        response = recorded.response
        for name, place in self._places.items():
            response = response.replace(name, place)
        return replace(recorded, request=asked.request, response=response)


def read_recording(path: Path) -> list[WireCall]:
    """Return the calls of a recording, one JSON object a line. Raises InputError naming the line."""
    calls = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        try:
            calls += [read_call(line)] if line.strip() else []
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"no recorded call: {error}", SourceLocation(show_path(path), number)) from None
    return calls


def _key(call: WireCall) -> _Key:
    try:
        tools = bool(mapping(json.loads(call.request)).get("tools"))
    except (ValueError, RecursionError):
        tools = False
    return call.method, call.path.partition("?")[0], tools
