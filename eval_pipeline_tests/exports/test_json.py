"""Rows in full as JSON: a line each, or one document with their statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Finding, Status, SubScore
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, exported


def line(record: ResultRow) -> dict[str, Any]:
    (only,) = exported("jsonl", record)[""].splitlines()
    document: dict[str, Any] = json.loads(only)
    return document


def test_a_row_names_its_plan_its_verdict_and_its_measures() -> None:
    document = line(a_record(repetition=2, tags=("edge",), sweep_id="s1"))

    expected = {
        "suite": "maths", "case_id": "sum", "runner": "solver", "repetition": 2, "status": "passed", "score": 1.0,
        "threshold": 0.8, "tags": ["edge"], "sweep_id": "s1", "duration_ms": 1000.0, "output": "4",
        "started_at": "2026-03-01T12:00:00.000Z", "finished_at": "2026-03-01T12:00:01.000Z",
        "input": [{"role": "user", "content": "What is 2 + 2?"}],
    }  # fmt: skip
    assert {name: document[name] for name in expected} == expected
    assert document["usage"] == {"input_tokens": 110, "cached_input_tokens": 10, "output_tokens": 5, "cost_usd": 0.002,
                              "cost_source": "reported"}  # fmt: skip


def test_a_row_speaks_no_other_systems_names() -> None:
    assert {"test_id", "target", "execution_status", "token_usage", "assertions"}.isdisjoint(line(a_record()))


def test_a_row_has_the_turns_of_its_session_with_their_events() -> None:
    (turn,) = line(a_record())["turns"]

    assert turn["number"] == 1
    assert [event["kind"] for event in turn["events"]] == ["message", "tool_call", "tool_result", "message"]


def test_a_row_has_every_score_with_its_findings_and_members() -> None:
    member = SubScore("first", "contains", None, "no reply")
    score = a_score(value=0.4, findings=(Finding("has 4", True),), members=(member,), minimum=0.5)

    (document,) = line(a_record(scores=(score,)))["scores"]

    assert document == {
        "evaluator": "polite", "type": "contains", "value": 0.4, "reason": "polite was looked at", "passed": False,
        "weight": 1.0, "minimum": 0.5, "findings": [{"text": "has 4", "passed": True}],
        "members": [{"name": "first", "type": "contains", "value": None, "reason": "no reply", "weight": 1.0,
                     "details": {}}],
    }  # fmt: skip


def test_a_score_that_is_unknown_is_null_and_never_0() -> None:
    document = line(a_record(status=Status.ERROR, error="no answer", scores=(a_score(value=None),)))

    assert (document["status"], document["score"], document["error"]) == ("error", None, "no answer")
    assert document["scores"][0]["value"] is None
    assert "passed" not in document["scores"][0]


def test_what_is_not_known_is_absent() -> None:
    document = line(a_record(report=None, status=Status.ERROR, scores=(), started_at=None))

    assert {"usage", "duration_ms", "output", "turns", "started_at", "model", "metadata"}.isdisjoint(document)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"hooks": {"before_all": "ready"}}, "hooks", {"before_all": "ready"}),
        ({"report": a_report(file_changes="--- a\n")}, "file_changes", "--- a\n"),
        ({"answered_by": "backup"}, "answered_by", "backup"),
        ({"conversation_id": "c", "group": "g"}, "group", "g"),
    ],
)
def test_a_row_has(fields: dict[str, Any], name: str, value: Any) -> None:
    assert line(a_record(**fields))[name] == value


def test_one_document_holds_all_records_and_counts_them() -> None:
    document = json.loads(
        exported(
            "json", a_record("a"), a_record("b", status=Status.FAILED), a_record("c", status=Status.ERROR, scores=())
        )[""]
    )

    assert [row["case_id"] for row in document["results"]] == ["a", "b", "c"]
    stats = document["stats"]
    names = ("total", "graded", "passed", "failed", "errors", "pass_rate", "mean_score")
    assert [stats[name] for name in names] == [3, 2, 1, 1, 1, 0.5, 0.5]
    assert (document["selection"], document["timestamp"]) == ("current", "2026-03-01T12:00:00.000Z")


def test_a_document_of_nothing_has_no_rate() -> None:
    document = json.loads(exported("json")[""])

    assert document["results"] == []
    assert (document["stats"]["total"], document["stats"]["pass_rate"]) == (0, None)


def test_texts_that_utf8_cannot_hold_are_written_all_the_same() -> None:
    document = line(a_record(scores=(a_score(reason="\ud800"),)))

    assert document["scores"][0]["passed"] is True
