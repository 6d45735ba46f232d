"""`compare` by fixed rules: pass rate, mean score, latency, metric by metric; and what changed beside the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project

WORSE = GREET.replace('nobody) echo "go away"', 'nobody) echo "no"').replace("hello", "bye")


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that was run twice; in between `greeter` forgot to greet."""
    cli_project = make_cli_project(tmp_path_factory.mktemp("regressed"))
    cli_project.once("run", "--quiet")
    cli_project.write("greet.sh", WORSE)
    cli_project("run", "--quiet", "--refresh", "all")
    return cli_project


def test_a_drop_beyond_a_limit_is_a_regression(cli_project: CliProject) -> None:
    answer = cli_project(
        "compare", "sweep:previous@greeter", "sweep:latest@greeter", "--max-pass-rate-drop", "0.1", "--json"
    )

    (found,) = answer.document["candidates"]
    assert answer.code == 1
    assert found["regression"]["regression_detected"]
    assert found["regression"]["counts"]["regression"] == 2
    assert found["regression"]["rules"] == {
        "max_pass_rate_drop": 0.1, "max_score_drop": 0.05, "max_latency_increase": 0.2,
    }  # fmt: skip
    assert "pass rate fell by" in found["regression"]["reasons"][0]


def test_generous_limits_let_a_worse_candidate_pass(cli_project: CliProject) -> None:
    limits = ("--max-pass-rate-drop", "1", "--max-score-drop", "1", "--max-latency-increase", "1000")

    answer = cli_project("compare", "sweep:previous@greeter", "sweep:latest@greeter", *limits)

    assert answer.code == 0
    assert "NO REGRESSION" in answer.text


def test_rules_are_about_the_cases_that_both_sides_graded(cli_project: CliProject) -> None:
    cli_project("run", "--quiet", "--runner", "parrot", "--case", "ann")
    ((first, last),) = cli_project.ask("SELECT min(sweep_id), max(sweep_id) FROM sweeps")
    whole, part = f"sweep:{first}@parrot", f"sweep:{last}@parrot"

    answer = cli_project("compare", whole, part, "--max-pass-rate-drop", "0", "--json")
    shown = cli_project("compare", whole, part, "--max-pass-rate-drop", "0")

    (found,) = answer.document["candidates"]
    sides = [found["regression"][side] for side in ("baseline", "candidate")]
    assert [(side["cases"], side["executions"]) for side in sides] == [(1, 1), (1, 1)]
    assert found["regression"]["deltas"]["pass_rate"] == 0
    assert found["regression"]["deltas"]["total_cost_usd"] is None
    assert [side["cost_unknown"] for side in sides] == [1, 1]
    assert "1 common case: pass rate 100.0 % → 100.0 %" in shown.text
    assert "money not compared: unknown for 2 results" in shown.text


def test_a_rule_without_a_baseline_is_an_error(cli_project: CliProject) -> None:
    answer = cli_project("compare", "current", "--max-score-drop", "0")

    assert answer.code == 2
    assert "--max-score-drop needs a baseline" in answer.err


def test_what_changed_between_two_runners_is_shown(cli_project: CliProject, tmp_path: Path) -> None:
    document = cli_project("compare", "greeter", "parrot", "--json").document

    (found,) = document["candidates"]
    changed = {value["field"] for change in found["changes"] for value in change["values"]}
    assert "settings.command" in changed


ANALYST = """\
import json


def explain(prompt):
    with open("asked.txt", "a") as file:
        file.write(prompt)
    cause = {"metric": "pass_rate", "direction": "regressed", "likely_cause": "It forgot <b>to greet</b>.",
             "confidence": "high", "reasoning": "polite fails"}
    reply = {"summary": "It greets less.", "causes": [cause, {"metric": "score"}], "infrastructure_notes": None}
    return f"Here it is:\\n```json\\n{json.dumps(reply)}\\n```"
"""
MUTE = """\
runners:
  - {name: analyst, adapter: python, function: "analyst:explain", isolation: in-process}
  - {name: mute, adapter: command, command: [sh, -c, "exit 7"]}
"""
SIDES = ("sweep:previous@greeter", "sweep:latest@greeter")


@pytest.fixture(scope="module")
def analysts(cli_project: CliProject) -> CliProject:
    """The project with a runner that explains, and one that does not answer."""
    runners = (cli_project.root / "runners.yaml").read_text()
    cli_project.write("runners.yaml", runners + MUTE.removeprefix("runners:\n"))
    cli_project.write("analyst.py", ANALYST)
    return cli_project


def test_a_model_names_likely_causes_and_decides_nothing(analysts: CliProject) -> None:
    shown = analysts("compare", *SIDES, "--explain-with", "analyst", "--advisory")
    (found,) = analysts("compare", *SIDES, "--explain-with", "analyst", "--json").document["candidates"]

    asked = (analysts.root / "asked.txt").read_text()
    assert shown.code == 0
    assert "pass_rate, high confidence: It forgot <b>to greet</b>. (polite fails)" in shown.text
    assert "1 cause could not be read" in shown.text
    assert [cause["likely_cause"] for cause in found["causes"]["causes"]] == ["It forgot <b>to greet</b>."]
    assert (found["regression"], found["causes"]["left_out"], found["causes"]["cost_usd"]) == (None, 1, None)
    assert asked.count("You find the likely causes") == 2
    assert "pass_rate: " in asked
    assert "greetings/ann: score -1; polite: " in asked


def test_without_a_shift_no_model_is_asked(analysts: CliProject) -> None:
    before = (analysts.root / "asked.txt").read_text()

    answer = analysts("compare", SIDES[1], "current@greeter", "--explain-with", "analyst")

    assert "nothing moved: no model was asked" in answer.text
    assert (analysts.root / "asked.txt").read_text() == before


def test_an_analyst_that_does_not_answer_changes_nothing(analysts: CliProject) -> None:
    plain = analysts("compare", *SIDES)

    answer = analysts("compare", *SIDES, "--explain-with", "mute")

    assert "runner 'mute' did not answer" in answer.text
    assert answer.code == plain.code
    assert analysts("compare", *SIDES, "--explain-with", "analist").code == 2
