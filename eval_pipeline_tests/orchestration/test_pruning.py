"""Old runs leave Dagster with their files, except for those that have the newest events of a partition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.pruning import prune_runs
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

ASSETS = ("target_executions", "evaluator_scores", "leaderboards")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project after a run of all pairs, and two runs of some of them."""
    project = make_cli_project(tmp_path_factory.mktemp("pruned"))
    for runners in ((), ("--runner", "parrot"), ("--runner", "parrot")):
        project("run", "--quiet", "--refresh", "all", *runners)
    return project


@contextmanager
def opened(folder: CliProject) -> Iterator[dg.DagsterInstance]:
    with open_instance(folder.root / "data", folder.root) as instance:
        yield instance


def sweep_runs(folder: CliProject) -> list[str]:
    """The runs of sweeps, newest first."""
    with opened(folder) as instance:
        return [run.run_id for run in instance.get_runs(dg.RunsFilter(job_name="sweep"))]


def shown(folder: CliProject) -> dict[str, Any]:
    """What Dagster shows of assets: the newest materialization of each partition, with the number of its checks."""
    with opened(folder) as instance:
        kind = dg.DagsterEventType.ASSET_MATERIALIZATION
        log = instance.event_log_storage
        return {asset: log.get_latest_storage_id_by_partition(dg.AssetKey(asset), kind) for asset in ASSETS}


def shards(folder: CliProject) -> set[str]:
    return {path.stem for path in (folder.root / "data/dagster/history/runs").glob("*-*.db")}


def test_a_run_stays_while_it_has_the_newest_events_of_a_partition(folder: CliProject) -> None:
    newest, middle, first = sweep_runs(folder)
    before, now = shown(folder), datetime.now(UTC)

    young = prune_runs(folder.root / "data", folder.root, now - timedelta(hours=1), dry_run=False)
    counted = prune_runs(folder.root / "data", folder.root, now, dry_run=True)
    deleted, files = prune_runs(folder.root / "data", folder.root, now, dry_run=False)

    assert young[0] == 0
    assert counted[0] == deleted == 1  # the second sweep
    assert files.bytes > 50_000
    assert sweep_runs(folder) == [newest, first]
    assert middle not in shards(folder)
    assert shards(folder) >= {newest, first}
    assert shown(folder) == before
    assert prune_runs(folder.root / "data", folder.root, now, dry_run=False)[0] == 0


def test_the_command_deletes_old_runs_by_age_and_by_the_project_file(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)

    with (project.root / "eval-pipeline.yaml").open("a") as file:
        file.write("retention: {dagster_runs: {older_than: 30d}}\n")

    refused = project("delete", "dagster-runs", "--yes")
    unlimited = project("delete", "dagster-runs", "--older-than", "1d", "--yes")
    by_file = project("delete", "--retention")

    assert (refused.code, "dagster-runs: --older-than chooses them" in refused.err) == (2, True)
    assert "dagster-runs: nothing to delete" in unlimited.out
    assert "dagster-runs: nothing to delete" in by_file.out


def test_boards_stay_fresh_when_runs_that_they_were_made_from_leave(tmp_path: Path) -> None:
    """A board is compared with what its partitions were when it was made: those events have to stay."""
    project = make_cli_project(tmp_path)
    project("run", "--quiet")
    project("run", "--quiet", "--runner", "parrot")
    project("run", "--quiet")
    before = board_status(project)

    deleted, _ = prune_runs(project.root / "data", project.root, datetime.now(UTC), dry_run=False)

    assert deleted
    assert (before, board_status(project)) == ("FRESH", "FRESH")


def board_status(project: CliProject) -> str:
    """What the UI shows of the boards."""
    graph = build_definitions(ProjectSession(load_project(project.root))).resolve_asset_graph()
    with opened(project) as instance:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        return str(resolver.get_status(dg.AssetKey("leaderboards")).value)
