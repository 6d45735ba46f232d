"""What every export format has to keep, whoever adds one."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.exports import EXPORTS
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported

FORMATS = [pytest.param(name, id=name) for name in EXPORTS.names()]
BINARY = ("parquet",)
ODD = "é 😀 \" ' <&> ]]> / .. \x00 \ud800 \n"


def odd_records() -> list[ResultRow]:
    """Cells of every status, with odd texts everywhere, and one of which almost nothing is known."""
    odd: dict[str, Any] = {
        "case": f"case {ODD}", "tags": (ODD,), "metadata": {ODD: [ODD]}, "criteria": ODD,
        "report": a_report(final_output=ODD, model=ODD, session_id=ODD),
        "scores": (a_score(ODD, 0.5, reason=ODD, details={ODD: float("nan")}), a_score("lost", None)),
    }  # fmt: skip
    return [
        *(a_record(status=status, verdict=a_verdict(status, reason=ODD), **odd) for status in Status),
        a_record(
            "bare", status=Status.ERROR, report=None, scores=(), input=[], started_at=None, finished_at=None,
            suite_path=None, adapter=None,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_of_odd_records_is_utf8_and_stays_in_its_folder(name: str) -> None:
    files = exported(name, *odd_records(), content=True)

    for path, data in files.items():
        assert name in BINARY or data.decode("utf-8")
        assert (path == "") != EXPORTS.get(name).folder
        assert not path.startswith("/")
        assert not {".", ".."} & set(path.split("/"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_records_give_the_same_export(name: str) -> None:
    assert exported(name, *odd_records()) == exported(name, *odd_records())
