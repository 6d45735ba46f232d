"""The run folder of AgentV: same files and keys, its pass marks and zeros put right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline.failures import FAILURE_CLASSES
from eval_pipeline.formats.agentv.results import failure_stage
from eval_pipeline.formats.agentv.run_folder import segment
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.model import TurnStart
from eval_pipeline.scores.model import Finding, Status, SubScore
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n"


def documents(*records: ResultRow) -> dict[str, Any]:
    """The JSON files of the run folder, read."""
    return {path: json.loads(data) for path, data in exported("agentv", *records).items() if path.endswith(".json")}


def rows(*records: ResultRow) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported("agentv", *records)["index.jsonl"].splitlines()]


def test_a_cell_has_a_folder_with_grading_timing_input_and_answer() -> None:
    files = exported("agentv", a_record())

    assert sorted(files) == [
        "benchmark.json",
        "index.jsonl",
        "maths/sum/grading.json",
        "maths/sum/input.md",
        "maths/sum/outputs/response.md",
        "maths/sum/timing.json",
        "timing.json",
    ]
    assert files["maths/sum/input.md"] == b"@[user]:\nWhat is 2 + 2?\n"
    assert files["maths/sum/outputs/response.md"] == b"@[assistant]:\n4\n"


def test_a_row_of_the_index_names_its_files() -> None:
    (row,) = rows(a_record(conversation_id="talk"))

    (score,) = row.pop("scores")
    assert row == {
        "timestamp": "2026-03-01T12:00:01.000Z",
        "test_id": "sum",
        "suite": "maths",
        "conversation_id": "talk",
        "target": "solver",
        "execution_status": "ok",
        "score": 1.0,
        "grading_path": "maths/sum/grading.json",
        "timing_path": "maths/sum/timing.json",
        "input_path": "maths/sum/input.md",
        "output_path": "maths/sum/outputs/response.md",
        "response_path": "maths/sum/outputs/response.md",
    }
    assert {name: score[name] for name in ("name", "type", "score", "weight", "verdict")} == {
        "name": "polite", "type": "contains", "score": 1.0, "weight": 1.0, "verdict": "pass"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (Status.PASSED, "ok"),
        (Status.EXPECTED_FAILED, "ok"),
        (Status.FAILED, "quality_failure"),
        (Status.UNEXPECTED_PASSED, "quality_failure"),
        (Status.ERROR, "execution_error"),
    ],
)
def test_a_status_has_agentvs_word(status: Status, word: str) -> None:
    (row,) = rows(a_record(status=status))

    assert row["execution_status"] == word


@pytest.mark.parametrize("class_id", sorted(FAILURE_CLASSES))
def test_every_failure_that_is_not_of_quality_has_a_stage_and_a_reason(class_id: str) -> None:
    stage = failure_stage(class_id)

    assert (stage is None) == FAILURE_CLASSES[class_id].graded
    assert stage is None or stage[0] in ("setup", "repo_setup", "agent", "evaluator", "teardown")


def test_a_failure_class_of_a_suite_has_no_stage() -> None:
    assert failure_stage("wrong-alias") is None
    assert failure_stage(None) is None


def test_what_could_not_be_graded_says_why_and_has_no_answer() -> None:
    record = a_record(status=Status.ERROR, report=None, error="no answer within 5 s", scores=())

    (row,) = rows(record)

    assert (row["score"], row["error"]) == (0, "no answer within 5 s")
    assert (row["failure_stage"], row["failure_reason_code"]) == ("agent", "provider_error")
    assert "response_path" not in row


@pytest.mark.parametrize(
    ("records", "folders"),
    [
        pytest.param(
            [a_record(), a_record(runner="other")], ["maths/sum", "maths/sum/other"], id="runners"
        ),
        pytest.param([a_record("a b"), a_record("a/b"), a_record("A_b")], ["maths/a_b", "maths/a_b-2", "maths/A_b-3"],
                     id="one-name-after-sanitising"),
        pytest.param([a_record(), a_record()], ["maths/sum", "maths/sum-2"], id="the-same-twice"),
        pytest.param(
            [a_record(), a_record(runner="outputs")], ["maths/sum", "maths/sum/outputs-2"], id="a-runner-named-outputs"
        ),
        pytest.param([a_record(suite="index.jsonl")], ["_index.jsonl/sum"], id="a-suite-named-like-a-file"),
        pytest.param([a_record("..", suite="../etc")], ["_etc/_"], id="no-way-out"),
    ],
)  # fmt: skip
def test_no_cell_overwrites_another(records: list[ResultRow], folders: list[str]) -> None:
    files = exported("agentv", *records)

    document = [json.loads(line)["grading_path"] for line in files["index.jsonl"].splitlines()]
    assert [path.removesuffix("/grading.json") for path in document] == folders
    assert not any(part in ("", ".", "..") for path in files for part in path.split("/"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain-1.0_x", "plain-1.0_x"), ("größe 日本", "größe_日本"), ("a\x00b", "a_b"), ("CON", "_CON"),
        ("lpt1.txt", "_lpt1.txt"), ("...", "_"), ("", "_"), ("\ud800", "_"),
    ],
)  # fmt: skip
def test_a_name_becomes_a_part_of_a_path(name: str, expected: str) -> None:
    assert segment(name) == expected


def test_long_names_are_cut_but_not_confused() -> None:
    longest, longer = segment("x" * 300), segment("x" * 301)

    assert longest != longer
    assert max(len(longest), len(longer)) < 128


def test_grading_concatenates_what_was_checked_and_counts_it() -> None:
    record = a_record(
        status=Status.FAILED,
        verdict=a_verdict(Status.FAILED, 0.5),
        scores=(
            a_score("listed", 0.5, findings=(Finding("holds a", True), Finding("holds b", False, "no b"))),
            a_score("plain", 1.0, reason="it is so"),
            a_score("lost", None, reason="no reply"),
        ),
    )

    grading = documents(record)["maths/sum/grading.json"]

    assert grading["assertions"] == [
        {"text": "holds a", "passed": True, "evidence": ""},
        {"text": "holds b", "passed": False, "evidence": "no b"},
        {"text": "it is so", "passed": True, "evidence": ""},
    ]
    assert grading["summary"] == {"passed": 2, "failed": 1, "total": 3, "pass_rate": 0.667}
    assert [(entry["name"], entry["verdict"]) for entry in grading["evaluators"]] == [
        ("listed", "fail"), ("plain", "pass"), ("lost", "skip")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "threshold", "verdict"),
    [
        pytest.param({"value": 0.6}, 0.5, "pass", id="the-cases-threshold"),
        pytest.param({"value": 0.7}, 0.8, "fail", id="below-the-cases-threshold"),
        pytest.param({"value": 0.7, "minimum": 0.6}, 0.8, "pass", id="its-own-gate"),
        pytest.param({"value": 0.9, "passes": False}, 0.8, "fail", id="its-own-word"),
    ],
)
def test_an_evaluator_passes_by_its_own_mark(fields: dict[str, Any], threshold: float, verdict: str) -> None:
    record = a_record(verdict=a_verdict(threshold=threshold), scores=(a_score(**fields),))

    (evaluator,) = documents(record)["maths/sum/grading.json"]["evaluators"]

    assert evaluator["verdict"] == verdict


def test_members_of_a_score_are_its_scores() -> None:
    members = (SubScore("a", "contains", 1.0, "yes"), SubScore("b", "llm-grader", None, "no reply", grader="judge"))

    (evaluator,) = documents(a_record(scores=(a_score(members=members),)))["maths/sum/grading.json"]["evaluators"]

    assert [(entry["name"], entry["verdict"], entry.get("target")) for entry in evaluator["scores"]] == [
        ("a", "pass", None), ("b", "skip", "judge")
    ]  # fmt: skip


def test_the_turns_of_a_live_conversation_are_counted_not_the_targets_messages() -> None:
    starts = (TurnStart(position=0, messages=1), TurnStart(position=1, messages=1), TurnStart(position=2, messages=1))
    record = a_record(report=a_report(turn_starts=starts), conversation_id="talk")

    assert documents(record)["maths/sum/grading.json"]["conversation"]["turns"] == 3


def test_grading_tells_tools_changes_and_the_conversation() -> None:
    record = a_record(report=a_report(file_changes=DIFF), conversation_id="talk")

    grading = documents(record)["maths/sum/grading.json"]

    assert grading["execution_metrics"] == {"tool_calls": {"Read": 1}, "total_tool_calls": 1, "errors_encountered": 0}
    assert grading["workspace_changes"] == {
        "files_modified": 1, "files_created": 1, "diff_summary": "2 files changed, 2 lines added, 1 removed"
    }  # fmt: skip
    assert grading["conversation"] == {"turns": 2, "conversation_id": "talk"}


def test_timing_counts_what_is_known_and_says_null_of_the_rest() -> None:
    known, unknown = a_record(), a_record("other", report=None)

    actual = documents(known, unknown)

    assert actual["maths/sum/timing.json"] == {
        "total_tokens": 105, "duration_ms": 1000.0, "total_duration_seconds": 1.0,
        "token_usage": {"input": 100, "output": 5, "reasoning": None},
    }  # fmt: skip
    assert actual["maths/other/timing.json"] == {
        "total_tokens": None, "duration_ms": None, "total_duration_seconds": None,
        "token_usage": {"input": None, "output": None, "reasoning": None},
    }  # fmt: skip
    assert actual["timing.json"] == actual["maths/sum/timing.json"]


def test_the_benchmark_leaves_out_what_could_not_be_graded_and_says_so() -> None:
    actual = documents(
        a_record("a"), a_record("b", status=Status.FAILED), a_record("c", status=Status.ERROR, report=None, scores=())
    )["benchmark.json"]

    assert actual["metadata"] == {
        "eval_file": "suites/maths.yaml", "timestamp": "2026-03-01T12:00:00.000Z", "targets": ["solver"],
        "tests_run": ["a", "b", "c"],
    }  # fmt: skip
    assert actual["run_summary"]["solver"]["pass_rate"] == {"mean": 0.5, "stddev": 0.5}
    assert actual["run_summary"]["solver"]["time_seconds"] == {"mean": 1.0, "stddev": 0.0}
    assert actual["per_grader_summary"] == {"polite:contains": {"mean": 0.5, "stddev": 0.5}}
    assert actual["notes"] == ["solver: 1 of 3 could not be graded and are not in pass_rate"]


def test_a_run_of_nothing_is_still_a_run_folder() -> None:
    assert sorted(exported("agentv")) == ["benchmark.json", "index.jsonl", "timing.json"]


def test_texts_that_utf8_cannot_hold_are_written_all_the_same() -> None:
    record = a_record(report=a_report(final_output="lone \ud800"), scores=(a_score(reason="\udfff"),))

    files = exported("agentv", record)

    assert "lone" in files["maths/sum/outputs/response.md"].decode()
    assert json.loads(files["maths/sum/grading.json"])["assertions"][0]["passed"]
