"""The cells of a sweep and their identity: what makes a cell another one, and what does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.adapters.replay import Replay
from eval_pipeline.executions.identity import RunnerIdentity, runner_revision
from eval_pipeline.executions.model import Plan, RetryPolicy, Runner
from eval_pipeline.executions.planning import CaseFilter, check_case_ids, plan_pair
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, Suite, SuiteSettings
from eval_pipeline_tests.builders import a_case, a_runner, a_suite

CHAT = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


def planned(suite: Suite, runner: Runner | None = None, revision: str = "r", **options: Any) -> list[Plan]:
    return list(plan_pair(suite, runner or a_runner(), RunnerIdentity(revision=revision), **options))


def key(case: Case, *, suite: str = "suite", revision: str = "r") -> str:
    (plan,) = planned(a_suite(case, name=suite), revision=revision)
    return plan.key


def test_a_plan_is_made_for_every_case_and_repetition_in_order() -> None:
    result = planned(a_suite(a_case("b"), a_case("a")), repetitions=lambda case: 2)

    assert [(plan.case.id, plan.repetition) for plan in result] == [("b", 1), ("b", 2), ("a", 1), ("a", 2)]
    assert {plan.suite for plan in result} == {"suite"}


def test_every_plan_has_a_key_of_its_own() -> None:
    result = planned(a_suite(a_case("c1"), a_case("c11"), a_case("c1", text="c1")), repetitions=lambda case: 12)

    assert len({plan.key for plan in result}) == 36
    assert {len(plan.key) for plan in result} == {64}


def test_planning_again_gives_the_same_keys() -> None:
    assert planned(a_suite(a_case()), repetitions=lambda case: 3) == planned(
        a_suite(a_case()), repetitions=lambda case: 3
    )


def test_more_repetitions_keep_the_keys_of_the_first() -> None:
    suite = a_suite(a_case("a"), a_case("b"))

    assert {plan.key for plan in planned(suite)} < {plan.key for plan in planned(suite, repetitions=lambda case: 5)}


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"id": "c2"}, id="id"),
        pytest.param({"input": (Message(role="user", content="What is 2 + 3?"),)}, id="text"),
        pytest.param({"input": (Message(role="system", content="What is 2 + 2?"),)}, id="role"),
        pytest.param({"input": (Message(role="user", content="What is 2 + 2?", name="Ann"),)}, id="speaker"),
        pytest.param({"input": (Message(role="user", content=["What is 2 + 2?"]),)}, id="parts"),
        pytest.param(
            {"input": (Message(role="user", content="What is 2 + 2?", tool_calls=({"id": "1"},)),)}, id="tool"
        ),
        pytest.param({"input": (Message(role="user", content="What is 2 + 2?"),) * 2}, id="one more message"),
    ],
)
def test_what_the_target_can_see_is_part_of_a_cells_identity(changed: dict[str, Any]) -> None:
    case = a_case()

    assert key(replace(case, **changed)) != key(case)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"criteria": "other"}, id="criteria"),
        pytest.param({"expected_output": (Message(role="assistant", content="4"),)}, id="expected output"),
        pytest.param({"evaluators": (EvaluatorSpec(type="is-json", name="j"),)}, id="evaluators"),
        pytest.param({"tags": ("new",)}, id="tags"),
        pytest.param({"metadata": {"a": 1}}, id="metadata"),
        pytest.param({"threshold": 0.5}, id="threshold"),
        pytest.param({"timeout_s": 3.0}, id="time limit"),
        pytest.param({"expected_fail": True}, id="expected to fail"),
        pytest.param({"line": 7}, id="line"),
    ],
)
def test_what_the_target_cannot_see_is_not(changed: dict[str, Any]) -> None:
    case = a_case()

    assert key(replace(case, **changed)) == key(case)


def test_suite_and_runner_are_part_of_a_cells_identity() -> None:
    assert len({key(a_case()), key(a_case(), suite="other"), key(a_case(), revision="other")}) == 3


def test_other_cases_of_the_suite_are_not() -> None:
    alone = planned(a_suite(a_case("a")))

    assert planned(a_suite(a_case("b"), a_case("a")))[1].key == alone[0].key


def revision(settings: dict[str, Any], adapter: str = "chat", **fields: Any) -> str:
    return runner_revision(a_runner(adapter=adapter, settings=settings, **fields))


@pytest.mark.parametrize(
    "changed", [{"model": "n"}, {"base_url": "http://127.0.0.1:2/v1"}, {"temperature": 0.5}, {"system": "Be brief"}]
)
def test_a_runners_settings_are_part_of_its_revision(changed: dict[str, Any]) -> None:
    assert revision({**CHAT, **changed}) != revision(CHAT)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"name": "other"}, id="name"),
        pytest.param({"tags": ("new",)}, id="tags"),
        pytest.param({"timeout_s": 3.0}, id="time limit"),
        pytest.param({"concurrency": 3}, id="concurrency"),
        pytest.param({"retries": RetryPolicy(max_retries=0)}, id="retries"),
        pytest.param({"prices": {"per_call": 1.0}}, id="prices"),
        pytest.param({"folder": Path("elsewhere")}, id="folder"),
        pytest.param({"settings": {**CHAT, "api_key": "k2"}, "public_settings": CHAT}, id="secret"),
    ],
)
def test_what_does_not_change_answers_is_not(fields: dict[str, Any]) -> None:
    runner = a_runner(adapter="chat", settings=CHAT)

    assert runner_revision(replace(runner, **fields)) == runner_revision(runner)


def test_the_version_of_an_adapter_is_part_of_the_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.jsonl").write_text('{"case": "a", "output": "1"}\n')
    runner = a_runner(settings={"recording": "r.jsonl"}, folder=tmp_path)
    before = runner_revision(runner)
    monkeypatch.setattr(Replay, "version", "next")

    assert runner_revision(runner) != before


@pytest.mark.parametrize(
    ("adapter", "settings"),
    [
        pytest.param("replay", {"recording": "answers.txt"}, id="recording"),
        pytest.param("command", {"command": ["cat", "answers.txt"]}, id="file of a command"),
        pytest.param("command", {"command": 'cat answers.txt | grep "it\'s"'}, id="file of a shell line"),
        pytest.param("command", {"command": "cat answers.txt # don't"}, id="line that only a shell can read"),
        pytest.param("command", {"command": ["cat", "other/answers.txt", "answers.txt"]}, id="of two of one name"),
        pytest.param("python", {"function": "solver:answer"}, id="module of a function"),
    ],
)
def test_a_file_that_answers_depend_on_is_part_of_the_revision(
    tmp_path: Path, adapter: str, settings: dict[str, Any]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "answers.txt").write_text("{}")
    file = tmp_path / ("solver.py" if adapter == "python" else "answers.txt")

    def after_writing(number: int) -> str:
        answer = (
            f"def answer():\n    return {number}\n" if adapter == "python" else f'{{"case": "a", "output": {number}}}'
        )
        file.write_text(answer)
        return revision(settings, adapter, folder=tmp_path)

    assert after_writing(1) != after_writing(22)
    assert after_writing(333) == revision(settings, adapter, folder=tmp_path)


@pytest.mark.parametrize(
    ("of_case", "of_suite", "expected"),
    [
        pytest.param(None, (), True, id="nobody named"),
        pytest.param(("gpt", "claude"), (), True, id="named by the case"),
        pytest.param(("claude",), (), False, id="another named by the case"),
        pytest.param(None, ("gpt",), True, id="named by the suite"),
        pytest.param(None, ("claude",), False, id="another named by the suite"),
        pytest.param(("gpt",), ("claude",), True, id="the case before the suite"),
    ],
)
def test_a_case_runs_on_the_runners_it_or_its_suite_names(
    of_case: tuple[str, ...] | None, of_suite: tuple[str, ...], expected: bool
) -> None:
    suite = a_suite(a_case(runners=of_case), settings=SuiteSettings(runners=of_suite))

    assert bool(planned(suite, a_runner("gpt"))) == expected


def test_a_runner_that_was_chosen_by_name_runs_every_case_that_names_no_other() -> None:
    suite = a_suite(a_case("a"), a_case("b", runners=("claude",)), settings=SuiteSettings(runners=("claude",)))

    assert [plan.case.id for plan in planned(suite, a_runner("gpt"), any_runner=True)] == ["a"]


@pytest.mark.parametrize(
    ("case_filter", "cases"),
    [
        pytest.param(CaseFilter(), ["a", "b", "c"], id="all"),
        pytest.param(CaseFilter(ids=frozenset({"a", "b"})), ["a", "b"], id="ids"),
        pytest.param(CaseFilter(tags=frozenset({"easy", "new"})), ["a", "b"], id="any of the tags"),
        pytest.param(CaseFilter(ids=frozenset({"a", "c"}), tags=frozenset({"easy"})), ["a"], id="both"),
        pytest.param(CaseFilter(tags=frozenset({"hard"})), [], id="none"),
    ],
)
def test_cases_are_chosen_by_id_and_tag(case_filter: CaseFilter, cases: list[str]) -> None:
    suite = a_suite(a_case("a", tags=("easy",)), a_case("b", tags=("new", "x")), a_case("c"))

    assert [plan.case.id for plan in planned(suite, case_filter=case_filter)] == cases


def test_a_case_id_that_no_suite_has_is_an_error() -> None:
    suites = [a_suite(a_case("addition")), a_suite(a_case("product"), name="other")]

    check_case_ids(suites, ["product", "addition"])
    with pytest.raises(UnknownName, match=r"no case 'adition'; there are: addition, product; did you mean 'addition'"):
        check_case_ids(suites, ["product", "adition"])
