"""Parts of plans, JSON already → what `row_json` makes of their rows, in a fourth of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import orjson

from eval_pipeline.exports.rows import case_json, turn_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.messages import known
from eval_pipeline.reports.model import (
    EVENT_KINDS,
    SessionReport,
    Usage,
    event_from_json,
    turn_start_from_json,
)
from eval_pipeline.warehouse.plan_texts import PlanText, StoredCase, StoredEvent
from eval_pipeline.warehouse.rows import with_text

_CASES_KEPT = 10_000
_TEMPLATES = {
    kind: {field.name: None if field.default is MISSING else field.default for field in fields(cls)}
    for kind, cls in EVENT_KINDS.items()
}
"""The fields of an event that is stored without them, in their order."""


class PlanLines:
    """Joins the parts of plans, suite by suite; what is the same for every runner of a case is made once."""

    def __init__(self) -> None:
        self._suite = ""
        self._cases: dict[tuple[str, str, str], tuple[str, str]] = {}

    def line(self, plan: PlanText) -> bytes:
        """Return the JSON object of a plan."""
        task, label = self._cases.get(plan.case.key) or self._case(plan.case)
        session = _session(plan) if plan.session is not None else ""
        return f'{plan.head}{task},"tags":{plan.tags}{label},"scores":[{plan.scores}]{session}}}'.encode()

    def _case(self, case: StoredCase) -> tuple[str, str]:
        if case.key[0] != self._suite or len(self._cases) >= _CASES_KEPT:
            self._cases.clear()
            self._suite = case.key[0]
        stored = case.decoded()
        names = ("input", "expected_output", "criteria", "metadata", "conversation_id")
        fields = case_json(case.suite_path, group=stored["case_group"], **{name: stored[name] for name in names})
        task, label = map(_members, fields)
        self._cases[case.key] = (task, label)
        return task, label


def _members(fields: Mapping[str, Any]) -> str:
    """Return the members of an object as JSON, each with a comma before it."""
    return f",{to_json(fields)[1:-1].decode()}" if fields else ""


def _session(plan: PlanText) -> str:
    """Return the members of a session: as the report's own turns where it has several, or an author of one."""
    events = [{**_TEMPLATES[event["kind"]], **event} for event in map(_event, plan.events)]
    turns = _split(plan, events) if plan.turns is not None or _has_author(events) else _only_turn(plan, events)
    done = _members(_paths(events)) if events else ""
    return f"{plan.session}{plan.measures}{turns}{plan.skills}{done}{plan.file_changes}"


def _event(stored: StoredEvent) -> Mapping[str, Any]:
    return with_text(orjson.loads(stored.event), stored.text)


def _has_author(events: Sequence[Mapping[str, Any]]) -> bool:
    return any(event.get("role") == "user" for event in events)


def _only_turn(plan: PlanText, events: Sequence[Mapping[str, Any]]) -> str:
    if not events and not plan.has_output:
        return ""
    shown = f',"events":{to_json([known(event) for event in events]).decode()}' if events else ""
    return f',"turns":[{{"number":1{shown}{plan.measures}}}]'


def _split(plan: PlanText, events: Sequence[Mapping[str, Any]]) -> str:
    measures = orjson.loads(f"{{{plan.measures[1:]}}}")
    report = SessionReport(
        execution_id="",
        usage=Usage(**measures.pop("usage", {})),
        events=tuple(map(event_from_json, events)),
        turn_starts=tuple(map(turn_start_from_json, orjson.loads(plan.turns or "[]"))),
        **measures,
    )
    return f',"turns":{to_json([turn_json(turn) for turn in report.turns]).decode()}'


def _paths(events: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    commands = [event["command"] for event in events if event["kind"] == "command"]
    read = dict.fromkeys(event["path"] for event in events if event["kind"] == "file_read")
    return {name: list(values) for name, values in (("commands", commands), ("file_reads", read)) if values}
