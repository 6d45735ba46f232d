"""The Dagster instance of a project: its storage opens quickly and stays Dagster's own."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from alembic.script import ScriptDirectory
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.sqlite_storage import SweepSqliteStorage
from eval_pipeline.sweeps.dagster_files import prepare_home

pytestmark = pytest.mark.usefixtures("new_databases")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path


@dg.op
def greet() -> None:
    """Do nothing."""


@dg.job
def greeting() -> None:
    """One op."""
    greet()


def run_in(instance: dg.DagsterInstance) -> str:
    result = greeting.execute_in_process(instance=instance)
    assert result.success
    return result.run_id


def schema_of(database: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(database)) as connection:
        tables = set(connection.execute("SELECT name, sql FROM sqlite_master"))
        return tables | set(connection.execute("SELECT 'stamp', version_num FROM alembic_version"))


def test_a_run_is_stored_as_dagster_itself_stores_it(data: Path, tmp_path: Path) -> None:
    with open_instance(data) as quick:
        first, second = run_in(quick), run_in(quick)
    home = prepare_home(data)
    with dg.DagsterInstance.local_temp(str(home)) as plain:
        third = run_in(plain)
        stored = {run.run_id for run in plain.get_runs()}
        events = [len(plain.all_logs(run)) for run in (first, second, third)]

    assert stored == {first, second, third}
    assert len(set(events)) == 1
    runs = home / "history" / "runs"
    assert schema_of(runs / f"{first}.db") == schema_of(runs / f"{second}.db") == schema_of(runs / f"{third}.db")


def migrated(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM secondary_indexes")}


def mode_of(database: Path) -> str:
    with closing(sqlite3.connect(database)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


def test_a_new_instance_has_the_databases_that_dagster_makes(data: Path, tmp_path: Path) -> None:
    with open_instance(data):
        quick = prepare_home(data)
    stock = tmp_path / "stock"
    stock.mkdir()
    with dg.DagsterInstance.local_temp(str(stock)):
        pass

    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        assert schema_of(quick / name) == schema_of(stock / name)
        assert mode_of(quick / name) == mode_of(stock / name)
    for name in ("history/runs.db", "history/runs/index.db"):
        assert migrated(quick / name) == migrated(stock / name)


def test_databases_that_exist_open_without_the_migration_scripts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_instance(data) as instance:
        first = run_in(instance)
    loaded: list[object] = []
    monkeypatch.setattr(ScriptDirectory, "from_config", lambda config: loaded.append(config))

    with open_instance(data) as instance:
        second = run_in(instance)

        assert {run.run_id for run in instance.get_runs()} == {first, second}
    assert loaded == []


def test_a_database_that_was_cut_off_while_it_was_made_is_made_again(data: Path) -> None:
    with open_instance(data):
        home = prepare_home(data)
    for name in ("runs.db", "runs/index.db", "../schedules/schedules.db"):
        (home / "history" / name).write_bytes(b"")

    with open_instance(data) as instance:
        assert instance.get_run_by_id(run_in(instance)) is not None


OWN = f"storage: {{custom: {{module: {__name__}, class: Own, config: {{base_dir: own}}}}}}"


@pytest.mark.parametrize(
    ("settings", "storage"),
    [("", SweepSqliteStorage), ("storage: {sqlite: {base_dir: elsewhere}}", SweepSqliteStorage), (OWN, "Own")],
    ids=["none", "sqlite elsewhere", "of the user"],
)
def test_only_the_default_storage_is_replaced(
    data: Path, settings: str, storage: type | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)
    (prepare_home(data) / "dagster.yaml").write_text(f"telemetry: {{enabled: false}}\n{settings}\n")

    with open_instance(data) as instance:
        opened = instance.get_ref().storage_data

    assert opened is not None
    assert opened.class_name == (storage if isinstance(storage, str) else storage.__name__)
    assert (data / "elsewhere" / "history").exists() == ("elsewhere" in settings)


class Own(DagsterSqliteStorage):
    """A storage that a user configured."""

    @classmethod
    def from_config_value(cls, inst_data: object, config_value: Any) -> Own:
        return cls(config_value["base_dir"])
