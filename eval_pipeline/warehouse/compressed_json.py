"""JSON documents that were compressed with zstd, which Python's own library cannot read before 3.14; DuckDB can."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from eval_pipeline.errors import InputError

_DOCUMENT = (
    "SELECT json FROM read_json_objects(?, format = 'unstructured', compression = 'zstd', maximum_object_size = ?)"
)


class CompressedJson:
    """Reads compressed documents, one after another, through one database in memory."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="eval-pipeline-")
        self._connection = duckdb.connect(config={"threads": 1})

    def text(self, compressed: bytes, size: int) -> str:
        """Return the document; `size` is its length in bytes. Raises InputError for one that cannot be read."""
        path = Path(self._folder.name, "document.zst")
        path.write_bytes(compressed)
        try:
            rows = self._connection.execute(_DOCUMENT, [str(path), max(size, 1_000) * 2]).fetchall()
        except duckdb.Error as error:
            raise InputError(f"cannot be decompressed: {str(error).splitlines()[0]}") from None
        if len(rows) != 1:
            raise InputError(f"expected one JSON document, got {len(rows)}")
        text: str = rows[0][0]
        return text

    def close(self) -> None:
        """Close the database and remove its folder."""
        self._connection.close()
        self._folder.cleanup()
