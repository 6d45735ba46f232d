"""Functions shared by the normalizers of agent CLIs: file paths, skills, and unfinished sessions.

Code for one CLI's records is in that CLI's folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Literal, Protocol

from eval_pipeline.failures import MODEL_REJECTED, TARGET_CRASH, FailureClass
from eval_pipeline.reports.endings import WITHOUT_RESULT
from eval_pipeline.reports.jsonl_records import JsonMap, first, text
from eval_pipeline.reports.model import DetectedSkill, Event, FileReadEvent, FileWriteEvent, SkillEvent, Strength

How = Literal["create", "edit", "delete"]
_SKILL_FILE = "SKILL.md"
_STRENGTHS: tuple[Strength, ...] = ("explicit", "strong", "medium")
_REFUSED_MODEL = re.compile(
    r"Cannot use this model|ProviderModelNotFoundError|Model not found:|model is not supported", re.IGNORECASE
)
_SHOWN_STDERR = 300


def resolved(path: str, folder: str | None) -> str:
    """An absolute path, relative ones below `folder`, without `.` and `..`; symbolic links stay.

    A path that only the agent's shell can resolve (`~`, `$HOME`) stays as it is, and so does a relative path without
    folder.
    """
    if path.startswith(("~", "$")) or PureWindowsPath(path).drive:
        return path
    return posixpath.normpath(posixpath.join(folder or "", path))


def within(events: Iterable[Event], *folders: str | None) -> tuple[Event, ...]:
    """The events with paths below one of the folders relative to it: a workspace's name is no part of a report."""
    places = [f"{posixpath.normpath(folder)}/" for folder in dict.fromkeys(folders) if folder and folder != "/"]
    return tuple(
        replace(event, path=_below(event.path, places)) if isinstance(event, FileReadEvent | FileWriteEvent) else event
        for event in events
    )


def _below(path: str, places: Iterable[str]) -> str:
    return next((path.removeprefix(place) for place in places if path.startswith(place)), path)


def read_events(
    path: str, *, folder: str | None, ok: bool | None, call_id: str | None, at: str | None, line: int
) -> Iterator[Event]:
    """The events of a request to read a file; reading a SKILL.md is a strong sign of its skill."""
    yield FileReadEvent(path=path, ok=ok, call_id=call_id, at=at, line=line)
    skill = skill_of(path, folder)
    if skill is not None:
        yield SkillEvent(skill=skill, strength="strong", ok=ok, call_id=call_id, at=at, line=line)


class FinishedCall(Protocol):
    """A tool call of an agent CLI, with what is known of its result."""

    @property
    def id(self) -> str | None: ...
    @property
    def arguments(self) -> JsonMap: ...
    @property
    def folder(self) -> str | None: ...
    @property
    def ok(self) -> bool | None: ...
    @property
    def at(self) -> str | None: ...
    @property
    def line(self) -> int: ...


def file_read_by(call: FinishedCall, path: str | None, *, below: str | None) -> Iterator[Event]:
    """The events of a call that reads a file, if it names one; a relative path is below `below`."""
    if path is not None:
        whole = resolved(path, below)
        yield from read_events(whole, folder=call.folder, ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def file_written_by(call: FinishedCall, path: str | None, how: How, *, below: str | None) -> Iterator[Event]:
    """The event of a call that changes a file, if it names one; a relative path is below `below`."""
    if path is not None:
        whole = resolved(path, below)
        yield FileWriteEvent(path=whole, how=how, ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def skill_loaded(call: FinishedCall) -> Iterator[Event]:
    """The event of a call that loads a skill by its name."""
    skill = text(first(call.arguments, "skill", "name"))
    if skill is not None:
        yield SkillEvent(skill=skill, strength="explicit", ok=call.ok, call_id=call.id, at=call.at, line=call.line)


def skill_of(path: str, folder: str | None) -> str | None:
    """The skill whose SKILL.md this is: the name of the file's folder, unless that is where the agent worked."""
    parent = PurePosixPath(path).parent
    if posixpath.basename(path) != _SKILL_FILE or (folder is not None and str(parent) == posixpath.normpath(folder)):
        return None
    return parent.name or None


def detected_skills(events: Iterable[Event]) -> tuple[DetectedSkill, ...]:
    """The skills that were used, by first sign, each with its strongest sign; failed attempts do not count."""
    signs: dict[str, list[tuple[Strength, str]]] = {}
    last_read = _SKILL_FILE
    for event in events:
        if isinstance(event, FileReadEvent):
            last_read = event.path
        elif isinstance(event, SkillEvent) and event.ok is not False:
            evidence = "called the skill tool" if event.strength == "explicit" else f"read {last_read}"
            signs.setdefault(event.skill, []).append((event.strength, evidence))
    return tuple(
        DetectedSkill(
            skill=skill,
            confidence=min((strength for strength, _ in of_skill), key=_STRENGTHS.index),
            evidence=tuple(evidence for _, evidence in of_skill),
        )
        for skill, of_skill in signs.items()
    )


def failure_without_result(stderr: str | None) -> FailureClass:
    """Return the failure class of a session without a result: its CLI refused the model, or it crashed."""
    return MODEL_REJECTED if _REFUSED_MODEL.search(stderr or "") else TARGET_CRASH


def without_result(printed: bool, stderr: str | None) -> str:
    """The error of a session without an end, with the last line of stderr where nothing was printed."""
    lines = [] if printed else (stderr or "").strip().splitlines()
    return WITHOUT_RESULT + (f": {lines[-1][:_SHOWN_STDERR]}" if lines else "")
