"""The adapter `agent`: which command it makes for which CLI, what it keeps of a run, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.runners import load_runners
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner

PRINTS_CODEX = """#!/bin/sh
cat > asked
echo "$@" > arguments
echo '{"type": "thread.started", "thread_id": "0a1b2c3d-0000-4000-8000-000000000001"}'
echo '{"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 4}}'
"""
KEEPS_A_LOG = """#!/bin/sh
mkdir -p "$COPILOT_HOME/session-state/s-1"
echo '{"type": "session.start", "data": {"sessionId": "s-1", "context": {"cwd": "'"$PWD"'"}}}' \\
  > "$COPILOT_HOME/session-state/s-1/events.jsonl"
"""
ENDS_WELL = """echo '{"type": "result", "sessionId": "s-1", "exitCode": 0}'\n"""


NEVER_ENDS = """#!/bin/sh
log="$CLAUDE_CONFIG_DIR/projects/p/s-1.jsonl"
mkdir -p "$(dirname "$log")"
for call in 1 2; do
  begin='"message": {"id": "m'$call'", "model": "x", "content": [{"type": "text", "text": "on"}], "usage": '
  echo '{"type": "assistant", "session_id": "s-1", '"$begin"'{"input_tokens": 7, "output_tokens": 1}}}'
  echo '{"type": "assistant", "sessionId": "s-1", '"$begin"'{"input_tokens": 7, "output_tokens": 40}}}' >> "$log"
