"""`python`: a function beside the suite, or an installed one, says what an answer is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.evaluate import EvaluatorSet, bind
from eval_pipeline.scores.model import Score
from eval_pipeline_tests.builders import a_case, a_suite, an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

CHECKS = """
from eval_pipeline.scores.model import Finding, Outcome

def yes(output): return "yes" in output
def share(output): return len(output) / 10
def unknown(): return None
def outcome(): return Outcome(0.5, "half", (Finding("half of it", True),), {"parts": 2})
def mapping(): return {"score": True, "reason": "all there", "details": {"parts": 2}}
def mapping_of_unknown(): return {"score": None, "reason": "no key"}
def mapping_with_a_list(): return {"score": 1, "details": [1, 2]}
def refuses(output): assert output == "no", "expected a no"
def refuses_silently(output): assert output == "no"
def breaks(): return 1 / 0
def text(): return "good"
def too_much(): return 7
def below(): return -0.5
def not_a_number(): return float("nan")
def empty_mapping(): return {}
def outcome_without_a_number(): return Outcome(float("nan"), "?")
def outcome_of_text(): return Outcome("high", "?")
def all_of_it(output, case, report, limit, unused="default"):
    return report.usage.output_tokens <= limit and case.id == "c1" and output == "yes" and unused == "default"
class Nested:
    @staticmethod
    def check(output): return output == "yes"
NUMBER = 5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests, so that they have one worker process."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "checks.py").write_text(CHECKS, encoding="utf-8")
    return folder


def call(folder: Path, function: str, output: str = "yes", **arguments: object) -> Score:
    report = a_report(output, usage=Usage(output_tokens=3))
    spec = an_evaluator("python", function=f"checks:{function}", **({"arguments": arguments} if arguments else {}))
    return score(spec, report, folder=folder)


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        ("yes", 1.0, "the function returned true"),
        ("share", 0.3, "the function scores 0.3"),
        ("unknown", None, "the function returned no score"),
        ("outcome", 0.5, "half"),
        ("mapping", 1.0, "all there"),
        ("mapping_of_unknown", None, "no key"),
        ("refuses", 0.0, "expected a no"),
        ("refuses_silently", 0.0, "assertion failed"),
        ("Nested.check", 1.0, "the function returned true"),
    ],
)
def test_a_function_may_answer_in_many_ways(folder: Path, function: str, value: float | None, message: str) -> None:
    result = call(folder, function)

    assert (result.value, result.reason) == (value, message)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("breaks", "ZeroDivisionError"),
        ("text", "expected a truth value"),
        ("too_much", "got 7"),
        ("below", "got -0.5"),
        ("not_a_number", "got nan"),
        ("empty_mapping", "got {}"),
        ("outcome_without_a_number", "not a finite number"),
        ("outcome_of_text", "TypeError"),
    ],
)
@pytest.mark.parametrize("negate", [False, True])
def test_a_function_that_breaks_or_gives_no_score_leaves_the_answer_unscored(
    folder: Path, function: str, message: str, negate: bool
) -> None:
    spec = an_evaluator("python", function=f"checks:{function}")

    result = score(spec, a_report("yes"), folder=folder, negate=negate)

    assert result.value is None
    assert message in result.reason


def test_a_function_is_given_what_its_parameters_name(folder: Path) -> None:
    assert call(folder, "all_of_it", limit=3).value == 1
    assert call(folder, "all_of_it", limit=2).value == 0


def test_findings_and_details_are_kept(folder: Path) -> None:
    result = call(folder, "outcome")

    assert [finding.text for finding in result.findings] == ["half of it"]
    assert result.details == {"parts": 2}


@pytest.mark.parametrize(
    ("function", "details"), [("mapping", {"parts": 2}), ("mapping_with_a_list", {"details": [1, 2]})]
)
def test_details_of_a_mapping_are_a_mapping(folder: Path, function: str, details: object) -> None:
    assert call(folder, function).details == details


def test_an_installed_function_may_be_named(folder: Path) -> None:
    spec = an_evaluator("python", function="json:loads", arguments={"s": "0.5"})

    assert score(spec, a_report(), folder=folder).value == 0.5


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("checks", "expected module:callable, got 'checks'"),
        ("checks:missing", "has no attribute 'missing'"),
        ("checks:NUMBER", "'checks:NUMBER' is not callable"),
        ("missing:check", "No module named 'missing'"),
        ("broken:check", "ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_be_imported_is_an_error_before_anything_runs(
    folder: Path, function: str, message: str
) -> None:
    (folder / "broken.py").write_text("1 / 0", encoding="utf-8")
    case = a_case(evaluators=(an_evaluator("python", function=function),), line=3)

    errors = EvaluatorSet(a_suite(case, path=folder / "suite.yaml")).check()

    assert message in str(errors["c1"])
    assert errors["c1"].place.line == 3


def test_editing_the_function_makes_its_scores_new_and_no_others(folder: Path) -> None:
    asking = [an_evaluator("python", function="checks:yes"), an_evaluator("contains", value="a")]
    before = [bind(spec, a_case(), folder).key for spec in asking]
    (folder / "checks.py").write_text(CHECKS + "# edited", encoding="utf-8")

    after = [bind(spec, a_case(), folder).key for spec in asking]

    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.parametrize("change", [{"criteria": "be kind"}, {"metadata": {"level": 2}}, {"tags": ("slow",)}])
def test_what_a_function_can_see_of_a_case_is_part_of_its_scores_identity(folder: Path, change: Any) -> None:
    spec = an_evaluator("python", function="checks:yes")

    assert bind(spec, a_case(**change), folder).key != bind(spec, a_case(), folder).key
