"""A URL chooses the warehouse; anything of the protocol's shape can be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.storage import LocalStorage, Storage
from eval_pipeline.warehouse.store import WAREHOUSES, Warehouse, kept_open, open_warehouse


@pytest.mark.parametrize(
    ("where", "folder"),
    [
        ("data", "data"),
        ("a/b", "a/b"),
        ("duckdb:data", "data"),
        ("duckdb:../beside", "../beside"),
        ("odd/na:me", "odd/na:me"),
        (Path("odd:name"), "odd:name"),
    ],
)
def test_a_folder_or_a_duckdb_url_is_the_duckdb_file_in_that_folder(
    tmp_path: Path, where: str | Path, folder: str
) -> None:
    root = tmp_path / "project"

    opened = open_warehouse(where, root=root)

    assert isinstance(opened, DuckDBWarehouse)
    assert opened.path == (root / folder).resolve() / "warehouse.duckdb"
    assert list(tmp_path.iterdir()) == []


def test_an_absolute_duckdb_url_needs_no_root(tmp_path: Path) -> None:
    opened = open_warehouse(f"duckdb://{tmp_path}/data")

    assert isinstance(opened, DuckDBWarehouse)
    assert opened.folder == tmp_path / "data"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ducckdb:data", r"no warehouse 'ducckdb'; there are: duckdb(, ducklake)?; did you mean 'duckdb'\?"),
        ("postgres://host/db", "no warehouse 'postgres'; there are: duckdb"),
        ("duckdb:", "expected duckdb:FOLDER"),
    ],
)
def test_an_unusable_url_is_refused_with_the_known_schemes(url: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        open_warehouse(url)


def test_the_project_file_may_put_the_tables_elsewhere_than_the_files(tmp_path: Path) -> None:
    (tmp_path / "eval-pipeline.yaml").write_text("warehouse: duckdb:tables\ndata: files\n", encoding="utf-8")

    opened = load_project(tmp_path).open_warehouse()

    assert isinstance(opened, DuckDBWarehouse)
    assert opened.folder == tmp_path / "tables"
    assert opened.storage == LocalStorage(tmp_path / "files")


@pytest.mark.parametrize(("field", "limit"), [("", "488.2 MiB"), ("warehouse_memory_mb: 1000\n", "953.6 MiB")])
def test_the_project_file_limits_the_memory_of_the_database(tmp_path: Path, field: str, limit: str) -> None:
    (tmp_path / "eval-pipeline.yaml").write_text(field, encoding="utf-8")

    answer = load_project(tmp_path).open_warehouse().frame("SELECT current_setting('memory_limit') AS memory")

    assert answer["memory"].to_list() == [limit]


def test_less_memory_than_the_database_needs_is_an_error_of_the_project_file(tmp_path: Path) -> None:
    (tmp_path / "eval-pipeline.yaml").write_text("warehouse_memory_mb: 8\n", encoding="utf-8")

    with pytest.raises(InputError, match=r"eval-pipeline.yaml:1: warehouse_memory_mb: expected .* 96, got 8"):
        load_project(tmp_path)


def test_without_a_url_the_tables_are_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "eval-pipeline.yaml").write_text("data: files\n", encoding="utf-8")

    opened = load_project(tmp_path).open_warehouse()

    assert isinstance(opened, DuckDBWarehouse)
    assert opened.folder == tmp_path / "files"


def test_results_are_opened_by_folder_or_url(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "a"}])
    warehouse.publish()

    for where in (warehouse.folder, str(warehouse.folder), f"duckdb:{warehouse.folder}"):
        with open_results(where) as connection:
            assert connection.execute("SELECT sweep_id FROM sweeps").fetchall() == [("a",)]


def test_a_warehouse_of_somebody_else_is_opened_by_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Named(DuckDBWarehouse):
        """One that finds its folder by a name; it lacks what is optional."""

        kept_open = None  # type: ignore[assignment]

        @classmethod
        def open(cls, address: str, root: Path, storage: Storage) -> Named:
            return cls(tmp_path / "by-name" / address, storage=storage)

    WAREHOUSES.names()
    monkeypatch.setitem(WAREHOUSES._parts, "named", Named)

    opened: Warehouse = open_warehouse("named:mine", root=tmp_path)
    with kept_open(opened):
        opened.write("sweeps", [{"sweep_id": "a"}])

    assert opened.exists()
    assert (tmp_path / "by-name" / "mine" / "warehouse.duckdb").is_file()
    assert opened.storage.artifacts == tmp_path / "data" / "artifacts"
