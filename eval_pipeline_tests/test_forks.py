"""A forked program is what a started one would be: its streams, folder, environment, exit code and signals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from eval_pipeline_tests.forks import run_command, run_python, start_python


@pytest.mark.parametrize(
    ("source", "code", "says"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("import os; os._exit(4)", 4, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_the_exit_code_is_that_of_the_program(source: str, code: int, says: str) -> None:
    ended = run_python(source)

    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.endswith(says)


def test_a_program_has_its_own_arguments_folder_and_environment(tmp_path: Path) -> None:
    source = "import os, sys; print(__name__, sys.argv, os.getcwd(), dict(os.environ), os.getsid(0) == os.getpid())"

    printed = run_python(source, "a", "b c", cwd=tmp_path, env={"GREETING": "hi"}).stdout

    assert printed == f"__main__ ['-c', 'a', 'b c'] {tmp_path} {{'GREETING': 'hi'}} True\n"


def test_a_program_that_goes_on_is_killed_at_the_end_of_the_block() -> None:
    with start_python("import time; print('begins', flush=True); time.sleep(60)") as program:
        assert program.stdout.readline() == "begins\n"
        assert program.poll() is None

    assert program.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(program.pid, 0)


def test_nothing_of_another_program_is_left_in_the_next() -> None:
    run_python("import os, eval_pipeline; os.environ['LEFT'] = 'behind'; eval_pipeline.left = 'behind'")

    left = run_python("import os, eval_pipeline; print('LEFT' in os.environ, hasattr(eval_pipeline, 'left'))").stdout

    assert left == "False False\n"


def test_a_command_prints_and_ends_as_the_installed_one(tmp_path: Path) -> None:
    ended = run_command("run", "nothing.yaml", cwd=tmp_path)

    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
