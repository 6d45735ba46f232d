"""The export `status-lines`: one line of text per execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from eval_pipeline import ExportOptions, FileChunk, ResultRow


class StatusLines:
    """`case runner status`, one line each."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        """Yield the lines."""
        for row in records:
            yield FileChunk("", f"{row.case_id} {row.runner} {row.verdict.status}\n".encode())
