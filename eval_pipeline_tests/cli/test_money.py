"""Money before and during a run, as people set it: on the command line, in the project file, in the launchpad.

The model is a real server on 127.0.0.1 that counts requests; every Dagster run is a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline_tests.cli.sample_project import Answer, CliProject
from eval_pipeline_tests.local_server import LocalServer, chat_reply, serve
from eval_pipeline_tests.sweeps.conftest import folder, no_project_in_the_environment
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

__all__ = ["folder", "no_project_in_the_environment"]

CALLS = """
import json, pathlib
HERE = pathlib.Path(__file__).parent


def answer(prompt, case, runner="echo"):
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(f"{runner}/{case.id}\\n")
    return {"output": "2", "cost_usd": 0.5, "usage": {"input_tokens": 90, "output_tokens": 10}}
"""
CANNOT_HOLD = "the budget of the run (5 USD) cannot hold: the cost of runner 'model' is unknown"
SELF_GRADING = "runner 'model' grades its own answers in suite 'sums'"


@pytest.fixture
def model(folder: ProjectFolder) -> Iterator[LocalServer]:
    """A project with a model without prices, which also grades: every request to it is counted."""
    grade = json.dumps({"score": 1.0, "criteria": [{"criterion": "Is polite", "score": 1.0, "reasoning": "yes"}]})
    with serve(chat_reply(grade)) as server:
        folder.write_runners({"name": "model", "adapter": "chat", "model": "m", "base_url": server.url, "api_key": "k"})
        folder.write_suite({"id": "a", "input": "hello", "criteria": "Is polite"})
        yield server


@pytest.fixture
def paid(folder: ProjectFolder) -> ProjectFolder:
    """A project whose target takes 100 tokens and 0.50 USD a call, one call at a time; 8 cases."""
    (folder.root / "paid.py").write_text(CALLS)
    folder.write_runners(a_runner_entry("echo", function="paid:answer", concurrency=1))
    folder.write_suite(*(a_test(f"case-{number}") for number in range(8)))
    return folder


def command_line(folder: ProjectFolder, *arguments: str) -> Answer:
    return CliProject(folder.root)(*arguments)


def write_defaults(folder: ProjectFolder, defaults: Mapping[str, Any]) -> None:
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "defaults": defaults}))


def launch(folder: ProjectFolder, pair: str, **config: Any) -> tuple[bool, str]:
    """Launch the job of one partition as the launchpad does; return whether it succeeded, and its log."""
    job = build_definitions(folder.root).resolve_job_def("sweep")
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("suites", ["sums"])
        instance.add_dynamic_partitions("pairs", [pair])
        result = job.execute_in_process(
            instance=instance,
            partition_key=pair,
            run_config={"ops": {"evaluate": {"config": config}}},
            raise_on_error=False,
        )
        log = "\n".join(entry.user_message + str(entry.dagster_event) for entry in instance.all_logs(result.run_id))
        return result.success, log


# A budget that cannot hold


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("where", ["the command line", "the project file"])
def test_a_budget_without_prices_is_an_error_before_any_request(
    model: LocalServer, folder: ProjectFolder, where: str, command: str
) -> None:
    flags = ("--budget", "5") if where == "the command line" else ()
    write_defaults(folder, {} if flags else {"budget_usd": 5})

    answer = command_line(folder, command, *flags)

    assert answer.code == 2
    assert CANNOT_HOLD in answer.err
    assert "Traceback" not in answer.text
    assert model.requests == []
    assert folder.ask("SELECT * FROM target_executions") == []


def test_a_budget_without_prices_fails_a_run_of_the_launchpad_before_any_request(
    model: LocalServer, folder: ProjectFolder
) -> None:
    success, log = launch(folder, "sums@model", budget_usd=5)

    assert not success
    assert CANNOT_HOLD in log
    assert model.requests == []


def test_a_budget_of_calls_beside_it_lets_the_run_start(model: LocalServer, folder: ProjectFolder) -> None:
    answer = command_line(folder, "run", "--quiet", "--budget", "5", "--budget-calls", "9")

    assert CANNOT_HOLD not in answer.err
    assert model.requests


# A model that grades itself


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_model_that_grades_itself_is_a_warning_of_the_command_line(
    model: LocalServer, folder: ProjectFolder, command: str
) -> None:
    answer = command_line(folder, command)

    assert f"warning: {SELF_GRADING}" in " ".join(answer.err.split())
    assert bool(model.requests) == (command == "run")


def test_with_strict_nothing_is_asked_of_a_model_that_grades_itself(model: LocalServer, folder: ProjectFolder) -> None:
    answer = command_line(folder, "run", "--strict")

    assert answer.code == 2
    assert SELF_GRADING in " ".join(answer.err.split())
    assert model.requests == []


def test_a_model_that_grades_itself_is_a_warning_in_the_log_of_a_dagster_run(
    model: LocalServer, folder: ProjectFolder
) -> None:
    success, log = launch(folder, "sums@model")

    assert success
    assert SELF_GRADING in log


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_limit_of_a_provider_that_no_runner_has_is_a_warning(paid: ProjectFolder, command: str) -> None:
    write_defaults(paid, {"providers": {"pyhton": {"concurrency": 2}, "python": {"concurrency": 2}}})

    answer = command_line(paid, command)

    message = " ".join(answer.err.split())
    assert "limits 'pyhton', which is the provider of no usable runner" in message
    assert "did you mean 'python'?" in message
    assert "limits 'python'" not in message


# Limits of calls and tokens


def by_flags(folder: ProjectFolder, limits: Mapping[str, int]) -> None:
    flags = [part for name, value in limits.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    command_line(folder, "run", "--quiet", *flags)


def by_project_file(folder: ProjectFolder, limits: Mapping[str, int]) -> None:
    write_defaults(folder, limits)
    command_line(folder, "run", "--quiet")


def by_launchpad(folder: ProjectFolder, limits: Mapping[str, int]) -> None:
    launch(folder, "sums@echo", **limits)


WAYS: Mapping[str, Callable[[ProjectFolder, Mapping[str, int]], None]] = {
    "command line": by_flags, "project file": by_project_file, "launchpad": by_launchpad,
}  # fmt: skip


@pytest.mark.parametrize("carry_out", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("limits", "calls"), [({"budget_calls": 3}, 3), ({"budget_tokens": 450}, 5)], ids=str)
def test_limits_of_calls_and_tokens_reach_the_sweep(
    paid: ProjectFolder,
    carry_out: Callable[[ProjectFolder, Mapping[str, int]], None],
    limits: dict[str, int],
    calls: int,
) -> None:
    carry_out(paid, limits)

    assert len(paid.take_calls()) == calls
    refused = "SELECT count(*) FROM target_executions WHERE failure_class = 'budget-exceeded'"
    assert paid.ask(refused) == [(8 - calls,)]


def test_a_limit_of_the_command_line_wins_over_the_project_file(paid: ProjectFolder) -> None:
    write_defaults(paid, {"budget_calls": 2})

    answer = command_line(paid, "run", "--quiet", "--json", "--budget-calls", "4")

    assert len(paid.take_calls()) == 4
    assert answer.code == 1
    assert answer.counts["executed"] == 4


@pytest.mark.parametrize("flag", ["--budget-calls", "--budget-tokens", "--budget"])
def test_a_limit_of_nothing_is_an_error(paid: ProjectFolder, flag: str) -> None:
    answer = command_line(paid, "run", flag, "0")

    assert answer.code == 2
    assert flag in answer.err
    assert paid.take_calls() == []
