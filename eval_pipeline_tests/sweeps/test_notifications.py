"""Notifications of the end of a sweep: programs and addresses, and what happens when they cannot be reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.leaderboards.sweep_gates import GateLine, SweepGate
from eval_pipeline.statistics.gates import Decision
from eval_pipeline.sweeps.notifications import notify
from eval_pipeline.sweeps.notify_rules import Notify
from eval_pipeline.sweeps.sweep_ends import send_notifications
from eval_pipeline_tests.local_server import Received, Reply, serve
from eval_pipeline_tests.sweeps.sample_project import make_project

DOCUMENT = {"sweep": "nightly", "decision": "NO-GO", "text": "it fell"}
SECRET = "T0PSECRETPATH"


def told(document: Notify, root: Path, **environment: str) -> list[str]:
    return list(notify(document, DOCUMENT, root, environment, pause_s=0.01))


def test_a_program_reads_what_happened_in_the_folder_of_the_project(tmp_path: Path) -> None:
    command = Notify(command=["sh", "-c", "cat > told.json; echo $TEAM >> told.json"])

    assert told(command, tmp_path, TEAM="evals") == []
    document, team = (tmp_path / "told.json").read_text().rsplit("}", 1)
    assert (json.loads(document + "}"), team.strip()) == (DOCUMENT, "evals")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["sh", "-c", "echo no network >&2; exit 3"], "notify.command: sh ended with 3: no network"),
        (["./not-there"], "notify.command: ./not-there cannot be started: No such file or directory"),
        (["a\0b"], "notify.command: the command cannot be started: embedded null byte"),
    ],
)
def test_a_program_that_fails_is_said(tmp_path: Path, command: list[str], problem: str) -> None:
    assert told(Notify(command=command), tmp_path) == [problem]


def test_an_address_is_posted_the_same_and_tried_again(tmp_path: Path) -> None:
    answers = [Reply(status=503), Reply(status=429), Reply(status=200)]
    received: list[Received] = []

    def answer(request: Received) -> Reply:
        received.append(request)
        return answers[len(received) - 1]

    with serve(answer) as server:
        hook = Notify(webhook=f"{server.url}/${{{{ HOOK }}}}")
        assert told(hook, tmp_path, HOOK=SECRET) == []

    assert [request.path for request in received] == [f"/{SECRET}"] * 3
    assert received[-1].json == DOCUMENT


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (500, 4)])
def test_an_address_that_refuses_is_said_without_its_secret(tmp_path: Path, status: int, tries: int) -> None:
    received: list[Received] = []

    def answer(request: Received) -> Reply:
        received.append(request)
        return Reply(status=status)

    with serve(answer) as server:
        problems = told(Notify(webhook=f"{server.url}/{SECRET}"), tmp_path)

    assert problems == [f"notify.webhook: answered {status}"]
    assert len(received) == tries


def test_what_an_address_answers_beside_its_status_is_not_read(tmp_path: Path) -> None:
    reply = Reply(body=b"no gzip", headers={"content-encoding": "gzip"})

    with serve(lambda request: reply) as server:
        assert told(Notify(webhook=server.url), tmp_path) == []


@pytest.mark.parametrize(
    ("webhook", "problem"),
    [
        ("http://127.0.0.1:9/x", "notify.webhook: not reached (ConnectError)"),
        ("gopher://x", "notify.webhook: not reached (UnsupportedProtocol)"),
        ("${{ SLACK_URL }}", "notify.webhook: needs the environment variable SLACK_URL"),
    ],
)
def test_an_address_that_is_none_is_said(tmp_path: Path, webhook: str, problem: str) -> None:
    assert told(Notify(webhook=webhook), tmp_path) == [problem]


@pytest.mark.parametrize(
    ("on", "decision", "problem", "expected"),
    [
        (["failed-gate", "error"], "NO-GO", None, True),
        (["failed-gate", "error"], "GO", None, False),
        (["failed-gate", "error"], "INCONCLUSIVE", None, False),
        (["inconclusive-gate"], "INCONCLUSIVE", None, True),
        (["error"], "GO", "the disk is full", True),
        (["always"], "GO", None, True),
    ],
)
def test_only_the_ends_that_are_asked_for_are_told(
    tmp_path: Path, on: list[str], decision: Decision, problem: str | None, expected: bool
) -> None:
    entry = {"notify": {"on": on, "command": ["sh", "-c", "cat > told.json"]}}
    folder = make_project(tmp_path / "project", sweeps={"nightly": entry})
    gate = SweepGate((GateLine("max_drop", "r", decision, "change -0.2 to -0.1"),))

    assert send_notifications(folder.session(), "nightly", gate, problem) == []

    file = folder.root / "told.json"
    assert file.exists() is expected
    if expected:
        document = json.loads(file.read_text())
        assert (document["sweep"], document["decision"], document["problem"]) == ("nightly", decision, problem)
        assert document["text"].startswith(f"eval-pipeline: sweep nightly: {decision}")
