"""Sessions of agents while they run: limits on steps and cost, what is shown of them, and how they are started."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_watch import GrowingFile, SessionTally
from eval_pipeline.cli import progress
from eval_pipeline.cli.session_lines import session_line
from eval_pipeline.errors import InputError
from eval_pipeline.executions.live_sessions import LIVE_SESSIONS, LiveSession
from eval_pipeline.executions.model import Runner, TargetFailure
from eval_pipeline.executions.runners import UnusableRunner, load_runners
from eval_pipeline.reports.jsonl_records import objects_of
from eval_pipeline_tests.agents.test_agent_adapter import an_agent, program
from eval_pipeline_tests.builders import a_call, a_case, a_plan
from eval_pipeline_tests.conformance.recorded_facts import conformance_folder, recordings_folder

WORKS = """#!/bin/sh
trap 'echo stopped >> "$NOTES"; exit 1' TERM
echo '{"type": "step_start", "sessionID": "ses_1", "part": {}}'
for n in 1 2 3 4 5 6 7 8 9; do
  echo '{"type": "tool_use", "part": {"tool": "bash", "state": {"status": "x", "input": {"command": "make '$n'"}}}}'
  echo '{"type": "step_finish", "part": {"cost": 0.5, "tokens": {"input": 100, "output": 10}, "reason": "tool-calls"}}'
  sleep 0.1
