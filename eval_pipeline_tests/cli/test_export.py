"""`export`: results for other tools, in files, on stdout, or sent to a collector."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.cli.test_exhaustion import CURE, files_at_most


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that has been run twice, another suite each time; the runner `broken` always fails."""
    cli_project = make_cli_project(tmp_path_factory.mktemp("exported"))
    cli_project("run", "--quiet", "--runner", "greeter,parrot,broken", "suites/greetings.yaml")
    cli_project("run", "--quiet", "--runner", "parrot", "suites/more/sums.jsonl")
    return cli_project


@pytest.fixture
def copy(cli_project: CliProject, tmp_path: Path) -> CliProject:
    """The same project, for a test that changes something."""
    return CliProject(Path(shutil.copytree(cli_project.root, tmp_path / "copy")))


@dataclass
class Collector:
    """What a collector of traces was sent, and how it answers: these statuses first, then 200."""

    answers: list[int] = field(default_factory=list)
    received: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    url: str = ""

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [span for _, _, body in self.received for span in body["resourceSpans"][0]["scopeSpans"][0]["spans"]]


@contextmanager
def collecting(*answers: int) -> Iterator[Collector]:
    """A real server on 127.0.0.1 that takes OTLP/HTTP."""
    collector = Collector(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            collector.received.append((self.path, dict(self.headers), body))
            self.send_response(collector.answers.pop(0) if collector.answers else 200)
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *arguments: Any) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield collector
        server.shutdown()


def test_current_results_become_an_agentv_run_folder(cli_project: CliProject, tmp_path: Path) -> None:
    answer = cli_project("export", "--format", "agentv", "--output", str(tmp_path / "run"))

    rows = [json.loads(line) for line in (tmp_path / "run" / "index.jsonl").read_text().splitlines()]
    assert answer.code == 0
    assert f"exported 11 executions of current to {tmp_path / 'run'}" in answer.err
    assert {(row["suite"], row["test_id"], row["target"]): row["execution_status"] for row in rows} == {
        **{("greetings", case, runner): "ok" for case in ("ann", "bob") for runner in ("greeter", "parrot")},
        **{("greetings", case, "broken"): "execution_error" for case in ("ann", "bob", "nobody")},
        ("greetings", "nobody", "greeter"): "quality_failure",
        ("greetings", "nobody", "parrot"): "ok",
        ("sums", "one", "parrot"): "ok",
        ("sums", "two", "parrot"): "ok",
    }
    for row in rows:
        grading = json.loads((tmp_path / "run" / row["grading_path"]).read_text())
        assert grading["summary"]["total"] == len(row["scores"])
        if row["target"] != "broken":
            assert (tmp_path / "run" / row["response_path"]).read_text().startswith("@[assistant]:\n")


def test_without_a_place_a_run_folder_goes_where_agentv_looks(copy: CliProject) -> None:
    answer = copy("export", "--format", "agentv", "--sweep", "latest")

    (run,) = (copy.root / ".agentv" / "results" / "runs").iterdir()
    assert answer.code == 0
    assert sorted(path.name for path in run.iterdir()) == ["benchmark.json", "index.jsonl", "sums", "timing.json"]
    assert copy("export", "--format", "agentv", "--sweep", "latest").code == 2  # never mixed with what is there


def test_junit_keeps_failures_from_errors(cli_project: CliProject, tmp_path: Path) -> None:
    cli_project("export", "--format", "junit", "--output", str(tmp_path / "out" / "report.xml"))

    root = ET.parse(tmp_path / "out" / "report.xml").getroot()
    assert [(suite.get("name"), suite.get("failures"), suite.get("errors")) for suite in root] == [
        ("greetings · broken", "0", "3"),
        ("greetings · greeter", "1", "0"),
        ("greetings · parrot", "0", "0"),
        ("sums · parrot", "0", "0"),
    ]


@pytest.mark.parametrize("where", [[], ["--output", "-"]], ids=["no-file", "dash"])
def test_lines_go_to_stdout_where_no_file_is_named(cli_project: CliProject, where: list[str]) -> None:
    answer = cli_project("export", "--format", "jsonl", "--suite", "sums", *where)

    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [(row["case_id"], row["status"], row["output"]) for row in rows] == [
        ("one", "passed", "hello? 1 and 1"), ("two", "passed", "hello? 2 and 2")
    ]  # fmt: skip
    assert answer.err == "exported 2 executions of current to stdout\n"


