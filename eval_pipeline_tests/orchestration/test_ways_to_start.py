"""Every way to start a sweep, on one project: the rows of each compared with those of the command line.

The ways of the UI are the GraphQL mutations that its dialogs send, carried out by the real daemon; the main ones are
also clicked in a real browser. Every sweep calls everything anew (`refresh: all`), so that its rows are its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.warehouse.published import open_results
from eval_pipeline_tests.orchestration.browser import Browser, Click, See, Sent
from eval_pipeline_tests.orchestration.dev_servers import Ui, dev_server, free_port, wait_until_served
from eval_pipeline_tests.orchestration.test_ui import browser
from eval_pipeline_tests.sweeps.sample_project import (
    COMPARED,
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    make_project,
    published,
    requested_cells,
)
from eval_pipeline_tests.thoroughness import part_or_all

__all__ = ["browser"]

PATIENCE_S = 300.0
REPOSITORY = {"repositoryLocationName": "eval_pipeline", "repositoryName": "__repository__"}
EVERYTHING = [*PAIR_ASSETS, "suites", "leaderboards"]
PAIRS = ["more@echo", "only-parrot@parrot", "sums@echo", "sums@parrot", "sums@crow"]
ANEW = {"ops": {"evaluate": {"config": {"refresh": "all"}}}}

BACKFILL = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
RUN = """
mutation Launch($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}"""
START_SCHEDULE = """
mutation Start($selector: ScheduleSelector!) {
  startSchedule(scheduleSelector: $selector) { ... on ScheduleStateResult { scheduleState { id } } }
}"""
STOP_SCHEDULE = "mutation Stop($id: String!) { stopRunningSchedule(id: $id) { __typename } }"
RUNS = """
query Runs($tags: [ExecutionTag!], $ids: [String]) {
  runsOrError(filter: {tags: $tags, runIds: $ids}) { ... on Runs { results { runId status } } }
}"""
BACKFILL_STATUS = """
query Status($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}"""
ASSETS = """
{ assetNodes { assetKey { path } partitionKeys partitionStats { numMaterialized numPartitions numFailed } } }"""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to start a sweep: what it launches and the pairs that it covers.

    `how` is `run`, `backfill` or `schedule`; a `job` is launched from its own page, else assets from theirs.
    """

    how: str
    pairs: Sequence[str] = tuple(PAIRS)
    assets: Sequence[str] = PAIR_ASSETS
    job: str | None = None
    runs: int = 1


SEVERAL = ("more@echo", "sums@parrot")  # they do not follow each other: a run each
WAYS: dict[str, Way] = {
    "asset page, one partition": Way("run", ("sums@parrot",), PAIR_ASSETS[:1]),
    "asset page, several partitions": Way("backfill", SEVERAL, PAIR_ASSETS[:1], runs=2),
    "asset page, all partitions": Way("backfill", PAIRS, PAIR_ASSETS[:1]),
    "lineage, one partition": Way("run", ("sums@echo",)),
    "lineage, several partitions": Way("backfill", SEVERAL, runs=2),
    "lineage, all partitions of the assets of pairs": Way("backfill"),
    "job page, one partition": Way("run", ("sums@crow",), job="sweep"),
    "job page, several partitions": Way("backfill", SEVERAL, job="sweep", runs=2),
    "job page, all partitions": Way("backfill", job="sweep"),
    "launchpad of the job, a range": Way("run", PAIRS[1:4], job="sweep"),
    "schedule": Way("schedule"),
    "command line": Way("command line"),
}
TRIED = part_or_all(
    [
        "asset page, several partitions",
        "lineage, one partition",
        "job page, all partitions",
        "launchpad of the job, a range",
        "schedule",
        "command line",
    ],
    [*WAYS],
)
"""Every kind of start, choice of partitions, and choice of assets at least once: each run is a process."""


