"""What we believe of Dagster, DuckDB, Polars and file locks, one small test per belief.

Nothing of our own is tested here. When an upgrade breaks us, this file says which belief broke; the design that leans
on it is in README, Decisions.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import polars as pl
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from filelock import FileLock

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"

# Dagster: partitions


PAIRS = dg.DynamicPartitionsDefinition(name="pairs")
GRID = dg.MultiPartitionsDefinition({
    "suite": dg.DynamicPartitionsDefinition(name="suites"), "runner": dg.StaticPartitionsDefinition(["r0", "r1"]),
})  # fmt: skip


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def test_dagster_keeps_dynamic_keys_in_the_order_they_were_added(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("pairs", ["b", "a"])
    instance.add_dynamic_partitions("pairs", ["c", "b"])

    assert list(instance.get_dynamic_partitions("pairs")) == ["b", "a", "c"]


def test_dagster_prefers_the_tags_of_dimensions_to_those_of_a_range(instance: dg.DagsterInstance) -> None:
    seen: list[str] = []

    @dg.asset(partitions_def=GRID, backfill_policy=dg.BackfillPolicy.single_run())
    def ranged(context: dg.AssetExecutionContext) -> None:
        seen.extend(context.partition_keys)

    instance.add_dynamic_partitions("suites", ["s0", "s1"])
    dimensions = {"dagster/partition/runner": "r0", "dagster/partition/suite": "s0"}

    dg.materialize([ranged], instance=instance, tags={RANGE_START: "r0|s0", RANGE_END: "r1|s1", **dimensions})

    assert seen == ["r0|s0"]


# Dagster: one run over many partitions


STAGES = ("first", "second")


def chain(seen: list[str], bad: frozenset[str] = frozenset()) -> dg.AssetsDefinition:
    """Two assets in one step that logs a materialization per good partition and fails at the end when one was bad."""

    @dg.multi_asset(
        specs=[dg.AssetSpec("first", skippable=True), dg.AssetSpec("second", deps=["first"], skippable=True)],
        partitions_def=PAIRS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
        check_specs=[dg.AssetCheckSpec("good", asset="second")],
    )
    def both(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        selected = [name for name in STAGES if dg.AssetKey(name) in context.selected_asset_keys]
        for key in context.partition_keys:
            seen.append(key)
            for name in selected if key not in bad else ():
                tags = {"dagster/data_version": f"of {key}"}
                context.log_event(dg.AssetMaterialization(name, partition=key, metadata={"key": str(key)}, tags=tags))
        if bad:
            raise dg.Failure("some were bad", allow_retries=False)
        if "second" in selected:
            context.log_event(dg.AssetCheckEvaluation(dg.AssetKey("second"), "good", True, partition="p1"))
            yield dg.AssetCheckResult(check_name="good", passed=True)

    return both


def run_range(
    instance: dg.DagsterInstance, assets: dg.AssetsDefinition, first: str, last: str, **options: Any
) -> dg.ExecuteInProcessResult:
    instance.add_dynamic_partitions("pairs", ["p2", "p1", "p3", "p0"])
    tags = {RANGE_START: first, RANGE_END: last}
    return dg.materialize([assets], instance=instance, tags=tags, raise_on_error=False, **options)


BETWEEN = ["p1", "p3"]


def test_dagster_takes_the_tags_of_a_range_as_all_keys_between_two_in_the_order_they_were_added(
    instance: dg.DagsterInstance,
) -> None:
    seen: list[str] = []

    assert run_range(instance, chain(seen), "p1", "p3").success

    assert sorted(map(str, seen)) == BETWEEN


def test_dagster_records_each_logged_materialization_once_with_its_own_metadata_and_data_version(
    instance: dg.DagsterInstance,
) -> None:
    result = run_range(instance, chain([]), "p1", "p3")

    for name in STAGES:
        events = [each for each in stored(instance, result.run_id) if each.asset_key == dg.AssetKey(name)]
        assert sorted(str(each.partition) for each in events) == BETWEEN
        assert all(each.metadata["key"].value == each.partition for each in events)
        assert all((each.tags or {})["dagster/data_version"] == f"of {each.partition}" for each in events)


def stored(instance: dg.DagsterInstance, run_id: str) -> list[dg.AssetMaterialization]:
    logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    return [log.asset_materialization for log in logs if log.asset_materialization is not None]


def test_dagster_marks_exactly_the_bad_partitions_of_a_failed_run(instance: dg.DagsterInstance) -> None:
    assets = chain([], bad=frozenset({"p3"}))

    assert not run_range(instance, assets, "p1", "p3").success

    for name in STAGES:
        status = instance.get_status_by_partition(dg.AssetKey(name), BETWEEN, PAIRS)
        assert {key: str(value and value.value) for key, value in (status or {}).items()} == {
            "p1": "MATERIALIZED",
            "p3": "FAILED",
        }


def test_dagster_runs_the_one_step_for_part_of_its_assets(instance: dg.DagsterInstance) -> None:
    result = run_range(instance, chain([]), "p1", "p1", selection=["second"])

    assert [each.asset_key.to_user_string() for each in stored(instance, result.run_id)] == ["second"]


def test_dagster_keeps_check_evaluations_of_partitions_beside_the_one_of_the_run(instance: dg.DagsterInstance) -> None:
    result = run_range(instance, chain([]), "p1", "p3")

    logs = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    events = [log.dagster_event.event_specific_data for log in logs if log.dagster_event is not None]
    assert [each.partition for each in events if isinstance(each, dg.AssetCheckEvaluation)] == ["p1", None]


def test_dagster_refuses_a_range_to_a_partition_that_is_not_there_before_any_step(instance: dg.DagsterInstance) -> None:
    seen: list[str] = []

    with pytest.raises(dg.DagsterInvalidInvocationError, match="not a valid range"):
        run_range(instance, chain(seen), "p1", "absent")

    assert seen == []


def test_dagster_takes_a_materialization_without_a_run(instance: dg.DagsterInstance) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization("suites", partition="s0"))

    assert instance.get_materialized_partitions(dg.AssetKey("suites")) == {"s0"}


# Dagster: data versions and checks


STALE, FRESH = "STALE", "FRESH"


@pytest.mark.parametrize(("newer", "status"), [("of p1", FRESH), ("edited", STALE)], ids=["same", "another"])
def test_dagster_calls_a_partition_stale_when_an_external_asset_is_observed_at_another_version(
    instance: dg.DagsterInstance, newer: str, status: str
) -> None:
    instance.add_dynamic_partitions("pairs", ["p0", "p1"])
    above = dg.AssetSpec("above", partitions_def=PAIRS)

    @dg.asset(partitions_def=PAIRS, deps=[above])
    def below() -> None: ...

    definitions = dg.Definitions(assets=[above, below])
    for key in ("p0", "p1"):
        observe(instance, key, f"of {key}")
        cursor = instance.get_latest_storage_id_by_partition(
            dg.AssetKey("above"), dg.DagsterEventType.ASSET_OBSERVATION
        )[key]
        made_from = {"dagster/input_data_version/above": f"of {key}", "dagster/input_event_pointer/above": str(cursor)}
        tags = {"dagster/data_version": "made", "dagster/code_version": "1", **made_from}
        instance.report_runless_asset_event(dg.AssetMaterialization("below", partition=key, tags=tags))

    observe(instance, "p1", newer)

    graph = definitions.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    made = dg.AssetKey("below")
    assert [resolver.get_status(made, each).value for each in ("p0", "p1")] == [FRESH, status]
    causes = [
        (cause.key.asset_key.path, cause.key.partition_key) for cause in resolver.get_stale_root_causes(made, "p1")
    ]
    assert causes == ([(["above"], "p1")] if status == STALE else [])


def observe(instance: dg.DagsterInstance, key: str, version: str) -> None:
    tags = {"dagster/data_version": version}
    instance.report_runless_asset_event(dg.AssetObservation("above", partition=key, tags=tags))


def test_dagster_relates_a_logged_check_to_a_materialization_only_when_it_names_one(
    instance: dg.DagsterInstance,
) -> None:
    run_range(instance, chain([]), "p1", "p3")

    (info,) = instance.event_log_storage.get_asset_check_partition_info(
        [dg.AssetCheckKey(dg.AssetKey("second"), "good")], partition_keys=["p1"]
    )

    assert info.latest_target_materialization_storage_id is None
    assert info.latest_materialization_storage_id is not None


# Dagster: automation


AUTOMATIONS = {
    "eager-waits-for-every-partition": (dg.AutomationCondition.eager(), 0),
    "eager-without-any-deps-missing-does-not": (
        dg.AutomationCondition.eager().without(~dg.AutomationCondition.any_deps_missing()),
        1,
    ),
}


@pytest.mark.parametrize(("condition", "requested"), AUTOMATIONS.values(), ids=AUTOMATIONS)
def test_dagster_automation_after_some_partitions_of_the_upstream(
    instance: dg.DagsterInstance, condition: dg.AutomationCondition[Any], requested: int
) -> None:
    board = dg.AssetSpec("board", deps=["second"], automation_condition=condition)
    definitions = dg.Definitions(assets=[chain([]), dg.AssetsDefinition(specs=[board])])
    before = dg.evaluate_automation_conditions(definitions, instance)
    run_range(instance, chain([]), "p1", "p3")

    after = dg.evaluate_automation_conditions(definitions, instance, cursor=before.cursor)

    assert after.total_requested == requested


# DuckDB: one file, many processes


HOLDS = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "reader")
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "some.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    return path


@pytest.mark.parametrize(
    ("holder", "read_only", "refused"),
    [("reader", True, False), ("reader", False, True), ("writer", True, True), ("writer", False, True)],
    ids=["reader-beside-reader", "writer-beside-reader", "reader-beside-writer", "writer-beside-writer"],
)
def test_duckdb_lets_other_processes_only_read_together(
    database: Path, holder: str, read_only: bool, refused: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(database), holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"open"
        try:
            duckdb.connect(str(database), read_only=read_only).close()
            was_refused = False
        except duckdb.IOException as error:
            was_refused = "lock" in str(error)
        process.communicate()

    assert was_refused is refused


def test_duckdb_goes_on_reading_the_file_it_opened_when_another_is_renamed_over_it(database: Path) -> None:
    newer = database.with_name("newer.duckdb")
    with duckdb.connect(str(newer)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 2 AS x")

    with duckdb.connect(str(database), read_only=True) as reader:
        newer.replace(database)

        assert reader.execute("SELECT x FROM t").fetchall() == [(1,)]
    with duckdb.connect(str(database), read_only=True) as reader:
        assert reader.execute("SELECT x FROM t").fetchall() == [(2,)]


def test_duckdb_leaves_everything_in_one_file_once_it_is_closed(database: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("INSERT INTO t VALUES (2)")
    assert [path.name for path in tmp_path.iterdir()] == [database.name]

    copy = Path(shutil.copyfile(database, tmp_path / "copy.duckdb"))

    with duckdb.connect(str(copy), read_only=True) as reader:
        assert reader.execute("SELECT sum(x) FROM t").fetchone() == (3,)


def test_duckdb_takes_back_tables_made_in_a_transaction(database: Path) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE made (x INTEGER)")
        connection.execute("COMMENT ON TABLE made IS 'made'")
        connection.execute("ROLLBACK")

        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("t",)]


# DuckDB: reading journals


JOURNAL = """\
{"at": "2026-01-15T12:00:00.123456Z", "count": 9007199254740993, "tags": ["a", "b"], "free": {"k": [1]}, "ok": true}
{"at": null, "count": null, "tags": [], "free": null, "ok": false, "unknown": 1}
{"text": "é \\u0000 \\"x\\""}
"""
COLUMNS = (
    "{'at': 'TIMESTAMP', 'count': 'BIGINT', 'tags': 'VARCHAR[]', 'free': 'JSON', 'ok': 'BOOLEAN', 'text': 'VARCHAR'}"
)


def test_duckdb_reads_json_lines_as_typed_columns_and_keeps_microseconds_and_nulls(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(JOURNAL)

    rows = duckdb.connect().execute(
        f"""SELECT "at"::VARCHAR, count, tags, free, ok, text
            FROM read_json('{path}', format='newline_delimited', columns={COLUMNS})"""
    ).fetchall()  # fmt: skip

    assert rows == [
        ("2026-01-15 12:00:00.123456", 9007199254740993, ["a", "b"], '{"k":[1]}', True, None),
        (None, None, [], None, False, None),
        (None, None, None, None, None, 'é \0 "x"'),
    ]


def test_duckdb_refuses_a_journal_with_a_line_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"text": "whole"}\n{"text": "ha')

    with pytest.raises(duckdb.InvalidInputException, match="JSON"):
        duckdb.connect().execute(f"FROM read_json('{path}', format='newline_delimited', columns={COLUMNS})").fetchall()


# DuckDB: SQL


def test_duckdb_keeps_comments_on_tables_columns_and_views() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x INTEGER)")
    connection.execute("CREATE VIEW v AS SELECT x FROM t")
    for what, said in (("TABLE t", "table"), ("COLUMN t.x", "column"), ("VIEW v", "it''s a view")):
        connection.execute(f"COMMENT ON {what} IS '{said}'")

    assert connection.execute("SELECT comment FROM duckdb_tables()").fetchall() == [("table",)]
    assert connection.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 't'").fetchall() == [("column",)]
    assert connection.execute("SELECT comment FROM duckdb_views() WHERE NOT internal").fetchall() == [("it's a view",)]


SQL = {
    "delete-using": "DELETE FROM t old USING (VALUES (1)) new(x) WHERE old.x IS NOT DISTINCT FROM new.x RETURNING x",
    "update-returning": "UPDATE t SET x = 1 WHERE x = 1 RETURNING x",
    "filter-without-where": "SELECT count(*) FILTER (x = 1) FROM t",
    "arg-max": "SELECT arg_max(1, x) FROM t",
    "list-contains": "SELECT list_contains([x], 1)::INTEGER FROM t",
    "exclude": "SELECT * EXCLUDE (y) FROM (SELECT x, 2 AS y FROM t)",
    "semi-join": "SELECT x FROM t SEMI JOIN (VALUES (1)) w(x) USING (x)",
    "json-arrow": """SELECT ('{"x": 1}'::JSON->>'x')::INTEGER""",
}


@pytest.mark.parametrize("statement", SQL.values(), ids=SQL)
def test_duckdb_speaks_the_sql_that_the_warehouse_uses(statement: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS x")

    assert connection.execute(statement).fetchall() == [(1,)]


def test_duckdb_hands_a_table_to_polars_by_parquet_with_its_types(tmp_path: Path) -> None:
    path = tmp_path / "answer.parquet"
    duckdb.connect().execute(
        f"""COPY (SELECT TIMESTAMP '2026-01-15 12:00:00.123456' AS at, NULL::DOUBLE AS score, ['a'] AS tags)
            TO '{path}' (FORMAT parquet)"""
    )

    frame = pl.read_parquet(path, memory_map=False)

    assert frame.schema == {"at": pl.Datetime("us"), "score": pl.Float64, "tags": pl.List(pl.String)}
    assert frame.rows()[0][1:] == (None, ["a"])


# Polars: unknown is not zero


NOTHING: list[float] = []


def test_polars_has_no_deviation_for_one_value() -> None:
    assert pl.DataFrame({"x": [1.0]}).select(pl.col("x").std()).item() is None


@pytest.mark.parametrize(
    "expression",
    [pl.col("x").mean(), pl.col("x").std(), pl.col("x").quantile(0.5, "linear"), pl.col("x").max()],
    ids=["mean", "std", "quantile", "max"],
)
def test_polars_says_null_of_nothing(expression: pl.Expr) -> None:
    assert pl.DataFrame({"x": pl.Series(NOTHING, dtype=pl.Float64)}).select(expression).item() is None


def test_polars_sums_nothing_to_zero_so_sums_ask_whether_anything_is_known() -> None:
    unknown = pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Float64)})

    assert unknown.select(pl.col("x").sum()).item() == 0.0
    assert unknown.select(pl.col("x").count()).item() == 0


def test_polars_leaves_nulls_out_of_means_and_counts() -> None:
    frame = pl.DataFrame({"x": [1.0, None, 0.0]})

    assert frame.select(pl.col("x").mean(), n=pl.col("x").count()).row(0) == (0.5, 2)


def test_polars_ranks_structs_field_by_field_and_ties_share_a_rank() -> None:
    frame = pl.DataFrame({"rate": [0.5, 0.9, 0.5, 0.5], "score": [0.1, 0.0, 0.7, 0.7]})

    ranked = frame.select(pl.struct(-pl.col("rate"), -pl.col("score")).rank("min"))

    assert ranked.to_series().to_list() == [4, 1, 2, 2]


def test_polars_fills_columns_that_one_frame_lacks_with_null() -> None:
    both = pl.concat([pl.DataFrame({"x": [1], "y": ["a"]}), pl.DataFrame({"x": [2]})], how="diagonal_relaxed")

    assert both.rows() == [(1, "a"), (2, None)]


def test_polars_replaces_in_an_empty_column_by_an_empty_table() -> None:
    empty = pl.DataFrame({"x": pl.Series([], dtype=pl.String)})

    assert empty.select(pl.col("x").replace_strict({}, default=None, return_dtype=pl.String)).rows() == []


# File locks


HOLDS_LOCK = """
import filelock, sys
lock = filelock.FileLock(sys.argv[1])
lock.acquire()
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_file_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"locked"
        with pytest.raises(TimeoutError):
            FileLock(path).acquire(timeout=0)
        process.kill()

    with FileLock(path, timeout=60) as lock:
        assert lock.is_locked
