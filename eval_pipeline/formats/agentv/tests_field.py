"""`tests` in all its forms → the raw tests: a list, files and folders that are named, and globs of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.documents import RawTest, jsonl_tests, parse_document, read_text
from eval_pipeline.formats.agentv.load_context import Desk
from eval_pipeline.formats.agentv.table import csv_tests
from eval_pipeline.parsing.fields import Spot, kind
from eval_pipeline.parsing.file_search import NotFound, is_pattern

FILE = "file://"
CASE_FILES = ("case.yaml", "case.yml")
PROMPT_FILE = "PROMPT.md"
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})


def raw_tests(raw: Any, spot: Spot, desk: Desk) -> Iterator[RawTest]:
    """Every test that `tests` stands for; one that cannot be read is an InputError in its place."""
    if isinstance(raw, str):
        yield from _named(raw.strip(), spot, desk)
        return
    if not isinstance(raw, list):
        raise spot.error(f"expected a list of tests, or the path of a file or folder with them; got {kind(raw)}")
    for index, entry in enumerate(raw):
        at = spot.at(index)
        if isinstance(entry, str) and entry.strip().startswith(FILE):
            yield from _caught(_named(entry.strip(), at, desk), at)
        else:
            yield RawTest(entry, at)


def _caught(tests: Iterator[RawTest], spot: Spot) -> Iterator[RawTest]:
    """A file that cannot be read takes only itself along."""
    try:
        yield from tests
    except InputError as error:
        yield RawTest(error, spot)


def _named(name: str, spot: Spot, desk: Desk) -> Iterator[RawTest]:
    """The tests of a file, a folder or a glob, which begins at the suite's folder."""
    plain = name.removeprefix(FILE)
    if not plain:
        raise spot.error("expected a list of tests, or the path of a file or folder with them; got an empty text")
    try:
        paths = desk.roots.matches(plain) if is_pattern(plain) else [desk.roots.file_or_folder(plain)]
    except NotFound as error:
        raise spot.error(str(error)) from None
    if not paths:
        desk.notices.add(f"'{plain}' matches no file: it contributes no tests", spot.place)
    for path in paths:
        yield from _of_path(path, spot, desk)


def _of_path(path: Path, spot: Spot, desk: Desk) -> Iterator[RawTest]:
    if path.is_dir():
        return _folder_tests(path, spot, desk)
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise spot.error(f"no tests in '{path.name}': a file of tests ends in {', '.join(_READERS)}")
    if path == desk.path.absolute():
        raise spot.error("a suite's tests cannot be the suite itself")
    text = read_text(path, desk, spot)
    if not text.strip():
        desk.notices.add(f"'{path.name}' is empty: it contributes no tests", spot.place)
        return iter(())
    return read(path, text, desk)


def _document_tests(path: Path, text: str, desk: Desk) -> Iterator[RawTest]:
    document, spot = parse_document(path, text, desk)
    if not isinstance(document, list):
        raise spot.error(f"expected a list of tests, got {kind(document)}")
    for index, raw in enumerate(document):
        yield RawTest(raw, spot.at(index))


def _folder_tests(folder: Path, spot: Spot, desk: Desk) -> Iterator[RawTest]:
    """The sub-folders that have a case file; the folder itself when it has one."""
    own = _case_file(folder)
    if own is not None:
        yield _folder_test(own, spot, desk)
        return
    found = [file for below in _folders_in(folder) if (file := _case_file(below)) is not None]
    if not found:
        raise spot.error(f"no sub-folder of '{folder.name}' has a {CASE_FILES[0]}")
    for file in found:
        yield _folder_test(file, spot, desk)


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    return [folder / name for name in sorted(names) if name not in _PASSED_OVER]


def _case_file(folder: Path) -> Path | None:
    return next((folder / name for name in CASE_FILES if (folder / name).is_file()), None)


def _folder_test(file: Path, asked: Spot, desk: Desk) -> RawTest:
    """A case file with what its folder adds: the id, the input (PROMPT.md) and the workspace's template."""
    try:
        document, spot = parse_document(file, read_text(file, desk, asked), desk)
        if not isinstance(document, Mapping):
            return RawTest(spot.error(f"expected a test (a mapping), got {kind(document)}"), spot)
        raw = {"id": file.parent.name, **document}
        prompt = file.parent / PROMPT_FILE
        if "input" not in raw and prompt.is_file():
            raw["input"] = desk.filled(read_text(prompt, desk, asked))
        return RawTest(_with_template(raw, file.parent, desk), spot)
    except InputError as error:
        return RawTest(error, asked)


def _with_template(raw: dict[str, Any], folder: Path, desk: Desk) -> dict[str, Any]:
    """The test with the folder beside it as its workspace's template, named as the suite would: the same everywhere."""
    workspace = raw.get("workspace")
    if not (folder / "workspace").is_dir() or not isinstance(workspace, Mapping | None):
        return raw
    template = os.path.relpath(folder / "workspace", desk.roots.folder)
    return {**raw, "workspace": {"template": template, **(workspace or {})}}


_READERS: dict[str, Callable[[Path, str, Desk], Iterator[RawTest]]] = {
    ".yaml": _document_tests,
    ".yml": _document_tests,
    ".json": _document_tests,
    ".jsonl": jsonl_tests,
    ".csv": csv_tests,
}
