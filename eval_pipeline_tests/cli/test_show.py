"""`eval-pipeline show`: one case in detail, several runners compactly, lists of cases, and nearest names."""

from __future__ import annotations

import json

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

RUNNERS = """\
runners:
  - {name: greeter, adapter: command, command: [sh, greet.sh]}
  - {name: wordy, adapter: command, command: [sh, -c, "cat >/dev/null; seq 1 50"]}
  - {name: judge, adapter: command, command: ["python3", judge.py]}
"""
JUDGE = """\
import json, re, sys
key = re.search(r'"key": "([0-9a-f]+)"', sys.stdin.read())[1]
print(json.dumps({"key": key, "score": 0.25, "reason": "it is curt"}))
"""
GREETINGS = """\
name: greetings
execution: {targets: [greeter, wordy]}
assertions:
  - {name: polite, type: icontains-all, value: [hello, there], required: true}
  - {name: tone, type: llm-grader, prompt: Is it kind?, target: judge}
tests:
  - {id: a/ann, input: Ann, criteria: a greeting}
  - {id: nobody, input: nobody, criteria: a greeting all the same}
"""


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that has been run twice, the second time with another repetition; nothing here changes it."""
    files = {"runners.yaml": RUNNERS, "judge.py": JUDGE, "suites/greetings.yaml": GREETINGS}
    cli_project = make_cli_project(tmp_path_factory.mktemp("shown"), files)
    (cli_project.root / "suites/more/sums.jsonl").unlink()
    cli_project("run", "--quiet", "--runner", "greeter")
    cli_project("run", "--quiet", "--runner", "greeter,wordy", "--repeat", "2", "--case", "nobody")
    return cli_project


def test_a_case_of_a_runner_is_shown_in_detail(cli_project: CliProject) -> None:
    answer = cli_project("show", "greetings/a/ann", "--runner", "greeter")

    lines = [line.strip() for line in answer.out.splitlines()]
    assert answer.code == 0
    assert lines[:3] == ["greetings/a/ann", "input", "user: Ann"]
    assert "hello Ann" in lines
    assert any(line.startswith("greeter  failed (gate)  score 0.000 of 0.8") for line in lines)
    assert "✗ polite  0.000  icontains-all, required ≥ 0.8" in lines
    assert any("does not contain" in line or "lacks" in line or "missing" in line for line in lines)


def test_the_grader_and_its_words_are_shown(cli_project: CliProject) -> None:
    shown = cli_project("show", "greetings/nobody", "--runner", "wordy", "--repetition", "1")

    lines = [line.strip() for line in shown.out.splitlines()]
    at = lines.index("✗ tone  0.250  llm-grader")
    assert lines[at + 1] == "it is curt"
    assert lines[at + 2] in ("grader judge replied:", "grader judge (a stored reply) replied:")  # one of two was asked
    assert '"score": 0.25' in lines[at + 3]


def test_costs_attempts_and_files_are_shown(cli_project: CliProject) -> None:
    out = cli_project("show", "greetings/a/ann", "--runner", "greeter").out

    fields = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "not reported" in fields["tokens"]
    assert fields["cost"].split() == ["cost", "–"]
    assert "1 completed" in fields["attempts"]
    assert "suites/greetings.yaml" in fields["suite"]
    assert "data/artifacts/greeter/" in fields["artifacts"]
    assert "stdout (10 bytes)" in out


def test_several_runners_and_repetitions_are_shown_compactly(cli_project: CliProject) -> None:
    out = cli_project("show", "greetings/nobody").out

    heads = [line for line in out.splitlines() if "  failed (" in line]
    assert [head.split("  failed")[0] for head in heads] == [
        "greeter", "greeter · repetition 2", "wordy", "wordy · repetition 2"
    ]  # fmt: skip
    assert out.count("user: nobody") == 1
    assert "tokens" not in out


def test_long_answers_are_cut_and_the_rest_is_named(cli_project: CliProject) -> None:
    command = ["show", "greetings/nobody", "--runner", "wordy", "--repetition", "1"]

    cut, full = cli_project(*command).out, cli_project(*command, "--full").out

    assert "… 36 more lines (--full)" in cut
    assert "  50\n" not in cut
    assert "  50\n" in full
    assert "to the prompt:" in full


def test_a_case_as_json_has_everything(cli_project: CliProject) -> None:
    (case,) = cli_project("show", "greetings/a/ann", "--json").document

    assert (case["suite"], case["case_id"], case["output"]) == ("greetings", "a/ann", "hello Ann")
    assert [score["evaluator"] for score in case["scores"]] == ["polite", "tone"]
    assert case["scores"][1]["details"]["grader"] == "judge"
    assert case["attempt_log"][0]["failure_class"] is None
    assert {file["role"] for file in case["artifacts"]} >= {"stdout"}


def test_cases_are_listed(cli_project: CliProject) -> None:
    every = cli_project("show").out.splitlines()
    of_suite = json.loads(cli_project("show", "greetings", "--runner", "greeter", "--json").out)

    assert every[0].split() == ["status", "case", "runner", "repetition", "score", "reason"]
    assert len(every) == 6
    assert [(row["case_id"], row["repetition"]) for row in of_suite] == [("a/ann", 1), ("nobody", 1), ("nobody", 2)]


def test_only_what_failed_is_listed_on_request(tmp_path_factory: pytest.TempPathFactory) -> None:
    cli_project = make_cli_project(tmp_path_factory.mktemp("failed"))
    cli_project.once("run", "--quiet")

    listed = cli_project("show", "--failed", "--json").document

    assert [(row["suite"], row["case_id"], row["runner"]) for row in listed] == [("greetings", "nobody", "greeter")]


def test_a_past_sweep_is_shown_as_it_was(cli_project: CliProject) -> None:
    first = cli_project("show", "--sweep", "previous", "--json").document
    second = cli_project("show", "--sweep", "latest", "--json").document

    assert {row["runner"] for row in first} == {"greeter"}
    assert {(row["case_id"], row["runner"]) for row in second} == {("nobody", "greeter"), ("nobody", "wordy")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["greeting/nobody"], "did you mean 'greetings'?"),
        (["greetings/noboby"], "no case 'noboby' in suite 'greetings'"),
        (["greetings/noboby"], "did you mean 'nobody'?"),
        (["nobody"], "did you mean 'greetings/nobody'?"),
        (["greetings/nobody", "--runner", "greter"], "did you mean 'greeter'?"),
        (["greetings/nobody", "--sweep", "yesterday"], "no sweep 'yesterday'"),
        (["--board", "x", "--sweep", "y"], "name a sweep or a board, not both"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    cli_project: CliProject, arguments: list[str], message: str
) -> None:
    answer = cli_project("show", *arguments)

    assert answer.code == 2
    assert message in answer.err


def test_a_case_without_results_says_how_to_get_some(cli_project: CliProject) -> None:
    answer = cli_project("show", "greetings/a/ann", "--runner", "wordy")

    assert answer.code == 3
    assert "no results of greetings/a/ann of wordy" in answer.err
    assert "eval-pipeline run --case a/ann" in answer.err


TALKERS = """\
import json

