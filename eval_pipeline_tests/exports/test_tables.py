"""Rows as tables: CSV, Parquet and Markdown; and as files of Every Eval Ever."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported


def rows() -> list[ResultRow]:
    """Three cases of a runner: one passed, one failed, one could not be graded."""
    return [
        a_record(case="a", tags=("edge",)),
        a_record(case="b", verdict=a_verdict(Status.FAILED, reason="=1+1 | *no*")),
        a_record(case="c", verdict=a_verdict(Status.ERROR), report=None),
    ]


def table(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.decode())))


def test_a_line_of_csv_is_a_plan_and_what_is_unknown_is_empty() -> None:
    passed, failed, ungraded = table(exported("csv", *rows())[""])

    assert (passed["case_id"], passed["status"], passed["score"], passed["tags"]) == ("a", "passed", "1.0", '["edge"]')
    assert (passed["input_tokens"], passed["cost_usd"], passed["started_at"]) == (
        "110", "0.002", "2026-03-01T12:00:00+00:00",
    )  # fmt: skip
    assert (failed["score"], ungraded["score"], ungraded["cost_usd"]) == ("0.0", "", "")


def test_csv_holds_no_formula() -> None:
    assert table(exported("csv", *rows())[""])[1]["reason"] == "'=1+1 | *no*"


def test_parquet_has_the_columns_of_csv_with_their_types() -> None:
    frame = pl.read_parquet(io.BytesIO(exported("parquet", *rows())[""]))

    assert frame.columns == list(table(exported("csv", *rows())[""])[0])
    assert frame["score"].to_list() == [1.0, 0.0, None]
    assert frame["started_at"].dtype == pl.Datetime("us", "UTC")


def test_parquet_has_each_evaluator_with_value_and_reason() -> None:
    record = a_record(scores=(a_score("polite"), a_score("judge", None, reason="no reply")))

    (scores,) = pl.read_parquet(io.BytesIO(exported("parquet", record)[""]))["scores"].to_list()

    assert [(score["evaluator"], score["value"]) for score in scores] == [("polite", 1.0), ("judge", None)]


def test_parquet_of_several_batches_keeps_all_rows_in_order() -> None:
    records = (a_record(f"c{number}") for number in range(5_001))

    frame = pl.read_parquet(io.BytesIO(exported("parquet", *records)[""]))

    assert frame["case_id"].to_list() == [f"c{number}" for number in range(5_001)]


def test_parquet_without_rows_has_its_columns() -> None:
    frame = pl.read_parquet(io.BytesIO(exported("parquet")[""]))

    assert frame.is_empty()
    assert frame["score"].dtype == pl.Float64


def test_markdown_has_rates_with_intervals_beside_what_could_not_be_graded() -> None:
    text = exported("markdown", *rows())[""].decode()

    assert "| solver | 50.0 % | 2.6–97.4 | 0.500 | 2/3 | $0.0040 |" in text
    assert "| maths/b | solver | 1 | failed | =1\\+1 &#124; \\*no\\* |" in text


def test_markdown_has_the_known_cost_and_says_for_how_many_plans_there_is_none() -> None:
    paid = a_record(runner="paid", report=a_report(usage=Usage(cost_usd=0.25, cost_source="reported")))
    refused = a_record(case="b", runner="paid", verdict=a_verdict(Status.ERROR), report=None)

    text = exported("markdown", paid, refused)[""].decode()

    assert "| 1/2 | $0.2500 |" in text
    assert "The costs are without those of plans whose cost is not known: 1 of 2 of paid." in text


def test_markdown_has_a_runner_without_a_rate_last() -> None:
    ungraded = a_record(runner="absent", verdict=a_verdict(Status.ERROR), report=None)

    text = exported("markdown", ungraded, a_record(case="b", verdict=a_verdict(Status.FAILED)))[""].decode()

    assert text.index("| solver | 0.0 %") < text.index("| absent | – ")


@pytest.fixture
def files() -> dict[str, Any]:
    """The two files of Every Eval Ever, by what they are."""
    session = a_record(case="d", report=a_report(), expected_output=({"role": "assistant", "content": "4"},))
    made = exported("every-eval-ever", *rows(), session)
    aggregate, samples = sorted(made, key=lambda name: name.endswith("_samples.jsonl"))
    return {
        "aggregate": json.loads(made[aggregate]), "samples": [json.loads(line) for line in made[samples].splitlines()],
        "path": aggregate, "samples_path": samples,
    }  # fmt: skip


def test_an_aggregate_has_rates_with_their_intervals_and_names_its_samples(files: dict[str, Any]) -> None:
    aggregate = files["aggregate"]
    rate, score = aggregate["evaluation_results"]

    assert files["path"].startswith("data/maths/unknown/gpt-5/")
    assert aggregate["detailed_evaluation_results"]["file_path"] == files["samples_path"]
    assert aggregate["detailed_evaluation_results"]["total_rows"] == len(files["samples"]) == 3
    assert rate["score_details"]["score"] == score["score_details"]["score"] == pytest.approx(2 / 3)
    assert rate["score_details"]["details"] == {"planned": "4", "graded": "3", "passed": "2", "cases": "3"}
    assert set(rate["score_details"]["uncertainty"]["confidence_interval"]) == {
        "lower", "upper", "confidence_level", "method",
    }  # fmt: skip


def test_an_aggregate_without_a_score_names_no_samples() -> None:
    unscored = replace(a_verdict(Status.PASSED), score=None)

    ((_, aggregate),) = exported("every-eval-ever", a_record(verdict=unscored)).items()

    assert "detailed_evaluation_results" not in json.loads(aggregate)


def test_samples_are_graded_plans_with_their_session(files: dict[str, Any]) -> None:
    (first, _, session) = files["samples"]

    assert {row["evaluation_id"] for row in files["samples"]} == {files["aggregate"]["evaluation_id"]}
    assert [row["evaluation"]["is_correct"] for row in files["samples"]] == [True, False, True]
    assert first["metadata"] == {"repetition": "1", "status": "passed", "tags": "edge"}
    assert (session["interaction_type"], session["output"], session["input"]["reference"]) == ("agentic", None, ["4"])
    assert [message["role"] for message in session["messages"]] == ["assistant", "assistant", "tool", "assistant"]
    assert session["messages"][1]["tool_calls"] == [{"id": "1", "name": "Read", "arguments": {"path": "a.txt"}}]
    assert session["token_usage"]["total_tokens"] == 115
