"""Export formats: one module per format, registered as an entry point.

A format is a pure function of result rows: it yields file chunks, which `exports.files` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Protocol

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.plugins import Registry


class FileChunk(NamedTuple):
    """Bytes to append to a file. `path` is relative to the export, with `/` between parts; empty for the only file."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export: `name` of the selection, and the time `at` of its results (UTC).

    `content` is whether prompts and answers are written in formats for other systems. `experiment` names the results,
    for formats that have experiments. `documents` is what a format with a method `documents` read beside the rows.
    """

    name: str
    at: datetime
    content: bool = False
    experiment: str | None = None
    documents: Mapping[str, Any] = field(default_factory=dict)


class ExportFormat(Protocol):
    """Result rows → chunks of one file, or of a folder when `folder`. Rows are grouped by suite and runner.

    A format may have `documents(connection, selection)`, which reads what it shows beside the rows.

    A format that writes folders may have a `default_folder`: where in the project a new one goes without `--output`,
    below a folder of the experiment with `has_experiments`. `json` and `jsonl` write what the warehouse wrote as JSON.
    """

    folder: ClassVar[bool]

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]: ...


EXPORTS: Registry[type[ExportFormat]] = Registry(
    "export format",
    folder="eval_pipeline.exports",
    entry_point_group="eval_pipeline.exports",
    requires=("folder", "pieces"),
)
