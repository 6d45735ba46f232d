"""Programs of graders are written for AgentV 4.9 or for 4.36 and later; each gets the input of its version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.formats.agentv.agentv_project import ECHO, an_agentv_project, index_rows

SUITE = """\
tests:
  - id: a
    input: hello
    assertions:
      - {name: kind, type: code-grader, command: [python3, graders/kind.py]}
"""
GRADER = """\
import json, sys
given = json.load(sys.stdin)
trace = given["trace"]
checks = {
    "output": type(given["output"]).__name__,
    "roles": [message["role"] for message in given["messages"]],
    "events": [event["type"] for event in trace.get("events", [])],
    "trace": sorted(trace),
}
print(json.dumps({"score": 1, "details": checks}))
"""


def the_evaluator(root: Path, files: Mapping[str, object], **versions: str) -> EvaluatorSpec:
    """The only evaluator of a suite with these files around its grader."""
    for name, content in {"suite.yaml": SUITE, "graders/kind.py": GRADER, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return load_suite(root / "suite.yaml", LoadOptions({}, versions=versions)).cases[0].evaluators[0]


def needs(package: str, version: str) -> dict[str, object]:
    return {"dependencies": {package: version}}


@pytest.mark.parametrize(
    ("files", "payload"),
    [
        pytest.param({}, None, id="nothing tells"),
        pytest.param({"package.json": needs("@agentv/eval", "^4.9.1")}, "messages", id="the SDK of 4.9"),
        pytest.param({"package.json": needs("@agentv/eval", "^4.36.0")}, "text", id="the SDK under its old name"),
        pytest.param({"package.json": needs("@agentv/sdk", "latest")}, "text", id="the SDK under its new name"),
        pytest.param({"package.json": needs("agentv", ">=4.42.4")}, "text", id="the command itself"),
        pytest.param(
            {"package.json": needs("@agentv/sdk", "4.42.4"), "graders/package.json": needs("@agentv/eval", "4.9.1")},
            "messages",
            id="the nearest file",
        ),
        pytest.param(
            {"package.json": needs("@agentv/sdk", "4.42.4"), "graders/package.json": {"type": "module"}},
            "text",
            id="a nearer file that names no SDK",
        ),
        pytest.param(
            {
                "package.json": needs("@agentv/eval", "*"),
                "node_modules/@agentv/eval/package.json": {"version": "4.42.4"},
            },
            "text",
            id="what is installed",
        ),
        pytest.param({"package.json": "{not JSON"}, None, id="a broken file"),
        pytest.param({"suite.yaml": f"requires: {{agentv: '>=4.42'}}\n{SUITE}"}, "text", id="what the suite requires"),
        pytest.param({".agentv/config.yaml": "required_version: ^4.42.0\n"}, "text", id="what the project requires"),
        pytest.param(
            {
                "package.json": needs("@agentv/sdk", "4.42.4"),
                "suite.yaml": SUITE.replace("kind.py]", "kind.py], payload: messages"),
            },
            "messages",
            id="what the evaluator says",
        ),
        pytest.param(
            {"suite.yaml": SUITE.replace("type: code-grader, command: [python3, graders/kind.py]", "type: kind"),
             ".agentv/graders/kind.py": GRADER, "package.json": needs("@agentv/sdk", "4.42.4")},
            None,
            id="a script by its name, without registered evaluators",
        ),
    ],
)  # fmt: skip
def test_the_sdk_that_is_nearest_to_a_grader_decides_what_it_reads(
    tmp_path: Path, files: dict[str, object], payload: str | None
) -> None:
    evaluator = the_evaluator(tmp_path, files)

    assert evaluator.config.get("payload", evaluator.config.get("usual_payload")) == payload


def test_a_projects_version_decides_where_no_package_does(tmp_path: Path) -> None:
    assert the_evaluator(tmp_path, {}, agentv="4.42").config.get("usual_payload") == "text"
    assert the_evaluator(tmp_path, {}, agentv="4.9").config.get("usual_payload") is None
    with_package = {"package.json": needs("@agentv/eval", "4.9.1")}
    assert the_evaluator(tmp_path, with_package, agentv="4.42").config.get("payload") == "messages"


TARGETS = f"""\
targets:
  - name: older
    grader_payload: messages
{ECHO}
  - name: newer
    grader_payload: text
{ECHO}
  - name: unset
{ECHO}
"""
EVALUATORS = """\
execution: {targets: [older, newer, unset]}
tests:
  - id: a
    input: hello
    assertions:
      - {name: kind, type: code-grader, command: [python3, graders/kind.py]}
      - {name: fixed, type: code-grader, command: [python3, graders/kind.py], payload: text}
      - name: group
        type: composite
        aggregator: {type: weighted_average}
        assertions: [{name: member, type: code-grader, command: [python3, graders/kind.py]}]
"""


def outputs(project: CliProject) -> dict[str, list[str]]:
    """What each target's graders read as `output`: alone, with a payload of its own, as a member."""
    rows = {row["target"]: row["scores"] for row in index_rows(project)}
    shutil.rmtree(project.root / "out")
    return {
        target: [kind["details"]["output"], fixed["details"]["output"], group["scores"][0]["details"]["output"]]
        for target, (kind, fixed, group) in rows.items()
    }


