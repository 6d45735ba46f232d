"""The options model: a field that is added to it can be set in the project file, on the command line and in the
launchpad, and arrives in the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from eval_pipeline.cli.plan import plan_command
from eval_pipeline.cli.run import run_command
from eval_pipeline.errors import InputError
from eval_pipeline.orchestration.config import SweepConfig
from eval_pipeline.sweeps.options import (
    Defaults,
    LaunchOptions,
    RunOptions,
    SharedOptions,
    SweepOptions,
    flag_of,
    launch_options,
)
from eval_pipeline.sweeps.project import load_project

VALUES: dict[str, Any] = {
    "repetitions": 3, "refresh": "failed", "concurrency": 4, "threshold": 0.25, "budget_usd": 1.5, "budget_calls": 9,
    "budget_tokens": 900, "grader": "judge", "simulator": "player", "weights": {"hard": 2.5},
    "any_runner": True, "on_failure": 2,
    "keep_fallbacks": True, "abandon_refresh": True, "update_snapshots": True,
    "resume": "20260101T000000", "tags": ("t",), "cases": ("a", "b"),
    "difficulties": ("hard",), "statuses": ("archived", "draft"), "sweep": "nightly", "all_tags": ("t", "u"),
    "names": ("one",), "sample": 5, "mix": {"normal": 0.75, "hard": 0.25}, "seed": 7,
}  # fmt: skip
"""A value of every option that is none of its defaults."""
NEEDS = {"mix": {"sample": 5}, "seed": {"sample": 5}}
"""What an option cannot be set without."""
SWEEPS = "sweeps: {nightly: {}}\n"


def flags(command: click.Command) -> dict[str, click.Parameter]:
    return {flag: parameter for parameter in command.params for flag in parameter.opts}


def test_every_option_has_a_value_to_try_here() -> None:
    assert set(VALUES) == set(LaunchOptions.model_fields)


@pytest.mark.parametrize("name", SharedOptions.model_fields)
def test_a_shared_option_is_a_default_of_the_project_file(tmp_path: Path, name: str) -> None:
    field = SharedOptions.model_fields[name]
    key = field.validation_alias or name
    (tmp_path / "eval-pipeline.yaml").write_text(f"defaults: {{{key}: {VALUES[name]}}}")

    assert getattr(load_project(tmp_path).defaults, name) == VALUES[name]


@pytest.mark.parametrize("command", [run_command, plan_command], ids=["run", "plan"])
@pytest.mark.parametrize("name", LaunchOptions.model_fields)
def test_an_option_with_a_flag_is_an_option_of_the_commands_with_its_bounds(command: click.Command, name: str) -> None:
    field = LaunchOptions.model_fields[name]
    flag = flag_of(field)
    if flag is None:
        assert name == "any_runner", "it follows from --runner"
        return

    parameter = flags(command)[flag.name]

    assert isinstance(parameter, click.Option)
    assert str(field.description) in str(parameter.help)
    bounds = [getattr(mark, edge) for mark in field.metadata for edge in ("ge", "gt", "le") if hasattr(mark, edge)]
    assert [
        getattr(parameter.type, end) for end in ("min", "max") if getattr(parameter.type, end, None) is not None
    ] == bounds


@pytest.mark.parametrize("name", LaunchOptions.model_fields)
def test_an_option_is_a_field_of_the_launchpad_and_arrives_in_the_sweep(tmp_path: Path, name: str) -> None:
    value = list(VALUES[name]) if isinstance(VALUES[name], tuple) else VALUES[name]

    (tmp_path / "eval-pipeline.yaml").write_text(SWEEPS)
    given = NEEDS.get(name, {}) | {name: value}
    options = SweepConfig(**given).options(load_project(tmp_path), ("evaluator_scores",))

    assert SweepConfig.model_fields[name].description == LaunchOptions.model_fields[name].description
    expected = LaunchOptions(**(NEEDS.get(name, {}) | {name: VALUES[name]}))
    assert options == expected.resolve(Defaults(), ("evaluator_scores",))
    if name in RunOptions.model_fields:
        assert getattr(options, name) == VALUES[name]


def test_what_is_launched_survives_the_launchpad(tmp_path: Path) -> None:
    launch = LaunchOptions(**VALUES)

    config = SweepConfig(**launch.as_config())

    (tmp_path / "eval-pipeline.yaml").write_text(SWEEPS)
    project = load_project(tmp_path)
    assert config.options(project, ()) == launch.resolve(project.defaults, ())


def test_the_launch_wins_over_the_project_and_leaves_the_rest_to_it() -> None:
    defaults = Defaults(refresh="all", threshold=0.5)

    options = launch_options({"threshold": 0.9, "grader": None}).resolve(defaults)

    assert options == SweepOptions(refresh="all", threshold=0.9, defaults=defaults)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"refresh": "mising"}, "no refresh policy 'mising'; there are: all, failed, missing; did you mean 'missing'?"),
        ({"repetitions": -1}, "repetitions: expected a number of at least 1, got -1"),
        ({"threshold": 80.0}, "threshold: expected a number of at most 1, got 80.0"),
        ({"treshold": 0.5}, "no option 'treshold'"),
    ],
)
def test_a_bad_value_is_named_with_what_was_expected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        launch_options(given)

    assert str(raised.value).startswith(message)
