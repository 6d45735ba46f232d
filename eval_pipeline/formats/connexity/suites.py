"""Files of Connexity's test cases: one case, a list of them, or an export; JSON or YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.connexity.cases import read_case, warn_unknown
from eval_pipeline.formats.connexity.fields import EXPORT
from eval_pipeline.formats.connexity.sets import is_set, set_of
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor, kind
from eval_pipeline.parsing.json_text import read_json
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml
from eval_pipeline.suites.case_list import case_list
from eval_pipeline.suites.load import FORMATS, LoadOptions
from eval_pipeline.suites.model import Case, Suite, content_revision
from eval_pipeline.suites.names import category_of, default_name

CASES = "test_cases"
_OWN = (
    "persona", "persona_context", "initial_message", "first_message", "first_turn", "user_context",
    "expected_outcomes", "expected_tool_calls", "evaluation_criteria_override", "test_cases",
)  # fmt: skip
_IN_JSON = re.compile(rf'[{{,]\s*"(?:{"|".join(_OWN)})"\s*:')
_IN_YAML = re.compile(rf"^(?:- |  )?(?:{'|'.join(_OWN)}):", re.MULTILINE)
_OTHERS_IN_JSON = re.compile(r'[{,]\s*"(?:tests|evals|eval_cases|evalcases)"\s*:')
_OTHERS_IN_YAML = re.compile(r"^(?:tests|eval_cases|evalcases):", re.MULTILINE)


@FORMATS.register("connexity")
class Connexity:
    """Test cases with simulated users."""

    suffixes: tuple[str, ...] = (".json", ".yaml", ".yml")

    def recognizes(self, path: Path, head: str) -> bool:
        own, others = (_IN_JSON, _OTHERS_IN_JSON) if path.suffix.lower() == ".json" else (_IN_YAML, _OTHERS_IN_YAML)
        return own.search(head) is not None and others.search(head) is None

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        shown = show_path(path)
        document, lines = (read_json if path.suffix.lower() == ".json" else read_yaml)(text, shown)
        cursor, diagnostics = FieldCursor(Source(path, shown, lines.of)), Diagnostics()
        entries = list(_entries(document, cursor, diagnostics))
        errors: list[InputError] = []
        read = list(_cases(entries, diagnostics, errors))
        if errors and not read and len(entries) == 1:
            raise errors[0]
        chosen = set_of(document, cursor, read, diagnostics, errors)
        return Suite(
            name=chosen.name or default_name(path),
            path=path,
            format="connexity",
            revision=content_revision(document),
            cases=case_list(chosen.chosen(read)),
            description=chosen.description,
            metadata=chosen.metadata,
            settings=chosen.settings,
            category=category_of(shown),
            errors=tuple(errors),
            warnings=diagnostics.all(),
            folder=path.parent if isinstance(document, Mapping) and CASES not in document else None,
        )


def _entries(document: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Iterator[tuple[Any, FieldCursor]]:
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


def _cases(
    entries: list[tuple[Any, FieldCursor]], diagnostics: Diagnostics, errors: list[InputError]
) -> Iterator[Case]:
    """Yield the usable cases; the errors of the others join `errors`."""
    lines: dict[str, int | None] = {}
    for raw, cursor in entries:
        try:
            case = read_case(raw, cursor, diagnostics)
            if case.id in lines:
                field = "id" if isinstance(raw, Mapping) and raw.get("id") else "name"
                raise cursor.error(f"case id '{case.id}' is taken (first at line {lines[case.id]})", field)
        except InputError as error:
            errors.append(error)
            continue
        lines[case.id] = case.line
        yield case
