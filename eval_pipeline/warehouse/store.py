"""The seam between the pipeline and the database that holds its tables, and how a URL chooses one.

A warehouse stores rows in transactions and publishes them for readers. It needs SQL, JSON columns and views; it needs
no primary keys, indexes or sequences: writers replace rows by the `key` that `tables.py` declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import polars as pl

from eval_pipeline.plugins import Registry
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from eval_pipeline.warehouse.leases import Leases
    from eval_pipeline.warehouse.shared_files import SharedFiles

DEFAULT = "duckdb"
KEPT_DAYS = 7
"""Days whose snapshots of a shared warehouse stay when it is compacted."""
Answer = TypeVar("Answer")
DEFAULT_MEMORY_MB = 512
"""What the database may use where the project file sets nothing: enough for boards of some million scores."""


class Cursor(Protocol):
    """The rows of a query."""

    @property
    def description(self) -> Sequence[tuple[Any, ...]] | None:
        """One tuple per column, its name first."""
        ...

    def fetchall(self) -> list[Any]: ...

    def fetchnumpy(self) -> dict[str, Any]:
        """Return all rows as one array per column; each list is an array, too."""
        ...

    def fetchone(self) -> Any: ...

    def fetchmany(self, size: int = ...) -> list[Any]: ...


class Connection(Protocol):
    """A connection that runs SQL; DuckDB's has this shape."""

    def execute(self, query: str, parameters: object = ...) -> Cursor: ...

    def cursor(self) -> Any:
        """Return a connection to the same database whose results do not disturb this one's."""
        ...

    def close(self) -> None: ...


class Warehouse(Protocol):
    """The tables of a project: written by the pipeline, published for readers."""

    storage: Storage
    leases: Leases | None
    """Who carries out which pair, where several machines share the warehouse; None: the data folder has one sweep."""
    shared_files: SharedFiles | None
    """Files that the machines of a shared warehouse have in common; None: each machine has its own."""
    memory_mb: int
    """The most memory that the database may use in this process, in MB; one without such a limit ignores it."""
    lock_timeout_s: float
    """How long a transaction waits while another process writes; then it raises WarehouseError."""

    @classmethod
    def open(cls, address: str, root: Path, storage: Storage) -> Warehouse:
        """Return the warehouse at the part of a URL after `scheme:`. Relative paths start at `root`. Nothing is
        created or connected yet."""
        ...

    def exists(self) -> bool:
        """Return whether anything was ever written."""
        ...

    def is_missing(self) -> bool:
        """Return whether results were published, and the tables that they were made from are gone."""
        ...

    def restore(self) -> None:
        """Make missing tables from the published results."""
        ...

    def set_results_aside(self) -> None:
        """Keep the published results under another name, so that missing tables begin anew."""
        ...

    def transaction(self) -> AbstractContextManager[Connection]:
        """Yield a connection inside one transaction: committed at the end, rolled back on an error. The tables are
        created or migrated first. Transactions of one thread nest."""
        ...

    def run(self, work: Callable[[Any], Answer]) -> Answer:
        """Return what `work` returns, called with a connection inside one transaction. It may be called again after a
        conflict or a lost connection, so it changes nothing but rows."""
        ...

    def run_beside(self, work: Callable[[Any], Answer]) -> Answer:
        """As `run`, for rows that no other process writes meanwhile, such as those of a leased pair: other writers need
        not wait for it where the database keeps them apart."""
        ...

    def read(self, work: Callable[[Any], Answer]) -> Answer:
        """Return what `work` returns, which only reads; otherwise as `run`."""
        ...

    def frame(self, query: str, values: Sequence[Any] = ()) -> pl.DataFrame:
        """Return the result of a query on the pipeline's own tables."""
        ...

    def ingest(self, *journals: Mapping[str, Path]) -> None:
        """Store journals (files of JSON lines, by table) in one transaction; rows replace stored rows of the
        same key, so storing a journal again has no effect."""
        ...

    def write(self, table: str, rows: Iterable[Row]) -> None:
        """Store a few rows; they replace stored rows of the same key."""
        ...

    def replace(self, table: str, frame: pl.DataFrame, where: Mapping[str, Any]) -> None:
        """Store a frame in place of the rows whose columns have the values of `where`, in one transaction."""
        ...

    def compact(self, keep_days: int = 0) -> None:
        """Rewrite what is stored, so that nothing of deleted rows is left in files, but for snapshots of these days
        where there are any."""
        ...

    def publish(self) -> None:
        """Publish everything written so far, atomically. Open readers keep the results that they opened."""
        ...

    def published(self) -> AbstractContextManager[Connection]:
        """Yield a read-only connection to the newest published results. Raises WarehouseError when nothing was."""
        ...

    def published_version(self) -> str | None:
        """Return a text that differs from that of results published before or after; None when nothing was."""
        ...


WAREHOUSES: Registry[type[Warehouse]] = Registry("warehouse", folder=None, entry_point_group="eval_pipeline.warehouses")


def open_warehouse(where: str | Path, *, root: Path | None = None, storage: Storage | None = None) -> Warehouse:
    """Return the warehouse of a URL (`scheme:address`), or the DuckDB file of a data folder.

    Args:
        where: a URL such as `duckdb:data`, or a folder. A `Path` is always a folder.
        root: folder that relative paths start at; by default the current folder.
        storage: where files beside the tables are kept; by default the folder, or `data` below `root`.

    Raises UnknownName for an unknown scheme.
    """
    base = (root or Path()).absolute()
    scheme, address = _parts(where)
    if storage is None:
        storage = LocalStorage(base / (address if scheme is None else "data"))
    return WAREHOUSES.get(scheme or DEFAULT).open(address, base, storage)


def kept_open(warehouse: Warehouse) -> AbstractContextManager[None]:
    """Return a block inside which the database may stay open between transactions, where nobody else waits for it.

    The method of that name is optional: without it a warehouse opens and closes what it has as it likes.
    """
    keep: Callable[[], AbstractContextManager[None]] | None = getattr(warehouse, "kept_open", None)
    return nullcontext() if keep is None else keep()


def publishing_held(warehouse: Warehouse) -> AbstractContextManager[None]:
    """Return a block inside which `publish` does nothing, for who publishes once after several things that would.

    The method of that name is optional, as `kept_open` is.
    """
    hold: Callable[[], AbstractContextManager[None]] | None = getattr(warehouse, "publishing_held", None)
    return nullcontext() if hold is None else hold()


def _parts(where: str | Path) -> tuple[str | None, str]:
    """The scheme of a URL and its address; no scheme for a folder (a single letter before a colon is a drive)."""
    text = str(where)
    scheme, colon, address = text.partition(":")
    if isinstance(where, Path) or not colon or len(scheme) < 2 or "/" in scheme:
        return None, text
    return scheme, address.removeprefix("//")
