"""A DuckDB engine with a lake attached: extensions from wheels, keys of object stores from the environment."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.engines import IN_UTC, TEMPORARY, Config, sql_text
from eval_pipeline.warehouse.lake_address import LakeAddress
from eval_pipeline.warehouse.publishing import first_line
from eval_pipeline.warehouse.scraps import scratch_path

_LOG = logging.getLogger(__name__)
LAKE = "lake"
_SECRET_KEYS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "KEY_ID",
    "AWS_SECRET_ACCESS_KEY": "SECRET",
    "AWS_SESSION_TOKEN": "SESSION_TOKEN",
    "AWS_REGION": "REGION",
}
"""Variables of the environment and the settings of DuckDB's S3 secret that they become."""


_FEW_TRIES: Mapping[str, int] = {"http_timeout": 10, "http_retries": 1}
"""Settings of DuckDB, the first one in seconds."""
_NO_FILE = ".none-"
_DENIED = "HTTP 403"
_EXPECTED_STORE = (
    "expected: a bucket that exists; its keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, its region in AWS_REGION;"
    " where it is not Amazon's, its address in AWS_ENDPOINT_URL"
)


def lake_engine(address: LakeAddress, config: Config, *, read_only: bool = False, options: str = "") -> Engine:
    """Return a connection that uses the lake. Raises duckdb.Error, and WarehouseError without the extensions."""
    engine = duckdb.connect(config={**config})
    try:
        for name in ("ducklake", "postgres_scanner", *(["httpfs"] if address.is_remote else [])):
            engine.execute(f"LOAD {sql_text(str(extension_file(name)))}")
        if address.is_remote:
            engine.execute(_secret(os.environ))
        engine.execute(IN_UTC)
        settings = [options] if options else []
        settings += ["READ_ONLY"] if read_only else []
        settings += [f"DATA_PATH {sql_text(address.data_path)}"] if address.data_path and not read_only else []
        given = f" ({', '.join(settings)})" if settings else ""
        engine.execute(f"ATTACH {sql_text(f'ducklake:postgres:{address.connection}')} AS {LAKE}{given}")
        engine.execute(f"USE {LAKE}")
    except BaseException:
        engine.close()
        raise
    return engine


Engine = duckdb.DuckDBPyConnection


def check_files(engine: Engine, address: LakeAddress) -> None:
    """Ask the object store of the rows for a file that there is not: few rows are kept in the catalog, so that a wrong
    bucket would be noticed late. Raises WarehouseError for a store that does not answer, or refuses."""
    if not address.is_remote:
        return
    folder = str(address.data_path).rstrip("/")
    for setting, value in _FEW_TRIES.items():
        engine.execute(f"SET {setting} = {value}")
    try:
        engine.execute(f"SELECT count(*) FROM glob({sql_text(f'{folder}/{_NO_FILE}*')})").fetchall()
    except duckdb.Error as error:
        if _DENIED in str(error):  # keys that may read and write files need not be allowed to list them
            _LOG.warning(
                "whether the rows of the warehouse can be kept in %s is not known: %s", folder, first_line(error)
            )
            return
        raise WarehouseError(
            f"the rows of the warehouse cannot be kept in {folder}: {first_line(error)}\n{_EXPECTED_STORE}"
        ) from None
    finally:
        for setting in _FEW_TRIES:
            engine.execute(f"RESET {setting}")


def extension_file(name: str) -> Path:
    """Return the file of an extension of DuckDB in its wheel. Raises WarehouseError without one for this DuckDB."""
    version = f"v{duckdb.__version__}"
    wheel = f"duckdb-extension-{name.replace('_', '-')}"
    try:
        folder = Path(importlib.import_module(f"duckdb_extension_{name}").__path__[0])
    except ModuleNotFoundError:
        folder = Path()
    file = folder / "extensions" / version / f"{name}.duckdb_extension"
    if not file.is_file():
        raise WarehouseError(
            f"a ducklake warehouse needs the extension {name} for DuckDB {version}, which is not installed: "
            f"pip install 'eval-pipeline[team]' (DuckDB 1.5 with {wheel}; there is none for DuckDB 2.0 yet)"
        )
    return file


def temporary(folder: Path) -> dict[str, str]:
    """Return the setting of the folder for what does not fit into memory: one of this process, which DuckDB removes."""
    return {TEMPORARY: str(scratch_path(folder, "lake", ".tmp"))}


def _secret(environment: Mapping[str, str]) -> str:
    """Return the statement that gives DuckDB the keys of an object store; nothing is written to a file."""
    settings = [f"{key} {sql_text(environment[name])}" for name, key in _SECRET_KEYS.items() if environment.get(name)]
    endpoint = environment.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        settings += [f"ENDPOINT {sql_text(host.rstrip('/'))}", "URL_STYLE 'path'"]
        settings += ["USE_SSL false"] if scheme == "http" else []
    return f"CREATE SECRET ({', '.join(['TYPE s3', *settings])})"
