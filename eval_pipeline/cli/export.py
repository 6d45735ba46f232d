"""`eval-pipeline export`: results for other tools, as files or sent to an OpenTelemetry collector."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.result_sources import as_of_option, board_of, selector_of
from eval_pipeline.cli.terminal import echo, echo_file
from eval_pipeline.errors import InputError
from eval_pipeline.exports import EXPORTS, ExportFormat, ExportOptions, FileChunk
from eval_pipeline.exports.files import write_file, write_folder
from eval_pipeline.exports.otel import OpenTelemetry
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.reports.moments import iso
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse.plan_texts import has_every_column, read_plan_texts
from eval_pipeline.warehouse.records import read_records
from eval_pipeline.warehouse.selections import Selection, select
from eval_pipeline.warehouse.store import Connection

if TYPE_CHECKING:
    import httpx

NOTHING = 3
DEFAULT_FOLDER = "exports"
DEFAULT_EXPERIMENT = "default"
_EXPERIMENT = re.compile(r"[A-Za-z0-9._-]+")
RETRIED = (429, 502, 503, 504)
TRIES = 4
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


@click.command(name="export")
@project_options
@click.option("--format", "-f", "format_", type=click.Choice(EXPORTS.names()), required=True, help="What to write.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path),
    help="File, or new folder of a format that writes one (default: stdout, or a folder named by time in the project).",
)  # fmt: skip
@click.option("--sweep", default="current", help="A sweep's id (or its start, latest, previous); default: current.")
@click.option("--board", help="The results of a past board, by its id.")
@as_of_option
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--runner", "runners", multiple=True, help="Only these runners (repeatable).")
@click.option(
    "--content", is_flag=True, help="Traces: include the texts of messages, and arguments and results of tools."
)
@click.option("--experiment", help="The name of the experiment, for formats that have experiments.")
@click.option("--endpoint", help=f"Traces: send to this OTLP/HTTP collector (headers from {HEADERS}).")
def export_command(
    project: Path | None,
    data: Path | None,
    format_: str,
    output: Path | None,
    sweep: str,
    board: str | None,
    as_of: datetime | None,
    suites: tuple[str, ...],
    runners: tuple[str, ...],
    content: bool,
    experiment: str | None,
    endpoint: str | None,
) -> None:
    """Write results for other tools: a table (CSV, Parquet), Markdown, JSON or JSON lines, JUnit XML, OpenTelemetry
    traces, an AgentV run folder, files of Every Eval Ever, or the pages of `view` as one HTML file.

    Files are written atomically. Without --sweep or --board, the current results are exported. Exit codes: 0; 2 for bad
    input; 3 when there is nothing to export.
    """
    selector_of(sweep, board)
    chosen: ExportFormat = EXPORTS.get(format_)()
    if endpoint is not None and not isinstance(chosen, OpenTelemetry):
        raise InputError("--endpoint requires --format otel")
    _check_experiment(experiment, chosen)
    opened = open_project(project, data)
    with open_published(opened, is_own=data is None) as connection:
        selector = selector_of(sweep, board_of(connection, board, as_of))
        selection = select(connection, selector, suites=suites, runners=runners)
        at = selection.at or datetime.now(UTC)
        options = ExportOptions(
            name=selection.name, at=at, content=content, experiment=experiment,
            documents=_documents(chosen, connection, selection),
        )  # fmt: skip
        is_text = bool(getattr(chosen, "joins_texts", False)) and has_every_column(connection)
        plans: Iterator[Any] = (read_plan_texts if is_text else read_records)(connection, selection)
        records = _Counted(plans)
        if records.is_empty:
            echo(f"nothing to export: no execution of {selection.name} is selected", err=True)
            sys.exit(NOTHING)
        if endpoint is not None and isinstance(chosen, OpenTelemetry):
            _send(chosen.requests(records, content=content), _traces_url(endpoint), _headers(opened.environment))
            where = endpoint
        else:
            pieces = getattr(chosen, "text_pieces" if is_text else "pieces")
            where = _write(chosen, pieces(records, options), options, output, opened)
    echo(f"exported {counted(records.count, 'execution')} of {selection.name} to {where}", err=True)


class _Counted:
    """Rows that are counted while they are read, once."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self.count = 0
        first = list(islice(rows, 1))
        self.is_empty = not first
        self._rows = chain(first, rows)

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows:
            self.count += 1
            yield row


