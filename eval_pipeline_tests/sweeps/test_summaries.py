"""What a sweep shows at its end: which cases failed, why, and the command to see more."""

from __future__ import annotations

from typing import Any

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.sweeps.failed_cases import FailedCase, FailedCases
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.summaries import NAMES_IN_A_LINE, failed_cases, name_list
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains

SUMS = PairKey("sums", "echo")


def failed(folder: ProjectFolder, outcomes: list[PairOutcome], **narrowed: Any) -> FailedCases:
    return failed_cases(folder.session().warehouse, outcomes, **narrowed)


def test_failed_and_ungraded_cases_have_class_reason_and_command(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("fine"), a_test("wrong", contains("9")), a_test("broken"))
    folder.write_answers(broken="crash")

    _, outcomes = folder.sweep_cells([SUMS])

    broken, wrong = failed(folder, outcomes).cases
    assert (broken.case_id, broken.status, broken.label) == ("broken", "error", "Target crashed")
    assert "told to crash" in (broken.reason or "")
    assert (wrong.case_id, wrong.status, wrong.failure_class) == ("wrong", "failed", "assertion")
    assert wrong.command == "eval-pipeline show sums/wrong --runner echo"


def test_all_are_counted_and_only_the_first_are_listed(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(f"t{number}", contains("9")) for number in range(5)))

    _, outcomes = folder.sweep_cells([SUMS])

    summary = failed(folder, outcomes, most=2)
    assert [case.case_id for case in summary.cases] == ["t0", "t1"]
    assert (summary.total, summary.hidden) == (5, 3)


def test_a_case_that_fails_in_several_repetitions_is_listed_once(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("wrong", contains("9")))

    _, outcomes = folder.sweep_cells([SUMS], repetitions=3)

    (wrong,) = failed(folder, outcomes).cases
    assert (wrong.failed, wrong.repetitions) == (3, 3)


def test_a_narrowed_sweep_lists_only_what_it_selected(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("9")), a_test("b", contains("9"), tags=["slow"]))
    folder.sweep_cells([SUMS])
    only_b = CaseFilter(ids=frozenset({"b"}))
    slow = CaseFilter(tags=frozenset({"slow"}))

    _, outcomes = folder.sweep_cells([SUMS], cases=only_b)

    assert [case.case_id for case in failed(folder, outcomes, selected=only_b).cases] == ["b"]
    assert [case.case_id for case in failed(folder, outcomes, selected=slow).cases] == ["b"]


def test_reused_failures_are_listed_too(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("wrong", contains("9")))
    folder.sweep_cells([SUMS])

    _, outcomes = folder.sweep_cells([SUMS])

    assert [case.case_id for case in failed(folder, outcomes).cases] == ["wrong"]


def test_where_everything_passed_nothing_is_read(folder: ProjectFolder) -> None:
    _, outcomes = folder.sweep_cells([SUMS])

    assert failed_cases(folder.session().warehouse, outcomes) == FailedCases()


def test_the_command_quotes_names_that_a_shell_would_split() -> None:
    case = FailedCase(
        suite="my sums", case_id="a b", runner="echo", status="failed", failure_class=None, reason=None,
        failed=1, repetitions=1,
    )  # fmt: skip

    assert case.command == "eval-pipeline show 'my sums/a b' --runner echo"
    assert case.label == "failed"


def test_a_case_that_passed_by_its_suites_strategy_is_no_failed_case(folder: ProjectFolder) -> None:
    trials = {"count": 2, "strategy": "pass_at_k"}
    folder.write_suite(a_test("lucky"), a_test("wrong", contains("9")), execution={"trials": trials})
    folder.write_answers(lucky="no idea")
    folder.sweep_cells([SUMS], repetitions=1)
    folder.write_answers()

    _, outcomes = folder.sweep_cells([SUMS])

    assert outcomes[0].counts.failed == 3
    assert [case.case_id for case in failed(folder, outcomes).cases] == ["wrong"]


def test_a_line_of_many_names_has_each_once_and_counts_the_rest() -> None:
    names = [f"s{number}" for number in range(NAMES_IN_A_LINE)]

    assert name_list(["s0", *names]) == ", ".join(names)
    assert name_list([*names, "t", "u"]) == f"{', '.join(names)}, and 2 more"