@dataclass(slots=True)
class Server:
    """The UI of a project where everything was materialized once from the lineage."""

    ui: Ui
    other: Path
    launched: dict[str, Callable[[], list[str]]] = field(default_factory=dict)

    def launch(self, way: Way) -> Callable[[], list[str]]:
        """Start a way; what is returned waits for its end and returns the ids of its runs."""
        if way.how == "command line":
            run_id = sweep_all(self.ui.folder, self.ui.folder.data)
            return lambda: [run_id]
        if way.how == "schedule":
            return self._schedule()
        return self._run(way) if way.how == "run" else self._backfill(way)

    def _run(self, way: Way) -> Callable[[], list[str]]:
        name = "dagster/partition"
        tags = {name: way.pairs[0]} if len(way.pairs) == 1 else range_of(way.pairs)
        selector = {**REPOSITORY, "pipelineName": way.job or "__ASSET_JOB", "assetSelection": keys(way.assets)}
        if "evaluator_scores" in way.assets:
            checks = [{"name": name, "assetKey": {"path": ["evaluator_scores"]}} for name in ("coverage", "pass_rate")]
            selector["assetCheckSelection"] = checks
        params = {
            "mode": "default",
            "selector": selector,
            "runConfigData": ANEW,
            "executionMetadata": {"tags": ui_tags(tags)},
        }
        launched = self.ui.ask(RUN, params=params)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return lambda: self.ended_runs([launched["run"]["runId"]])

    def _backfill(self, way: Way) -> Callable[[], list[str]]:
        params = {
            "assetSelection": keys(way.assets), "partitionNames": list(way.pairs), "fromFailure": False,
            "runConfigData": ANEW, "tags": ui_tags({}),
        }  # fmt: skip
        if way.job:
            params["selector"] = {"partitionSetName": f"{way.job}_partition_set", "repositorySelector": REPOSITORY}
        return self.backfill(params)

    def backfill(self, params: Mapping[str, Any]) -> Callable[[], list[str]]:
        launched = self.ui.ask(BACKFILL, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return lambda: self.ended_backfill(launched["backfillId"])

    def ended_backfill(self, backfill: str) -> list[str]:
        """The runs of a backfill that ended well."""

        def status() -> str:
            answer = self.ui.ask(BACKFILL_STATUS, id=backfill)["partitionBackfillOrError"]
            return str(answer["status"])

        wait_for(lambda: status().startswith("COMPLETED"))
        assert status() == "COMPLETED_SUCCESS"
        return self.ended_runs(None, {"dagster/backfill": backfill})

    def _schedule(self) -> Callable[[], list[str]]:
        selector = {**REPOSITORY, "scheduleName": "nightly_sweep"}
        state = self.ui.ask(START_SCHEDULE, selector=selector)["startSchedule"]["scheduleState"]
        tags = {"dagster/schedule_name": "nightly_sweep"}

        def ended() -> list[str]:
            wait_for(lambda: bool(self.runs(None, tags)))
            self.ui.ask(STOP_SCHEDULE, id=state["id"])
            return self.ended_runs(None, tags)[-1:]

        return ended

    def runs(self, ids: Sequence[str] | None, tags: Mapping[str, str] | None = None) -> list[dict[str, str]]:
        named = [{"key": key, "value": value} for key, value in (tags or {}).items()] or None
        matching: list[dict[str, str]] = self.ui.ask(RUNS, ids=ids, tags=named)["runsOrError"]["results"]
        return matching

    def ended_runs(self, ids: Sequence[str] | None, tags: Mapping[str, str] | None = None) -> list[str]:
        over = ("SUCCESS", "FAILURE", "CANCELED")
        wait_for(lambda: all(run["status"] in over for run in self.runs(ids, tags)))
        runs = self.runs(ids, tags)
        assert {run["status"] for run in runs} == {"SUCCESS"}
        return [run["runId"] for run in runs]


def keys(assets: Sequence[str]) -> list[dict[str, list[str]]]:
    return [{"path": [asset]} for asset in assets]


def ui_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in {**tags, "dagster/from_ui": "true"}.items()]


def range_of(pairs: Sequence[str]) -> dict[str, str]:
    names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    return dict(zip(names, (pairs[0], pairs[-1]), strict=True))


