"""`conversation`: the turns of a live conversation, each read by the normalizer of its own format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from eval_pipeline.executions.conversations import turns_of
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, Usage
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession, normalize_raw

_COUNTED = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@NORMALIZERS.register("conversation")
class ConversationNormalizer:
    """One report of all turns: what the user said before each, events in order, usage added up.

    What a turn repeats of the history is left out: the conversation already shows it.
    """

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        turns = [(turn, _report(material, raw)) for turn, raw in turns_of(material.raw)]
        if not turns:
            return SessionReport(execution_id=material.execution_id)
        reports = [report for _, report in turns]
        last = reports[-1]
        return replace(
            last,
            prompt="\n\n".join(said["text"] for turn, _ in turns for said in turn["messages"]),
            usage=_total(report.usage for report in reports),
            events=tuple(event for turn, report in turns for event in _events(turn, report)),
            skills=tuple(dict.fromkeys(skill for report in reports for skill in report.skills)),
            started_at=reports[0].started_at,
            ttft_ms=reports[0].ttft_ms,
            model_calls=_sum(report.model_calls for report in reports),
            unparsed_lines=sum(report.unparsed_lines for report in reports),
            unknown_events=_counts(reports),
            duration_ms=_sum(report.duration_ms for report in reports),
        )


def _report(material: RawSession, raw: Any) -> SessionReport:
    return normalize_raw(replace(material, raw=raw))


def _events(turn: Mapping[str, Any], report: SessionReport) -> Iterator[Event]:
    for said in turn["messages"]:
        yield MessageEvent(role=said["role"], text=said["text"])
    for event in report.events:
        repeated = isinstance(event, MessageEvent) and event.role == "user" and not event.injected
        if not repeated:
            yield event


def _total(usages: Iterable[Usage]) -> Usage:
    """The sum of usages; what one of them does not know is unknown in all."""
    known = list(usages)
    costs = [usage.cost_usd for usage in known]
    counted: dict[str, Any] = {name: _sum(getattr(usage, name) for usage in known) for name in _COUNTED}
    return Usage(**counted, cost_usd=_sum(costs), cost_source=known[0].cost_source if None not in costs else None)


def _sum(values: Iterable[Any]) -> Any:
    found = list(values)
    return None if None in found else sum(found)


def _counts(reports: list[SessionReport]) -> Mapping[str, int]:
    totals: dict[str, int] = {}
    for report in reports:
        for kind, count in report.unknown_events.items():
            totals[kind] = totals.get(kind, 0) + count
    return totals
