"""What `json` and `jsonl` write of plans that the warehouse wrote as JSON: byte for byte what their rows give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import duckdb
import pytest

from eval_pipeline.exports import EXPORTS
from eval_pipeline.exports.plan_lines import PlanLines
from eval_pipeline.exports.rows import row_json
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import CommandEvent, FileReadEvent, MessageEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.warehouse import plan_texts
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.plan_texts import has_every_column, read_plan_texts
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.records import read_records
from eval_pipeline.warehouse.selections import select
from eval_pipeline.warehouse.store import Connection
from eval_pipeline_tests.builders import NOON

SAID = MessageEvent(
    role="assistant", text='He said "4"\n\t\\ and ünïcode 🙂 \u2028', phase="final", at="2026-03-01T12:00:00Z"
)
ASKED = MessageEvent(role="user", text="2 + 2?")
DONE = (
    ToolCallEvent(tool="Read", call_id="1", arguments={"path": "a.txt", "limit": None}),
    ToolResultEvent(tool="Read", call_id="1", output="x" * 5_000, is_error=False),
    CommandEvent(command="ls"),
    FileReadEvent(path="/a"),
    FileReadEvent(path="/a"),
)
USAGE = {
    "input_tokens": 3, "cached_input_tokens": 1, "cache_write_tokens": 0, "output_tokens": 2, "reasoning_tokens": 1,
    "cost_usd": 1e-7, "cost_source": "computed",
}  # fmt: skip
TURNS = [
    {"position": 0, "messages": 1, "speaker": "user", "usage": {"input_tokens": 2}, "duration_ms": 12.5},
    {"position": 2, "messages": 1, "speaker": "user", "speech": {"simulator": "u"}},
]
REPORTS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "answer": ({"final_output": "4", "duration_ms": 1234.5678, **USAGE}, (SAID,)),
    "no-events": ({"final_output": "4", "model": "answered"}, ()),
    "nothing": ({}, ()),
    "agent": (
        {"final_output": "done", "session_id": "s1", "agent_version": "2.0", "ttft_ms": 1.0, "model_calls": 2,
         "file_changes": "--- a\n+++ b\n", "input_tokens": 0,
         "skills": [{"skill": "maths", "confidence": "strong", "evidence": ["it read it"]}]},
        (*DONE, SAID),
    ),
    "talk": ({"final_output": "4", "duration_ms": 9.0}, (ASKED, SAID, ASKED, *DONE, SAID)),
    "asked-once": ({"final_output": "4", **USAGE, "answer_cost_usd": 0.3e-7}, (ASKED, SAID)),
    "retried": ({"final_output": "4", **USAGE, "cost_usd": None, "answer_cost_usd": 0.5}, (SAID,)),
    **{
        name: ({"cost_usd": total, "answer_cost_usd": answer, "cost_source": source, "given_up": [
            {"usage": {"cost_usd": cost}} for cost in costs]}, ())
        for name, total, answer, source, costs in (
            ("answer-and-retries-cost", 0.75, 0.5, "computed", [0.25]),
            ("unknown-answer", 0.25, None, None, [0.25, None]),
            ("unknown-retries", 0.5, 0.5, "reported", [None]), ("nothing-known", None, None, None, [None]),
            ("free-retries", 0.5, None, "reported", [0.0]),
        )
    },
    "simulated": ({"final_output": "4", "turns": TURNS, "model_calls": 3}, (ASKED, SAID, ASKED, SAID)),
}  # fmt: skip
SCORE = {"evaluator": "polite", "type": "contains", "value": 0.8 - 1e-12, "reason": "so it is", "weight": 2.0,
         "findings": [], "details": {}, "duration_ms": 0.02}  # fmt: skip
SCORES: list[dict[str, Any]] = [
    SCORE,
    {**SCORE, "value": None, "reason": "no reply", "failure_class": "grader_error"},
    {**SCORE, "minimum": 0.9, "details": {"a": None, "b": [1e15, 0.1]},
     "findings": [{"text": 'a,"evidence":null', "passed": True, "evidence": None},
                  {"text": "b", "passed": False, "evidence": "e"}]},
    {**SCORE, "value": 0.1, "passes": True},
]  # fmt: skip


@pytest.fixture
def connection(warehouse: DuckDBWarehouse) -> Iterator[Connection]:
    """Plans with every kind of session, and one of which only the verdict is stored."""
    plan = {"suite": "s", "runner": "r", "suite_revision": "1", "runner_revision": "1", "repetition": 1}
    names = [*REPORTS, "only-a-verdict"]
    warehouse.write("sweep_pairs", [{**plan, "sweep_id": "1", "planned": 9, "repetitions": 1, "finished_at": NOON}])
    warehouse.write("suites", [{**plan, "path": "suites/s.yaml"}])
    warehouse.write("runners", [{**plan, "adapter": "chat", "settings": {"model": "requested"}}])
    warehouse.write("cases", [
        {**plan, "case_id": name, "position": -n, "criteria": "be right", "case_group": "g", "conversation_id": None,
         "input": [{"role": "user", "content": [{"type": "text", "value": "2 + 2?"}], "name": None, "tool_calls": []}],
         "expected_output": None if n % 2 else [{"role": "assistant", "content": {"n": None}}],
         "metadata": {"owner": None} if n % 3 else {}}
        for n, name in enumerate(names) if name != "talk"
    ])  # fmt: skip
    warehouse.write("verdicts", [
        {**plan, "verdict_id": name, "case_id": name, "execution_id": name, "sweep_id": "1", "decided_at": NOON,
         "status": "error" if n % 4 == 3 else "passed", "score": None if n % 4 == 3 else 1 / 3, "ungated_score": 1.0,
         "threshold": 0.8, "reason": "so", "tags": ["ä", "b"] if n % 2 else [],
         "incomplete": "max-steps" if n % 2 else None,
         "score_keys": [f"k{number}" for number in range(len(SCORES))][::-1] if n % 3 else None}
        for n, name in enumerate(names)
    ])  # fmt: skip
    warehouse.write("target_executions", [
        {**plan, "execution_id": name, "case_id": name, "started_at": NOON, "attempt_count": 2,
         "finished_at": NOON + timedelta(microseconds=1_999), "answered_by": "backup", "error": "late",
         "workspace": {"hooks": {"before_all": "ready"}} if name == "agent" else None}
        for name in REPORTS
    ])  # fmt: skip
    for name, (row, _) in REPORTS.items():
        of = {"execution_id": name, "case_id": name, "reported_times": [None, None], "unparsed_lines": 0}
        warehouse.write("session_reports", [{**plan, **of, **row}])
    warehouse.write("session_events", [
        {**plan, "execution_id": name, "case_id": name, "position": position, "kind": event.kind, **stored(event)}
        for name, (_, events) in REPORTS.items() for position, event in enumerate(events)
    ])  # fmt: skip
    for name in REPORTS:
        for number, score in enumerate(SCORES):
            scored = {**plan, "execution_id": name, "case_id": name, "spec_key": f"k{number}"}
            warehouse.write("evaluator_scores", [{**scored, **score}])
    member = {**plan, "execution_id": "agent", "case_id": "agent", "spec_key": "k1", "type": "contains", "reason": "so"}
    warehouse.write("member_scores", [
        {**member, "position": 1, "member": "b", "value": None, "weight": 1.0, "grader": "g", "details": {"p": 1}},
        {**member, "position": 0, "member": "a", "value": 0.5, "weight": 1.0, "grader": None, "details": {}},
    ])  # fmt: skip
    warehouse.publish()
    with open_results(warehouse.folder) as opened:
        yield opened


def stored(event: Any) -> dict[str, Any]:
    """An event as it is stored: a long text is beside it."""
    fields = {name: getattr(event, name) for name in event.__dataclass_fields__}
    long = fields["output"] if len(fields.get("output") or "") > 4_000 else None
    return {"event": {n: v for n, v in fields.items() if long is None or n != "output"}, "text": long}


def test_texts_of_the_warehouse_are_what_rows_give_byte_for_byte(connection: Connection) -> None:
    expected = [to_json(row_json(record)) for record in read_records(connection, select(connection))]

    lines = PlanLines()
    actual = [lines.line(plan) for plan in read_plan_texts(connection, select(connection))]

    assert has_every_column(connection)
    assert actual == expected
    assert len(actual) == len(REPORTS) + 1
    names = {name for line in actual for name in json.loads(line)}
    assert {"turns", "usage", "skills", "commands", "file_reads", "file_changes", "hooks", "model", "ttft_ms"} <= names


def test_control_characters_are_equal_as_json(warehouse: DuckDBWarehouse) -> None:
    every = "".join(map(chr, range(1, 160)))
    plan = {"suite": "s", "runner": "r", "suite_revision": "1", "runner_revision": "1", "repetition": 1}
    warehouse.write("sweep_pairs", [{**plan, "sweep_id": "1", "repetitions": 1, "finished_at": NOON}])
    verdict = {"case_id": "c", "execution_id": "e", "verdict_id": "v", "status": "passed", "threshold": 0.8}
    warehouse.write("verdicts", [{**plan, **verdict, "reason": every, "decided_at": NOON}])
    warehouse.publish()

    with open_results(warehouse.folder) as connection:
        (plan_text,) = read_plan_texts(connection, select(connection))

    assert json.loads(PlanLines().line(plan_text))["reason"] == every


def test_pairs_that_need_more_memory_get_it(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = list[str]()

    def failing(*values: Any) -> Any:
        limits.append(connection.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])
        if len(limits) == 1:
            raise duckdb.OutOfMemoryException
        return original(*values)

    original = plan_texts._texts_of
    monkeypatch.setattr("eval_pipeline.warehouse.plan_texts._texts_of", failing)

    assert len(list(read_plan_texts(connection, select(connection)))) == len(REPORTS) + 1
    assert limits[1] == "244.1 MiB"


@pytest.mark.parametrize(("format_", "joins"), [("json", True), ("jsonl", True), ("agentv-json", False)])
def test_a_format_with_rows_of_its_own_reads_rows(format_: str, joins: bool) -> None:
    assert getattr(EXPORTS.get(format_)(), "joins_texts", False) is joins