def _write(
    chosen: ExportFormat, chunks: Iterable[FileChunk], options: ExportOptions, output: Path | None, project: Project
) -> str:
    if chosen.folder:
        path = output or project.root / _default_folder(chosen, options) / _folder_name(options.at)
        write_folder(chunks, path)
    elif output is None or str(output) == "-":
        if getattr(chosen, "binary", False):
            _print_bytes(chunks)
        else:
            _print(chunks)
        return "stdout"
    else:
        path = output
        write_file(chunks, path)
    return show_path(path)


def _documents(chosen: ExportFormat, connection: Connection, selection: Selection) -> Mapping[str, Any]:
    read = getattr(chosen, "documents", None)
    return {} if read is None else read(connection, selection)


def _default_folder(chosen: ExportFormat, options: ExportOptions) -> Path:
    folder = Path(getattr(chosen, "default_folder", DEFAULT_FOLDER))
    return folder / (options.experiment or DEFAULT_EXPERIMENT) if _has_experiments(chosen) else folder


def _has_experiments(chosen: ExportFormat) -> bool:
    return bool(getattr(chosen, "has_experiments", False))


def _check_experiment(name: str | None, chosen: ExportFormat) -> None:
    """Raise InputError for a name that no folder should have, and for a format without experiments."""
    if name is None:
        return
    if not _has_experiments(chosen):
        known = [format_ for format_, each in EXPORTS if getattr(each, "has_experiments", False)]
        raise InputError(f"--experiment: only these formats have experiments: {', '.join(known)}")
    if not _EXPERIMENT.fullmatch(name) or not name.strip("."):
        raise InputError(f"--experiment: expected letters, digits, '.', '_' and '-', got '{name}'")


def _print(chunks: Iterable[FileChunk]) -> None:
    for chunk in chunks:
        echo_file(chunk.data.decode())


def _print_bytes(chunks: Iterable[FileChunk]) -> None:
    if sys.stdout.isatty():
        raise InputError("--output: name a file; this format is no text that a terminal shows")
    for chunk in chunks:
        sys.stdout.buffer.write(chunk.data)


def _folder_name(at: datetime) -> str:
    return (iso(at) or "").replace(":", "-").replace(".", "-")


def _traces_url(endpoint: str) -> str:
    """Return the traces address of a collector: `/v1/traces` is appended unless present."""
    if not endpoint.startswith(("http://", "https://")):
        raise InputError(f"--endpoint: expected http://… or https://…, got '{endpoint}'")
    base = endpoint.rstrip("/")
    return base if base.endswith("/v1/traces") else f"{base}/v1/traces"


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return headers in the format of OpenTelemetry's exporters: `name=value,name=value`, percent-encoded."""
    pairs = (pair.split("=", 1) for pair in environment.get(HEADERS, "").split(",") if "=" in pair)
    return {name.strip(): unquote(value.strip()) for name, value in pairs}


def _send(bodies: Iterable[bytes], url: str, headers: Mapping[str, str]) -> None:
    """Post every body, with a few retries where the collector requests them. Raises InputError."""
    import httpx  # noqa: PLC0415 — takes memory, and most exports are files

    with httpx.Client(headers={**headers, "content-type": "application/json"}, timeout=30.0) as client:
        for body in bodies:
            for attempt in range(1, TRIES + 1):
                wait_s = _post(client, url, body, last=attempt == TRIES)
                if wait_s is None:
                    break
                time.sleep(wait_s)


def _post(client: httpx.Client, url: str, body: bytes, *, last: bool) -> float | None:
    """Post one body. Returns the seconds to wait before a retry, or None when it was accepted."""
    import httpx  # noqa: PLC0415

    try:
        response = client.post(url, content=body)
    except httpx.HTTPError as error:
        raise InputError(f"{url} cannot be reached: {error or type(error).__name__}") from None
    if response.is_success:
        return None
    if response.status_code in RETRIED and not last:
        retry_after = response.headers.get("retry-after", "")
        return min(float(retry_after), 30.0) if retry_after.replace(".", "", 1).isdigit() else 1.0
    raise InputError(f"{url} answered {response.status_code}: {response.text[:200]}")
