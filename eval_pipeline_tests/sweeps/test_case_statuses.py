"""Drafts and archived cases are carried out, planned and counted only where the options name their status."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.cli.options import select_in
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import count_plans
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.selection import select_pairs
from eval_pipeline.sweeps.summaries import failed_cases
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test

PAIR = PairKey("sums", "echo")
CASES = (
    a_test("a", difficulty="hard"),
    a_test("b"),
    a_test("draft", text="wrong", status="draft", difficulty="hard"),
    a_test("old", text="wrong", status="archived"),
)
SELECTIONS: dict[str, tuple[dict[str, Any], list[str], int]] = {
    "by default": ({}, ["a", "b"], 2),
    "drafts": ({"statuses": ["draft"]}, ["draft"], 1),
    "drafts and active ones": ({"statuses": ["draft", "active"]}, ["a", "b", "draft"], 3),
    "hard ones": ({"difficulties": ["hard"]}, ["a"], 2),
    "normal ones, also without a difficulty": ({"difficulties": ["normal"]}, ["b"], 2),
    "hard drafts by id": ({"statuses": ["draft"], "difficulties": ["hard"], "ids": ["draft"]}, ["draft"], 1),
}


@pytest.mark.parametrize(("given", "called", "whole"), SELECTIONS.values(), ids=SELECTIONS)
def test_plan_sweep_and_board_agree_on_which_cases_count(
    folder: ProjectFolder, given: dict[str, Any], called: list[str], whole: int
) -> None:
    folder.write_suite(*CASES)
    selected: dict[str, Any] = {name: frozenset(values) for name, values in given.items()}
    options = SweepOptions(cases=CaseFilter(**selected))
    (plan,) = plan_sweep(folder.session(), [PAIR], options)
    (pair,) = select_pairs(folder.session(), [PAIR], options).pairs

    counts = folder.sweep(cases=options.cases)

    assert folder.take_calls() == [f"echo/{case}" for case in called]
    assert plan.counts.planned == counts.planned == count_plans(pair, options, options.cases) == len(called)
    assert folder.ask("SELECT suite_plans FROM current_pairs") == [(whole,)]
    assert folder.ask("SELECT list_sum(planned)::INT FROM pair_statistics") == [(whole,)]


def test_an_archived_case_leaves_the_board_and_the_failed_cases(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b", text="wrong"))
    folder.sweep_once()
    folder.write_suite(a_test("a"), a_test("b", text="wrong", status="archived"))
    session = folder.session()

    _, outcomes = folder.sweep_cells([PAIR])

    assert outcomes[0].counts.planned == 1
    assert folder.ask("SELECT case_id FROM current_verdicts") == [("a",)]
    assert failed_cases(session.warehouse, outcomes).total == 0


def test_failed_drafts_are_not_reported_where_only_active_cases_run(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", text="wrong"), *CASES[2:])
    folder.sweep_once(cases=CaseFilter(statuses=frozenset({"draft", "archived"})))

    _, outcomes = folder.sweep_cells([PAIR])

    found = failed_cases(folder.session().warehouse, outcomes, CaseFilter())
    assert [case.case_id for case in found.cases] == ["a"]


def test_a_selection_without_an_active_case_names_the_option_that_is_missing(folder: ProjectFolder) -> None:
    folder.write_suite(*CASES)

    with pytest.raises(EvalPipelineError, match="no case is active: the selection has 1 draft; add --status draft"):
        select_in(folder.session(), cases=["draft"])


def test_the_commands_take_statuses_and_difficulties_and_name_the_nearest(folder: ProjectFolder) -> None:
    folder.write_suite(*CASES)

    selection = select_in(folder.session(), statuses=("archived",), difficulties=("normal",))

    assert selection.options.cases == CaseFilter(statuses=frozenset({"archived"}), difficulties=frozenset({"normal"}))
    with pytest.raises(EvalPipelineError, match=r"no status of cases 'drafts'.*did you mean 'draft'"):
        select_in(folder.session(), statuses=("drafts",))


def test_a_draft_without_a_simulator_stops_nothing_until_it_is_to_run(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("talk", status="draft", user={"persona": "Late."}))

    assert PAIR in select_in(folder.session()).pairs
    with pytest.raises(EvalPipelineError, match="needs a simulator"):
        select_in(folder.session(), statuses=("draft",))
