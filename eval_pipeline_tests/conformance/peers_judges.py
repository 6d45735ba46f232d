"""Peers' rows about judges: replies that end in a grade, imitated delimiters, Krippendorff's alpha."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest

from eval_pipeline.scores.grading.fences import Fences, break_delimiters
from eval_pipeline.scores.grading.grades import Grades, last_grade
from eval_pipeline.scores.grading.replies import UnreadableReply
from eval_pipeline.statistics.agreement import krippendorffs_alpha
from eval_pipeline_tests.conformance.recorded_facts import Row

WORTH = {"C": 1.0, "P": 0.5, "I": 0.0}


def judge_check(row: Row) -> Callable[[Row], None] | None:
    """How a row about judges is checked; None for rows about other things."""
    return CHECKS.get((row.file, row.kind))


def _extracted(row: Row) -> None:
    assert last_grade(row.data["judge_output"]) == row.data["expect"]["grade"]


def _scored(row: Row) -> None:
    form = Grades({grade: value for grade, value in WORTH.items() if grade in _offered(row)})
    expected = row.data["expect"]["value"]
    if expected is None:
        with pytest.raises(UnreadableReply):
            form.read(row.data["judge_output"], Fences("key"), ())
        return

    opinion = form.read(row.data["judge_output"], Fences("key"), ())

    assert (opinion.details["grade"], opinion.value) == (expected, WORTH[expected])


def _offered(row: Row) -> str:
    """The grades that a judge may give: those that its author's own words name, else the usual ones."""
    words = row.data.get("grade_pattern") or row.data.get("instructions")
    if words:
        return "".join(re.findall(r"\b[CPI]+\b", words))
    return "CPI" if row.data.get("partial_credit") else "CI"


def _taken_apart(row: Row) -> None:
    assert break_delimiters(row.data["raw"]) == row.data["expect"]


def _alpha(row: Row) -> None:
    given, expected = row.data["input"], row.data["expect"]
    units = [unit if isinstance(unit, list) else [unit] for unit in given["units"]]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=r"ratings are numbers|no level"):
            krippendorffs_alpha(units, given["level"])
        return

    alpha = krippendorffs_alpha(units, given["level"])

    assert alpha == pytest.approx(expected, abs=row.data.get("tolerance", 1e-12), nan_ok=True)


CHECKS: Mapping[tuple[str, str], Callable[[Row], None]] = {
    ("judge_verdicts", "extract"): _extracted,
    ("judge_verdicts", "score"): _scored,
    ("judge_delimiter_neutralization", "row"): _taken_apart,
    ("stats_cases", "krippendorff_alpha"): _alpha,
}