done
sleep 60
"""


def program(folder: Path, script: str) -> str:
    (folder / "agent").write_text(script, encoding="utf-8")
    (folder / "agent").chmod(0o755)
    return str(folder / "agent")


def an_agent(folder: Path, **settings: Any) -> Runner:
    return a_runner(adapter="agent", settings=settings, folder=folder)


def run(runner: Runner, folder: Path) -> RawExecution:
    return asyncio.run(Agent(runner).execute(a_call(folder / "files", a_plan(a_case(text="say 4"), runner))))


def failure_of(folder: Path, **settings: Any) -> TargetFailure:
    folder.mkdir(exist_ok=True)
    with pytest.raises(TargetFailure) as raised:
        run(an_agent(folder, **settings), folder)
    return raised.value


def from_file(folder: Path, entry: str) -> Runner:
    (folder / "runners.yaml").write_text(f"runners:\n  - {entry}\n", encoding="utf-8")
    (runner,) = load_runners(folder / "runners.yaml", {"TOKEN": "t-123456"})
    return runner


def test_a_runners_file_names_an_agent_and_its_model(tmp_path: Path) -> None:
    entry = "{name: cx, adapter: agent, agent: codex, model: m, system: Be brief., args: [-c, x=1], executable: %s}"
    runner = from_file(tmp_path, entry % program(tmp_path, PRINTS_CODEX))

    raw = run(runner, tmp_path)

    assert (raw.format, raw.exit_code) == ("codex", 0)
    assert (tmp_path / "asked").read_text() == "Be brief.\n\nsay 4"
    options = "--sandbox workspace-write --model m -c x=1 -"
    assert (tmp_path / "arguments").read_text() == f"exec --json --skip-git-repo-check {options}\n"


@pytest.mark.parametrize("name", ["claude-code", "claude", "claude_code"])
def test_an_agent_may_be_named_by_any_of_its_names(tmp_path: Path, name: str) -> None:
    assert Agent.equivalent(an_agent(tmp_path, agent=name)).settings["command"][0] == "claude"


def test_an_agent_has_the_identity_of_the_command_that_it_runs(tmp_path: Path) -> None:
    entry = "{name: a, adapter: agent, agent: codex, model: m, args: ['--key=${{ TOKEN }}', -c, 3]}"
    options = "--sandbox, workspace-write, --model, m, '--key=${{ TOKEN }}', -c, 3, '-'"
    command = f"[codex, exec, --json, --skip-git-repo-check, {options}]"
    written_out = f"{{name: b, adapter: command, command: {command}, prompt: stdin, format: codex, model: m}}"

    assert runner_revision(from_file(tmp_path, entry)) == runner_revision(from_file(tmp_path, written_out))


@pytest.mark.parametrize("agent", ["copilot", "gemini", "qwen"])
@pytest.mark.parametrize("prompt", ["word " * 40_000, "a\0b"], ids=["200 kB", "NUL"])
def test_a_prompt_that_can_be_no_argument_is_standard_input(tmp_path: Path, agent: str, prompt: str) -> None:
    runner = an_agent(tmp_path, agent=agent, executable=program(tmp_path, PRINTS_CODEX), system="Be brief.")

    asyncio.run(Agent(runner).execute(a_call(tmp_path / "files", a_plan(a_case(text=prompt), runner))))

    assert (tmp_path / "asked").read_text() == f"Be brief.\n\n{prompt}"
    assert "prompt" not in (tmp_path / "arguments").read_text()
    assert "-p" not in (tmp_path / "arguments").read_text().split()


def test_the_log_of_a_session_is_kept_where_it_completes_the_output(tmp_path: Path) -> None:
    executable, home = program(tmp_path, KEEPS_A_LOG + ENDS_WELL), tmp_path / "home"
    settings = {"agent": "copilot", "executable": executable, "env": {"COPILOT_HOME": str(home)}}

    raw = run(an_agent(tmp_path, **settings), tmp_path)
    without = run(an_agent(tmp_path, **settings, keep_session=False), tmp_path / "without")

    assert json.loads(raw.files["session"].read_text())["data"]["sessionId"] == "s-1"
    assert raw.files["session"].is_relative_to(tmp_path / "files")
    assert set(without.files) == {"stdout", "stderr"}


def test_the_log_of_a_run_that_broke_off_is_found_by_its_folder(tmp_path: Path) -> None:
    executable, home = program(tmp_path, KEEPS_A_LOG + "exit 3\n"), tmp_path / "home"

    with pytest.raises(TargetFailure) as raised:
        run(an_agent(tmp_path, agent="copilot", executable=executable, env={"COPILOT_HOME": str(home)}), tmp_path)

    assert raised.value.raw is not None
    assert "session" in raised.value.raw.files


def test_the_log_of_a_claude_session_that_never_ends_says_what_it_spent(tmp_path: Path) -> None:
    executable, home = program(tmp_path, NEVER_ENDS), tmp_path / "home"
    settings = {"agent": "claude", "executable": executable, "env": {"CLAUDE_CONFIG_DIR": str(home)}, "max_steps": 1}

    kept, left = failure_of(tmp_path, **settings), failure_of(tmp_path / "left", **settings, keep_session=False)

    assert kept.raw is not None
    assert (kept.failure, "session" in kept.raw.files) == (MAX_STEPS, True)
    report = normalize_raw(RawSession(execution_id="x", raw=kept.raw, case=a_case()))
    assert (report.usage.input_tokens, report.usage.output_tokens, report.model_calls) == (14, 80, 2)
    assert left.raw is not None
    assert set(left.raw.files) == {"stdout", "stderr"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "agent: expected the name of an agent; there are: claude, claude-code, codex,"),
        ({"agent": "codx"}, "did you mean 'codex'?"),
        ({"agent": 3}, "agent: expected a text, got a number (3)"),
        ({"agent": "codex", "max_turns": 5}, "max_turns: codex has no option for this; use timeout_s"),
        ({"agent": "claude", "max_turns": 0}, "max_turns: expected a whole number of at least 1, got a number (0)"),
        (
            {"agent": "claude", "max_budget_usd": "much"},
            "expected a number above 0, got a text ('much')",
        ),
        ({"agent": "codex", "args": {"a": 1}}, "args: expected a list of arguments"),
        ({"agent": "codex", "args": ["{PROMT}"]}, "did you mean 'PROMPT'?"),
        ({"agent": "codex", "keep_session": "yes"}, "keep_session: expected true or false"),
    ],
    ids=["none", "near name", "no name", "no such limit", "no turns", "no number", "no list", "placeholder", "no flag"],
)
def test_a_setting_that_cannot_be_used_is_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        Agent(an_agent(tmp_path, **settings))

    assert problem in str(raised.value)
