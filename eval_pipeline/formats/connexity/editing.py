"""Connexity's test cases as files that people edit: which mappings are cases, and the files that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.formats.connexity.cases import case_id, read_case, warn_unknown
from eval_pipeline.formats.connexity.drafts import check_draft, draft_of_conversation, drafts_prompt
from eval_pipeline.formats.connexity.fields import EXPORT
from eval_pipeline.formats.connexity.sets import is_set
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor, kind
from eval_pipeline.parsing.json_text import read_json
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml
from eval_pipeline.suites.case_formats import CaseFile, DraftBrief, StoredConversation
from eval_pipeline.suites.model import Case

CASES = "test_cases"
OWN = (
    "persona", "persona_context", "initial_message", "first_message", "first_turn", "user_context",
    "expected_outcomes", "expected_tool_calls", "evaluation_criteria_override",
)  # fmt: skip
"""The fields that only a test case has; `expected_outcomes` alone does not tell it from a case of another format."""
JsonMap = Mapping[str, Any]


class ConnexityCases:
    """Connexity's test cases, as mappings."""

    def claims(self, raw: JsonMap) -> bool:
        """Return whether a mapping is a test case: it has a name, a field of its own, and no input."""
        return "input" not in raw and "name" in raw and any(name in raw for name in OWN)

    def entries(self, document: Any, cursor: FieldCursor) -> Sequence[tuple[Any, FieldCursor]]:
        """Return the cases in a document that is one case, or an object with a list of them; none of another."""
        if not isinstance(document, Mapping) or not (isinstance(document.get(CASES), list) or self.claims(document)):
            return ()
        return list(entries_of(document, cursor, Diagnostics()))

    def identity(self, raw: JsonMap) -> str:
        """Return the id of a case: that of its store, else its name as a word."""
        return case_id(raw)

    def open(self, path: Path) -> CaseFile:
        """Return a file of cases. Raises InputError for one that holds none."""
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}", SourceLocation(show_path(path))) from None
        document, cursor = read_document(path, text)
        entries = list(entries_of(document, cursor, Diagnostics()))
        return CaseFile(
            path=path,
            document=document,
            cases=[raw for raw, _ in entries],
            cursors=[place for _, place in entries],
        )

    def read(self, raw: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Case:
        """Return what a case means. Raises InputError with every wrong field."""
        return read_case(raw, cursor, diagnostics)

    def with_cases(self, file: CaseFile, cases: Sequence[JsonMap]) -> Any:
        """Return the content of a file with other cases, in the form that it has; one case alone stays so."""
        if isinstance(file.document, Mapping) and CASES in file.document:
            counted = {"count": len(cases)} if "count" in file.document else {}
            return {**file.document, **counted, CASES: list(cases)}
        alone = isinstance(file.document, Mapping) and len(cases) == 1
        return cases[0] if alone else list(cases)

    def export(self, cases: Sequence[JsonMap], at: str) -> Any:
        """Return the content of a file with exported cases."""
        return {"exported_at": at, "count": len(cases), CASES: list(cases)}

    def drafts(self, brief: DraftBrief, problems: Mapping[int, str]) -> str:
        """Return what a model is told that writes cases."""
        return drafts_prompt(brief, problems)

    def check_draft(self, raw: Any, brief: DraftBrief) -> JsonMap:
        """Return a case that a model wrote, as a draft. Raises InputError naming what is wrong with it."""
        return check_draft(raw, brief)

    def of_conversation(self, conversation: StoredConversation) -> JsonMap:
        """Return the draft of a case that repeats a conversation."""
        return draft_of_conversation(conversation)


def read_document(path: Path, text: str) -> tuple[Any, FieldCursor]:
    """Return the content of a file with its place. Raises InputError for a text that is not JSON or YAML."""
    shown = show_path(path)
    document, lines = (read_json if path.suffix.lower() == ".json" else read_yaml)(text, shown)
    return document, FieldCursor(Source(path, shown, lines.of))


def entries_of(document: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Iterator[tuple[Any, FieldCursor]]:
    """Yield each test case as written, with its place. Raises InputError for a document of another kind."""
    if isinstance(document, Mapping) and CASES in document:
        if not is_set(document):
            warn_unknown(document, EXPORT, cursor, diagnostics)
        document, cursor = document[CASES], cursor.at(CASES)
        if not isinstance(document, list):
            raise cursor.error(f"expected a list of test cases, got {kind(document)}")
    if isinstance(document, list):
        if not document:
            raise cursor.error("no test cases: the list is empty")
        yield from ((raw, cursor.at(index)) for index, raw in enumerate(document))
    elif isinstance(document, Mapping):
        yield document, cursor
    else:
        raise cursor.error(f"expected a test case (an object), or a list of them; got {kind(document)}")


CASE_FORMAT = ConnexityCases()
