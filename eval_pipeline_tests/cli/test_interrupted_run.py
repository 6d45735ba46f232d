"""A run that is killed or interrupted: nothing that was executed is lost, repeated or doubled, and no child is left.

The program answers early cases at once and holds late ones up until a file `go` is there, so no clock decides anything.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.new_data import make_data

WAITING = """\
read -r who
echo "$who" >> calls.log
case "$who" in late*) echo $$ >> pids.log; while [ ! -e go ]; do sleep 0.05; done ;; esac
echo "hello $who"
"""
EARLY = [f"early-{number}" for number in range(5)]
SUITE = "name: waits\nassertions: [{type: contains, value: hello}]\ntests:\n" + "".join(
    f"  - {{id: {name}, input: {name}, criteria: an answer}}\n" for name in [*EARLY, "late"]
)
RUNNERS = "runners:\n  - {name: slow, adapter: command, command: [sh, greet.sh], concurrency: 2}\n"
DEADLINE_S = 60.0


@pytest.fixture
def cli_project(tmp_path: Path) -> CliProject:
    make_data(tmp_path / "data")
    return make_cli_project(tmp_path, {"greet.sh": WAITING, "runners.yaml": RUNNERS, "suites/greetings.yaml": SUITE})


def wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def journalled(cli_project: CliProject) -> int:
    """Executions on disk, none of them in the warehouse yet."""
    journals = (cli_project.root / "data" / "journals").glob("*/slow/waits/target_executions.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in journals)


def late_case_hangs(cli_project: CliProject) -> bool:
    return journalled(cli_project) == len(EARLY) and (cli_project.root / "pids.log").exists()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("first", "again"),
    [([], []), (["--refresh", "all"], ["--refresh", "all", "--resume"])],
    ids=["started again", "resumed"],
)
def test_a_killed_run_goes_on_where_it_was(cli_project: CliProject, first: list[str], again: list[str]) -> None:
    with cli_project.process("run", "suites/greetings.yaml", *first) as process:
        wait_until(lambda: late_case_hangs(cli_project))
        process.send_signal(signal.SIGKILL)
    cli_project.write("go", "")

    answer = cli_project("run", "suites/greetings.yaml", "--json", *again)

    assert answer.code == 0
    assert Counter(cli_project.calls) == Counter(EARLY) + Counter({"late": 2})
    assert answer.counts["reused"] + answer.counts["rescored"] == len(EARLY)
    assert cli_project.ask("SELECT count(*), count(DISTINCT key) FROM target_executions") == [(6, 6)]
    assert cli_project.ask("SELECT count(*), count(DISTINCT case_id) FROM verdicts") == [(6, 6)]
    assert cli_project.ask("SELECT count(*), count(DISTINCT case_id) FROM evaluator_scores") == [(6, 6)]
    assert journalled(cli_project) == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_run_leaves_no_child_and_keeps_what_it_did(
    cli_project: CliProject, number: signal.Signals, code: int
) -> None:
    with cli_project.process("run", "suites/greetings.yaml") as process:
        wait_until(lambda: late_case_hangs(cli_project))
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == code
    assert f"exit {code}: interrupted: {len(EARLY)} executions are kept; the same command goes on" in err
    assert "Traceback" not in out + err
    assert "did not succeed" not in err
    assert cli_project.ask("SELECT status FROM sweeps") == [("interrupted",)]
    (child,) = (cli_project.root / "pids.log").read_text(encoding="utf-8").split()
    assert not alive(int(child))
    cli_project.write("go", "")
    cli_project("run", "suites/greetings.yaml", "--quiet")
    assert Counter(cli_project.calls) == Counter(EARLY) + Counter({"late": 2})
