"""A separately installed package brings a part of each kind: one file and one entry point each, and edits nothing else.

The package (`plugin_package/`) is installed into a folder of its own, as an installer does it (its modules and a
`.dist-info` beside them), and used through the command line in processes that have that folder on their path.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.local_server import LocalServer, Received, Reply, chat_reply, serve

SOURCE = Path(__file__).parent / "plugin_package"
MODULES = sorted((SOURCE / "acme_evals").glob("*.py"))
SUITE = "What is up\tUP\nWho is there\tTHERE\n"
RUNNERS = """\
runners:
  - {name: shouter, adapter: shout, marks: 1}
  - {name: gateway, adapter: chat, wire: acme-chat, base_url: "URL", model: m}
  - name: clerk
    use: gateway
    tools: [{function: {name: louder, parameters: {type: object}}, implementation: {type: acme-louder, marks: 1}}]
  - {name: agent, adapter: agent, agent: acme-agent, executable: ./acme}
"""
ACME = """\
#!/bin/sh
printf '{"answer": "%s"}' "$(tr a-z A-Z | tr -d '\\n')"
"""


def install(folder: Path, *, only: str | None = None) -> Path:
    """Install the package, as a whole or with just the entry points of one group; returns the folder to import from."""
    shutil.copytree(SOURCE / "acme_evals", folder / "acme_evals", ignore=shutil.ignore_patterns("__pycache__"))
    groups = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, entries in groups.items()
        if only in (None, group)
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    info = folder / "acme_evals-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-evals\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
    return folder


@dataclass(frozen=True, slots=True)
class Project:
    """A project whose suite, runners and evaluators are the package's."""

    root: Path
    installed: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command line with the package on the path."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("EVAL_", "DAGSTER"))}
        return run_command(*arguments, cwd=self.root, env={**environment, "PYTHONPATH": str(self.installed)})


def make_project(root: Path, installed: Path, url: str = "http://127.0.0.1:9") -> Project:
    (root / "suites").mkdir(parents=True)
    (root / "suites" / "questions.tsv").write_text(SUITE)
    (root / "runners.yaml").write_text(RUNNERS.replace("URL", url))
    (root / "acme").write_text(ACME)
    (root / "acme").chmod(0o755)
    return Project(root, installed)


