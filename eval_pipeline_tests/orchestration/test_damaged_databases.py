"""Dagster's databases cut, overwritten or replaced: one error that names the file, the cure and what it costs."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from eval_pipeline.cli.delete import delete_command
from eval_pipeline.cli.dev import dev_command
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.partitions import SUITES
from eval_pipeline.sweeps.dagster_databases import DagsterDamage
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

pytestmark = pytest.mark.usefixtures("new_databases")


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def zeros(content: bytes) -> bytes:
    return bytes(len(content))


def no_header(content: bytes) -> bytes:
    return bytes(4_096) + content[4_096:]


def garbage(content: bytes) -> bytes:
    return random.Random(7).randbytes(len(content))


def torn(content: bytes) -> bytes:
    """The first and the last page as they were, garbage between them."""
    return content[:4_096] + garbage(content[4_096:-4_096]) + content[-4_096:]


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (cut, zeros, no_header, garbage, torn)
DATABASES = {
    "history/runs.db": "history",
    "history/runs/index.db": "history",
    "schedules/schedules.db": "schedules",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which Dagster stored a partition."""
    data = tmp_path_factory.mktemp("stored") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        with open_instance(data) as instance:
            instance.add_dynamic_partitions(SUITES, ["sums"])
    return data


@pytest.fixture
def data(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(stored, tmp_path / "data"))


def use(data: Path) -> None:
    """Read what every sweep reads."""
    with open_instance(data) as instance:
        instance.get_dynamic_partitions(SUITES)
        instance.get_runs()


def overwrite(data: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    database = data / "dagster" / name
    database.write_bytes(damage(database.read_bytes()))
    for log in database.parent.glob(f"{database.name}-*"):
        log.unlink()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", DATABASES)
def test_the_error_names_the_file_and_a_cure_that_helps(
    data: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    overwrite(data, name, damage)

    with pytest.raises(DagsterDamage) as raised:
        use(data)

    moved = f"data/dagster/{DATABASES[name]}"
    assert str(raised.value).startswith(f"data/dagster/{name} is damaged: ")
    assert f"None of the results is in it. To start anew without it: mv {moved} {moved}.damaged (lost: " in str(
        raised.value
    )
    Path(moved).rename(f"{moved}.damaged")
    use(data)


@pytest.mark.parametrize("name", DATABASES)
def test_a_folder_in_the_place_of_a_database_is_named(data: Path, name: str) -> None:
    database = data / "dagster" / name
    database.unlink()
    database.mkdir()

    with pytest.raises(DagsterDamage, match="is damaged: it is a folder"):
        use(data)


@pytest.mark.parametrize("name", DATABASES)
def test_an_empty_database_of_a_killed_process_is_made_again(data: Path, name: str) -> None:
    overwrite(data, name, lambda content: b"")

    use(data)


@pytest.mark.parametrize("damage", [cut, zeros])
def test_a_damaged_copy_of_empty_tables_is_made_again(data: Path, damage: Callable[[bytes], bytes]) -> None:
    (blank,) = (data / "dagster" / "history").glob("blank-events-*.db")
    overwrite(data, f"history/{blank.name}", damage)

    with open_instance(data) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("suites", partition="sums"))
        run = instance.create_run_for_job(nothing, tags={})
        instance.report_engine_event("hello", run)
        assert len(instance.all_logs(run.run_id)) == 1


@dg.job
def nothing() -> None:
    """No op."""


def test_a_damaged_log_of_one_run_costs_that_run_only(data: Path) -> None:
    with open_instance(data) as instance:
        run = instance.create_run_for_job(nothing, tags={}, status=dg.DagsterRunStatus.STARTED)
        instance.report_engine_event("hello", run)
    overwrite(data, f"history/runs/{run.run_id}.db", zeros)

    with pytest.raises(DagsterDamage) as raised, open_instance(data) as instance:
        instance.report_engine_event("again", run)

    file = f"data/dagster/history/runs/{run.run_id}.db"
    assert f"mv {file} {file}.damaged (lost: the events that Dagster shows of that run)" in str(raised.value)


def test_dev_names_a_damaged_database_before_it_starts_anything(data: Path) -> None:
    Path("eval-pipeline.yaml").write_text("suites: [suites]\n")
    overwrite(data, "history/runs.db", cut)

    ended = CliRunner().invoke(dev_command, ["--port", "65535"])

    assert isinstance(ended.exception, DagsterDamage)
    assert "data/dagster/history/runs.db is damaged: " in str(ended.exception)


def test_delete_names_a_damaged_database_before_it_deletes_anything(
    folder: ProjectFolder, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    folder.sweep()
    shutil.copytree(stored / "dagster", folder.data / "dagster", dirs_exist_ok=True)
    overwrite(folder.data, "history/runs.db", zeros)

    ended = CliRunner().invoke(delete_command, ["suites", "sums", "--yes", "--project", str(folder.root)])

    assert isinstance(ended.exception, DagsterDamage)
    assert folder.ask("SELECT count(*) FROM verdicts") == [(2,)]
