"""Files of Connexity's test cases: one case, a list of them, or an export; JSON or YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.connexity.cases import read_case
from eval_pipeline.formats.connexity.editing import CASES, OWN, entries_of, read_document
from eval_pipeline.formats.connexity.fields import CASE_OF_PAGE, CASE_WITH_ANSWER
from eval_pipeline.formats.connexity.sets import set_of
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_list import case_list
from eval_pipeline.suites.conversion import RawSuite, read_text
from eval_pipeline.suites.load import FORMATS, LoadOptions
from eval_pipeline.suites.model import Case, Suite, content_revision
from eval_pipeline.suites.names import category_of, default_name

_OWN = (*OWN, CASES)
_IN_JSON = re.compile(rf'[{{,]\s*"(?:{"|".join(_OWN)})"\s*:')
_IN_YAML = re.compile(rf"^(?:- |  )?(?:{'|'.join(_OWN)}):", re.MULTILINE)
_OTHERS_IN_JSON = re.compile(r'[{,]\s*"(?:tests|evals|eval_cases|evalcases)"\s*:')
_OTHERS_IN_YAML = re.compile(r"^(?:tests|eval_cases|evalcases):", re.MULTILINE)
_ROOT_IN_YAML = re.compile(r"^([^\s#:]+):", re.MULTILINE)
_KNOWN = frozenset(CASE_OF_PAGE.names) | frozenset(CASE_WITH_ANSWER.names)
_TELLING = frozenset((*OWN, "max_turns"))
_ANY_FORMAT = _KNOWN - _TELLING
"""Fields of a test case that other files have, too."""
_ALIKE = 0.88
"""How alike a misspelled field and the meant one are: `personna`, but not `version` or `persona_count`."""


@FORMATS.register("connexity")
class Connexity:
    """Test cases with simulated users."""

    suffixes: tuple[str, ...] = (".json", ".yaml", ".yml")

    def recognizes(self, path: Path, head: str) -> bool:
        own, others = (_IN_JSON, _OTHERS_IN_JSON) if path.suffix.lower() == ".json" else (_IN_YAML, _OTHERS_IN_YAML)
        if others.search(head) is not None:
            return False
        return own.search(head) is not None or _is_lone_case(path, head)

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        shown, diagnostics = show_path(path), Diagnostics()
        document, cursor = read_document(path, text)
        entries = list(entries_of(document, cursor, diagnostics))
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

    def read_raw(self, path: Path) -> RawSuite:
        """Return the suite as it is written: its cases, and the other fields of an export or a set."""
        document, cursor = read_document(path, read_text(path))
        entries = entries_of(document, cursor, Diagnostics())
        whole = isinstance(document, Mapping) and CASES in document
        return RawSuite(
            path=path,
            document={name: value for name, value in document.items() if name != CASES} if whole else {},
            tests=[raw for raw, _ in entries],
            source=cursor.source,
            at=(CASES,) if whole else (),
        )

    def in_line(self, suite: RawSuite) -> RawSuite:
        """Return the suite: its cases are in no other files."""
        return replace(suite)


def _is_lone_case(path: Path, head: str) -> bool:
    """Return whether a file has a name and only fields of a test case, a misspelled or wrong one that tells it apart.

    One field of another kind makes it something else, such as a package or the settings of a tool.
    """
    names = _names_in_json(head) if path.suffix.lower() == ".json" else set(_ROOT_IN_YAML.findall(head))
    telling = names - _ANY_FORMAT
    near = [get_close_matches(name, _KNOWN, n=1, cutoff=_ALIKE) for name in telling]
    return "name" in names and bool(near) and all(_TELLING.issuperset(guesses) and guesses for guesses in near)


def _names_in_json(head: str) -> set[str]:
    """Return the fields of a small object; none of other texts, which have to show a field of their own."""
    if '"name"' not in head:
        return set()
    try:
        document = json.loads(head)
    except (ValueError, RecursionError):
        return set()
    return set(document) if isinstance(document, dict) else set()


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