def test_a_target_decides_for_its_own_answers_where_no_package_and_no_evaluator_does(tmp_path: Path) -> None:
    project = an_agentv_project(
        tmp_path, {".agentv/targets.yaml": TARGETS, "graders/kind.py": GRADER, "s.eval.yaml": EVALUATORS}
    )

    project("run", "s.eval.yaml")
    before = outputs(project)
    project.write("eval-pipeline.yaml", 'versions: {agentv: "4.42"}\n')
    project("run", "s.eval.yaml")
    with_version = outputs(project)
    project.write(".agentv/targets.yaml", TARGETS.replace("grader_payload: text", "grader_payload: messages"))
    ran = project("run", "s.eval.yaml", "--json")

    assert before == {
        "older": ["list", "str", "list"], "newer": ["str", "str", "str"], "unset": ["list", "str", "list"],
    }  # fmt: skip
    assert with_version == {**before, "unset": ["str", "str", "str"]}
    assert outputs(project) == {**with_version, "newer": ["list", "str", "list"]}
    assert [pair["executed"] for pair in json.loads(ran.out)["pairs"]] == [0, 0, 0]


def test_a_package_decides_before_the_target(tmp_path: Path) -> None:
    files = {".agentv/targets.yaml": TARGETS, "graders/kind.py": GRADER, "s.eval.yaml": EVALUATORS}
    files["package.json"] = json.dumps(needs("@agentv/sdk", "4.42.4"))
    project = an_agentv_project(tmp_path, files)

    project("run", "s.eval.yaml")

    assert set(map(tuple, outputs(project).values())) == {("str", "str", "str")}


def test_a_grader_of_each_version_reads_its_input(tmp_path: Path) -> None:
    files = {f"{folder}/graders/kind.py": GRADER for folder in ("old", "new")}
    files |= {f"{folder}/{folder}.eval.yaml": SUITE for folder in ("old", "new")}
    files |= {"old/package.json": json.dumps(needs("@agentv/eval", "4.9.1"))}
    files |= {"new/package.json": json.dumps(needs("@agentv/sdk", "4.42.4"))}
    project = an_agentv_project(tmp_path, files)

    project("run", "old/old.eval.yaml", "new/new.eval.yaml")

    old, new = (row["scores"][0]["details"] for row in sorted(index_rows(project), key=lambda row: row["suite"])[::-1])
    assert (old["output"], old["roles"], old["events"]) == ("list", ["assistant"], [])
    assert (new["output"], new["roles"]) == ("str", ["user", "assistant"])
    assert new["events"] == ["message", "message", "final_response"]
    assert {"event_count", "tool_calls", "error_count", "messages", "events"} <= set(new["trace"])


PROGRAMS = {
    "plain-answer": "print('fine')",
    "exit-code": "print('one is missing'); raise SystemExit(1)",
    "broken-program": "raise ImportError('no such module')",
}


def test_a_later_graders_plain_text_and_exit_code_are_its_answer(tmp_path: Path) -> None:
    test = "- {{id: {0}, input: a, assertions: [{{name: k, type: code-grader, command: [python3, graders/{0}.py]}}]}}\n"
    files = {f"graders/{name}.py": program for name, program in PROGRAMS.items()}
    files["package.json"] = json.dumps(needs("@agentv/sdk", "4.42.4"))
    files["s.eval.yaml"] = "tests:\n" + "".join(test.format(name) for name in PROGRAMS)
    project = an_agentv_project(tmp_path, files)

    project("run", "s.eval.yaml")

    assert {row["test_id"]: (row["execution_status"], row["score"]) for row in index_rows(project)} == {
        "plain-answer": ("ok", 1.0), "exit-code": ("quality_failure", 0.0), "broken-program": ("quality_failure", 0.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("defaults", "statuses"),
    [
        ("{}", dict.fromkeys(("broken", "prompt", "member"), "quality_failure") | {"unused": "ok"}),
        ("{on_error: unscored, on_missing: unscored}", {}),
    ],
    ids=["AgentV's zero", "no value"],
)
def test_a_project_decides_what_becomes_of_scores_without_a_value(
    tmp_path: Path, defaults: str, statuses: dict[str, str]
) -> None:
    suite = """\
    tests:
      - {id: broken, input: a, assertions: [{name: g, type: code-grader, command: exit 1}]}
      - {id: unused, input: a, assertions: [{type: skill-trigger, skill: s, should_trigger: false}]}
      - {id: own, input: a, assertions: [{name: g, type: code-grader, command: exit 1, on_error: unscored}]}
      - {id: prompt, input: a, assertions: [{name: g, type: llm-grader, target: default, prompt: {command: exit 1}}]}
      - id: member
        input: a
        assertions:
          - name: g
            type: composite
            aggregator: {type: weighted_average}
            assertions: [{name: m, type: llm-grader, target: default, prompt: {command: exit 1}}]
      - id: own-prompt
        input: a
        assertions:
          - {name: g, type: llm-grader, target: default, prompt: {command: exit 1, on_error: unscored}}
    """
    project = an_agentv_project(tmp_path, {"s.yaml": suite, "eval-pipeline.yaml": f"defaults: {defaults}\n"})

    project("run", "s.yaml")

    rows = index_rows(project)
    counted = {row["test_id"]: row for row in rows if row["execution_status"] != "execution_error"}
    assert len(rows) == 6
    assert {test: row["execution_status"] for test, row in counted.items()} == statuses
    assert all("unknown: " in json.dumps(row["scores"][0]) for row in counted.values())


def test_what_was_not_measured_has_no_value_outside_of_agentvs_projects(tmp_path: Path) -> None:
    make_repository(tmp_path)
    project = CliProject(tmp_path)
    project.write("runners.yaml", "runners: [{name: echo, adapter: mock, response: a}]\n")
    project.write("s.yaml", "tests: [{id: a, input: a, assertions: [{type: cost, budget: 1}]}]\n")

    project("run", "s.yaml")

    (row,) = index_rows(project)
    assert row["execution_status"] == "execution_error"
