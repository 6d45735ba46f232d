"""The formats results can be exported in: one file per format, each registering itself.

A format is a pure function of records: it yields pieces of files, which `exports.files` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, NamedTuple, Protocol

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.plugins import Registry


class FileChunk(NamedTuple):
    """Bytes to be put at the end of a file: its path within the export, `/` between parts, empty for the only file."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What an export is of: `name` of the selection, `at` when it happened (UTC).

    `content` is whether what was said to and by the target may go into formats that are meant for other systems.
    """

    name: str
    at: datetime
    content: bool = False


class ExportFormat(Protocol):
    """Records → pieces of one file, or of a folder when `folder`. Records come suite by suite, runner by runner.

    A format that writes folders may have a `default_folder`: where in the project a new one goes without `--output`.
    """

    folder: ClassVar[bool]

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]: ...


EXPORTS: Registry[type[ExportFormat]] = Registry(
    "export format",
    folder="eval_pipeline.exports",
    entry_point_group="eval_pipeline.exports",
    requires=("folder", "pieces"),
)
