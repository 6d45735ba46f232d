"""Analysts' clients: the published file opens in any DuckDB from 1.0 on, and each view answers from 1.1 on."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.queries import newest_moment
from eval_pipeline.warehouse.rows import report_row, stored_report
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS
from eval_pipeline_tests.builders import NOON, an_execution

FIRST_FORMAT = 64
"""The number in the files of DuckDB 0.10 to 1.1; later ones can read it."""
READ_ALL = """
import sys
import duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
for name in sys.argv[2:]:
    connection.execute(f'SELECT * FROM "{name}"').fetchall()
connection.execute("SELECT wilson(1, 2) FROM verdicts_of(NULL), board_as_of(now()), regressions(NULL, NULL)").fetchall()
print(duckdb.__version__, connection.execute("SELECT count(*), any_value(sweep_id) FROM sweeps").fetchone())
"""


def format_of(path: Path) -> int:
    magic, number = struct.unpack("<8x4sQ", path.read_bytes()[:20])
    assert magic == b"DUCK"
    return int(number)


def test_what_is_published_has_the_format_of_the_first_stable_version(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}])
    warehouse.compact()
    warehouse.publish()

    assert format_of(warehouse.results) == FIRST_FORMAT


def test_a_warehouse_in_a_newer_format_is_written_anew_with_its_rows(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}, {"sweep_id": "2"}])
    newer = warehouse.folder / "newer.duckdb"
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{warehouse.path}' AS old (READ_ONLY)")
        connection.execute(f"ATTACH '{newer}' AS new (STORAGE_VERSION 'latest')")
        connection.execute("COPY FROM DATABASE old TO new")
    newer.replace(warehouse.path)
    assert format_of(warehouse.path) > FIRST_FORMAT

    DuckDBWarehouse(warehouse.folder).publish()

    assert format_of(warehouse.results) == format_of(warehouse.path) == FIRST_FORMAT
    with warehouse.published() as connection:
        assert connection.execute("SELECT sweep_id FROM sweeps ORDER BY 1").fetchall() == [("1",), ("2",)]
        assert connection.execute("SELECT max(version) FROM schema_migrations").fetchall() == [(SCHEMA_VERSION,)]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_the_last_hour_is_the_last_hour_in_every_time_zone(
    zone: str, warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    now = datetime.now(UTC)
    rows = [{"verdict_id": str(minutes), "decided_at": now - timedelta(minutes=minutes)} for minutes in (30, 90, 500)]
    warehouse.write("verdicts", rows)
    warehouse.publish()

    with duckdb.connect(str(warehouse.results), read_only=True) as connection:
        connection.execute(f"SET TimeZone = '{zone}'")
        query = "SELECT verdict_id, decided_at FROM verdicts WHERE decided_at > now() - INTERVAL 1 HOUR"
        ((recent, at),) = connection.execute(query).fetchall()

    assert recent == "30"
    assert at == rows[0]["decided_at"]
    assert newest_moment(warehouse) == rows[0]["decided_at"]


def test_every_cursor_of_the_results_is_in_utc_wherever_the_machine_is(
    warehouse: DuckDBWarehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    warehouse.write("sweeps", [{"sweep_id": "1", "started_at": NOON}])
    warehouse.publish()

    query = "SELECT current_setting('TimeZone'), started_at::VARCHAR FROM sweeps"
    with warehouse.published() as reader, warehouse.transaction() as writer:
        zones = [each.execute(query).fetchone() for each in (reader, reader.cursor(), writer)]
        (zone,) = writer.cursor().execute("SELECT current_setting('TimeZone')").fetchall()

    assert zone == ("UTC",)
    assert zones == [("UTC", f"{NOON:%Y-%m-%d %H:%M:%S}+00")] * 3


def test_the_times_of_a_session_are_times_and_its_texts_are_as_reported(warehouse: DuckDBWarehouse) -> None:
    report = SessionReport(execution_id="e", started_at="2026-01-15T14:00:00.5+02:00", ended_at="soon")

    row = report_row(report, an_execution(execution_id="e"), "answer/1", NOON)
    warehouse.write("session_reports", [row])
    stored = warehouse.frame("SELECT started_at, ended_at, reported_times FROM session_reports").row(0)

    assert stored[:2] == (datetime(2026, 1, 15, 12, 0, 0, 500_000), None)
    assert stored_report({**row, "reported_times": json.loads(stored[2])}, []).started_at == report.started_at


def test_a_program_that_is_no_file_prints_rows_without_the_progress_of_queries(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("sweeps", [{"sweep_id": "1"}])
    warehouse.publish()
    setting = "execute(\"SELECT current_setting('enable_progress_bar')\").fetchone()"
    source = f"""
import sys, duckdb
from pathlib import Path
from eval_pipeline.warehouse.attached import attached
print(duckdb.connect().{setting}, attached(Path(sys.argv[1])).{setting})"""

    printed = subprocess.check_output([sys.executable, "-c", source, str(warehouse.results)], text=True)

    assert printed == "(True,) (False,)\n"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0.0", "1.1.3", "1.2.2", "1.4.1", "1.5.6"])
def test_older_clients_read_every_table_and_view(version: str, warehouse: DuckDBWarehouse, tmp_path: Path) -> None:
    client = tmp_path / "client"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:"]
    installed = subprocess.run([*command, "--target", str(client), f"duckdb=={version}"], capture_output=True)
    if installed.returncode:
        pytest.skip(f"duckdb {version} cannot be installed here")
    warehouse.write("sweeps", [{"sweep_id": "1"}])
    if version != "1.0.0":  # which cannot read a column of lists that are all empty
        warehouse.write("verdicts", [{"verdict_id": "1", "tags": []}])
    warehouse.publish()

    names = [*(table.name for table in TABLES), *(view.name for view in VIEWS)]
    read = subprocess.run(
        [sys.executable, "-c", READ_ALL, str(warehouse.results), *names],
        capture_output=True, text=True, env={"PYTHONPATH": str(client)}, check=False,
    )  # fmt: skip

    assert (read.stdout, read.stderr) == (f"{version} (1, '1')\n", "")
