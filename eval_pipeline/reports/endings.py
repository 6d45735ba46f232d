"""The error of a session that ended without a result, with what came in place of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eval_pipeline.reports.model import ErrorEvent, SessionReport

WITHOUT_RESULT = "the session ended without a result"
_SHOWN = 200
_READ_BYTES = 4_000


def with_output_quoted(report: SessionReport, stdout: Callable[[int], str | None]) -> SessionReport:
    """Return a report that quotes an output which is no record, where the session ended without a result.

    `stdout` returns the beginning and the end of the output, of so many bytes; None where none is kept.
    """
    if report.error != WITHOUT_RESULT:
        return report
    quoted = _quoted(stdout(_READ_BYTES))
    if quoted is None:
        return report
    error = f"{WITHOUT_RESULT}: {quoted}"
    events = tuple(
        replace(event, message=error) if isinstance(event, ErrorEvent) and event.message == report.error else event
        for event in report.events
    )
    return replace(report, error=error, events=events)


def _quoted(printed: str | None) -> str | None:
    """Return what was printed last, or that nothing was; None where records came last, or nothing is known."""
    if printed is None:
        return None
    lines = printed.strip().splitlines()
    if not lines:
        return "nothing was printed"
    last = lines[-1].strip()
    if last.startswith(("{", "[")):
        return None
    return f"the last line of its output is {last[:_SHOWN]!r}"
