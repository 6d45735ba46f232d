"""Dagster's runs in PostgreSQL: the same as in SQLite, over a server that may go away and come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from eval_pipeline.cli.dev import dev_command
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.event_batches import events_together, light_events_of, store_together
from eval_pipeline.orchestration.instance import UnusableInstance, open_instance
from eval_pipeline.orchestration.partitions import range_tags
from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline_tests.orchestration.statuses import failed_and_materialized
from eval_pipeline_tests.postgres_server import PASSWORD, USER, PostgresServer, postgres_server
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, every_cell

PAIRS = ["more@echo", "sums@echo"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("dagster_postgres", reason="the extra `postgres` is not installed")
    with postgres_server() as started:
        yield started


@pytest.fixture
def home(server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of an instance in an empty database; the password is in the environment."""
    name = f"dagster_{time.monotonic_ns()}"
    server.database(name)
    write_settings(tmp_path / "home", server, name)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_PASSWORD", PASSWORD)
    return tmp_path / "home"


def write_settings(home: Path, server: PostgresServer, name: str, **fields: object) -> None:
    database = {
        "scheme": "postgresql+psycopg2", "hostname": "127.0.0.1", "port": server.port, "username": USER,
        "password": {"env": "DAGSTER_PASSWORD"}, "db_name": name, **fields,
    }  # fmt: skip
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text(
        yaml.safe_dump({"telemetry": {"enabled": False}, "storage": {"postgres": {"postgres_db": database}}})
    )


def test_a_sweep_of_the_command_line_is_seen_by_dagsters_own_storage(home: Path, folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x"), name="more")
    session = folder.session()

    swept = run_sweep(session, *every_cell(session, "echo"), {})

    assert swept.problem is None
    with dg.DagsterInstance.from_config(str(home)) as stock:
        assert type(stock.event_log_storage).__module__.startswith("dagster_postgres")
        for asset in PAIR_ASSETS:
            assert failed_and_materialized(stock, asset) == (set(), set(PAIRS)), asset
        check = dg.AssetCheckKey(dg.AssetKey("evaluator_scores"), "coverage")
        (record, *_) = stock.event_log_storage.get_asset_check_execution_history(check, limit=5)
        assert record.status is AssetCheckExecutionRecordStatus.SUCCEEDED
        assert stock.get_run_by_id(str(swept.run_id)).is_success  # type: ignore[union-attr]


def test_a_run_of_dagster_fails_just_the_pairs_that_failed(home: Path, folder: ProjectFolder) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [")
    definitions = build_definitions(folder.session())
    with dg.DagsterInstance.from_config(str(home)) as stock:
        stock.add_dynamic_partitions("pairs", ["broken@echo", "sums@echo"])
        ran = definitions.resolve_job_def("sweep").execute_in_process(
            instance=stock, tags=range_tags(["broken@echo", "sums@echo"]), raise_on_error=False
        )

        assert not ran.success
        assert failed_and_materialized(stock, "evaluator_scores") == ({"broken@echo"}, {"sums@echo"})


def test_an_unchanged_sweep_keeps_its_data_versions(home: Path, folder: ProjectFolder) -> None:
    versions = []
    for _ in range(2):
        session = folder.session()
        run_sweep(session, *every_cell(session, "echo"), {})
        with dg.DagsterInstance.from_config(str(home)) as stock:
            event = stock.get_latest_materialization_event(dg.AssetKey("evaluator_scores"))
            assert event is not None
            assert event.asset_materialization is not None
            versions.append((event.asset_materialization.tags or {})["dagster/data_version"])

    assert versions[0] == versions[1]


def materialize(instance: dg.DagsterInstance, partition: str) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization("thing", partition=partition))


def stored(instance: dg.DagsterInstance) -> list[str]:
    found = instance.fetch_materializations(dg.AssetKey("thing"), limit=100).records
    return sorted(record.partition_key for record in found if record.partition_key is not None)


def test_events_reported_together_are_stored_together_or_not_at_all(home: Path, tmp_path: Path) -> None:
    with open_instance(tmp_path / "data") as instance, dg.DagsterInstance.from_config(str(home)) as other:
        with events_together(instance):
            materialize(instance, "a")
            assert stored(other) == []
            materialize(instance, "b")
        with pytest.raises(RuntimeError, match="broken"), events_together(instance):
            materialize(instance, "c")
            raise RuntimeError("broken")

        assert stored(other) == ["a", "b"]


def test_a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing(
    home: Path, tmp_path: Path, server: PostgresServer
) -> None:
    killed = threading.Event()

    def report(instance: dg.DagsterInstance) -> None:
        materialize(instance, "in the transaction")
        if not killed.is_set():
            server.kill()
            killed.set()
            threading.Timer(1.0, server.start).start()
        materialize(instance, "after it")

    with open_instance(tmp_path / "data") as instance:
        materialize(instance, "before")
        store_together(instance, partial(report, instance))
        materialize(instance, "later")

        assert stored(instance) == ["after it", "before", "in the transaction", "later"]


def test_a_run_that_dagster_started_writes_light_events_too(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as stock:
        materialize(stock, "heavy")
        with light_events_of(stock):
            materialize(stock, "light")

        records = stock.fetch_materializations(dg.AssetKey("thing"), limit=10).records
        assert {record.partition_key for record in records} == {"heavy", "light"}
        with stock.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
            rows = connection.exec_driver_sql("SELECT partition, length(event) FROM event_logs").fetchall()
        sizes = dict(tuple(row) for row in rows)
        assert sizes["light"] < sizes["heavy"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"db_name": "nowhere"}, 'database "nowhere" does not exist'),
        ({"password": {"env": "NOT_SET_ANYWHERE"}}, "NOT_SET_ANYWHERE"),
        ({"scheme": "postgresql"}, "scheme: postgresql+psycopg2"),
        ({"db_nam": "x"}, 'unexpected config entry "db_nam"'),
        ({"password": "wrong-secret"}, "password authentication failed"),
    ],
)
def test_settings_that_cannot_be_used_are_named_with_their_file(
    home: Path,
    tmp_path: Path,
    server: PostgresServer,
    fields: dict[str, object],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # Dagster's own retries
    write_settings(home, server, "postgres", **fields)

    with pytest.raises(UnusableInstance) as raised, open_instance(tmp_path / "data"):
        pass

    message = str(raised.value)
    assert named in message
    assert "dagster.yaml" in message
    assert PASSWORD not in message
    assert "wrong-secret" not in message


def test_dev_says_what_is_wrong_with_the_storage_before_it_starts_dagster(
    home: Path, folder: ProjectFolder, server: PostgresServer
) -> None:
    write_settings(home, server, "nowhere")

    ended = CliRunner().invoke(dev_command, ["--project", str(folder.root), "--port", "13579"])

    assert isinstance(ended.exception, UnusableInstance)
    assert 'database "nowhere" does not exist' in str(ended.exception)
