"""Test cases that people edit one by one: the registry of the systems whose cases are listed, imported and exported.

A case is a plain mapping here, as its file has it; what a case means is read by its format. The files are the store:
one case, a list of them, or an object with a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.plugins import Registry
from eval_pipeline.suites.model import Case

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """A file of cases: `document` is its content; `cases` its cases, and `cursors` their places."""

    path: Path
    document: Any
    cases: Sequence[JsonMap]
    cursors: Sequence[FieldCursor]


class CaseFormat(Protocol):
    """Cases of one system, as mappings."""

    def claims(self, raw: JsonMap) -> bool:
        """Return whether a mapping is a case of this system."""
        ...

    def entries(self, document: Any, cursor: FieldCursor) -> Sequence[tuple[Any, FieldCursor]]:
        """Return the cases in a document that is not a list, with their places; none of a document of another kind."""
        ...

    def identity(self, raw: JsonMap) -> str:
        """Return the id of a case: that of its store, else its name as a word."""
        ...

    def open(self, path: Path) -> CaseFile:
        """Return a file of cases. Raises InputError for one that holds none."""
        ...

    def read(self, raw: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Case:
        """Return what a case means. Raises InputError with every wrong field."""
        ...

    def with_cases(self, file: CaseFile, cases: Sequence[JsonMap]) -> Any:
        """Return the content of a file with other cases."""
        ...

    def export(self, cases: Sequence[JsonMap], at: str) -> Any:
        """Return the content of a file with exported cases; `at` is the time of the export."""
        ...

    def drafts(self, brief: DraftBrief, problems: Mapping[int, str]) -> str:
        """Return what a model is told that writes cases; `problems` are those of its earlier cases, by place."""
        ...

    def check_draft(self, raw: Any, brief: DraftBrief) -> JsonMap:
        """Return a case that a model wrote, as a draft. Raises InputError naming what is wrong with it."""
        ...

    def of_conversation(self, conversation: StoredConversation) -> JsonMap:
        """Return the draft of a case that repeats a conversation."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftBrief:
    """What cases are to be written: how many, about what, for which agent; `known` are the names of those there are.

    `prompt` is the agent's, `tools` its declarations of tools (None: not known).
    """

    count: int
    focus: tuple[str, ...] = ()
    prompt: str | None = None
    tools: Sequence[JsonMap] | None = None
    known: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredConversation:
    """A conversation that took place: its execution, its case, and its lines (speaker `user` or `agent`, text).

    `calls` are the agent's calls of tools with their answers: tool, arguments, answer.
    """

    execution_id: str
    case_id: str
    lines: Sequence[tuple[str, str]]
    calls: Sequence[tuple[str, JsonMap, Any]] = ()


CASE_FORMATS: Registry[CaseFormat] = Registry(
    "format of test cases", folder=None, entry_point_group="eval_pipeline.case_formats"
)


def claiming(raw: Any) -> CaseFormat | None:
    """Return the format that a mapping is a case of; None where there is none."""
    if not isinstance(raw, Mapping) or "input" in raw or "name" not in raw:
        return None  # most mappings: no format is loaded for them
    return next((format_ for _, format_ in CASE_FORMATS if format_.claims(raw)), None)


def entries_in(document: Any, cursor: FieldCursor) -> Sequence[tuple[Any, FieldCursor]]:
    """Return the cases in a document that is one case, or an object with a list of them; none of another."""
    found = (format_.entries(document, cursor) for _, format_ in CASE_FORMATS)
    return next((entries for entries in found if entries), ())
