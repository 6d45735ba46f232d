"""Sets of test cases: members in their order, repetitions, and the configuration of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Suite
from eval_pipeline_tests.cli.sample_project import CliProject

CASES = [{"id": name, "name": name, "initial_message": "Hi", "persona": None} for name in ("a", "b", "c")]


def load(tmp_path: Path, **fields: Any) -> Suite:
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"test_cases": CASES, **fields}))
    return load_suite(path)


def test_members_are_carried_out_in_their_order_as_often_as_they_and_the_set_are_repeated(tmp_path: Path) -> None:
    members = [
        {"test_case_id": "a", "position": 1, "repetitions": 2},
        {"test_case_id": "b", "position": 0},
    ]

    suite = load(tmp_path, name="refunds", description="d", version=4, members=members, set_repetitions=3)

    assert [(case.id, case.repetitions) for case in suite.cases] == [("b", 3), ("a", 6)]
    assert (suite.name, suite.description, suite.metadata) == ("refunds", "d", {"version": 4})
    assert ["case 'c' is no member" in str(warning) for warning in suite.warnings] == [True]


def test_the_configuration_reaches_the_suite_its_users_and_its_judge(tmp_path: Path) -> None:
    config = {
        "concurrency": 2,
        "timeout_per_test_case_ms": 1500,
        "max_turns": 4,
        "cases_pass_threshold": 90,
        "metrics_pass_threshold": 75.5,
        "judge": {"metrics": [{"metric": "tool_routing", "weight": 1}], "pass_threshold": 60},
        "user_simulator": {"mode": "scripted", "scripted_messages": ["one", "two"], "temperature": 0.5},
    }

    suite = load(tmp_path, config=config)

    case = suite.cases[0]
    assert (suite.settings.concurrency, case.timeout_s) == (2, 1.5)
    assert (suite.settings.min_pass_rate, suite.settings.min_mean_score) == (0.9, 0.755)
    assert case.user is not None
    assert (case.user.script, case.user.max_turns, case.user.temperature) == (("one", "two"), 4, 0.5)
    assert case.evaluators[0].config["metrics"] == config["judge"]["metrics"]  # type: ignore[index]
    assert case.evaluators[0].config["pass_threshold"] == 60


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "too much": ({"config": {"cases_pass_threshold": 101}}, "cases_pass_threshold: expected a number from 0 to 100"),
    "unknown member": ({"members": [{"test_case_id": "aa"}]}, r"members\[0\].test_case_id: no test case 'aa'.*'a'"),
    "member twice": ({"members": [{"test_case_id": "a"}] * 2}, "'a' is a member already"),
    "no repetition": ({"members": [{"test_case_id": "a", "repetitions": 0}]}, "repetitions: expected a whole number"),
    "set not repeated": ({"set_repetitions": 0}, "set_repetitions: expected a whole number"),
    "no one at a time": ({"config": {"concurrency": 0}}, "config.concurrency: expected a whole number"),
    "no time": ({"config": {"timeout_per_test_case_ms": 0}}, "timeout_per_test_case_ms: expected a whole number"),
    "threshold": ({"config": {"judge": {"pass_threshold": 101}}}, "pass_threshold: expected a number from 0 to 100"),
    "temperature": ({"config": {"user_simulator": {"temperature": 2.1}}}, "temperature: expected a number from 0 to 2"),
    "no script": ({"config": {"user_simulator": {"mode": "scripted"}}}, "needs at least one message"),
    "no metric": ({"config": {"judge": {"metrics": [{"weight": 1}]}}}, r"judge.metrics\[0\]: expected a metric"),
    "runtime": ({"config": {"runtime": {"kind": "conexity"}}}, "runtime.kind: expected one of connexity, "),
    "address": ({"config": {"runtime": {"kind": "custom_endpoint", "url": "ftp://a"}}}, "runtime.url: .*http://"),
    "mode": ({"config": {"user_simulator": {"mode": "script"}}}, "mode: expected one of llm, scripted"),
}


@pytest.mark.parametrize(("fields", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_of_a_set_is_an_error_with_its_place(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, **fields)


@pytest.mark.parametrize(
    ("config", "warnings"),
    [
        ({"mode": "text", "runtime": {"kind": "connexity"}}, []),
        ({"mode": "voice"}, ["config.mode: is recorded but has no effect: conversations are texts here"]),
        ({"runtime": {"kind": "retell"}}, ["config.runtime: is recorded but has no effect: runtimes of vendors"]),
        ({"runtime": {"kind": "custom_endpoint", "url": "http://a"}}, ["name a runner with adapter 'endpoint'"]),
    ],
)
def test_a_mode_and_a_runtime_are_warned_of_where_something_else_happens_here(
    tmp_path: Path, config: dict[str, Any], warnings: list[str]
) -> None:
    suite = load(tmp_path, config=config)

    assert [expected in str(each) for expected, each in zip(warnings, suite.warnings, strict=True)] == [
        True for _ in warnings
    ]


def test_everything_that_is_wrong_with_a_set_is_said_at_once(tmp_path: Path) -> None:
    members = [{"test_case_id": "a", "repetitions": 0}, {"test_case_id": "zz"}, 3]
    config = {
        "judge": 3,
        "concurrency": 0,
        "user_simulator": {"mode": "scripte"},
        "agent_simulator": {"temperature": 9},
    }

    with pytest.raises(InputError) as raised:
        load(tmp_path, members=members, config=config)

    assert [problem.place.field for problem in problems_of(raised.value)] == [
        "members[0].repetitions", "members[1].test_case_id", "members[2]", "config.concurrency", "config.judge",
        "config.user_simulator.mode", "config.agent_simulator.temperature",
    ]  # fmt: skip


@pytest.mark.parametrize(("limits", "kept"), [((3, 3), 3), ((3, 4), 9), ((3, None), 9)])
def test_a_limit_of_rounds_that_all_cases_have_becomes_the_configuration_of_later_generations(
    limits: tuple[int, int | None], kept: int, tmp_path: Path
) -> None:
    persona = {"type": "t", "description": "d", "instructions": "i"}
    named = zip("ab", limits, strict=True)
    cases = [{"id": name, "name": name, "persona": persona, "max_turns": limit} for name, limit in named]
    document = {"name": "s", "config": {"max_turns": 9, "concurrency": 2}, "test_cases": cases}
    (tmp_path / "set.json").write_text(json.dumps(document))

    answer = CliProject(tmp_path)("convert", "set.json", "--to", "connexity-2", "-o", "later.json")

    later = json.loads((tmp_path / "later.json").read_text())
    assert later["config"] == {"max_turns": kept, "concurrency": 2}
    assert ("max_turns" in answer.text) is (kept == 9)