def answer(request: Received) -> Reply:
    """Chat completions that answer in capitals: for clients that name themselves, or by the tool that they have."""
    last = request.json["messages"][-1]
    if request.json.get("tools") and last["role"] == "user":
        function = {"name": "louder", "arguments": json.dumps({"text": last["content"]})}
        return chat_reply(None, tool_calls=[{"id": "c1", "type": "function", "function": function}])
    if last["role"] == "tool":
        return chat_reply(json.loads(last["content"])["text"])
    return chat_reply(last["content"].upper() if request.headers.get("x-acme-client") == "evals" else "")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project after a run."""
    folder = tmp_path_factory.mktemp("plugins")
    with serve(answer) as server:
        ready = make_project(folder / "project", install(folder / "installed"), server.url)
        assert isinstance(server, LocalServer)
        finished = ready.run("run", "suites", "--quiet", "--json")
        assert finished.returncode == 0, finished.stdout + finished.stderr
        yield ready


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.stem)
def test_a_part_imports_nothing_but_the_public_face(module: Path) -> None:
    nodes = list(ast.walk(ast.parse(module.read_text())))
    imported = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]

    assert [name for name in imported if name.startswith("eval_pipeline") and name != "eval_pipeline"] == []
    assert not any("acme_evals" in name for name in imported)


def test_each_kind_has_one_file_and_one_entry_point() -> None:
    groups = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["entry-points"]

    files = [
        value.partition(":")[0].rpartition(".")[2] for (value,) in (entries.values() for entries in groups.values())
    ]
    assert sorted(files) == [module.stem for module in MODULES if module.stem != "__init__"]
    assert len(groups) == 9


@pytest.mark.parametrize("runner", ["shouter", "gateway", "clerk", "agent"])
def test_a_run_uses_every_part(project: Project, runner: str) -> None:
    query = (
        "SELECT case_id, list(evaluator ORDER BY evaluator) AS evaluators, min(value) AS least FROM current_scores "
        f"WHERE runner = '{runner}' GROUP BY ALL ORDER BY ALL"
    )

    rows = [orjson.loads(line) for line in project.run("sql", "--json", query).stdout.splitlines()]

    names = ["acme-sentences", "contains"]
    assert rows == [{"case_id": f"line-{line}", "evaluators": names, "least": 1.0} for line in (1, 2)]


def test_results_are_exported_in_its_format(project: Project) -> None:
    exported = project.run("export", "--format", "status-lines", "--runner", "agent")

    assert exported.stdout.splitlines() == ["line-1 agent passed", "line-2 agent passed"], exported.stderr


def test_its_stored_results_are_imported(project: Project) -> None:
    (project.root / "old.sheet").write_text("up\tUP\t1\ndown\tUP\t0\n")
    (project.root / "broken.sheet").write_text("up\n")

    imported, broken = (project.run("import", "acme-sheets", f"{name}.sheet") for name in ("old", "broken"))

    assert imported.returncode == 0, imported.stderr
    assert "old" in imported.stdout + imported.stderr
    assert (broken.returncode, "broken.sheet:1: expected case, answer and points" in broken.stderr) == (2, True)


def test_a_misspelled_argument_of_its_evaluator_is_warned_of(project: Project) -> None:
    suite = project.root / "misspelled.yaml"
    suite.write_text("tests: [{id: a, input: hi, assertions: [{type: acme-sentences, most: 1, moost: 2}]}]")

    answered = project.run("validate", str(suite))

    problem = "moost: unknown argument of 'acme-sentences', ignored; there are: most; did you mean 'most'?"
    assert problem in answered.stdout


def test_its_suites_are_validated(project: Project) -> None:
    broken = project.root / "broken.tsv"
    broken.write_text("one\ttwo\nthree\n")

    assert project.run("validate", "suites").returncode == 0
    answered = project.run("validate", "broken.tsv")
    assert answered.returncode == 2
    assert "broken.tsv:2: expected two columns, got 1" in answered.stdout + answered.stderr


BROKEN = {
    "eval_pipeline.evaluators": ("sentence_count", "evaluator 'acme-sentences'"),
    "eval_pipeline.adapters": ("shout", "adapter 'shout'"),
    "eval_pipeline.formats": ("two_columns", "suite format 'acme-columns'"),
}


@pytest.mark.parametrize("group", BROKEN)
def test_a_broken_part_is_named_in_one_message(tmp_path: Path, group: str) -> None:
    module, name = BROKEN[group]
    broken = make_project(tmp_path / "project", install(tmp_path / "installed"))
    (broken.installed / "acme_evals" / f"{module}.py").write_text("raise RuntimeError('out of order')\n")

    answered = broken.run("validate", "suites")

    assert answered.returncode == 2
    shown = answered.stdout + answered.stderr
    assert f"the installed {name} (acme_evals.{module}:" in shown
    assert "of the package acme-evals) cannot be loaded: RuntimeError: out of order" in shown
    assert "Traceback" not in shown


def test_a_part_that_lacks_a_method_is_named(tmp_path: Path) -> None:
    broken = make_project(tmp_path / "project", install(tmp_path / "installed"))
    file = broken.installed / "acme_evals" / "two_columns.py"
    file.write_text(file.read_text().replace("def load(", "def read("))

    answered = broken.run("validate", "suites")

    assert answered.returncode == 2
    shown = "<class 'acme_evals.two_columns.TwoColumns'>"
    assert f"the suite format 'acme-columns' ({shown}) has no load" in answered.stderr


def test_a_broken_part_that_is_not_used_stops_nobody(tmp_path: Path) -> None:
    broken = make_project(tmp_path / "project", install(tmp_path / "installed"))
    (broken.installed / "acme_evals" / "status_lines.py").write_text("raise RuntimeError('out of order')\n")

    assert broken.run("validate", "suites").returncode == 0
