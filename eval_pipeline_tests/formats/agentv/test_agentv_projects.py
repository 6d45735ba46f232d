"""AgentV projects through the command line: what runs, what its run folder has, what stops it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import ECHO, an_agentv_project, index_rows


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)


GREETING = """\
    assertions: [{type: contains, value: hello}]
    tests:
      - {id: kind, input: hello, criteria: greets}
      - {id: rude, input: go away, criteria: greets}
    """


def test_rows_of_the_index_have_the_category_of_the_suite(tmp_path: Path) -> None:
    project = an_agentv_project(tmp_path, {"support/evals/mail/greeting.yaml": GREETING, "evals/top.yaml": GREETING})

    ran = project("run", "support", "evals", "--quiet")

    assert ran.code == 1, ran.text
    assert {(row["suite"], row["test_id"], row["category"]) for row in index_rows(project)} == {
        ("greeting", "kind", "support/mail"),
        ("greeting", "rude", "support/mail"),
        ("top", "kind", "Uncategorized"),
        ("top", "rude", "Uncategorized"),
    }


def test_rows_of_the_index_name_the_workspaces_that_were_kept(tmp_path: Path) -> None:
    project = an_agentv_project(
        tmp_path,
        {
            "evals/files.yaml": f"    workspace: {{template: start, isolation: per_test, mode: temp}}\n{GREETING}",
            "evals/start/readme.txt": "read me",
        },
    )
    project("run", "evals", "--quiet")

    paths = {row["test_id"]: row.get("workspace_path") for row in index_rows(project)}

    assert paths["kind"] is None
    assert (Path(paths["rude"] or "") / "readme.txt").read_text() == "read me"


LOST_GRADER = f"targets:\n  - name: default\n{ECHO}    grader_target: judge\n"


def test_a_grader_target_that_names_nothing_is_a_warning_where_nothing_needs_it(tmp_path: Path) -> None:
    project = an_agentv_project(tmp_path, {".agentv/targets.yaml": LOST_GRADER, "evals/greeting.yaml": GREETING})
    problem = ".agentv/targets.yaml:5: targets[0].grader_target: no runner 'judge'; there are: default"

    checked = project("validate", "evals")
    planned = project("plan", "evals")

    assert (checked.code, planned.code) == (0, 0)
    assert f"{problem}; what needs this grader cannot be graded" in checked.out
    assert f"{problem}; nothing that is carried out now needs this grader" in planned.err


def test_a_grader_target_that_names_nothing_is_an_error_where_a_test_needs_it(tmp_path: Path) -> None:
    graded = GREETING.replace("assertions: [{type: contains, value: hello}]", "")
    project = an_agentv_project(tmp_path, {".agentv/targets.yaml": LOST_GRADER, "evals/greeting.yaml": graded})

    planned = project("plan", "evals")

    assert planned.code == 2
    assert "cannot be graded: .agentv/targets.yaml:5: targets[0].grader_target: no runner 'judge'" in planned.err


def test_a_missing_grader_is_an_error_of_the_tests_that_need_it_and_of_no_others(tmp_path: Path) -> None:
    graded = GREETING.replace("assertions: [{type: contains, value: hello}]", "")
    mixed = GREETING + "  - {id: graded, input: hi, criteria: is polite, execution: {skip_defaults: true}}\n"
    files = {"evals/graded.yaml": graded, "evals/mixed.yaml": mixed}
    project = an_agentv_project(tmp_path, {".agentv/targets.yaml": LOST_GRADER, **files})

    planned = project("plan", "evals")
    ran = project("run", "evals")

    assert (planned.code, ran.code) == (0, 1)
    assert [line.split()[:3] for line in planned.out.splitlines()[1:3]] == [
        ["graded", "default", "0"],
        ["mixed", "default", "2"],
    ]
    for answer in (planned, ran):
        assert "there are: default; not executed (and 1 more like this)" in answer.err
        assert answer.err.count("no runner 'judge'; there are: default; not executed") == 2
        assert "nothing that is carried out" not in answer.err
    assert project.ask("SELECT suite, case_id, status, failure_class FROM current_verdicts ORDER BY ALL") == [
        ("graded", "kind", "error", "grader"),
        ("graded", "rude", "error", "grader"),
        ("mixed", "graded", "error", "grader"),
        ("mixed", "kind", "passed", None),
        ("mixed", "rude", "failed", "assertion"),
    ]


def test_tests_whose_grader_was_missing_are_carried_out_once_it_is_there(tmp_path: Path) -> None:
    mixed = GREETING + "  - {id: graded, input: hi, criteria: is polite, execution: {skip_defaults: true}}\n"
    project = an_agentv_project(tmp_path, {".agentv/targets.yaml": LOST_GRADER, "evals/mixed.yaml": mixed})
    project("run", "evals", "--quiet")
    project.write("grade.json", '{"score": 1}')
    judge = f"  - {{name: judge, provider: cli, command: 'cat {tmp_path}/grade.json > {{OUTPUT_FILE}}'}}\n"
    project.write(".agentv/targets.yaml", LOST_GRADER + judge)

    ran = project("run", "evals")

    assert "1 executed, 2 reused" in ran.err
    assert project.ask("SELECT status, score FROM current_verdicts WHERE case_id = 'graded'") == [("passed", 1.0)]


def test_what_every_suite_inherits_from_the_project_file_is_one_warning(tmp_path: Path) -> None:
    files = {f"evals/{name}.yaml": GREETING.replace(", criteria: greets", "") for name in ("one", "two")}
    files = {
        name: text.replace("contains, value: hello", "llm-grader, target: default") for name, text in files.items()
    }
    project = an_agentv_project(tmp_path, {**files, ".agentv/config.yaml": "execution: {verbose: true}"})

    checked = project("validate", "evals")

    assert "0 errors, 1 warning\n" in checked.out
    assert ".agentv/config.yaml:1: execution.verbose: has no effect" in checked.out


KEEPS_STATE = """\
import pathlib, sys, time
busy = pathlib.Path("busy")
alone = not busy.exists()
busy.touch()
time.sleep(0.05)
busy.unlink(missing_ok=True)
pathlib.Path(sys.argv[1]).write_text("alone" if alone else "with another")
"""
STATEFUL_TARGETS = """\
targets:
  - {name: state, provider: cli, workers: 1, command: "python3 state.py {OUTPUT_FILE}"}
  - {name: alias, use_target: state}
