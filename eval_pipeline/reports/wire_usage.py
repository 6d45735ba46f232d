"""The usage that a provider reported at the wire, compared with the usage of a session's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from eval_pipeline.reports.jsonl_records import JsonMap, count, mapping, read_records
from eval_pipeline.reports.model import ErrorEvent, SessionReport

_COMPARED = ("input_tokens", "output_tokens")


def with_wire_checked(report: SessionReport, wire: Path) -> SessionReport:
    """Return the report, with an event that names the difference where its tokens are not those at the wire.

    `wire` is the raw file of the calls. An agent's own calls beside its work, which offer no tools, may be in the
    report or not. Unknown usage is not compared.
    """
    calls = [row.value for row in read_records(wire.read_text("utf-8")).rows]
    answered = [call for call in calls if mapping(call.get("usage"))]
    everything, work = _totals(answered), _totals([call for call in answered if '"tools"' in str(call.get("request"))])
    reported = {name: getattr(report.usage, name) for name in _COMPARED}
    if not answered or None in reported.values() or reported in (everything, work):
        return report
    flag = ErrorEvent(message=f"usage at the wire differs: {', '.join(_differences(everything, reported))}")
    return replace(report, events=(*report.events, flag))


def _totals(calls: list[JsonMap]) -> dict[str, int]:
    return {name: sum(count(mapping(call.get("usage")).get(name)) or 0 for call in calls) for name in _COMPARED}


def _differences(wire: dict[str, int], reported: dict[str, int]) -> Iterator[str]:
    for name in _COMPARED:
        if wire[name] != reported[name]:
            yield f"{name} {wire[name]:,} (report {reported[name]:,})"
