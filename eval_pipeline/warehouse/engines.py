"""DuckDB engines. One that is idle is kept: making an engine takes 12 of the 15 ms of CPU that opening a file takes."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from eval_pipeline.warehouse.absent_pandas import remember_absent_pandas

Config = Mapping[str, str | bool | int | float | list[str]]
"""The settings of an engine, by their names in DuckDB."""
_NAME = "warehouse"
_DIFFERS = ("memory_limit", "threads", "force_compression")
"""Settings that are not the same in every warehouse and transaction."""
THREADS = 2
"""How many threads answer a query over many rows."""
SMALL_BYTES = 16 * 2**20
"""Up to which size one thread reads or stores rows, and columns are not compressed: to share so few takes more CPU than
it saves time, and so does the search for the best compression of each column."""
FOR_FEW_ROWS: Config = {"threads": 1, "force_compression": "uncompressed"}
FOR_MANY_ROWS: Config = {"threads": THREADS, "force_compression": "auto"}
"""What was stored before is compressed when it is written again, together with the next rows."""
_IDLE: list[duckdb.DuckDBPyConnection] = []
IN_UTC = "SET GLOBAL TimeZone = 'UTC'; SET SESSION TimeZone = 'UTC'"
"""Times without a zone, which older versions stored and frames have, are UTC. Without GLOBAL a further cursor has the
zone of the machine; without SESSION one that has set a zone keeps it."""

WITHOUT_PROGRESS = "SET enable_progress_bar = false"
"""In a process whose program is no file (`python -c`), DuckDB prints the progress of long queries between the rows. It
does so for the connection of an engine itself, not for further cursors."""
TEMPORARY = "temp_directory"
"""The folder for what does not fit into memory. DuckDB's own choice is `.tmp` in the current folder."""


@contextmanager
def opened_file(path: Path, config: Config, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to a database file, which is made where there is none. At the end nobody has it open."""
    with open_engine(path, config, read_only=read_only) as engine, connected(engine, config) as connection:
        yield connection


@contextmanager
def open_engine(path: Path, config: Config, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield an engine that has a database file open, which is made where there is none.

    An engine has one file at a time, and is not used again after an error. All have the same settings but for three.
    """
    engine = _engine({**config, TEMPORARY: f"{path}.tmp"})
    try:
        how = " (READ_ONLY)" if read_only else ""
        engine.execute(f"{assignments(config)}; ATTACH {sql_text(str(path))} AS {_NAME}{how}")
        yield engine
    except BaseException:
        engine.close()
        raise
    _give_back(engine)


@contextmanager
def connected(engine: duckdb.DuckDBPyConnection, config: Config) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to the file of an engine; what it sets and its temporary tables end with it."""
    connection = engine.cursor()
    try:
        connection.execute(f"{assignments(config)}; USE {_NAME}")
        yield connection
    finally:
        connection.close()


def assignments(config: Config) -> str:
    """Return the statements that set what is not the same in every warehouse and transaction."""
    return "; ".join(f"SET {name} = '{config[name]}'" for name in _DIFFERS if name in config)


def _engine(config: Config) -> duckdb.DuckDBPyConnection:
    """Return an idle engine, else a new one."""
    try:
        engine = _IDLE.pop()
    except IndexError:
        return _new_engine(config)
    try:
        engine.execute(f"SET {TEMPORARY} = {sql_text(str(config[TEMPORARY]))}")
    except duckdb.Error:  # DuckDB keeps the folder that it has written to
        engine.close()
        return _new_engine(config)
    return engine


def _new_engine(config: Config) -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(config={**config})
    engine.execute(IN_UTC)
    return engine


def _give_back(engine: duckdb.DuckDBPyConnection) -> None:
    try:
        engine.execute(f"DETACH {_NAME}")
    except duckdb.Error:  # a full disk: what is in the log is written into the file when it is opened again
        engine.close()
    else:
        _IDLE.append(engine)


def sql_text(text: str) -> str:
    """Return a text as an SQL literal, for places where SQL allows no parameter."""
    return "'" + text.replace("'", "''") + "'"


def _end_idle() -> None:
    with suppress(IndexError):  # another thread may take the last one
        while True:
            _IDLE.pop().close()


remember_absent_pandas()
atexit.register(_end_idle)
if hasattr(os, "register_at_fork"):  # not on every system
    os.register_at_fork(before=_end_idle)  # a forked process has no threads of an engine, and could not even end it
