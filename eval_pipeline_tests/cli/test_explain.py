"""`eval-pipeline explain`: questions of failed checks to the kept session of an agent, and its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.new_data import make_data

AGENT = """#!/bin/sh
folder="$HOME/.claude/projects/$(printf %s "$PWD" | tr -c 'A-Za-z0-9' '-')"
prompt=$(cat)
case "$*" in
  *--resume*)
    echo "$@" >> "$NOTES"
    [ -f "$folder/s-1.jsonl" ] || { echo "No conversation found" >&2; exit 1; }
    [ -z "$MUTE" ] || exit 1
    answer="asked '$prompt', saw $(cat made.txt)"
    echo changed > made.txt ;;
  *)
    mkdir -p "$folder"
    echo '{"sessionId": "s-1", "cwd": "'"$PWD"'"}' > "$folder/s-1.jsonl"
    echo mine > made.txt
    answer=done ;;
esac
echo '{"type": "system", "subtype": "init", "session_id": "s-1"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "'"$answer"'", "session_id": "s-1",
  "total_cost_usd": 0.25, "usage": {"input_tokens": 10, "output_tokens": 2}}' | tr '\\n' ' '
"""
DATABASE = """#!/bin/sh
sessions="$HOME/.local/share/opencode/sessions"
mkdir -p "$sessions"
case "$*" in
  "export s-1") [ -f "$sessions/s-1" ] && echo '{"info": {"id": "s-1"}, "messages": []}'; exit ;;
  "import "*) grep -q '"id": "s-1"' "$2" && touch "$sessions/s-1"; exit ;;
  *--session*) [ -f "$sessions/s-1" ] || { echo "Session not found" >&2; exit 1; }; answer="not enough time" ;;
  *) touch "$sessions/s-1"; answer=done ;;
esac
echo '{"type": "step_start", "sessionID": "s-1", "part": {}}'
echo '{"type": "text", "sessionID": "s-1", "part": {"type": "text", "text": "'"$answer"'"}}'
echo '{"type": "step_finish", "sessionID": "s-1", "part": {"reason": "stop", "tokens": {"input": 9, "output": 2}}}'
"""
"""A CLI with its sessions in a database: it prints one, and takes it in."""
CASES = """
from eval_pipeline import Case, commands, explain, output, skills

def check(report, ctx):
    with explain("Why no make?"):
        commands.includes(report, "make")

