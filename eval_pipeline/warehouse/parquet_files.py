"""Frames → a Parquet file, batch by batch; and what a type of DuckDB is in Polars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

ROWS_OF_BATCH = 5_000
Convert = Callable[[Any], Any]
_SCALARS: Mapping[str, Any] = {
    "boolean": pl.Boolean, "tinyint": pl.Int8, "smallint": pl.Int16, "integer": pl.Int32, "bigint": pl.Int64,
    "hugeint": pl.Int64, "uhugeint": pl.Int64, "utinyint": pl.UInt8, "usmallint": pl.UInt16, "uinteger": pl.UInt32,
    "ubigint": pl.UInt64, "float": pl.Float32, "double": pl.Float64, "varchar": pl.String, "blob": pl.Binary,
    "date": pl.Date, "time": pl.Time, "interval": pl.Duration("us"), "timestamp": pl.Datetime("us"),
    "timestamp_s": pl.Datetime("us"), "timestamp_ms": pl.Datetime("us"), "timestamp_ns": pl.Datetime("us"),
    "timestamp with time zone": pl.Datetime("us", "UTC"), "null": pl.Null,
}  # fmt: skip


def write_frames(frames: Iterable[pl.DataFrame], schema: Mapping[str, Any], path: Path) -> int:
    """Write frames of one schema to a Parquet file and return their rows; one batch at a time is in memory.

    What making a frame raises is raised, and an OSError of the file; an existing file stays as it was then.
    """
    source = _Source(frames)
    if path.exists() and not path.is_file():  # a device or a pipe is written, not replaced
        _sink(source, schema, path)
        return source.count
    path = path.resolve()  # a link keeps leading to the file
    # In a folder of its own: Polars may make its file after it has failed, which nothing would remove any more
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True) as folder:
        unfinished = Path(folder, path.name)
        _sink(source, schema, unfinished)
        unfinished.replace(path)
    return source.count


def _sink(source: _Source, schema: Mapping[str, Any], path: Path) -> None:
    try:
        register_io_source(source.batches, schema=pl.Schema(schema), is_pure=True).sink_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise source.problem or error from None


class _Source:
    """Frames as Polars reads them, once; remembers what making one raised, which Polars makes a text of."""

    def __init__(self, frames: Iterable[pl.DataFrame]) -> None:
        self._frames = frames
        self.count = 0
        self.problem: Exception | None = None

    def batches(
        self, with_columns: Any = None, predicate: Any = None, n_rows: Any = None, batch_size: Any = None
    ) -> Iterator[pl.DataFrame]:
        try:
            for frame in self._frames:
                self.count += frame.height
                yield frame
        except Exception as error:  # raised again, by who reads the file's frames
            self.problem = error
            raise


def column_of(kind: Any) -> tuple[Any, Convert | None]:
    """Return the Polars type of a DuckDB type, and what its values need first (None: nothing).

    Whole numbers beyond 64 bits do not fit; a map is a list of key and value; what Polars lacks is text.
    """
    name = kind.id
    if name in _SCALARS:
        return _SCALARS[name], None
    if name == "decimal":
        sizes = dict(kind.children)
        return pl.Decimal(sizes["precision"], sizes["scale"]), None
    if name in ("list", "array"):
        inner, convert = column_of(dict(kind.children)["child"])
        return pl.List(inner), _each(convert)
    if name == "struct":
        return _struct(dict(kind.children))
    if name == "map":
        sides = dict(kind.children)
        fields, convert = _struct({"key": sides["key"], "value": sides["value"]})
        return pl.List(fields), _entries(convert)
    return pl.String, _unless_unknown(str)


def _struct(fields: Mapping[str, Any]) -> tuple[Any, Convert | None]:
    columns = {name: column_of(kind) for name, kind in fields.items()}
    converts = {name: convert for name, (_, convert) in columns.items() if convert is not None}
    kind = pl.Struct({name: inner for name, (inner, _) in columns.items()})
    if not converts:
        return kind, None
    return kind, _unless_unknown(
        lambda value: {name: converts[name](item) if name in converts else item for name, item in value.items()}
    )


def _each(convert: Convert | None) -> Convert:
    return _unless_unknown(list if convert is None else lambda value: [convert(item) for item in value])


def _entries(convert: Convert | None) -> Convert:
    entry = convert or (lambda pair: pair)
    return _unless_unknown(lambda value: [entry({"key": key, "value": item}) for key, item in value.items()])


def _unless_unknown(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)