done
sleep ${LAST:-0} & wait $!
"""


def outcome(runner: Runner, folder: Path) -> TargetFailure | None:
    try:
        asyncio.run(Agent(runner).execute(a_call(folder / "files", a_plan(a_case(text="say 4"), runner))))
    except TargetFailure as failure:
        return failure
    return None


def working(folder: Path, **settings: Any) -> Runner:
    env = {"NOTES": str(folder / "notes"), "LAST": "30"}
    return an_agent(folder, agent="opencode", executable=program(folder, WORKS), env=env, **settings)


@pytest.mark.parametrize(
    ("limit", "problem"),
    [({"max_steps": 3}, "more than 3 steps (max_steps)"), ({"max_cost_usd": 1.2}, "USD, more than 1.2 USD")],
    ids=["steps", "cost"],
)
def test_a_session_above_its_limit_is_ended_while_it_runs(tmp_path: Path, limit: dict[str, Any], problem: str) -> None:
    begun = time.monotonic()

    failure = outcome(working(tmp_path, **limit), tmp_path)

    assert failure is not None
    assert failure.failure.id == "max-steps"
    assert problem in str(failure)
    assert time.monotonic() - begun < 10
    assert (tmp_path / "notes").read_text() == "stopped\n"
    assert failure.raw is not None
    assert b"make 1" in failure.raw.files["stdout"].read_bytes()


def test_a_session_that_ended_with_more_steps_than_allowed_failed_as_well(tmp_path: Path) -> None:
    line = '{"type": "step_finish", "part": {"reason": "stop"}}'
    runner = an_agent(
        tmp_path, agent="opencode", executable=program(tmp_path, f"#!/bin/sh\nprintf '{line}\\n{line}'"), max_steps=1
    )

    failure = outcome(runner, tmp_path)

    assert failure is not None
    assert failure.failure.id == "max-steps"


def test_the_limit_of_a_case_replaces_that_of_its_runner(tmp_path: Path) -> None:
    line = '{"type": "step_finish", "part": {"reason": "stop"}}'
    runner = an_agent(
        tmp_path, agent="opencode", executable=program(tmp_path, f"#!/bin/sh\nprintf '{line}\\n{line}'"), max_steps=9
    )
    case = replace(a_case(text="say 4"), max_steps=1)

    with pytest.raises(TargetFailure, match="more than 1 steps") as stopped:
        asyncio.run(Agent(runner).execute(a_call(tmp_path / "files", a_plan(case, runner))))

    assert stopped.value.failure.id == "max-steps"


def test_a_running_session_is_shown_with_its_steps_action_tokens_and_cost(tmp_path: Path) -> None:
    runner = working(tmp_path)

    async def look() -> list[str]:
        call = a_call(tmp_path / "files", a_plan(a_case(text="say 4"), runner))
        session = asyncio.create_task(Agent(runner).execute(call))
        lines: list[str] = []
        while not any("9 steps" in line for line in lines):
            await asyncio.sleep(0.05)
            lines = [session_line(live, time.monotonic()) for live in LIVE_SESSIONS.now()]
        session.cancel()
        await asyncio.wait([session])
        return lines

    (line,) = asyncio.run(asyncio.wait_for(look(), 20))

    assert "9 steps, bash make 9, 990 tokens, $4.50, " in line
    assert LIVE_SESSIONS.now() == []


def test_what_is_not_known_of_a_session_is_not_shown() -> None:
    live = LiveSession(suite="s", runner="r", case_id="c", repetition=2, started=1.0)

    assert session_line(live, 62.0) == "s × r: c #2: 0 steps, 1:01 min"


# Steps, by recorded sessions and by what skillgym counts


def steps_of(agent: str, content: str) -> int:
    read, tally = AGENTS.get(agent).live(), SessionTally()
    for line in content.split("\n"):
        for record in objects_of(line.strip()):
            for glimpse in read(record):
                tally.add(glimpse)
    return tally.steps


@pytest.mark.parametrize(
    ("agent", "scenario"),
    [
        ("codex", "shell"), ("codex", "parallel"), ("claude", "plain"), ("claude", "files"), ("opencode", "shell"),
        ("copilot", "files"), ("gemini", "parallel"), ("qwen", "parallel"), ("pi", "plain"),
    ],
)  # fmt: skip
def test_a_step_is_a_reply_of_the_model(agent: str, scenario: str) -> None:
    folder = recordings_folder() / agent / scenario
    if not folder.is_dir():
        pytest.skip("no such recording here")
    served = json.loads((folder / "expected.json").read_text())["served"]["model_requests"]

    steps = steps_of(agent, (folder / "stdout.jsonl").read_text("utf-8", "replace"))

    sequential = agent == "codex" and scenario == "parallel"  # it prints the second tool after the first one's result
    assert steps == served + sequential


def rows_of(name: str) -> list[dict[str, Any]]:
    path = conformance_folder() / "skillgym" / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def test_steps_are_counted_as_skillgym_counts_them() -> None:
    for row in rows_of("max_steps.jsonl"):
        lines = [observation["line"] for observation in row.get("observations", [])]
        if lines and row["observations"][-1]["result"] is not None:
            steps = steps_of(row["options"]["agentType"], "\n".join(lines))
            assert steps == row["observations"][-1]["result"]["observedSteps"], row["id"]


# A growing file


def test_lines_are_read_once_and_whole(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "out")
    pieces = [b"a\nb", b"c\n", b"x" * 100_000, b"x\nd\n", b"e"]

    seen: list[list[bytes]] = []
    for piece in pieces:
        with file.path.open("ab") as target:
            target.write(piece)
        seen.append(list(file.lines()))

    assert seen == [[b"a"], [b"bc"], [], [b"d"], []]
    assert list(file.lines(whole=True)) == [b"e"]


# How it is started


def command_of(agent: str, **settings: Any) -> list[str]:
    command: list[str] = Agent.equivalent(an_agent(Path(), agent=agent, **settings)).settings["command"]
    return command


@pytest.mark.parametrize(
    ("agent", "access", "words"),
    [
        ("codex", "full", "--dangerously-bypass-approvals-and-sandbox"),
        ("codex", "workspace", "--sandbox workspace-write"),
        ("codex", "read-only", "--sandbox read-only"),
        ("claude-code", "full", "--dangerously-skip-permissions"),
        ("claude-code", "workspace", "--permission-mode acceptEdits"),
        ("claude-code", "read-only", "--disallowedTools Edit,Write,NotebookEdit,Bash"),
        ("opencode", "full", "--auto"),
        ("opencode", "read-only", "--agent plan"),
        ("copilot", "workspace", "--allow-all-tools --disallow-temp-dir"),
        ("copilot", "read-only", "--deny-tool=write --deny-tool=shell"),
        ("gemini", "workspace", "--approval-mode auto_edit"),
        ("qwen", "read-only", "--approval-mode default"),
        ("pi", "read-only", "--tools read,grep,find,ls"),
    ],
)
def test_access_is_held_by_the_options_of_the_cli(agent: str, access: str, words: str) -> None:
    assert words in " ".join(command_of(agent, access=access))


def test_the_program_may_be_wrapped() -> None:
    for wrap in ("docker run --rm 'an image'", ["docker", "run", "--rm", "an image"]):
        assert command_of("codex", wrap=wrap)[:5] == ["docker", "run", "--rm", "an image", "codex"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"agent": "codex", "access": "ful"}, "access: expected one of full, workspace, read-only; got"),
        ({"agent": "pi", "access": "workspace"}, "access: this CLI cannot be held to 'workspace'; there are: 'full'"),
        ({"agent": "codex", "access": "full", "args": ["--sandbox", "x"]}, "access: `args` choose another access"),
        ({"agent": "codex", "wrap": "sh -c 'x"}, "wrap: cannot be split into words: No closing quotation"),
        ({"agent": "codex", "max_steps": 0}, "max_steps: expected a whole number of at least 1"),
        ({"agent": "codex", "max_cost_usd": -1}, "max_cost_usd: expected a number above 0"),
    ],
    ids=["near name", "not offered", "twice", "quotes", "no steps", "no cost"],
)
def test_a_setting_that_cannot_be_held_is_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        Agent(an_agent(tmp_path, **settings))

    assert problem in str(raised.value)


def test_limits_that_are_watched_are_part_of_the_identity(tmp_path: Path) -> None:
    given = [Agent.equivalent(an_agent(tmp_path, agent="codex", **more)) for more in ({}, {"max_steps": 3})]

    assert given[0].settings != given[1].settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"executable": "codx-is-not-here"}, "there is no program 'codx-is-not-here' on PATH; install codex"),
        ({"wrap": "no-such-sandbox --"}, "there is no program 'no-such-sandbox'"),
    ],
    ids=["name", "wrapper"],
)
def test_an_agent_that_is_not_installed_closes_its_runner(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    failure = outcome(an_agent(tmp_path, agent="codex", **settings), tmp_path)

    assert failure is not None
    assert problem in str(failure)
    assert failure.closes_runner


@pytest.mark.parametrize(
    ("settings", "field", "problem"),
    [
        ({"executable": "./missing"}, "executable", "there is no program './missing' (a path begins in "),
        ({"executable": "./text"}, "executable", "'./text' is not executable"),
        ({"wrap": "./missing --"}, "wrap", "there is no program './missing'"),
    ],
    ids=["missing", "not executable", "wrapper"],
)
def test_a_program_that_is_not_at_its_path_is_refused_before_anything_is_started(
    tmp_path: Path, settings: dict[str, Any], field: str, problem: str
) -> None:
    (tmp_path / "text").write_text("no program")
    entry = json.dumps({"name": "r", "adapter": "agent", "agent": "codex", **settings})
    (tmp_path / "runners.yaml").write_text(f'{{"runners": [\n{entry}]}}')

    (runner,) = load_runners(tmp_path / "runners.yaml", {})

    assert isinstance(runner, UnusableRunner)
    assert f"runners.yaml:2: runners[0].{field}: {problem}" in str(runner.problem)


def test_an_agent_without_key_and_login_closes_its_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "#!/bin/sh\nexit 0\n")
    (tmp_path / "agent").rename(tmp_path / "codex")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    failure = outcome(an_agent(tmp_path, agent="codex"), tmp_path)

    assert failure is not None
    assert (failure.failure.id, failure.closes_runner) == ("authentication", True)
    assert "none of OPENAI_*, CODEX_*" in str(failure)


def test_claude_gets_what_it_needs_to_run_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = '#!/bin/sh\necho "root: $IS_SANDBOX"\n'
    seen: dict[int, str] = {}
    for user in (0, 1000):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        runner = an_agent(tmp_path, agent="claude", executable=program(tmp_path, script))
        raw = asyncio.run(Agent(runner).execute(a_call(tmp_path / str(user), a_plan(a_case(), runner))))
        seen[user] = raw.files["stdout"].read_text()

    assert seen == {0: "root: 1\n", 1000: "root: \n"}


def test_without_a_terminal_each_session_has_a_line_in_less_than_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.SESSIONS_EVERY_S < 10
    monkeypatch.setattr(progress, "SESSIONS_EVERY_S", 0.01)
    lines: list[str] = []
    written = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            written.set()

    live = LiveSession(suite="s", runner="r", case_id="c", repetition=1, started=time.monotonic())
    with LIVE_SESSIONS.shown(live), progress.PlainProgress(write):
        assert written.wait(10)

    assert lines[0].startswith("s × r: c: 0 steps, ")
