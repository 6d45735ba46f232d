"""Between the transactions of a sweep its warehouse stays open, until another process wants it or the sweep ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eval_pipeline.warehouse import kept_open
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.forks import run_python, start_python

SWEEPS = "SELECT sweep_id FROM sweeps ORDER BY 1"
WRITES = """
import sys, time
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

begun = time.monotonic()
DuckDBWarehouse(Path(sys.argv[1])).write("sweeps", [{"sweep_id": "theirs"}])
print(time.monotonic() - begun)
"""
IS_KILLED = """
import os, signal, sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

warehouse = DuckDBWarehouse(Path(sys.argv[1]))
with warehouse.kept_open():
    warehouse.write("sweeps", [{"sweep_id": "committed"}])
    os.kill(os.getpid(), signal.SIGKILL)
"""
FORKS = """
import os, sys
from pathlib import Path
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

warehouse = DuckDBWarehouse(Path(sys.argv[1]))
with warehouse.kept_open():
    warehouse.write("sweeps", [{"sweep_id": "of the parent"}])
    if (child := os.fork()) == 0:
        warehouse.write("sweeps", [{"sweep_id": "of the child"}])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    warehouse.write("sweeps", [{"sweep_id": "of the parent, later"}])
"""


def is_open(warehouse: DuckDBWarehouse) -> bool:
    return str(warehouse.path) in [str(link.resolve()) for link in Path("/proc/self/fd").iterdir()]


def happens(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_it_stays_open_inside_the_outermost_block_only(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "KEPT_S", 60.0)

    with warehouse.kept_open():
        with warehouse.kept_open():
            warehouse.write("sweeps", [{"sweep_id": "1"}])
        assert is_open(warehouse)
        warehouse.write("sweeps", [{"sweep_id": "2"}])
        assert warehouse.frame(SWEEPS).rows() == [("1",), ("2",)]
        assert is_open(warehouse)

    assert not is_open(warehouse)
    assert not warehouse.path.with_name(f"{warehouse.path.name}.wal").exists()


def test_another_process_gets_it_while_the_block_goes_on(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "KEPT_S", 60.0)

    with warehouse.kept_open():
        warehouse.write("sweeps", [{"sweep_id": "ours"}])
        theirs = run_python(WRITES, str(warehouse.folder))
        assert theirs.stderr == ""
        assert warehouse.frame(SWEEPS).rows() == [("ours",), ("theirs",)]
        assert not is_open(warehouse)  # it was wanted a moment ago

    assert float(theirs.stdout) < 30


def test_another_process_gets_it_from_one_that_writes_without_a_pause(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "KEPT_S", 60.0)

    with warehouse.kept_open(), start_python(WRITES, str(warehouse.folder)) as theirs:
        while theirs.poll() is None:
            warehouse.write("sweeps", [{"sweep_id": "ours"}])
            time.sleep(0.001)

    assert theirs.poll() == 0
    assert warehouse.frame(SWEEPS).rows() == [("ours",), ("theirs",)]


def test_one_that_nobody_uses_is_closed(warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_open, "KEPT_S", 0.1)

    with warehouse.kept_open():
        warehouse.write("sweeps", [{"sweep_id": "1"}])

        assert happens(lambda: not is_open(warehouse))


def test_what_was_committed_survives_a_kill(warehouse: DuckDBWarehouse) -> None:
    assert run_python(IS_KILLED, str(warehouse.folder)).returncode < 0

    assert warehouse.frame(SWEEPS).rows() == [("committed",)]


def test_a_forked_process_opens_it_for_itself(warehouse: DuckDBWarehouse) -> None:
    ended = run_python(FORKS, str(warehouse.folder))

    assert (ended.stdout, ended.stderr, ended.returncode) == ("0\n", "", 0)
    assert warehouse.frame(SWEEPS).rows() == [("of the child",), ("of the parent",), ("of the parent, later",)]


def test_what_is_published_inside_the_block_is_complete(warehouse: DuckDBWarehouse) -> None:
    with warehouse.kept_open():
        warehouse.write("sweeps", [{"sweep_id": "1"}])
        warehouse.publish()

        with warehouse.published() as results:
            assert results.execute(SWEEPS).fetchall() == [("1",)]


def test_after_an_error_it_is_opened_again(warehouse: DuckDBWarehouse) -> None:
    with warehouse.kept_open():
        warehouse.write("sweeps", [{"sweep_id": "1"}])
        with pytest.raises(KeyError), warehouse.transaction() as connection:
            connection.execute("INSERT INTO sweeps (sweep_id) VALUES ('half')")
            raise KeyError
        assert not is_open(warehouse)

        assert warehouse.frame(SWEEPS).rows() == [("1",)]
