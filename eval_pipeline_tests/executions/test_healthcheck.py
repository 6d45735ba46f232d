"""A healthcheck is asked once, before the first case, and one that fails fails every case."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline_tests.builders import a_call, a_runner
from eval_pipeline_tests.local_server import Reply, serve


def outcomes(folder: Path, healthcheck: Any, cases: int = 1, **settings: Any) -> list[RawExecution | BaseException]:
    """What comes of some cases at once, after this healthcheck."""
    config = {"command": ["echo", "4"], "healthcheck": healthcheck, **settings}
    adapter = Command(a_runner(adapter="command", settings=config, folder=folder))

    async def ask_all() -> list[RawExecution | BaseException]:
        calls = [adapter.execute(a_call(folder / str(number))) for number in range(cases)]
        result = await asyncio.gather(*calls, return_exceptions=True)
        await adapter.close()
        return result

    return asyncio.run(ask_all())


def failure_of(folder: Path, healthcheck: Any, **settings: Any) -> TargetFailure:
    (failure,) = outcomes(folder, healthcheck, **settings)
    assert isinstance(failure, TargetFailure)
    return failure


@pytest.mark.parametrize(
    "command",
    ["echo x >> asked", ["sh", "-c", "echo x >> asked"], "echo {EVAL_ID} >> asked"],
    ids=["line", "list", "id"],
)
def test_a_command_is_run_once_for_all_cases(tmp_path: Path, command: Any) -> None:
    result = outcomes(tmp_path, {"command": command}, cases=3)

    assert all(isinstance(item, RawExecution) for item in result)
    assert len((tmp_path / "asked").read_text().split()) == 1


def test_an_address_is_opened_once_for_all_cases(tmp_path: Path) -> None:
    with serve(Reply(body=b"fine")) as server:
        result = outcomes(tmp_path, {"url": f"{server.url}/health"}, cases=3)

    assert all(isinstance(item, RawExecution) for item in result)
    assert [(request.method, request.path) for request in server.requests] == [("GET", "/health")]


def test_one_that_fails_fails_every_case_and_no_program_runs(tmp_path: Path) -> None:
    result = outcomes(tmp_path, {"command": "echo not today >&2; exit 3"}, cases=3)

    assert [str(item) for item in result] == ["healthcheck failed: exit code 3: not today"] * 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("healthcheck", "class_", "message"),
    [
        pytest.param({"command": "exit 1"}, "target-crash", "healthcheck failed: exit code 1", id="exit code"),
        pytest.param({"command": ["no-such-program"]}, "target-crash", "cannot be started", id="no program"),
        pytest.param(
            {"command": "sleep 60", "timeout_seconds": 0.2}, "connection", "no answer within 0.2 s", id="slow"
        ),
        pytest.param({"url": "http://127.0.0.1:9/"}, "connection", "healthcheck failed: ", id="nobody there"),
    ],
)
def test_a_healthcheck_that_fails_says_why(tmp_path: Path, healthcheck: Any, class_: str, message: str) -> None:
    failure = failure_of(tmp_path, healthcheck)

    assert failure.failure.id == class_
    assert message in str(failure)


@pytest.mark.parametrize(
    ("reply", "limit_s", "message"),
    [(Reply(status=503), 20, "HTTP 503 Service Unavailable"), (Reply(hang=True), 0.2, "no answer within 0.2 s")],
    ids=["an error", "silence"],
)
def test_an_address_that_does_not_answer_well_is_a_failed_healthcheck(
    tmp_path: Path, reply: Reply, limit_s: float, message: str
) -> None:
    with serve(reply) as server:
        failure = failure_of(tmp_path, {"url": server.url, "timeout_seconds": limit_s})

    assert (failure.failure.id, str(failure)) == ("connection", f"healthcheck failed: {message}")


def test_a_healthcheck_runs_where_its_program_runs_unless_it_says_where(tmp_path: Path) -> None:
    for name in ("inner", "other"):
        (tmp_path / name).mkdir()

    outcomes(tmp_path, {"command": "touch here"}, cwd="inner")
    outcomes(tmp_path, {"command": "touch here", "cwd": "other"}, cwd="inner")

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("here")) == ["inner/here", "other/here"]


def test_a_healthcheck_under_way_ends_when_its_runner_is_closed(tmp_path: Path) -> None:
    config = {"command": ["echo", "4"], "healthcheck": {"command": "touch begun; sleep 60"}}
    adapter = Command(a_runner(adapter="command", settings=config, folder=tmp_path))

    async def interrupted() -> None:
        work = asyncio.ensure_future(adapter.execute(a_call(tmp_path / "files")))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait([work])
        await adapter.close()

    asyncio.run(interrupted())

    assert not (tmp_path / "files").exists()
