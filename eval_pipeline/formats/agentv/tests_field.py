"""`tests` in all its forms (a list, files, folders, globs) → raw tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.documents import RawTest, jsonl_tests, lines_of, parse_document, read_text
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.table import csv_tests
from eval_pipeline.parsing.fields import FieldCursor, kind
from eval_pipeline.parsing.file_search import NotFound, is_pattern
from eval_pipeline.suites.case_formats import entries_in

FILE = "file://"
CASE_FILES = ("case.yaml", "case.yml")
PROMPT_FILE = "PROMPT.md"
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})


def raw_tests(raw: Any, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    """Yield every test under `tests`; an unreadable one becomes an InputError."""
    if isinstance(raw, str):
        yield from _named(raw.strip(), cursor, context)
        return
    if not isinstance(raw, list):
        raise cursor.error(f"expected a list of tests, or the path of a file or folder with them; got {kind(raw)}")
    if not raw:
        context.diagnostics.add("the list is empty: the suite has no tests", cursor.place)
    for index, entry in enumerate(raw):
        at = cursor.at(index)
        if isinstance(entry, str) and entry.strip().startswith(FILE):
            yield from _caught(_named(entry.strip(), at, context), at)
        else:
            yield RawTest(entry, at)


def _caught(tests: Iterator[RawTest], cursor: FieldCursor) -> Iterator[RawTest]:
    """Yield the tests of one file; an unreadable file becomes an error and does not stop the others."""
    try:
        yield from tests
    except InputError as error:
        yield RawTest(error, cursor)


def _named(name: str, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    """Yield the tests of a file, a folder or a glob, relative to the suite's folder."""
    plain = name.removeprefix(FILE)
    if not plain:
        raise cursor.error("expected a list of tests, or the path of a file or folder with them; got an empty text")
    try:
        paths = context.roots.matches(plain) if is_pattern(plain) else [context.roots.file_or_folder(plain)]
    except NotFound as error:
        raise cursor.error(str(error)) from None
    if not paths:
        context.diagnostics.add(f"'{plain}' matches no file: it contributes no tests", cursor.place)
    for path in paths:
        yield from _of_path(path, cursor, context)


def _of_path(path: Path, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    if path.is_dir():
        return _folder_tests(path, cursor, context)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise cursor.error(f"no tests in '{path.name}': a file of tests ends in {', '.join(_READERS)}")
    if path == context.path.absolute():
        raise cursor.error("a suite's tests cannot be the suite itself")
    text = read_text(path, context, cursor)
    if not text.strip():
        context.diagnostics.add(f"'{path.name}' is empty: it contributes no tests", cursor.place)
        return iter(())
    return read(path, text, context)


def _document_tests(path: Path, text: str, context: LoadContext) -> Iterator[RawTest]:
    document, cursor = parse_document(path, text, context)
    if isinstance(document, Mapping) and (entries := entries_in(document, cursor)):
        yield from (RawTest(raw, at) for raw, at in entries)
        return
    if not isinstance(document, list):
        raise cursor.error(f"expected a list of tests, got {kind(document)}")
    for index, raw in enumerate(document):
        yield RawTest(raw, cursor.at(index))


def _folder_tests(folder: Path, cursor: FieldCursor, context: LoadContext) -> Iterator[RawTest]:
    """Yield the tests of subfolders with a case file; of the folder itself if it has one."""
    case_file = _case_file(folder)
    if case_file is not None:
        yield _folder_test(case_file, cursor, context)
        return
    files = [file for below in _folders_in(folder) if (file := _case_file(below)) is not None]
    if not files:
        raise cursor.error(f"no sub-folder of '{folder.name}' has a {CASE_FILES[0]}")
    for file in files:
        yield _folder_test(file, cursor, context)


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    return [folder / name for name in sorted(names) if name not in _PASSED_OVER]


def _case_file(folder: Path) -> Path | None:
    return next((folder / name for name in CASE_FILES if (folder / name).is_file()), None)


def _folder_test(file: Path, named_at: FieldCursor, context: LoadContext) -> RawTest:
    """Return a case file's test, completed by its folder: the id, the input (PROMPT.md), the workspace's template."""
    try:
        document, cursor = parse_document(file, read_text(file, context, named_at), context)
        if not isinstance(document, Mapping):
            return RawTest(cursor.error(f"expected a test (a mapping), got {kind(document)}"), cursor)
        raw = {"id": file.parent.name, **document}
        prompt = file.parent / PROMPT_FILE
        if "input" not in raw and prompt.is_file():
            raw["input"] = context.filled(read_text(prompt, context, named_at))
        return RawTest(_with_template(raw, file.parent, context), cursor)
    except InputError as error:
        return RawTest(error, named_at)


def _with_template(raw: dict[str, Any], folder: Path, context: LoadContext) -> dict[str, Any]:
    """Return the test with the adjacent folder as workspace template, as a path relative to the suite's folder."""
    workspace = raw.get("workspace")
    if not (folder / "workspace").is_dir() or not isinstance(workspace, Mapping | None):
        return raw
    template = os.path.relpath(folder / "workspace", context.roots.folder)
    return {**raw, "workspace": {"template": template, **(workspace or {})}}


_READERS: dict[str, Callable[[Path, str, LoadContext], Iterator[RawTest]]] = {
    ".yaml": _document_tests,
    ".yml": _document_tests,
    ".json": _document_tests,
    ".jsonl": lambda path, text, context: jsonl_tests(path, lines_of(text), context),
    ".csv": csv_tests,
}
