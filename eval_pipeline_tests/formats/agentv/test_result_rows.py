"""AgentV's result rows as JSON: a line each, or one document with their statistics; and its traces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Status, SubScore
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, exported, spans


def line(record: ResultRow) -> dict[str, Any]:
    (only,) = exported("agentv-jsonl", record)[""].splitlines()
    document: dict[str, Any] = json.loads(only)
    return document


def test_a_record_has_agentvs_keys() -> None:
    document = line(a_record(expected_output=[{"role": "assistant", "content": "4", "name": None}]))

    assert {"timestamp", "test_id", "suite", "target", "scores", "execution_status", "assertions", "trace"} <= set(
        document
    )
    assert document["token_usage"] == {"input": 100, "output": 5, "cached": 10}
    assert (document["cost_usd"], document["duration_ms"]) == (0.002, 1000.0)
    assert (document["start_time"], document["end_time"]) == ("2026-03-01T12:00:00.000Z", "2026-03-01T12:00:01.000Z")
    assert document["input"] == [{"role": "user", "content": "What is 2 + 2?"}]
    assert document["expected_output"] == [{"role": "assistant", "content": "4"}]
    assert document["output"][0]["tool_calls"][0]["tool"] == "Read"


@pytest.mark.parametrize(("retries", "shown"), [(0.0, (None, None)), (0.5, (0.5, None)), (None, (None, "the cost of"))])
def test_what_was_paid_beside_the_answer_is_beside_its_cost(retries: float | None, shown: tuple[Any, Any]) -> None:
    document = line(a_record(report=a_report(retries_cost_usd=retries)))

    beside, note = document.get("retries_cost_usd"), document.get("retries_cost_note")
    assert (document["cost_usd"], beside, note and note[:11]) == (0.002, *shown)


def test_turns_that_are_aggregated_have_rows_of_their_own() -> None:
    members = (SubScore("turn-1", "turn", 1.0, "fine"), SubScore("turn-2", "turn", 0.5, "half"))
    least = a_score("conversation", 0.5, type="conversation", members=members)
    record = a_record(scores=(least, a_score("polite")))

    scores = line(record)["scores"]

    assert [(each["name"], each["score"]) for each in scores] == [("turn-1", 1.0), ("turn-2", 0.5), ("polite", 1.0)]


def test_a_member_that_decides_itself_passes_by_that_and_has_rows_of_its_own_members() -> None:
    inner = {
        "name": "brief",
        "type": "regex",
        "value": 0.0,
        "reason": "long",
        "weight": 1.0,
        "grader": None,
        "details": {},
    }
    half = SubScore("half", "composite", 0.5, "1 of 2 members pass", details={"passes": True, "members": [inner]})

    (row,) = line(a_record(scores=(a_score("all", 0.5, type="composite", members=(half,)),)))["scores"]

    (member,) = row["scores"]
    assert (row["verdict"], member["verdict"], member["details"]) == ("fail", "pass", {"passes": True})
    assert [(each["name"], each["verdict"]) for each in member["scores"]] == [("brief", "fail")]


def test_a_record_has_what_agentv_has_no_name_for() -> None:
    document = line(a_record(status=Status.EXPECTED_FAILED, repetition=2, tags=("edge",), group="sums", sweep_id="s1"))

    ours = {name: document[name] for name in ("status", "repetition", "tags", "group", "sweep_id", "threshold")}
    assert ours == {
        "status": "expected-failed", "repetition": 2, "tags": ["edge"], "group": "sums", "sweep_id": "s1",
        "threshold": 0.8,
    }  # fmt: skip


def test_what_is_not_known_is_absent() -> None:
    document = line(a_record(report=None, status=Status.ERROR, scores=(), started_at=None))

    assert {"token_usage", "cost_usd", "duration_ms", "output", "trace", "start_time", "model"}.isdisjoint(document)


def test_a_cell_that_could_not_be_graded_has_no_score_but_a_reason() -> None:
    document = line(a_record(status=Status.ERROR, error="no answer"))

    assert (document["score"], document["execution_status"]) == (None, "execution_error")
    assert document["execution_error"] == {"message": "no answer", "stage": "agent"}


def test_what_hooks_printed_is_told_by_hook() -> None:
    document = line(a_record(hooks={"before_all": "ready", "after_each": "gone"}))

    assert (document["before_all_output"], document["after_each_output"]) == ("ready", "gone")


def test_a_changed_workspace_is_told_as_a_diff() -> None:
    assert line(a_record(report=a_report(file_changes="--- a\n")))["file_changes"] == "--- a\n"


def test_one_document_holds_all_rows_under_agentvs_names() -> None:
    document = json.loads(exported("agentv-json", a_record("a"), a_record("b", status=Status.FAILED))[""])

    assert [(row["test_id"], row["execution_status"]) for row in document["results"]] == [
        ("a", "ok"), ("b", "quality_failure")
    ]  # fmt: skip
    assert document["stats"]["total"] == 2


def test_texts_that_utf8_cannot_hold_are_written_all_the_same() -> None:
    document = line(a_record(scores=(a_score(reason="\ud800"),)))

    assert document["scores"][0]["verdict"] == "pass"


def test_traces_have_agentvs_names_beside_those_of_opentelemetry() -> None:
    root = spans(a_record(), format_="agentv-otel")[0]

    by_name = {one["key"]: next(iter(one["value"].values())) for one in root["attributes"]}
    assert root["name"] == "agentv.eval"
    assert {name: by_name[name] for name in ("agentv.test_id", "agentv.target", "agentv.suite", "agentv.score")} == {
        "agentv.test_id": "sum", "agentv.target": "solver", "agentv.suite": "maths", "agentv.score": 1.0,
    }  # fmt: skip
    assert [by_name[f"agentv.trace.token_{kind}"] for kind in ("input", "output", "cached")] == ["100", "5", "10"]
    assert by_name["agentv.trace.tool_names"] == {"values": [{"stringValue": "Read"}]}
    assert (by_name["gen_ai.operation.name"], by_name["agentv.trace.llm_call_count"]) == ("invoke_agent", "2")
    kinds = [one["key"] for one in root["events"][0]["attributes"] if one["key"].startswith("agentv.")]
    assert kinds == ["agentv.grader.type", "agentv.grader.weight"]
