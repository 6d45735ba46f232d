"""The room's verb: one score per evaluator, in order, whatever an evaluator does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.evaluate import Asked, evaluate
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject
from eval_pipeline_tests.building import a_case, an_evaluator
from eval_pipeline_tests.scores.scoring import a_report, score


@dataclass(frozen=True)
class Fake:
    """An evaluator that does what it is told."""

    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    answer: Callable[[], Any]

    def evaluate(self, subject: Subject) -> Outcome:
        found: Outcome = self.answer()
        return found


def score_of(answer: Callable[[], Any]) -> Score:
    (found,) = evaluate(Subject(a_case(), a_report()), [Asked(an_evaluator("fake"), Fake(answer), "key")])
    return found


@pytest.mark.parametrize(("given", "kept"), [(0, 0), (1, 1), (0.5, 0.5), (7.0, 1), (-1, 0), (float("inf"), 1)])
def test_a_value_is_kept_within_zero_and_one(given: float, kept: float) -> None:
    assert score_of(lambda: Outcome(given, "so")).value == kept


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: Outcome(float("nan"), "so"), id="not-a-number"),
        pytest.param(lambda: Outcome("high", "so"), id="text"),  # type: ignore[arg-type]
        pytest.param(lambda: None, id="no-outcome"),
        pytest.param(lambda: 1 / 0, id="breaks"),
    ],
)
def test_an_evaluator_that_breaks_or_finds_no_number_could_not_tell(answer: Callable[[], Any]) -> None:
    found = score_of(answer)

    assert found.value is None
    assert found.reason.startswith("evaluator broke: ")


def test_one_that_breaks_leaves_the_others_their_scores_in_order() -> None:
    specs = [an_evaluator("first"), an_evaluator("second"), an_evaluator("third")]
    answers = [lambda: Outcome(1.0, "so"), lambda: 1 / 0, lambda: Outcome(0.0, "so")]
    asked = [Asked(spec, Fake(answer), spec.name) for spec, answer in zip(specs, answers, strict=True)]

    found = evaluate(Subject(a_case(), a_report()), asked)

    assert [(each.evaluator, each.value) for each in found] == [("first", 1.0), ("second", None), ("third", 0.0)]


def test_negating_turns_value_and_findings_round() -> None:
    used = a_report(usage=Usage(input_tokens=3, output_tokens=4))

    found = score(an_evaluator("token-usage", max_total=10), used, negate=True)

    assert found.value == 0
    assert found.findings == (Finding("total tokens 7 is within 10", False),)
    assert found.reason == "not: total tokens 7 is within 10"


def test_a_score_carries_what_the_suite_asked_for() -> None:
    found = score(
        an_evaluator("contains", value="a"),
        a_report("a"),
        name="says a",
        weight=2.0,
        minimum=0.5,
        failure_class="silent",
    )

    assert (found.evaluator, found.type, found.weight, found.minimum, found.failure_class) == (
        "says a", "contains", 2.0, 0.5, "silent",
    )  # fmt: skip