def wait_for(happened: Callable[[], bool], seen: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen {seen()}"
        time.sleep(0.5)


def sweep_all(folder: ProjectFolder, data: Path) -> str:
    """What `eval-pipeline run --refresh all` does; returns its Dagster run."""
    session = folder.session(data)
    result = run_sweep(session, *requested_cells(session), {"refresh": "all"})
    assert result.problem is None
    assert result.run_id is not None
    return result.run_id


def rows_of(data: Path, runs: Sequence[str], pairs: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that the sweeps of some runs stored for some pairs, by table, without ids and times."""
    named = ", ".join(f"'{run}'" for run in runs)
    sweeps = f"sweep_id IN (SELECT sweep_id FROM sweeps WHERE dagster_run_id IN ({named}))"
    executed = f"execution_id IN (SELECT execution_id FROM target_executions WHERE {sweeps})"
    of_pairs = f"suite || '@' || runner IN ({', '.join(repr(pair) for pair in pairs)})"
    of_sweep = {"target_executions": sweeps, "sweep_pairs": sweeps}
    tables = ("target_executions", "session_reports", "session_events", "evaluator_scores", "verdicts", "sweep_pairs")
    where = {table: f"{of_sweep.get(table, executed)} AND {of_pairs}" for table in tables}
    with open_results(data) as connection:
        return {
            table: connection.execute(
                f"SELECT {COMPARED[table]} FROM {table} WHERE {where[table]} ORDER BY ALL"
            ).fetchall()
            for table in tables
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Three suites and three runners, of whose nine pairs five are requested; one case fails, one crashes its target.

    The sensor finds the pairs: nothing is told to the instance by the command line.
    """
    folder = make_project(tmp_path_factory.mktemp("ways") / "project", schedule="* * * * *")
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"), a_runner_entry("crow"))
    folder.write_suite(a_test("a"), a_test("b", contains("9")))
    folder.write_suite(a_test("x"), a_test("boom"), name="more", execution={"targets": ["echo"]})
    folder.write_suite(a_test("y"), name="only-parrot", execution={"targets": ["parrot"]})
    folder.write_answers(boom="crash")
    port = free_port()
    with dev_server(folder, port) as (process, log):
        sweep_all(folder, folder.root / "other")
        wait_until_served(f"http://127.0.0.1:{port}/server_info", process, log)
        made = Server(Ui(f"http://127.0.0.1:{port}", folder, ""), folder.root / "other")
        wait_for(lambda: any(node["partitionKeys"] == PAIRS for node in made.ui.ask(ASSETS)["assetNodes"]))
        yield made


@pytest.fixture(scope="module")
def from_lineage(server: Server) -> list[str]:
    """The runs of *Lineage → Materialize all* on a project where nothing was materialized."""
    return server.backfill({"tags": ui_tags({}), "assetSelection": keys(EVERYTHING), "allPartitions": True})()


@pytest.fixture(scope="module")
def all_ways(server: Server, from_lineage: list[str]) -> dict[str, Callable[[], list[str]]]:
    """Every way, started: the daemon takes them together."""
    return {name: server.launch(WAYS[name]) for name in TRIED}


def test_materialize_all_of_the_lineage_stores_the_rows_of_the_command_line(
    server: Server, from_lineage: list[str]
) -> None:
    ours, theirs = published(server.ui.folder.data), published(server.other)

    assert len(ours["verdicts"]) == 9
    for table in ours:
        assert ours[table] == theirs[table], table


def test_materialize_all_of_the_lineage_is_one_sweep_and_leaves_nothing_missing_or_failed(
    server: Server, from_lineage: list[str]
) -> None:
    stats = {node["assetKey"]["path"][0]: node["partitionStats"] for node in server.ui.ask(ASSETS)["assetNodes"]}

    assert len(from_lineage) == 3  # suites, the assets of the pairs, leaderboards
    assert server.ui.folder.ask("SELECT count(*) FROM sweeps") == [(1,)]
    partitioned = {asset: numbers for asset, numbers in stats.items() if numbers is not None}
    assert partitioned.pop("suites") == {"numMaterialized": 3, "numPartitions": 3, "numFailed": 0}
    assert set(partitioned) == {*PAIR_ASSETS, "plans", "evaluators"}
    for numbers in partitioned.values():
        assert numbers == {"numMaterialized": 5, "numPartitions": 5, "numFailed": 0}


@pytest.mark.parametrize("name", TRIED)
def test_every_way_to_start_a_sweep_stores_the_rows_of_the_command_line(
    server: Server, all_ways: dict[str, Callable[[], list[str]]], name: str
) -> None:
    way = WAYS[name]
    runs = all_ways[name]()
    reference = sweeps_of_other(server)

    ours, theirs = (
        rows_of(server.ui.folder.data, runs, way.pairs), rows_of(server.other, reference, way.pairs)
    )  # fmt: skip

    assert len(runs) == way.runs
    assert len(ours["target_executions"]) == len(theirs["target_executions"]) > 0
    assert stored_pairs(server, runs) == sorted(way.pairs)
    tables = list(ours) if len(way.assets) > 1 else ["target_executions"]
    for table in tables:
        assert ours[table] == theirs[table], table


def sweeps_of_other(server: Server) -> list[str]:
    with open_results(server.other) as connection:
        return [run for (run,) in connection.execute("SELECT dagster_run_id FROM sweeps").fetchall()]


def stored_pairs(server: Server, runs: Sequence[str]) -> list[str]:
    """The pairs of which the sweeps of some runs stored executions."""
    named = ", ".join(f"'{run}'" for run in runs)
    rows = server.ui.folder.ask(
        f"""SELECT DISTINCT suite || '@' || runner FROM target_executions JOIN sweeps USING (sweep_id)
            WHERE dagster_run_id IN ({named}) ORDER BY 1"""
    )
    return [pair for (pair,) in rows]


# What the UI shows of partitions


STALE = """
query Stale($asset: AssetKeyInput!, $keys: [String!]) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      staleStatusByPartition(partitions: $keys)
      staleCausesByPartition(partitions: $keys) { reason partitionKey key { path } }
    }
  }
}"""
BOARD = """
query Board($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset) { ... on AssetNode { staleStatus } } }"""
CHECKS = """
query Checks($asset: AssetKeyInput!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      assetChecksOrError {
        ... on AssetChecks {
          checks {
            name
            partitionStatuses {
              ... on AssetCheckDefaultPartitionStatuses {
                succeededPartitions failedPartitions skippedPartitions executionFailedPartitions
              }
            }
          }
        }
      }
    }
  }
}"""


def test_checks_show_their_result_for_each_partition(server: Server, from_lineage: list[str]) -> None:
    shown = {asset: checks_of(server, asset) for asset in ("evaluator_scores", "suites")}

    coverage = shown["evaluator_scores"]["coverage"]
    assert coverage["failedPartitions"] == ["more@echo"]
    assert sorted(coverage["succeededPartitions"]) == sorted(set(PAIRS) - {"more@echo"})
    assert coverage["skippedPartitions"] == coverage["executionFailedPartitions"] == []
    assert sorted(shown["suites"]["suite_is_valid"]["succeededPartitions"]) == ["more", "only-parrot", "sums"]


def checks_of(server: Server, asset: str) -> dict[str, dict[str, list[str]]]:
    node = server.ui.ask(CHECKS, asset={"path": [asset]})["assetNodeOrError"]
    return {check["name"]: check["partitionStatuses"] for check in node["assetChecksOrError"]["checks"]}


def test_the_page_of_a_failed_check_shows_it(server: Server, from_lineage: list[str], browser: Browser) -> None:
    page = f"{server.ui.url}/assets/evaluator_scores?view=checks&checkDetail=coverage"

    browser.drive(page, See("coverage"), See("Failed"))


def test_one_partition_from_the_asset_page_in_the_browser(
    server: Server, from_lineage: list[str], browser: Browser
) -> None:
    page = f"{server.ui.url}/assets/evaluator_scores?view=partitions&partition=sums%40parrot"
    of_pair = {"dagster/partition": "sums@parrot"}
    before = len(server.runs(None, of_pair))

    (sent,) = browser.drive(
        page, See("Materialized"), Click("Materialize…"), See("1 partition"), Click("Launch 1 run"), Sent()
    )

    tags = {tag["key"]: tag["value"] for tag in sent["executionParams"]["executionMetadata"]["tags"]}
    assert tags["dagster/partition"] == "sums@parrot"
    wait_for(lambda: len(server.runs(None, of_pair)) == before + 1)
    server.ended_runs(None, of_pair)


def test_all_partitions_from_the_job_page_in_the_browser_carry_out_what_is_new(
    server: Server, from_lineage: list[str], browser: Browser
) -> None:
    folder = server.ui.folder
    folder.write_suite(a_test("a"), a_test("b", contains("9")), a_test("new"))

    (sent,) = browser.drive(
        f"{server.ui.url}/locations/eval_pipeline/jobs/sweep",
        Click("Materialize all…"), Click("All"), See("5 partitions"), Click("Launch backfill"), Sent(),
    )  # fmt: skip

    assert sent["backfillParams"]["partitionNames"] == PAIRS
    wait_for(lambda: folder.ask("SELECT count(*) FROM verdicts WHERE case_id = 'new'") == [(3,)])


def test_an_edited_evaluator_makes_scores_and_boards_stale_and_no_execution(
    server: Server, from_lineage: list[str]
) -> None:
    folder = server.ui.folder
    assets = ("leaderboards", *PAIR_ASSETS)
    wait_for(
        lambda: all(is_fresh(server, asset) for asset in assets), lambda: [stale(server, asset) for asset in assets]
    )
    folder.write_suite(a_test("y", contains("apples")), name="only-parrot", execution={"targets": ["parrot"]})
    wait_for(lambda: stale(server, "evaluator_scores")["only-parrot@parrot"][0] == "STALE")

    scores = stale(server, "evaluator_scores")
    assert scores["only-parrot@parrot"][1] == ["evaluators only-parrot@parrot has a new data version"]
    assert {key for key, (status, _) in scores.items() if status == "STALE"} == {"only-parrot@parrot"}
    for asset in ("target_executions", "session_reports"):
        assert {status for status, _ in stale(server, asset).values()} == {"FRESH"}, asset
    assert stale(server, "leaderboards")[""][0] == "STALE"


def test_scores_are_fresh_once_they_are_rescored_without_a_call(server: Server, from_lineage: list[str]) -> None:
    server.ui.folder.take_calls()
    rescored = Way("backfill", ("only-parrot@parrot",), PAIR_ASSETS[1:], job="rescore")

    server.launch(rescored)()

    assert server.ui.folder.take_calls() == []
    assert stale(server, "evaluator_scores")["only-parrot@parrot"] == ("FRESH", [])
    wait_for(lambda: stale(server, "leaderboards")[""][0] == "FRESH")


def test_an_edited_input_makes_executions_stale(server: Server, from_lineage: list[str]) -> None:
    folder = server.ui.folder
    folder.write_suite(a_test("y", text="3 pears"), name="only-parrot", execution={"targets": ["parrot"]})

    wait_for(lambda: stale(server, "target_executions")["only-parrot@parrot"][0] == "STALE")

    (cause,) = stale(server, "target_executions")["only-parrot@parrot"][1]
    assert cause == "plans only-parrot@parrot has a new data version"


def is_fresh(server: Server, asset: str) -> bool:
    return all(status == "FRESH" for status, _ in stale(server, asset).values())


def stale(server: Server, asset: str) -> dict[str, tuple[str, list[str]]]:
    """Whether each partition is up to date as the UI shows it, and why not; under '' of an asset without partitions."""
    if asset == "leaderboards":
        board = server.ui.ask(BOARD, asset={"path": [asset]})["assetNodeOrError"]
        return {"": (board["staleStatus"], [])}
    node = server.ui.ask(STALE, asset={"path": [asset]}, keys=PAIRS)["assetNodeOrError"]
    causes = [
        [f"{cause['key']['path'][0]} {cause['partitionKey']} {cause['reason']}" for cause in of_partition]
        for of_partition in node["staleCausesByPartition"]
    ]
    return dict(zip(PAIRS, zip(node["staleStatusByPartition"], causes, strict=True), strict=True))