suite = [Case(id="c1", prompt="Build it.", check=check), Case(id="c2", prompt="Rest.", check=lambda report, ctx: None)]
workspace = {"mode": "isolated"}
"""
RUNNERS = """
runners:
  - {name: cc, adapter: agent, agent: claude, executable: ./agent, keep_session: true, env: {NOTES: %s}}
  - {name: forgetful, adapter: agent, agent: claude, executable: ./agent, env: {NOTES: %s}}
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project whose sessions failed a check; only one of its runners keeps them."""
    folder = tmp_path_factory.mktemp("explained")
    make_data(folder / "data")
    project = CliProject(folder)
    project.write("eval-pipeline.yaml", "suites: [cases.py]\n")
    project.write("runners.yaml", RUNNERS.replace("%s", str(folder / "notes")))
    project.write("cases.py", CASES)
    project.write("agent", AGENT)
    (folder / "agent").chmod(0o755)
    assert project("run").code == 1
    return project


def test_a_kept_session_answers_the_question_of_a_failed_check_and_changes_nothing(failed: CliProject) -> None:
    answer = failed("explain", "--runner", "cc", "--rerun", "--json")

    assert answer.code == 0, answer.text
    (explained,) = answer.document
    assert explained["question"] == "Why no make?"
    assert explained["answer"] == "asked 'Why no make?', saw mine"
    assert (explained["cost_usd"], explained["session_id"]) == (0.25, "s-1")
    assert explained["source"].endswith("cases.py:6")
    kept = [path.read_text() for path in (failed.root / "data" / "workspaces").rglob("made.txt")]
    assert kept == ["mine\n", "mine\n"]
    assert "--disallowedTools Edit,Write,NotebookEdit,Bash" in (failed.root / "notes").read_text()


def test_answers_are_stored_and_not_asked_for_again(failed: CliProject) -> None:
    failed("explain", "--runner", "cc", "--rerun")
    asked = (failed.root / "notes").read_text()

    again, text = failed("explain", "cases/c1", "--runner", "cc"), failed("sql", "SELECT answer FROM explanations")

    assert again.code == 0
    assert "Why no make?" in again.out
    assert "saw mine" in again.out
    assert "saw mine" in text.out
    assert (failed.root / "notes").read_text() == asked


def test_a_session_that_was_not_kept_has_no_answer_but_a_cure(failed: CliProject) -> None:
    answer = failed("explain", "--runner", "forgetful")

    assert answer.code == 1
    assert "set `keep_session: true` of the runner" in answer.out


def test_an_agent_that_fails_to_answer_is_asked_again_the_next_time(failed: CliProject) -> None:
    runners = (failed.root / "runners.yaml").read_text()
    failed.write("runners.yaml", runners.replace("NOTES", "MUTE: x, NOTES"))
    first = failed("explain", "--runner", "cc", "--rerun")
    failed.write("runners.yaml", runners)

    second = failed("explain", "--runner", "cc")

    assert (first.code, second.code) == (1, 0)
    assert "no answer:" in first.out
    assert "saw mine" in second.out


def test_nothing_to_ask_and_unknown_names_have_codes_of_their_own(failed: CliProject) -> None:
    assert failed("explain", "cases/c2").code == 3
    assert "did you mean" in failed("explain", "case").err


def test_a_session_of_a_database_is_kept_as_its_cli_prints_it_and_taken_in_again(tmp_path: Path) -> None:
    make_data(tmp_path / "data")
    project = CliProject(tmp_path)
    project.write("eval-pipeline.yaml", "suites: [cases.py]\n")
    runner = "{name: oc, adapter: agent, agent: opencode, model: m, executable: ./agent, keep_session: true}"
    project.write("runners.yaml", f"runners: [{runner}]\n")
    project.write("cases.py", CASES)
    project.write("agent", DATABASE)
    (tmp_path / "agent").chmod(0o755)

    ran, asked = project("run"), project("explain")

    assert (ran.code, asked.code) == (1, 0)
    assert project.ask("SELECT question, answer FROM explanations") == [("Why no make?", "not enough time")]


CURSOR = """#!/bin/sh
answer=done
case "$*" in *"--resume c-1"*) answer="not enough time" ;; esac
echo '{"type": "system", "subtype": "init", "session_id": "c-1"}'
echo '{"type": "result", "subtype": "success", "result": "'"$answer"'", "session_id": "c-1"}'
"""


def test_an_agent_whose_sessions_only_it_can_read_answers_in_the_users_home_alone(tmp_path: Path) -> None:
    make_data(tmp_path / "data")
    project = CliProject(tmp_path)
    project.write("eval-pipeline.yaml", "suites: [cases.py]\n")
    common = "adapter: agent, agent: cursor-agent, model: m, executable: ./agent, keep_session: true"
    project.write("runners.yaml", f"runners: [{{name: own, {common}}}, {{name: users, {common}, home: user}}]\n")
    project.write("cases.py", CASES)
    project.write("agent", CURSOR)
    (tmp_path / "agent").chmod(0o755)

    ran, asked = project("run"), project("explain")

    assert (ran.code, asked.code) == (1, 1), ran.text
    assert project.ask("SELECT runner, answer, error FROM explanations ORDER BY runner") == [
        ("own", None, "cursor-agent keeps its sessions where they cannot be put back: they end with the case; "
                      "`home: user` of the runner lets them go on"),
        ("users", "not enough time", None),
    ]  # fmt: skip
