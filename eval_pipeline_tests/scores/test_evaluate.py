"""The room's verb: one score per evaluator, in order, whatever an evaluator does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.evaluate import EVALUATORS, BoundEvaluator, EvaluatorSet, evaluate
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score


@dataclass(frozen=True)
class Fake:
    """An evaluator that does what it is told."""

    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    answer: Callable[[], Any]

    def evaluate(self, subject: Subject) -> Outcome:
        result: Outcome = self.answer()
        return result


def score_of(answer: Callable[[], Any]) -> Score:
    (result,) = evaluate(Subject(a_case(), a_report()), [BoundEvaluator(an_evaluator("fake"), Fake(answer), "key")])
    return result


@pytest.mark.parametrize(("value", "kept"), [(0, 0), (1, 1), (0.5, 0.5), (7.0, 1), (-1, 0)])
def test_a_value_is_kept_within_zero_and_one(value: float, kept: float) -> None:
    assert score_of(lambda: Outcome(value, "so")).value == kept


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda: Outcome(float("nan"), "so"), id="not-a-number"),
        pytest.param(lambda: Outcome(float("inf"), "so"), id="infinite"),
        pytest.param(lambda: Outcome("high", "so"), id="text"),  # type: ignore[arg-type]
        pytest.param(lambda: None, id="no-outcome"),
        pytest.param(lambda: 1 / 0, id="breaks"),
    ],
)
def test_an_evaluator_that_breaks_or_finds_no_number_could_not_tell(answer: Callable[[], Any]) -> None:
    result = score_of(answer)

    assert result.value is None
    assert result.reason.startswith("evaluator failed: ")


def test_one_that_breaks_leaves_the_others_their_scores_in_order() -> None:
    specs = [an_evaluator("first"), an_evaluator("second"), an_evaluator("third")]
    answers = [lambda: Outcome(1.0, "so"), lambda: 1 / 0, lambda: Outcome(0.0, "so")]
    bound = [BoundEvaluator(spec, Fake(answer), spec.name) for spec, answer in zip(specs, answers, strict=True)]

    result = evaluate(Subject(a_case(), a_report()), bound)

    assert [(each.evaluator, each.value) for each in result] == [("first", 1.0), ("second", None), ("third", 0.0)]


def test_negating_turns_value_and_findings_round() -> None:
    used = a_report(usage=Usage(input_tokens=3, output_tokens=4))

    result = score(an_evaluator("token-usage", max_total=10), used, negate=True)

    assert result.value == 0
    assert result.findings == (Finding("total tokens 7 is within 10", False),)
    assert result.reason == "not: total tokens 7 is within 10"


def test_a_score_carries_what_the_suite_asked_for() -> None:
    result = score(
        an_evaluator("contains", value="a"),
        a_report("a"),
        name="says a",
        weight=2.0,
        minimum=0.5,
        failure_class="silent",
    )

    assert (result.evaluator, result.type, result.weight, result.minimum, result.failure_class) == (
        "says a", "contains", 2.0, 0.5, "silent",
    )  # fmt: skip


CHECKED_OUT = """
tests:
  - id: c1
    criteria: polite
    input:
      - {role: user, content: [{type: text, value: hi}, {type: file, value: note.txt}, {type: image, value: a.png}]}
    expected_output: [{role: assistant, content: [{type: file, value: note.txt}]}]
    assertions:
      - Is polite
      - {type: llm-grader, prompt: "Rate {{ output }}"}
      - {type: code-grader, command: [python3, grade.py]}
      - {type: word-count}
      - type: composite
        assertions: [{type: code-grader, command: [python3, grade.py]}]
        aggregator: {type: weighted_average}
  - id: talk
    criteria: polite
    mode: conversation
    input: [{role: user, content: [{type: file, value: note.txt}]}]
    turns: [{input: [{role: user, content: [{type: file, value: note.txt}]}], assertions: [Is polite]}]
"""


def keys_in(folder: Path, **files: str) -> dict[str, str]:
    """The score keys of the suite, by case and evaluator, in a checkout in this folder."""
    local = folder / "evals" / ".agentv" / "assertions" / "word_count.py"
    local.parent.mkdir(parents=True)
    local.write_text("print()")
    written = {"suite.yaml": CHECKED_OUT, "note.txt": "note", "a.png": "png", "grade.py": "print(1)", **files}
    for name, text in written.items():
        (folder / "evals" / name).write_text(text)
    suite = load_suite(folder / "evals" / "suite.yaml", LoadOptions({}, frozenset(EVALUATORS.names())))
    assert suite.errors == ()
    return {f"{case.id} {bound.spec.name}": bound.key for case in suite.cases for bound in EvaluatorSet(suite).of(case)}


def test_a_suite_has_the_same_score_keys_wherever_it_lies(tmp_path: Path) -> None:
    item, two = keys_in(tmp_path / "one"), keys_in(tmp_path / "two")

    assert len(item) == 6
    assert item == two


def test_what_an_attached_file_says_is_part_of_a_score_key(tmp_path: Path) -> None:
    item, two = keys_in(tmp_path / "one"), keys_in(tmp_path / "two", **{"note.txt": "another"})

    assert not set(item.values()) & set(two.values())
