"""The files of a suite: YAML, JSON, JSONL and CSV text → values with their locations."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.formats.agentv.load_context import LoadContext, not_utf8
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.json_text import parse_row, read_json
from eval_pipeline.parsing.source import Source, jsonl_source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml


@dataclass(frozen=True, slots=True)
class RawTest:
    """A test before interpretation: its value, or the error of reading it, and its location."""

    raw: Any
    cursor: FieldCursor


def read_text(path: Path, context: LoadContext, cursor: FieldCursor) -> str:
    """Return the text of the file that a suite names at `cursor`. Raises InputError."""
    context.parts[path.absolute()] = None
    try:
        return context.read(path, cursor).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise not_utf8(error, FieldCursor(Source(path, show_path(path), lambda _: None))) from None


def read_document(path: Path, context: LoadContext, cursor: FieldCursor) -> tuple[Any, FieldCursor]:
    """The value of a YAML or JSON file that a suite names. Raises InputError."""
    return parse_document(path, read_text(path, context, cursor), context)


def parse_document(path: Path, text: str, context: LoadContext) -> tuple[Any, FieldCursor]:
    """The value of a YAML or JSON text, with placeholders replaced, and the location of its root. Raises InputError."""
    shown = show_path(path)
    value, lines = (read_json if path.suffix.lower() == ".json" else read_yaml)(text, shown)
    source = Source(path, shown, lines.of)
    return context.fill(value, text, source), FieldCursor(source)


def jsonl_tests(path: Path, lines: Iterable[str], context: LoadContext) -> Iterator[RawTest]:
    """The rows of a JSONL file; an unreadable row becomes an InputError."""
    source = jsonl_source(path)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cursor = FieldCursor(source, (number,))
        if "{{" in line:
            context.warn_of_unset(line, source, number)
        try:
            row = parse_row(line)
        except ValueError as error:
            yield RawTest(cursor.error(str(error)), cursor)
            continue
        yield RawTest(context.filled(row) if "{{" in line else row, cursor)


def csv_records(path: Path, text: str) -> Iterator[tuple[Mapping[str, str], FieldCursor]]:
    """The records of a CSV text by its header, each with its line. Raises InputError."""
    source = jsonl_source(path)
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(header, FieldCursor(source, (1,)))
        line = rows.line_num + 1
        for row in rows:
            if any(cell.strip() for cell in row):
                yield _record(header, row, FieldCursor(source, (line,))), FieldCursor(source, (line,))
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"not valid CSV: {error}", SourceLocation(source.shown, line)) from None


def _check_header(header: list[str], cursor: FieldCursor) -> None:
    if not header:
        raise cursor.error("expected a header with the names of the columns")
    for index, name in enumerate(header):
        if not name or name in header[:index]:
            raise cursor.error(f"column {index + 1} {f'is a second {name!r}' if name else 'has no name'}")


def _record(header: list[str], row: list[str], cursor: FieldCursor) -> Mapping[str, str]:
    if len(row) > len(header):
        raise cursor.error(f"{len(row)} cells under {len(header)} columns; quote cells that hold commas")
    return dict(zip(header, row, strict=False))


def lines_of(text: str) -> Iterator[str]:
    """Yield lines one at a time: a list of them would double the memory of a large suite."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]
