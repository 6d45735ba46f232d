"""The example conversations: offline with small programs, and through the scripted model server on every wire."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

EXAMPLE = Path(__file__).parent.parent / "examples" / "conversations"
BY_MODELS = ["desk-openai", "desk-streaming", "desk-responses", "desk-anthropic", "desk-gemini"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    root = tmp_path_factory.mktemp("repository") / "examples" / "conversations"
    shutil.copytree(EXAMPLE, root)
    runners = root / "runners.yaml"
    if importlib.util.find_spec("mcp") is None:
        kept = runners.read_text().split("\n  # The tool is one of an MCP server")[0]
        runners.write_text(kept + "\n")
    runners.write_text(runners.read_text().replace("[python3, ", f"[{sys.executable}, "))
    settings = root / "eval-pipeline.yaml"
    settings.write_text(settings.read_text().replace("../../data/conversations", "data"))
    return CliProject(root)


@pytest.fixture(scope="module")
def server(project: CliProject) -> Iterator[str]:
    """The scripted model server, on a port of its own."""
    spec = importlib.util.spec_from_file_location("model_server", EXAMPLE / "model_server.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    serving = ThreadingHTTPServer(("127.0.0.1", 0), module.Handler)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{serving.server_port}"
    runners = project.root / "runners.yaml"
    runners.write_text(runners.read_text().replace("http://127.0.0.1:9200", address))
    yield address
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_agent_user_and_judge_are_small_programs(project: CliProject) -> None:
    answer = project("run", "--json")

    assert answer.code == 0, project.ask("SELECT case_id, reason FROM current_verdicts")
    assert project.ask("SELECT case_id, status FROM current_verdicts ORDER BY case_id") == [
        ("desk-speaks-first", "passed"), ("lost-parcel", "passed"), ("written-lines", "passed"),
    ]  # fmt: skip
    assert project.ask("SELECT case_id, ended_by FROM session_reports ORDER BY case_id") == [
        ("desk-speaks-first", "user"), ("lost-parcel", "user"), ("written-lines", "script"),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_same_through_a_scripted_model_server_on_every_wire(project: CliProject, server: str) -> None:
    answer = project("run", "suites-with-server", "--json")

    assert answer.code in (0, 2), answer.err
    query = "SELECT case_id, runner, status FROM current_verdicts WHERE suite = 'parcels-by-models' ORDER BY ALL"
    rows = project.ask(query)
    expected = [("behind-an-address", "desk-endpoint", "passed")]
    expected += [(case, runner, "passed") for case in ("canned", "lost-parcel") for runner in sorted(BY_MODELS)]
    reasons = "SELECT case_id, runner, reason FROM current_verdicts WHERE status <> 'passed' ORDER BY ALL"
    assert [row for row in rows if row[0] != "mcp"] == expected, (answer.out[:2000], answer.err, project.ask(reasons))
    assert [row for row in rows if row[0] == "mcp"] in ([], [("mcp", "desk-mcp", "passed")]), project.ask(reasons)