def test_one_sweep_one_suite_or_one_runner_can_be_chosen(cli_project: CliProject) -> None:
    def count(*chosen: str) -> int:
        return len(cli_project("export", "--format", "jsonl", *chosen).out.splitlines())

    ((board,),) = cli_project.ask("SELECT min(board_id) FROM leaderboards")
    assert [count(), count("--sweep", "latest"), count("--sweep", "previous"), count("--board", board)] == [11, 2, 9, 9]
    assert [count("--runner", "greeter"), count("--runner", "parrot", "--suite", "greetings")] == [3, 3]


def test_one_document_counts_what_it_holds(cli_project: CliProject) -> None:
    document = cli_project("export", "--format", "json").document

    stats = document["stats"]
    assert (stats["total"], stats["graded"], stats["passed"], stats["errors"]) == (11, 8, 7, 3)
    assert len(document["results"]) == 11


def test_traces_are_sent_to_a_collector_with_its_headers(copy: CliProject) -> None:
    copy.write(".env", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20key,x-team=a\n")

    with collecting() as collector:
        answer = copy("export", "--format", "otel", "--endpoint", collector.url, "--suite", "sums")

    ((path, headers, _),) = collector.received
    lowered = {name.lower(): value for name, value in headers.items()}
    assert answer.code == 0
    assert (path, lowered["authorization"], lowered["x-team"]) == ("/v1/traces", "Bearer key", "a")
    assert lowered["content-type"] == "application/json"
    assert [span["name"] for span in collector.spans if "parentSpanId" not in span] == ["invoke_agent parrot"] * 2


def test_what_a_collector_asks_for_again_is_sent_again(cli_project: CliProject) -> None:
    with collecting(503, 429) as collector:
        answer = cli_project(
            "export", "--format", "otel", "--endpoint", f"{collector.url}/v1/traces", "--suite", "sums"
        )

    assert (answer.code, len(collector.received)) == (0, 3)


def test_a_collector_that_refuses_or_is_not_there_is_said(cli_project: CliProject) -> None:
    with collecting(401) as collector:
        refused = cli_project("export", "--format", "otel", "--endpoint", collector.url)
    gone = cli_project("export", "--format", "otel", "--endpoint", "http://127.0.0.1:9")

    assert (refused.code, gone.code) == (2, 2)
    assert "/v1/traces answered 401" in refused.err
    assert "http://127.0.0.1:9/v1/traces cannot be reached" in gone.err


def test_what_was_said_leaves_the_house_only_when_asked(cli_project: CliProject) -> None:
    without, with_content = (cli_project("export", "--format", "otel", *more).out for more in ([], ["--content"]))

    assert "hello? 1 and 1" not in without
    assert "hello? 1 and 1" in with_content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "tsv"], "'tsv' is not one of"),
        ([], "Missing option '--format'"),
        (["--format", "json", "--sweep", "yesterday"], "no sweep 'yesterday'"),
        (["--format", "json", "--board", "none"], "no board 'none'"),
        (["--format", "json", "--board", "b", "--sweep", "latest"], "not both"),
        (["--format", "json", "--suite", "sum"], "no suite 'sum'"),
        (["--format", "json", "--endpoint", "http://127.0.0.1:9"], "--format otel"),
        (["--format", "otel", "--endpoint", "127.0.0.1:9"], "expected http://"),
    ],
)
def test_an_export_that_cannot_be_is_said(cli_project: CliProject, arguments: list[str], message: str) -> None:
    answer = cli_project("export", *arguments)

    assert answer.code == 2
    assert message in answer.err


def test_nothing_to_export_writes_nothing_and_exits_3(copy: CliProject) -> None:
    with duckdb.connect(str(copy.root / "data" / "results.duckdb")) as connection:
        connection.execute("DELETE FROM verdicts")

    answer = copy("export", "--format", "json", "--output", "none.json")

    assert (answer.code, (copy.root / "none.json").exists()) == (3, False)
    assert "nothing to export" in answer.err


@pytest.mark.parametrize(("format_", "name"), [("json", "x.json"), ("agentv", "x")])
def test_an_export_that_fills_the_disk_names_itself_and_the_cure(copy: CliProject, format_: str, name: str) -> None:
    with files_at_most(500):
        full = copy("export", "-f", format_, "-o", name)

    assert (full.code, full.out) == (1, "")
    assert full.err.startswith(f"error: the disk is full: {name} cannot be written; ")
    assert CURE in full.err
    assert not (copy.root / name).exists()
