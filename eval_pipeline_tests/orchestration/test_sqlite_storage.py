"""The event log that a sweep writes: several events in one transaction, in files that Dagster's own storage reads."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events.log import EventLogEntry
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage
from sqlalchemy.engine import Connection
from sqlalchemy.exc import OperationalError

from eval_pipeline.orchestration import run_page
from eval_pipeline.orchestration.checks import CONDITIONAL
from eval_pipeline.orchestration.event_batches import events_together, store_plans_together
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.partitions import SUITES
from eval_pipeline.orchestration.reporter import PAIR_ASSETS, PairReporter
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.orchestration.sqlite_storage import PooledEventLogStorage
from eval_pipeline.sweeps.dagster_files import dagster_home
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline_tests.cli.test_exhaustion import files_at_most
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, every_cell

KEY = dg.AssetKey("thing")


@pytest.fixture
def pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with open_instance(tmp_path) as instance:
        assert type(instance.event_log_storage) is PooledEventLogStorage
        yield instance


def stock(data: Path) -> dg.DagsterInstance:
    """The instance as the webserver and the daemon open it."""
    instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(dagster_home(data))))
    assert type(instance.event_log_storage) is SqliteEventLogStorage
    return instance


def stock_of(home: Path) -> dg.DagsterInstance:
    return dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home)))


def report(instance: dg.DagsterInstance, partition: str) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=partition))


def test_what_is_stored_is_there_for_dagsters_own_storage_at_once(pooled: dg.DagsterInstance, tmp_path: Path) -> None:
    with stock(tmp_path) as other:
        report(pooled, "a")
        assert other.get_materialized_partitions(KEY) == {"a"}
        report(other, "b")

        assert pooled.get_materialized_partitions(KEY) == {"a", "b"}


def test_events_reported_together_are_committed_once_at_the_end(pooled: dg.DagsterInstance, tmp_path: Path) -> None:
    with stock(tmp_path) as other:
        with events_together(pooled):
            report(pooled, "a")
            with events_together(pooled):
                report(pooled, "b")
            inside = pooled.get_materialized_partitions(KEY), other.get_materialized_partitions(KEY)

        assert inside == ({"a", "b"}, set())
        assert other.get_materialized_partitions(KEY) == {"a", "b"}


def test_events_can_be_stored_after_a_disk_was_full(pooled: dg.DagsterInstance) -> None:
    report(pooled, "before")
    with files_at_most(1_000), pytest.raises(OperationalError), events_together(pooled):
        report(pooled, "a")

    report(pooled, "b")
    assert pooled.get_materialized_partitions(KEY) == {"before", "b"}


def test_events_of_a_block_that_breaks_are_not_stored(pooled: dg.DagsterInstance) -> None:
    with pytest.raises(RuntimeError, match="half way"), events_together(pooled):
        report(pooled, "a")
        raise RuntimeError("half way")

    report(pooled, "b")
    assert pooled.get_materialized_partitions(KEY) == {"b"}


def test_the_row_of_an_asset_is_that_of_its_newest_event_and_written_once(
    pooled: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[int] = []
    store = SqliteEventLogStorage._store_asset_event

    def noted(self: SqliteEventLogStorage, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        stored.append(event_id)
        store(self, conn, event, event_id)

    monkeypatch.setattr(SqliteEventLogStorage, "_store_asset_event", noted)

    with events_together(pooled):
        for partition in "abc":
            report(pooled, partition)

    assert len(stored) == 1
    with stock(tmp_path) as other:
        (record,) = other.get_asset_records([KEY])
        newest = other.fetch_materializations(KEY, limit=1).records[0]
        last = record.asset_entry.last_materialization_record
        assert last is not None
        assert (last.storage_id, last.asset_materialization) == (newest.storage_id, newest.asset_materialization)
        assert newest.partition_key == "c"


def test_another_storage_stores_as_it_does(tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance, events_together(instance):
        report(instance, "a")

        assert instance.get_materialized_partitions(KEY) == {"a"}


# The same sweep by both storages


def sweep(folder: ProjectFolder) -> str:
    session = folder.session()
    result = run_sweep(session, *every_cell(session, "echo", "parrot"), {})
    assert result.run_id is not None
    return result.run_id


def table_rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


INDEXED = {
    "SELECT dagster_event_type, asset_key, partition, step_key FROM event_logs",
    "SELECT asset_key, check_name, partition, execution_status FROM asset_check_executions",
    "SELECT asset_key, key FROM asset_event_tags",
    "SELECT asset_key FROM asset_keys",
    "SELECT partitions_def_name, partition FROM dynamic_partitions",
}
LOGGED = "SELECT dagster_event_type, asset_key, partition, step_key FROM event_logs"


def test_a_sweep_leaves_the_same_events_as_with_dagsters_own_storage(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"), a_test("b", contains("9")))
    folder.write_suite(a_test("x"), name="more")
    monkeypatch.setattr(
        run_page, "EVERY_S", 3_600.0
    )  # a sweep that takes longer on a busy machine reports its progress
    stored: dict[str, list[object]] = {}
    for name in ("ours", "dagsters"):
        monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / name))
        if name == "dagsters":
            monkeypatch.setattr("eval_pipeline.orchestration.instance._with_our_storage", lambda ref: ref)
            monkeypatch.setattr("eval_pipeline.orchestration.assets.light_events_of", nullcontext)
        run = sweep(folder)
        runs = tmp_path / name / "history" / "runs"
        stored[name] = [sorted(table_rows(runs / "index.db", query), key=str) for query in sorted(INDEXED)]
        stored[name].append(sorted(table_rows(runs / f"{run}.db", LOGGED), key=str))

    ours, dagsters = (without_run_status(stored[name]) for name in ("ours", "dagsters"))
    said_twice = ("ASSET_CHECK_EVALUATION", "ASSET_MATERIALIZATION_PLANNED")
    in_the_index_alone = [f'["{name}"]' for name in PAIR_ASSETS]
    for table, rows in enumerate(dagsters):
        left_out = [*said_twice, *(in_the_index_alone if table == len(INDEXED) else ())]
        kept = [row for row in rows if not any(value in left_out for value in row)]
        assert ours[table] == [row for row in kept if not (row[-1] == "PLANNED" and row[1] in CONDITIONAL)]


def test_a_partition_that_failed_stays_planned_and_the_others_are_there(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"))
    folder.write_suite(a_test("b"), name="more")
    monkeypatch.setattr(PairReporter, "_report", failing("more@echo", PairReporter._report))
    run = sweep(folder)

    with stock_of(tmp_path / "home") as dagsters:
        log = dagsters.event_log_storage
        for asset in PAIR_ASSETS:
            key = dg.AssetKey(asset)
            attempts = log.get_latest_asset_partition_materialization_attempts_without_materializations(key)
            assert {partition: id_ for partition, (id_, _) in attempts.items()} == {"more@echo": run}
            assert dagsters.get_materialized_partitions(key) == {"sums@echo", "sums@parrot", "more@parrot"}
        planned = dagsters.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED).records
        assert {each.event_log_entry.get_dagster_event().partition for each in planned} == {"more@echo"}
        assert len(planned) == len(PAIR_ASSETS)


def failing(key: str, report: Any) -> Any:
    """Reporting a pair, but as failed for one of them."""

    def reported(reporter: PairReporter, outcome: PairOutcome) -> None:
        name = f"{outcome.pair.name.suite}@{outcome.pair.name.runner}"
        report(reporter, replace(outcome, error="it broke") if name == key else outcome)

    return reported


def test_events_take_few_bytes_and_say_all_that_pages_show(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"))
    run = sweep(folder)

    runs = tmp_path / "home" / "history" / "runs"
    of_pairs = "SELECT sum(length(event)) FROM event_logs WHERE run_id <> '' AND \"partition\" LIKE '%@%'"
    ((indexed,),), ((logged,),) = table_rows(runs / "index.db", of_pairs), table_rows(runs / f"{run}.db", of_pairs)
    assert logged is None
    assert indexed / 2 < 5_000  # 29,000 as Dagster writes them
    assert [table_rows(runs / name, "PRAGMA page_size") for name in ("index.db", f"{run}.db")] == [[(512,)]] * 2
    assert not (runs / ".db").exists()  # what no run reported is in no log
    with stock_of(tmp_path / "home") as dagsters:
        filter_ = dg.AssetRecordsFilter(asset_key=dg.AssetKey("evaluator_scores"), asset_partitions=["sums@echo"])
        (record,) = dagsters.fetch_materializations(filter_, limit=10).records
        (check,) = dagsters.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(dg.AssetKey("evaluator_scores"), "coverage"), limit=1
        )
    shown = record.asset_materialization
    assert shown is not None and shown.metadata["passed"].value == 1
    assert shown.tags is not None and {"dagster/data_version", "dagster/input_event_pointer/evaluators"} <= set(
        shown.tags
    )
    assert (record.event_log_entry.step_key, record.event_log_entry.run_id) == ("evaluate", run)
    evaluated = check.event and check.event.asset_check_evaluation
    assert evaluated is not None and evaluated.passed and evaluated.target_materialization_data is not None
    assert evaluated.target_materialization_data.run_id == run


def test_lines_of_a_log_keep_their_text(folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"))
    finished = PairReporter.pairs_finished

    def warning(reporter: PairReporter, outcomes: Any) -> None:
        reporter._context.log.warning("GO: nothing dropped")
        finished(reporter, outcomes)

    monkeypatch.setattr(PairReporter, "pairs_finished", warning)
    run = sweep(folder)

    with stock_of(tmp_path / "home") as dagsters:
        assert "GO: nothing dropped" in [entry.user_message for entry in dagsters.all_logs(run)]


def pass_rates(home: Path) -> dict[str | None, bool]:
    with stock_of(home) as dagsters:
        key = dg.AssetCheckKey(dg.AssetKey("evaluator_scores"), "pass_rate")
        history = dagsters.event_log_storage.get_asset_check_execution_history(key, limit=100)
    return {each.partition: each.status is AssetCheckExecutionRecordStatus.SUCCEEDED for each in reversed(history)}


def test_a_pass_rate_of_which_nothing_is_asked_is_checked_only_where_it_failed(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    project = folder.root / "eval-pipeline.yaml"
    folder.write_suite(*(a_test(f"c{number}", contains("9")) for number in range(8)))
    sweep(folder)
    without = pass_rates(tmp_path / "home")
    project.write_text(json.dumps({"suites": ["suites"], "defaults": {"min_pass_rate": 0.9}}))
    sweep(folder)
    asked = pass_rates(tmp_path / "home")
    project.write_text(json.dumps({"suites": ["suites"]}))
    sweep(folder)

    assert without == {}
    assert asked == {"sums@echo": False, "sums@parrot": False}
    assert pass_rates(tmp_path / "home") == {"sums@echo": True, "sums@parrot": True}


def without_run_status(tables: list[Any]) -> list[Any]:
    """All but what differs because the second sweep finds suites and boards that the first one stored."""
    left_out = ('["leaderboards"]', f'["{SUITES}"]')
    return [
        [row for row in rows if not any(value in left_out for value in row) and "PIPELINE" not in str(row[0])]
        for rows in tables
    ]


def planned_by_a_server(home: Path) -> list[str]:
    """The partitions that a server of Dagster stores as planned when it makes a run over three."""

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b", "c"]), backfill_policy=dg.BackfillPolicy())
    def made() -> None: ...

    job = dg.Definitions([made], jobs=[dg.define_asset_job("all_of_it", [made])]).resolve_job_def("all_of_it")
    tags = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "c"}
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home))) as instance:
        run = instance.create_run_for_job(job, tags=tags)
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
        records = instance.get_records_for_run(run.run_id, of_type=kind).records
        assert type(instance.event_log_storage) is SqliteEventLogStorage
    return sorted(str(each.partition_key) for each in records)


def test_servers_store_what_a_run_plans_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stock, batches = planned_by_a_server(tmp_path / "stock"), list[int]()
    store = PooledEventLogStorage.store_event_batch

    def noted(storage: PooledEventLogStorage, events: Sequence[EventLogEntry]) -> None:
        batches.append(len(events))
        store(storage, events)

    monkeypatch.setattr(PooledEventLogStorage, "store_event_batch", noted)
    for owner, name in ((SqliteEventLogStorage, "store_event_batch"), (dg.DagsterInstance, "_get_event_batch_size")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
    store_plans_together()

    ours = planned_by_a_server(tmp_path / "ours")

    assert ours == stock == ["a", "b", "c"]
    assert batches == [3]