count = [0]


def agent(messages):
    return {"output": "Good bye.", "metadata": {"end": True}}


def user(messages):
    count[0] += 1
    return "Agent: hello" if count[0] == 1 else json.dumps({"message": "Where is it?", "end": False})


def judge(messages):
    routing = {"score": 1, "justification": "no tool", "failure_code": "wrong_tool", "turns": [1]}
    held = {"statement": "it is found", "passed": False, "justification": "it is not"}
    return json.dumps({"tool_routing": routing, "expected_outcomes": [held]})
"""


def test_a_conversation_of_one_turn_is_shown_with_its_end_and_the_lines_that_were_not_used(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    runners = [
        {"name": name, "adapter": "python", "function": f"talkers:{name}"} for name in ("agent", "user", "judge")
    ]
    user = {"persona": "p", "first_turn": "agent", "opener": "Welcome!", "max_turns": 4}
    judge = {"type": "judge", "metrics": ["tool_routing"], "outcomes": ["it is found"]}
    talk = {"id": "talk", "user": user, "assertions": [{"type": "contains", "value": "bye"}, judge]}
    suite = json.dumps({"name": "talks", "tests": [talk]})
    files = {"runners.yaml": json.dumps({"runners": runners}), "suites/talks.yaml": suite, "talkers.py": TALKERS}
    project = make_cli_project(tmp_path_factory.mktemp("talks"), files)
    project("run", "suites/talks.yaml", "--quiet", "--runner", "agent", "--simulator", "user", "--grader", "judge")

    shown = project("show", "talks/talk").out

    lines = [line.strip() for line in shown.splitlines()]
    begins = lines.index("conversation")
    assert lines[begins + 1 : begins + 5] == [
        "user: Where is it?", "assistant: Good bye.", "ended by   agent", "simulator  user",
    ]  # fmt: skip
    assert "assistant: Welcome!" in lines[:begins]
    assert any("line 1 of the simulator is not used: it has a name" in line for line in lines)
    told = ["✗ it is found — it is not", "✗ tool_routing: 1/5 (fail), wrong_tool in turn 1 — no tool"]
    assert [line for line in lines if "it is not" in line or "no tool" in line] == told
    assert "grader judge (its reply: --full)" in lines
    whole = " ".join(project("show", "talks/talk", "--full").out.split())
    assert 'metric tool_routing: details {"metric":"tool_routing"' in whole
    assert '"failure_code":"wrong_tool"' in whole
    assert "grader judge replied:" in whole
    assert "users played by user: agent" in project("leaderboard").out
