"""Machines with data folders of their own have files in common: a call that one of them finished is made by nobody
again, though it died before it stored the answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.warehouse.shared_files import SharedFiles
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake
from eval_pipeline_tests.team.s3 import BUCKET, PROXY_FREE, SECRET, object_store, why_no_store
from eval_pipeline_tests.team.sweeping import CountedProject
from eval_pipeline_tests.team.test_machines import check_rows, ended, until
from eval_pipeline_tests.team.test_one_folder import one_call_at_a_time


@pytest.fixture(params=["folder", "object store"])
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Where the rows and the common files are."""
    if request.param == "folder":
        return str(tmp_path / "lake"), str(tmp_path / "common")
    if (reason := why_no_store()) is not None:
        pytest.skip(reason)
    environment = request.getfixturevalue("store")
    for name, value in {**environment, **PROXY_FREE}.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/lake", f"s3://{BUCKET}/files"


@pytest.fixture
def store(tmp_path: Path):  # type: ignore[no-untyped-def]
    with object_store(tmp_path / "store.txt") as environment:
        yield environment


@pytest.mark.slow
def test_what_a_dead_machine_finished_is_not_executed_again(
    server: PostgresServer, places: tuple[str, str], tmp_path: Path
) -> None:
    rows, files = places
    url = f"{new_lake(server, rows)} files={files} lease_s=5"
    project = CountedProject(tmp_path, url, suites=1, runners=2, cases=4, seconds=0.3)
    one, two = project.machine("one"), project.machine("two")
    one_call_at_a_time(one)
    dead = project.start(one)
    shared = SharedFiles(files)
    until(lambda: len(finished(shared)) >= 2)

    dead.kill()
    dead.wait()
    left = finished(shared)
    output = ended(project.start(two), two)

    assert SECRET not in output
    assert left
    counted = project.counted()
    assert [call for call in left if counted[call] != 1] == []
    assert len(counted) == project.plans
    reader = machine(url, tmp_path / "reader")
    check_rows(reader, project.plans)
    assert finished(shared) == set()
    reader.close()


def finished(shared: SharedFiles) -> set[str]:
    """Return the calls in the common journals, as the target counts them."""
    contents = [shared.get(name) or b"" for name in shared.listed("journals")]
    rows = [json.loads(line) for content in contents for line in content.splitlines()]
    return {f"{row['runner']} {row['suite']} {row['case_id']}" for row in rows}