"""
REPEATED = """\
execution: {target: %s, workers: 4}
repeat: {count: 3, strategy: mean}
assertions: [{type: equals, value: alone}]
tests:
  - {id: a, input: x, criteria: c}
  - {id: b, input: y, criteria: c}
"""


@pytest.mark.parametrize("target", ["state", "alias"])
def test_repetitions_and_suites_of_a_target_with_one_worker_are_carried_out_one_after_another(
    tmp_path: Path, target: str
) -> None:
    suite = REPEATED % target
    files = {"evals/state.py": KEEPS_STATE, "evals/a.eval.yaml": suite, "evals/b.eval.yaml": suite}
    project = an_agentv_project(tmp_path, {".agentv/targets.yaml": STATEFUL_TARGETS, **files})

    ran = project("run", "evals", "--concurrency", "6")

    assert ran.code == 0, ran.text
    assert "12 executed" in ran.text


BASELINE = """\
{"test_id": "kind", "suite": "greeting", "score": 0.5, "target": "default", "scores": []}
{"test_id": "rude", "suite": "greeting", "score": 1, "target": "default", "scores": []}
"""


def test_a_baseline_beside_an_eval_file_is_compared_with_and_is_no_suite(tmp_path: Path) -> None:
    baseline = "evals/greeting.eval.baseline.jsonl"
    project = an_agentv_project(tmp_path, {"evals/greeting.eval.yaml": GREETING, baseline: BASELINE})
    ran = project("run", "evals", "--quiet")

    refused = project("run", baseline)
    compared = project("compare", baseline, "default", "--json").document

    assert "1 failed of 2 cases" in ran.text
    assert (refused.code, refused.err) == (
        2, f"error: {baseline} has results, not tests: eval-pipeline compare and trend read it\n",
    )  # fmt: skip
    assert compared["summary"]["mean_delta"] == -0.25


MISTAKES = """\
    tests:
      - id: a
        input: hi
        assertions:
          - {type: tool-trajectory, mode: inorder, expected: [{tool: x}]}
          - {type: code-grader, comand: [python3, x.py]}
          - {type: token-usage, max_total: many}
      - id: b
        input: hi
        assertions: [{include: saferesponse}]
    """
OF_A_SUITE = "cases: [{id: a, input: hi}]"


def test_mistakes_have_the_place_of_their_argument_and_the_nearest_name(tmp_path: Path) -> None:
    template = {".agentv/templates/safe-response.yaml": "assertions: [{type: contains, value: x}]\n"}
    project = an_agentv_project(tmp_path, {"a.eval.yaml": MISTAKES, "b.eval.yaml": OF_A_SUITE, **template})

    lines = [line.removeprefix("error").strip() for line in project("validate", ".").out.splitlines()]

    assert [line for line in lines if line.startswith(("a.", "b."))] == [
        "b.eval.yaml:1: cases: expected a mapping with 'from', got a list; a list of tests belongs under 'tests'",
        "a.eval.yaml:10: tests[1].assertions[0].include: no template 'saferesponse' in .agentv/templates of the "
        "suite's folder or above it; did you mean 'safe-response'?",
        "a.eval.yaml:5: tests[0].assertions[0].mode: expected one of 'any_order', 'in_order', 'exact', 'superset' or "
        "'subset', got 'inorder'; did you mean 'in_order'?",
        "a.eval.yaml:6: tests[0].assertions[1].command: required; write 'command' instead of 'comand'",
        "a.eval.yaml:7: tests[0].assertions[2].max_total: expected a number, got 'many'",
    ]


def test_a_workspace_has_all_of_its_errors(tmp_path: Path) -> None:
    suite = "    workspace: {template: nowhere, isolation: each}\n" + GREETING
    project = an_agentv_project(tmp_path, {"a.eval.yaml": suite})

    shown = project("validate", "a.eval.yaml").out

    assert "a.eval.yaml:1: workspace.template: no folder 'nowhere'" in shown
    assert (
        "a.eval.yaml:1: workspace.isolation: expected one of shared, per_test, per_case; got a text ('each')" in shown
    )


SHOWN = """\
    tests:
      - id: a
        input: [{role: user, content: [{type: text, value: Sum it up}, {type: file, value: notes.md}]}]
        assertions:
          - name: all
            type: composite
            aggregator: {type: threshold, threshold: 1}
            assertions:
              - name: half
                type: composite
                aggregator: {type: threshold, threshold: 0.5}
                assertions: [{type: contains, value: Sum}, {type: contains, value: Product}]
    """


def test_a_case_is_shown_with_all_parts_of_its_messages_and_what_members_decided(tmp_path: Path) -> None:
    project = an_agentv_project(tmp_path, {"a.eval.yaml": SHOWN, "notes.md": "one\n"})
    project("run", "a.eval.yaml", "--quiet")

    shown = project("show", "a/a").out

    assert 'user: Sum it up\n  <file path="notes.md">\n  one\n  </file>\n' in shown
    assert "✓ half  0.500  1 of 2 members pass; 0.5 required" in shown
