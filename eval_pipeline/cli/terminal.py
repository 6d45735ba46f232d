"""What commands write to the terminal: every command prints through these functions or a console of `tables.py`.

Text of others (answers, names, error messages, file names) never reaches a terminal with control characters in it.
"""

from __future__ import annotations

import csv
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import click

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.visible import escape_controls, visible_cell, visible_json


def echo(text: str, *, err: bool = False) -> None:
    """Print a text for people, and a line end."""
    click.echo(escape_controls(text), err=err)


def echo_json(value: object) -> None:
    """Print a value as one line of JSON on stdout."""
    click.echo(visible_json(to_json(value).decode()))


def echo_csv(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as CSV on stdout; a text that a spreadsheet would take for a formula gets a leading `'`."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(visible_cell, names))
    writer.writerows(map(visible_cell, row) for row in rows)


def echo_file(text: str) -> None:
    """Print the content of a file on stdout. In JSON control characters become escapes, which keeps its value; other
    formats are written without any."""
    click.echo(visible_json(text), nl=False)


class _VisibleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


def show_warnings() -> None:
    """Print warnings of loggers that no handler was set up for on stderr, as Python does, with visible texts."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleFormatter())


def place_of(word: str) -> str:
    """Return what to use in place of a command or option of another system, as the end of a message."""
    from eval_pipeline.parsing.compatibility import same_command_here  # noqa: PLC0415 — looks for plug-ins

    return same_command_here(word)


@contextmanager
def visible_usage() -> Iterator[None]:
    """Make the messages of click's own errors visible: they repeat arguments, such as names of files."""
    try:
        yield
    except click.ClickException as error:
        error.message = escape_controls(error.message)  # type: ignore[misc]  # click shows it later
        if isinstance(error, click.NoSuchOption) and (hint := place_of(error.option_name)):
            error.message, error.possibilities = error.message + hint, None  # type: ignore[misc]
        raise
