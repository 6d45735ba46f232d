"""Peers' rows about judges: replies that end in a grade, imitated delimiters, Krippendorff's alpha."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest

from eval_pipeline.scores.grading.fences import Fences, break_delimiters
from eval_pipeline.scores.grading.grades import Grades, last_grade
from eval_pipeline.scores.grading.replies import UnreadableReply
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.warehouse.sample_ratings import agreement_database, rows, store

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
    """By the view `grader_agreement`, which has scores (interval) and passing (nominal with two values)."""
    units = [unit if isinstance(unit, list) else [unit] for unit in row.data["input"]["units"]]
    column = _COLUMNS.get(row.data["input"]["level"])
    if column is None or any(isinstance(rating, str) for unit in units for rating in unit):
        pytest.skip("not offered: agreement of ratings other than scores in numbers and passing or failing")
    with agreement_database() as database:
        store(database, units)
        (actual,) = rows(database, "grader_agreement")

    assert actual[column] == pytest.approx(row.data["expect"], abs=row.data.get("tolerance", 1e-12))


_COLUMNS = {"interval": "krippendorffs_alpha", "nominal": "krippendorffs_alpha_passed"}


CHECKS: Mapping[tuple[str, str], Callable[[Row], None]] = {
    ("judge_verdicts", "extract"): _extracted,
    ("judge_verdicts", "score"): _scored,
    ("judge_delimiter_neutralization", "row"): _taken_apart,
    ("stats_cases", "krippendorff_alpha"): _alpha,
}
