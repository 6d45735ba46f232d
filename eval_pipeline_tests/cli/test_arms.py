"""Arms of a runner: which skills their sessions have, and how they are compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.statistics.gates import difference_interval
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.new_data import make_data

AGENT = """#!/bin/sh
seen="$(cd "$HOME/.claude/skills" 2>/dev/null && ls)$(ls .claude/skills 2>/dev/null)"
prompt=$(cat)
echo '{"type": "system", "subtype": "init", "session_id": "s-1"}'
case "$prompt $seen" in find*finder*)
  echo '{"type": "assistant", "message": {"id": "m1", "content": [{"type": "tool_use", "id": "t1", "name": "Skill",
    "input": {"skill": "finder"}}]}}' | tr '\\n' ' '; echo
  echo '{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}}' ;;
esac
echo '{"type": "assistant", "message": {"id": "m2", "content": [{"type": "text", "text": "saw: '$seen'"}]}}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "saw: '$seen'", "session_id": "s-1",
  "total_cost_usd": 0.5, "usage": {"input_tokens": 10, "output_tokens": 2}}' | tr '\\n' ' '
"""
RUNNERS = """
runners:
  - name: cc
    adapter: agent
    agent: claude
    executable: ./agent
    arms:
      with: {skills: [skills/finder]}
      without: {skills: []}
      other: {skills: [skills/other]}
"""
SUITE = """
workspace: {template: template, isolation: per_case}
tests:
  - {id: yes1, input: find a, should_trigger: finder, assertions: [{type: contains, value: finder}]}
  - {id: yes2, input: find b, should_trigger: [finder], assertions: [{type: contains, value: finder}]}
  - {id: no1, input: leave, should_trigger: {finder: false}, assertions: [{type: contains, value: "saw:"}]}
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project whose workspace has a skill of its own, carried out with three arms."""
    folder = tmp_path_factory.mktemp("arms")
    make_data(folder / "data")
    project = CliProject(folder)
    project.write("eval-pipeline.yaml", "suites: [suite.yaml]\n")
    project.write("runners.yaml", RUNNERS)
    project.write("suite.yaml", SUITE)
    project.write("agent", AGENT)
    (folder / "agent").chmod(0o755)
    for name in ("skills/finder", "skills/other", "template/.claude/skills/local"):
        (folder / name).mkdir(parents=True)
        project.write(f"{name}/SKILL.md", f"---\nname: {name}\n---\n")
    answer = project("run")
    assert answer.code == 1, answer.text
    return project


def test_a_session_has_the_skills_of_its_arm_and_no_others(compared: CliProject) -> None:
    query = "SELECT runner, case_id, final_output, file_changes FROM session_reports ORDER BY ALL"

    rows = list(map(json.loads, compared("sql", "--json", query).out.splitlines()))

    outputs = {row["runner"]: row["final_output"] for row in rows}
    assert outputs == {"cc-with": "saw: finder", "cc-without": "saw: ", "cc-other": "saw: other"}
    assert {row["file_changes"] for row in rows} <= {None, ""}, "moving skills away is no change of the session's"


def test_activation_has_precision_recall_and_intervals_by_arm(compared: CliProject) -> None:
    skills = compared("arms", "--json").document["skill_activation"]

    by_runner = {row["runner"]: row for row in skills}
    with_, without = by_runner["cc-with"], by_runner["cc-without"]
    assert (with_["hits"], with_["misses"], with_["false_alarms"], with_["sessions"]) == (2, 0, 0, 3)
    assert (with_["precision"], with_["recall"], with_["f1"]) == (1.0, 1.0, 1.0)
    assert with_["recall_low"] == pytest.approx(0.342, abs=1e-3)
    assert with_["f1_low"] == pytest.approx(2 * 0.3424 / 1.3424, abs=1e-3)
    assert (without["precision"], without["recall"], without["f1"]) == (None, 0.0, 0.0)
    assert (without["precision_low"], without["precision_high"]) == (None, None), "no session used the skill"
    assert "- [" not in compared("arms").out


def test_arms_are_compared_in_pairs_by_case(compared: CliProject) -> None:
    rows = compared("arms", "--json").document["arm_differences"]

    found = {(row["arm"], row["other_arm"], row["measure"]): row for row in rows}
    assert {key[:2] for key in found} == {("with", "without"), ("with", "other"), ("without", "other")}
    passed = found["with", "without", "pass_rate"]
    by_compare = difference_interval([1.0, 1.0, 0.0], reach=1.0)
    assert by_compare is not None
    assert (passed["cases"], passed["mean"], passed["other_mean"]) == (3, 1.0, pytest.approx(1 / 3))
    assert passed["difference"] == pytest.approx(2 / 3)
    assert (passed["low"], passed["high"]) == (max(-1.0, by_compare[0]), min(1.0, by_compare[1]))
    assert -1 <= passed["low"] < 2 / 3 < passed["high"] <= 1
    equal = found["without", "other", "pass_rate"]
    assert (equal["difference"], equal["low"] < 0 < equal["high"]) == (0, True), "three equal cases are no certainty"
    cost = found["with", "without", "cost_usd"]
    assert (cost["difference"], cost["low"], cost["high"]) == (0, None, None), "nothing shows how far a cost can change"
    shown = compared("arms", "suite", "--runner", "cc").out
    assert "with - without" in shown
    assert "66.7 %" in shown


def test_a_runner_with_arms_is_selected_by_its_own_name_and_an_edited_skill_executes(compared: CliProject) -> None:
    unchanged = compared("plan", "--runner", "cc", "--json").document
    compared.write("skills/finder/SKILL.md", "---\nname: finder\ndescription: new\n---\n")

    edited = compared("plan", "--runner", "cc", "--json").document

    def executed(document: object) -> dict[str, int]:
        return {pair["runner"]: pair["planned"] - pair["reused"] for pair in document}  # type: ignore[attr-defined]

    assert executed(unchanged) == {"cc-with": 0, "cc-without": 0, "cc-other": 0}
    assert executed(edited) == {"cc-with": 3, "cc-without": 0, "cc-other": 0}


@pytest.mark.parametrize(
    ("arms", "problem"),
    [
        ("arms: {with: {}}", "expected at least two arms"),
        ("arms: {with: {}, without: 3}", "expected settings that the arm has"),
        ("arms: {with: {adapter: mock}, without: {}}", "cannot differ between the arms"),
        ("arms: {'a b': {}, without: {}}", "an arm's name has letters"),
        ("arms: {with: {skills: [gone]}, without: {skills: []}}", "no skill in 'gone'"),
        ("arms: {with: {skills: [], home: user}, without: {}}", "leave out `home`"),
        ("arms: {with: {skils: []}, without: {}}", "did you mean 'skills'"),
    ],
)
def test_wrong_arms_name_the_place_and_the_cure(compared: CliProject, arms: str, problem: str) -> None:
    compared.write("wrong.yaml", f"runners:\n  - {{name: cc, adapter: agent, agent: claude, {arms}}}\n")

    answer = compared("validate", "--runners", "wrong.yaml")

    assert answer.code == 2 or answer.code == 1
    assert problem in answer.text
    assert "wrong.yaml:2" in answer.text


@pytest.mark.parametrize("arguments", [("arms", "--runner", "codx"), ("agreement", "--suite", "skils")])
def test_unknown_names_are_said_with_the_nearest(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    project = make_cli_project(tmp_path)
    project("run", "suites/greetings.yaml", "--runner", "parrot", "--quiet")

    answer = project(*arguments)

    assert answer.code == 2
    assert f"no {arguments[1].strip('-')} '{arguments[2]}'; there are: " in answer.err
