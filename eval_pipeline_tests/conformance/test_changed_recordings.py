"""Recorded sessions that are cut, or have records and values that nobody has seen: there is a report all the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case
from eval_pipeline_tests.conformance.recorded_facts import WORKSPACE, Recording, recording_params
from eval_pipeline_tests.conformance.recording_rules import CLIS

pytestmark = pytest.mark.slow
UNKNOWN = json.dumps({"type": "brand.new.thing", "timestamp": "2026-01-01T00:00:00Z", "data": {"x": 1}})
JUNK: tuple[Any, ...] = (None, -1, 1e308, True, "", [], {}, [None], {"a": 1}, {"type": 5}, "../../x", "\ud800")
_PRINTS_TEXT = {"aider", "mini-swe-agent", "command"}


def printed_and_format(recording: Recording) -> tuple[str, str]:
    printed, format_ = recording.text("stdout.jsonl"), CLIS.get(recording.cli.split("-")[0])
    if not printed or format_ is None:
        pytest.skip("nothing that is read here")
    return printed, format_


def report_of(format_: str, stdout: str) -> SessionReport:
    raw = RawExecution(format=format_, payload={"stdout": stdout}, exit_code=0)
    case = Case(id="recorded", input=())
    return normalize_raw(RawSession(execution_id="x", raw=raw, case=case, cwd=Path(WORKSPACE)))


def places(value: Any, *above: Any) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, below in inner for place in ((*above, key), *places(below, *above, key))]


def with_junk(line: str, chance: random.Random) -> str:
    """Return a record with one value replaced by something that does not belong there."""
    record = json.loads(line)
    *above, last = chance.choice(places(record))
    inner = record
    for key in above:
        inner = inner[key]
    inner[last] = chance.choice(JUNK)
    return json.dumps(record)


CHANGED = [pytest.param(each.values[0], id=f"changed {each.id}", marks=each.marks) for each in recording_params()]
"""Their ids are no rows of the summary of conformance."""


@pytest.mark.parametrize("recording", CHANGED)
def test_a_changed_recording_has_a_report(recording: Recording) -> None:
    printed, format_ = printed_and_format(recording)
    chance = random.Random(recording.id)
    lines = printed.split("\n")
    numbers = [number for number, line in enumerate(lines) if line.startswith("{") and line.endswith("}")]

    report_of(format_, printed[: chance.randrange(len(printed))])
    for number in chance.sample(numbers, min(2, len(numbers))):
        report_of(format_, "\n".join([*lines[:number], with_junk(lines[number], chance), *lines[number + 1 :]]))
    number = chance.choice(numbers) if numbers else 0
    report = report_of(format_, "\n".join([*lines[:number], UNKNOWN, *lines[number:]]))

    if format_ not in _PRINTS_TEXT and numbers:
        assert sum(report.unknown_events.values()) >= 1
