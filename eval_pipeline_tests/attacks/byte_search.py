"""Every byte below a folder, also what databases and archives hold compressed, searched for texts."""

from __future__ import annotations

import gzip
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import duckdb
import orjson


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each part and its bytes: names and contents of files, members of archives, rows of tables."""
    for path in sorted(folder.rglob("*")):
        shown = str(path.relative_to(folder))
        yield "names", shown.encode(errors="surrogateescape")
        if path.is_symlink():
            yield f"{shown} (link)", str(path.readlink()).encode()
        elif path.is_file():
            content = path.read_bytes()
            yield shown, content
            yield from _inside(path, shown, content)


def _inside(path: Path, shown: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    if path.suffix == ".duckdb":
        yield from _duckdb_rows(path, shown)
    elif content.startswith(b"SQLite format 3"):
        yield from _sqlite_rows(path, shown)
    elif content.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError):
            yield f"{shown} (unpacked)", gzip.decompress(content)
        if shown.endswith(".tar.gz"):
            with suppress(tarfile.TarError, OSError), tarfile.open(path) as tar:
                yield f"{shown} (names)", "\n".join(tar.getnames()).encode()


def _duckdb_rows(path: Path, shown: str) -> Iterator[tuple[str, bytes]]:
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():
                yield f"{shown} {table}", "\n".join(_texts(row)).encode(errors="replace")


def _sqlite_rows(path: Path, shown: str) -> Iterator[tuple[str, bytes]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection, suppress(sqlite3.Error):
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield f"{shown} {table}", "\n".join(_texts(row)).encode(errors="replace")


def _texts(row: tuple[object, ...]) -> Iterator[str]:
    """The texts of a row, and the decoded texts of its JSON: JSON hides a secret from a plain search."""
    for value in row:
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        yield text
        if text[:1] in ("{", "["):
            with suppress(orjson.JSONDecodeError):
                yield from _strings(orjson.loads(text))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
