"""Several machines, which are processes with folders of their own, sweep into one warehouse: every plan is carried out
once, whoever dies meanwhile."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.lake_address import lake_address
from eval_pipeline.warehouse.lake_engine import lake_engine
from eval_pipeline.warehouse.queries import interrupt_running_sweeps
from eval_pipeline_tests.postgres_server import PASSWORD, PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import lake_server, lake_url, new_database, new_lake
from eval_pipeline_tests.team.proxy import proxied
from eval_pipeline_tests.team.sweeping import CountedProject

LOST = """SELECT count(*), count(DISTINCT (suite, runner, case_id, repetition))
          FROM current_verdicts WHERE status = 'passed'"""
DOUBLED = """SELECT count(*) FROM (SELECT execution_id FROM target_executions GROUP BY ALL HAVING count(*) > 1
             UNION ALL SELECT verdict_id FROM verdicts GROUP BY ALL HAVING count(*) > 1
             UNION ALL SELECT sweep_id || suite || runner FROM sweep_pairs GROUP BY ALL HAVING count(*) > 1)"""


def until(is_so: Callable[[], bool], within_s: float = 180.0) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(process: subprocess.Popen[str], root: Path, output_to: str = "output.txt") -> str:
    """Wait for a sweep; return what it printed."""
    code = process.wait(timeout=240)
    output = (root / output_to).read_text()
    assert code == 0, output
    assert PASSWORD not in output
    return output


def check_rows(reader: DuckLakeWarehouse, plans: int) -> None:
    """Every plan has one verdict, and no row is there twice."""
    assert reader.frame(LOST).row(0) == (plans, plans)
    assert reader.frame(DOUBLED).item() == 0


def test_a_pair_has_one_holder_until_its_lease_ends(lake: DuckLakeWarehouse) -> None:
    leases = lake.leases
    assert leases is not None
    pairs = [PairKey("s", "a"), PairKey("s", "b"), PairKey("s", "c")]

    with leases.held("one") as one, leases.held("two") as two:
        assert one.claim(pairs, 2) == pairs[:2]
        assert two.claim(pairs, 3) == pairs[2:]
        assert two.claim(pairs, 3) == []
        assert two.holders(pairs) == sorted([one.holder, two.holder])
        one.release(pairs[:1])
        assert two.claim(pairs, 3) == pairs[:1]
        assert leases.live_sweeps() == {"one", "two"}

    assert leases.live_sweeps() == frozenset()


def test_a_worker_knows_what_others_stored_since_it_began(lake: DuckLakeWarehouse) -> None:
    leases = lake.leases
    assert leases is not None
    pairs = [PairKey("s", "a"), PairKey("s", "b")]

    with leases.held("one") as one, leases.held("two") as two:
        one.claim(pairs, 2)
        one.release(pairs, stored=pairs[:1])

        assert two.claim_unstored(pairs, 2) == pairs[1:]
        assert two.claim(pairs, 2) == pairs[:1]
        with leases.held("three") as later:
            two.release(pairs)
            assert later.claim_unstored(pairs, 2) == pairs


def test_a_dead_workers_pairs_are_free_after_its_leases(server: PostgresServer, tmp_path: Path) -> None:
    url = new_lake(server, tmp_path / "lake") + " lease_s=1"
    leases = machine(url, tmp_path / "one").leases
    assert leases is not None
    pairs = [PairKey("s", "a")]

    with leases.held("one") as dead:
        dead.claim(pairs, 1)
        dead.stopped.set()  # no heartbeat any more
        with leases.held("two") as alive:
            assert alive.claim(pairs, 1) == []
            until(lambda: alive.claim(pairs, 1) == pairs, within_s=10)
            assert leases.live_sweeps() == {"two"}


def test_a_heartbeat_keeps_leases_and_a_sweep_alive(server: PostgresServer, tmp_path: Path) -> None:
    url = new_lake(server, tmp_path / "lake") + " lease_s=1"
    one, two = machine(url, tmp_path / "one"), machine(url, tmp_path / "two")
    assert one.leases is not None
    assert two.leases is not None
    one.write(
        "sweeps", [{"sweep_id": name, "status": "running", "started_at": "2020-01-01"} for name in ("live", "dead")]
    )

    with one.leases.held("live") as held, two.leases.held("other") as other:
        held.claim([PairKey("s", "a")], 1)
        time.sleep(2.5)

        assert other.claim([PairKey("s", "a")], 1) == []
        interrupt_running_sweeps(two)

    rows = two.frame("SELECT sweep_id, status FROM sweeps ORDER BY 1").rows()
    assert rows == [("dead", "interrupted"), ("live", "running")]


@pytest.mark.slow
def test_two_machines_carry_out_each_plan_once_while_an_analyst_is_connected(url: str, tmp_path: Path) -> None:
    project = CountedProject(tmp_path, url)
    roots = [project.machine("one"), project.machine("two")]
    reader = machine(url, tmp_path / "reader")
    reader.write("sweeps", [])
    reader.frame("SELECT 1 FROM sweeps")
    seen: list[int] = []
    over = threading.Event()

    def analyze() -> None:
        connection = lake_engine(lake_address(url.removeprefix("ducklake:"), tmp_path), {}, read_only=True)
        while not over.is_set():
            seen.extend(n for (n,) in connection.execute("SELECT count(*) FROM verdicts").fetchall())
            with pytest.raises(duckdb.Error):
                connection.execute("DELETE FROM verdicts")
        connection.close()

    analyst = threading.Thread(target=analyze)
    analyst.start()
    sweeps = [project.start(root) for root in roots]
    outputs = [ended(sweep, root) for sweep, root in zip(sweeps, roots, strict=True)]
    over.set()
    analyst.join()

    assert project.counted().total() == len(project.counted()) == project.plans
    assert all("executed" in output for output in outputs)
    assert seen == sorted(seen)
    assert seen[0] == 0
    check_rows(reader, project.plans)


@pytest.mark.slow
def test_a_killed_machines_pairs_are_taken_over_and_stored_calls_are_not_repeated(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = new_lake(server, tmp_path / "lake") + " lease_s=5"
    project = CountedProject(tmp_path, url, suites=8, seconds=0.5)
    one, two = project.machine("one"), project.machine("two")
    reader = machine(url, tmp_path / "reader")

    dead = project.start(one)
    until(lambda: reader.exists() and reader.frame("SELECT count(*) FROM sweep_pairs").item() > 0)
    dead.kill()
    dead.wait()
    stored = reader.frame("SELECT runner || ' ' || suite || ' ' || case_id AS call FROM target_executions")["call"]
    ended(project.start(two), two)

    counted = project.counted()
    assert len(counted) == project.plans
    assert [call for call in stored if counted[call] != 1] == []
    check_rows(reader, project.plans)
    statuses = reader.frame("SELECT status FROM sweeps ORDER BY sweep_id")["status"].to_list()
    assert statuses[-1] == "finished"
    before = counted.total()
    ended(project.start(one), one)  # its journal is stored, and nothing is executed again
    assert project.counted().total() == before
    check_rows(reader, project.plans)
    assert set(reader.frame("SELECT status FROM sweeps ORDER BY sweep_id")["status"]) == {"interrupted", "finished"}


@pytest.mark.slow
def test_a_sweep_waits_for_a_killed_server_and_makes_no_call_twice(server: PostgresServer, tmp_path: Path) -> None:
    del server  # says why there is none
    with lake_server() as own:
        url = new_lake(own, tmp_path / "lake")
        project = CountedProject(tmp_path, url, suites=6, seconds=0.3)
        one = project.machine("one")
        reader = machine(url, tmp_path / "reader")

        sweep = project.start(one)
        until(lambda: reader.exists() and reader.frame("SELECT count(*) FROM sweep_pairs").item() > 0)
        own.kill()
        time.sleep(1.0)
        own.start(within_s=30.0)
        output = ended(sweep, one)

        assert "the warehouse is tried again (attempt 2, for 5 minutes)" in output
        assert project.counted().total() == len(project.counted()) == project.plans
        check_rows(reader, project.plans)
        reader.close()


@pytest.mark.slow
def test_a_network_that_drops_connections_loses_and_doubles_nothing(server: PostgresServer, tmp_path: Path) -> None:
    database = new_database(server)
    with proxied(server.port) as proxy:
        through = lake_url(PostgresServer(server.folder, proxy.port), database, tmp_path / "lake")
        project = CountedProject(tmp_path, through, suites=6, seconds=0.2)
        one = project.machine("one")
        reader = machine(lake_url(server, database, tmp_path / "lake"), tmp_path / "reader")

        sweep = project.start(one)
        for stored in (0, 4, 10):
            until(lambda: reader.exists() and reader.frame("SELECT count(*) FROM sweep_pairs").item() > stored)  # noqa: B023
            proxy.drop(0.5)
        output = ended(sweep, one)

        assert proxy.dropped > 0
        assert "the warehouse is tried again (attempt 2, for 5 minutes)" in output
        assert project.counted().total() == len(project.counted()) == project.plans
        check_rows(reader, project.plans)
        reader.close()
