"""Processes that are killed within a conversation: it goes on at the call that did not finish, and none is repeated."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.executions.test_canned_tools import calls, tool
from eval_pipeline_tests.forks import Forked, start_command
from eval_pipeline_tests.local_server import LocalServer, Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project
from eval_pipeline_tests.thoroughness import part_or_all

TURNS = 5
USAGE = {"prompt_tokens": 10, "completion_tokens": 2}


@dataclass
class Killer:
    """Agent, tool and simulated user behind one address. Kills the process that asks at each new request for which
    `kills` has its number, and answers the next time."""

    kills: Sequence[int]
    seen: Counter[tuple[str, bytes]] = field(default_factory=Counter)
    process: Forked | None = None

    def __call__(self, request: Received) -> Reply:
        key = request.path, request.body
        self.seen[key] += 1
        if self.seen[key] == 1 and len(self.seen) in self.kills and self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            return Reply(status=500)
        return self.answer(request)

    def answer(self, request: Received) -> Reply:
        if request.path.startswith("/tool"):
            return json_reply({"found": request.json["n"]})
        messages = request.json["messages"]
        said = sum(message["role"] == "assistant" for message in messages)
        if request.path.startswith("/user"):
            return chat_reply(json.dumps({"message": f"line {said + 1}", "end": said + 1 == TURNS}), usage=USAGE)
        if messages[-1]["role"] == "tool" or "tools" not in request.json:
            return chat_reply(f"answer to {messages[-1]['content']}", usage=USAGE)
        return calls(("find", {"n": sum(message["role"] == "user" for message in messages)}))


def project_of(folder: Path, server: LocalServer, *, tools: bool = True, **agent: Any) -> ProjectFolder:
    project = make_project(folder / "project")
    project.write_suite({"id": "talk", "user": {"persona": "p"}, "assertions": [contains("answer")]})
    chat = {"adapter": "chat", "model": "m", "retries": {"max_retries": 0}}
    find = tool("find", implementation={"type": "http", "url": server.url + "/tool"})
    more = {"tools": [find]} if tools else {"fallbacks": ["spare"]}
    project.write_runners(
        {"name": "agent", **chat, "base_url": server.url + "/agent/v1", **more, **agent},
        {"name": "spare", **chat, "base_url": server.url + "/spare/v1"},
        {"name": "user", **chat, "base_url": server.url + "/user/v1"},
    )
    return project


def run_until_it_ends(project: ProjectFolder, killer: Killer, most: int) -> int:
    """Start the same thing until it is not killed any more; return how often it was killed."""
    for kills in range(most):
        with start_command("run", "--runner", "agent", "--simulator", "user", cwd=project.root) as killer.process:
            code = killer.process.wait()
        if code != -signal.SIGKILL:
            return kills
    raise AssertionError("it is killed again and again")


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param([4, 11, 19], id="3 moments"),
        pytest.param(range(1, 100, part_or_all(3, 1)), id="a request of each kind", marks=pytest.mark.slow),
    ],
)
def test_a_killed_conversation_goes_on_and_no_finished_call_is_repeated(kills: Sequence[int], tmp_path: Path) -> None:
    killer = Killer(kills)
    with serve(killer) as server:
        project = project_of(tmp_path, server)
        killed = run_until_it_ends(project, killer, 30)

    asked = list(killer.seen.values())
    assert len(asked) == 4 * TURNS
    assert killed == sum(number in kills for number in range(1, len(asked) + 1))
    assert asked == [2 if number in kills else 1 for number in range(1, len(asked) + 1)]
    assert project.ask("SELECT status FROM current_verdicts") == [("passed",)]
    assert project.ask("SELECT ended_by FROM session_reports") == [("user",)]
    assert project.ask("SELECT count(*) FROM conversation_turns") == [(2 * TURNS,)]
    assert not list((project.data / "conversations").glob("*"))


@pytest.mark.parametrize(
    ("kills", "agent", "simulator", "begun_anew_after"),
    [
        pytest.param([7, 11], 2 * TURNS + 8, TURNS + 5, 2, id="in its second turn, and then in its third"),
        pytest.param([2, 3], 2 * TURNS + 1, TURNS, None, id="before its first answer"),
    ],
)
def test_an_agent_with_a_state_of_its_own_begins_anew_and_what_it_used_before_counts(
    kills: Sequence[int], agent: int, simulator: int, begun_anew_after: int | None, tmp_path: Path
) -> None:
    killer = Killer(kills)
    with serve(killer) as server:
        project = project_of(tmp_path, server, prices={"per_call": 0.5})
        (project.root / "template").mkdir()
        test = json.loads((project.root / "suites" / "sums.yaml").read_text())["tests"][0]
        project.write_suite({**test, "workspace": {"template": "../template"}})
        killed = run_until_it_ends(project, killer, 9)

    assert killed == len(kills)
    ((raw,),) = project.ask("SELECT raw FROM target_executions")
    assert json.loads(raw)["payload"].get("begun_anew_after") == begun_anew_after
    spent = "SELECT role, input_tokens, cost_usd FROM conversation_spending ORDER BY role"
    assert project.ask(spent) == [("agent", 10 * agent, 0.5 * agent), ("simulator", 10 * simulator, None)]
    cost = "SELECT input_tokens, cost_usd, coalesce(answer_cost_usd, cost_usd) FROM session_reports"
    assert project.ask(cost) == [(10 * 2 * TURNS, 0.5 * agent, 0.5 * 2 * TURNS)]
    assert project.ask("SELECT sum(input_tokens) FROM conversation_turns") == [(10 * 3 * TURNS,)]


def test_what_a_fallback_used_before_a_kill_counts_once(tmp_path: Path) -> None:
    killer = Killer([8])
    answers, broken = killer.answer, Reply(status=400)

    def answer(request: Received) -> Reply:
        is_second = request.path.startswith("/agent") and len(request.json["messages"]) > 1
        return broken if is_second else answers(request)

    killer.answer = answer  # type: ignore[method-assign]
    with serve(killer) as server:
        project = project_of(tmp_path, server, prices={"per_call": 0.5}, tools=False)
        killed = run_until_it_ends(project, killer, 3)

    assert killed == 1
    assert project.ask("SELECT answered_by, completed FROM target_executions") == [("spare", True)]
    calls_of = {"agent": 1 + 2 + TURNS, "simulator": 2 + 3 + TURNS}
    spent = "SELECT role, input_tokens FROM conversation_spending ORDER BY role"
    assert project.ask(spent) == [(role, 10 * calls) for role, calls in calls_of.items()]
