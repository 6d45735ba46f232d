"""Conversations with agents: the second turn goes on with the session of the first."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.agents.settings import command_settings
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case, Message
from eval_pipeline_tests.agents.test_agent_adapter import an_agent, program
from eval_pipeline_tests.builders import a_call, a_case, a_plan

TALKS = """#!/bin/sh
echo "$@" >> "$NOTES"
cat >> "$NOTES"
echo " in $HOME" >> "$NOTES"
turns=$(cat "$HOME/turns" 2>/dev/null || echo 0)
turns=$((turns + 1))
echo $turns > "$HOME/turns"
echo '{"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "'$PWD'"}'
if [ "$turns" = "$FAILS" ]; then exit 3; fi
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "turn '$turns'", "session_id": "s-1",
 "total_cost_usd": '$turns'.5, "usage": {"input_tokens": 10, "output_tokens": 2}}' | tr '\\n' ' '
"""


def turn(folder: Path, runner: Any, number: int, *texts: str) -> Call:
    said = Message(role="user", content=texts[-1])
    case = replace(a_case(), input=(*(Message(role="user", content=text) for text in texts[:-1]), said))
    call = a_call(folder, a_plan(case, runner))
    return replace(call, turn=number, said=(said,), files=lambda: folder / f"turn-{number}")


def talk(folder: Path, *turns: tuple[int, tuple[str, ...]], **settings: Any) -> list[RawExecution | TargetFailure]:
    runner = an_agent(folder, executable=program(folder, TALKS), **settings)

    async def hold() -> list[RawExecution | TargetFailure]:
        agent, results = Agent(runner), list[RawExecution | TargetFailure]()
        for number, texts in turns:
            try:
                results.append(await agent.execute(turn(folder, runner, number, *texts)))
            except TargetFailure as failure:
                results.append(failure)
        await agent.close()
        return results

    return asyncio.run(hold())


def notes(folder: Path) -> list[str]:
    return (folder / "notes").read_text().splitlines()


def settings(folder: Path, **env: str) -> dict[str, Any]:
    return {"agent": "claude", "system": "Be brief.", "env": {"NOTES": str(folder / "notes"), **env}}


def test_the_second_turn_goes_on_with_the_session_of_the_first(tmp_path: Path) -> None:
    first, second = talk(tmp_path, (1, ("hello",)), (2, ("hello", "turn 1", "and now?")), **settings(tmp_path))

    options, asked, resumed, asked_then = notes(tmp_path)
    assert "--resume" not in options
    assert resumed.split()[-2:] == ["--resume", "s-1"]
    assert asked.startswith("hello in ")
    assert asked_then == asked.replace("hello", "and now?")
    assert [normalize(raw).final_output for raw in (first, second)] == ["turn 1", "turn 2"]
    assert not Path(asked.rpartition(" ")[2]).exists()


def test_the_cost_of_a_turn_is_its_own(tmp_path: Path) -> None:
    results = talk(tmp_path, (1, ("a",)), (2, ("b",)), (3, ("c",)), **settings(tmp_path))

    assert [normalize(raw).usage.cost_usd for raw in results] == [1.5, 1.0, 1.0]
    assert [normalize(raw).usage.input_tokens for raw in results] == [10, 10, 10]


def test_a_turn_that_failed_is_tried_again_in_the_same_session(tmp_path: Path) -> None:
    failing = settings(tmp_path, FAILS="2")

    _, failure, again = talk(tmp_path, (1, ("a",)), (2, ("a", "b")), (2, ("a", "b")), **failing)

    assert isinstance(failure, TargetFailure)
    assert normalize(again).final_output == "turn 3"
    assert notes(tmp_path)[-2].split()[-2:] == ["--resume", "s-1"]


def test_another_conversation_begins_anew(tmp_path: Path) -> None:
    talk(tmp_path, (1, ("a",)), (1, ("b",)), **settings(tmp_path))

    assert all("--resume" not in line for line in notes(tmp_path))


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("codex", "resume s-1 -"), ("opencode", "--session s-1"), ("copilot", "--resume=s-1"),
        ("gemini", "--resume s-1 --prompt={PROMPT}"), ("qwen", "--resume s-1 --prompt={PROMPT}"),
        ("pi", "--session s-1 -p"), ("cursor-agent", "--resume s-1 -- {PROMPT}"),
    ],
)  # fmt: skip
def test_every_cli_has_words_to_go_on(agent: str, words: str) -> None:
    command = command_settings({"agent": agent, "system": "Be brief."}, "s-1")

    assert " ".join(command["command"]).endswith(words)
    assert "system" not in command


def normalize(raw: RawExecution | TargetFailure) -> Any:
    assert isinstance(raw, RawExecution), raw
    json.dumps(raw.payload)
    return normalize_raw(RawSession(execution_id="e", raw=raw, case=Case(id="c", input=())))
