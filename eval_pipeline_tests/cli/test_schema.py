"""`eval-pipeline schema`: every file that ships is valid by it, and misspelled fields are not."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli.json_schemas import SCHEMAS
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.test_plugin_package import install

jsonschema = pytest.importorskip("jsonschema", reason="comes with the extra 'test'")

ROOT = Path(__file__).parent.parent.parent
TEMPLATES = ROOT / "eval_pipeline" / "sweeps" / "project_templates"
EXAMPLES = ROOT / "examples"
NO_SUITES = {"evals.json", "receipts.jsonl", "gsm8k.jsonl"}


def shipped(kind: str) -> list[Path]:
    """The files of a kind among the examples and the templates of `init`; a suite of another syntax is left out."""
    patterns = {
        "suite": ("*/suites/*.yaml", "suites/*.yaml", "agentv/evals*/*.yaml"),
        "runners": ("runners.yaml", "*/runners.yaml"),
        "project": ("eval-pipeline.yaml", "*/eval-pipeline.yaml"),
    }
    files = {path for root in (EXAMPLES, TEMPLATES) for pattern in patterns[kind] for path in root.glob(pattern)}
    return sorted(path for path in files if path.name not in NO_SUITES)


SHIPPED = [(kind, path) for kind in SCHEMAS for path in shipped(kind)]


@cache
def validator(kind: str) -> Any:
    schema = SCHEMAS[kind]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def problems(kind: str, document: object) -> list[str]:
    """What is wrong with a document, innermost message first."""
    return [
        f"{'.'.join(map(str, error.absolute_path))}: {best.message}"
        for error in validator(kind).iter_errors(document)
        for best in [jsonschema.exceptions.best_match([error])]
    ]


def read(path: Path) -> Any:
    return parse_yaml(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("kind", "path"), SHIPPED, ids=[path.relative_to(ROOT).as_posix() for _, path in SHIPPED])
def test_a_shipped_file_is_valid(kind: str, path: Path) -> None:
    assert problems(kind, read(path)) == []


def test_files_of_every_kind_ship() -> None:
    assert {kind: len(shipped(kind)) >= 4 for kind in SCHEMAS} == dict.fromkeys(SCHEMAS, True)


NATIVE = [(kind, path) for kind, path in SHIPPED if kind == "project" or "agentv" not in path.parts]


@pytest.mark.parametrize(("kind", "path"), NATIVE, ids=[path.relative_to(ROOT).as_posix() for _, path in NATIVE])
def test_a_shipped_file_names_its_schema(kind: str, path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]

    assert first.startswith("# yaml-language-server: $schema=")
    assert first.endswith(f"schemas/{kind}.json")


SUITE = {"name": "s", "tests": [{"id": "a", "input": "b", "assertions": [{"type": "contains", "value": "c"}]}]}
RUNNERS = {"runners": [{"name": "r", "adapter": "command", "command": ["true"]}]}


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value at a path."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copy


ENTRY = ("tests", 0, "assertions", 0)
AGENT = {"name": "r", "adapter": "agent", "agent": "claude_code"}
CHAT = {"name": "r", "adapter": "chat", "model": "m"}


def with_tool(implementation: dict[str, Any]) -> dict[str, Any]:
    """A runners file with a model that has a tool."""
    return {"runners": [CHAT | {"tools": [{"function": {"name": "t"}, "implementation": implementation}]}]}


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param("suite", changed(SUITE, ("descripton",), "d"), id="field of a suite"),
        pytest.param("suite", changed(SUITE, ("tests", 0, "inputt"), "d"), id="field of a test"),
        pytest.param("suite", changed(SUITE, ("tests", 0, "execution"), {"treshold": 1}), id="field of execution"),
        pytest.param("suite", changed(SUITE, (*ENTRY, "valu"), "d"), id="argument of an evaluator"),
        pytest.param("suite", changed(SUITE, (*ENTRY, "weight"), "much"), id="weight that is no number"),
        pytest.param("suite", changed(SUITE, (*ENTRY, "value"), 5), id="argument of another type"),
        pytest.param("suite", changed(SUITE, ENTRY, {"type": "latency"}), id="missing argument"),
        pytest.param("suite", changed(SUITE, ENTRY, {"type": "llm-grader", "promt": "p"}), id="argument of a grader"),
        pytest.param("suite", changed(SUITE, ("tests", 0), {"input": "b"}), id="test without id"),
        pytest.param("runners", changed(RUNNERS, ("runners", 0, "comand"), "d"), id="setting of a runner"),
        pytest.param("runners", changed(RUNNERS, ("runners", 0, "adapter"), "comand"), id="adapter"),
        pytest.param("runners", {"runners": [{"name": "r", "adapter": "chat"}]}, id="missing setting"),
        pytest.param("runners", changed(RUNNERS, ("runners", 0, "retries"), {"max": 1}), id="field of retries"),
        pytest.param("runners", changed(RUNNERS, ("runners", 0, "format"), "comand"), id="normalizer"),
        pytest.param("runners", changed(RUNNERS, ("runners", 0, "name"), "a b"), id="name of a runner"),
        pytest.param("runners", {"runners": [AGENT | {"agent": "cluade"}]}, id="agent"),
        pytest.param("runners", {"runners": [CHAT | {"wire": "opnai"}]}, id="wire"),
        pytest.param("runners", with_tool({"type": "htp"}), id="implementation of a tool"),
        pytest.param("runners", with_tool({"type": "http", "ulr": "u"}), id="setting of a tool"),
        pytest.param("runners", with_tool({"type": "http"}), id="missing setting of a tool"),
        pytest.param("runners", {"runner": []}, id="runners file without runners"),
        pytest.param("project", {"defaults": {"grade": "j"}}, id="field of defaults"),
        pytest.param("project", {"suits": []}, id="field of a project"),
    ],
)
def test_a_mistake_is_caught(kind: str, document: object) -> None:
    assert problems(kind, document)


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param("suite", SUITE, id="suite"),
        pytest.param("runners", RUNNERS, id="runners"),
        pytest.param("runners", {"runners": [AGENT]}, id="an agent by another spelling"),
        pytest.param("runners", {"runners": [CHAT | {"wire": "${{ WIRE }}"}]}, id="a placeholder for a name"),
        pytest.param("runners", {"runners": [CHAT | {"tools": ["end_call"]}]}, id="a tool by name"),
        pytest.param("runners", with_tool({"type": "http", "url": "u", "timeout_s": 3}), id="a tool"),
        pytest.param("suite", changed(SUITE, ENTRY, "is polite"), id="a text as criterion"),
        pytest.param("suite", changed(SUITE, ENTRY, {"include": "quick"}), id="a template"),
        pytest.param("suite", changed(SUITE, ENTRY, {"type": "polite", "least": 1}), id="an author's own script"),
        pytest.param("suite", changed(SUITE, (*ENTRY, "weight"), "${{ WEIGHT }}"), id="a placeholder for a number"),
        pytest.param("suite", changed(SUITE, ENTRY, {"type": "is_json"}), id="a name with underscores"),
        pytest.param(
            "suite",
            changed(SUITE, ENTRY, {"type": "code-grader", "command": ["x"], "own": 1}),
            id="a program's own argument",
        ),
        pytest.param(
            "suite",
            changed(SUITE, ENTRY, {"type": "llm-grader", "prompt": {"command": ["x"]}, "own": 1}),
            id="an argument of a prompt's program",
        ),
        pytest.param(
            "suite",
            changed(SUITE, ENTRY, {"type": "tool-trajectory", "mode": "in_order", "argsMatch": "exact"}),
            id="an argument in camel case",
        ),
        pytest.param("runners", {"runners": [*RUNNERS["runners"], {"name": "b", "use": "r"}]}, id="a runner by use"),
    ],
)
def test_what_readers_accept_is_valid(kind: str, document: object) -> None:
    assert problems(kind, document) == []


def test_an_evaluator_inside_another_is_checked() -> None:
    member = {"type": "contains", "valu": "x"}
    entry = {"type": "composite", "assertions": [member], "aggregator": {"type": "weighted_average"}}

    assert problems("suite", changed(SUITE, ENTRY, entry))
    assert problems("suite", changed(SUITE, ENTRY, changed(entry, ("assertions", 0), {"type": "is-json"}))) == []


def test_every_evaluator_and_adapter_is_offered() -> None:
    types = SCHEMAS["suite"]()["$defs"]["evaluator"]["properties"]["type"]["anyOf"][0]["enum"]
    adapters = SCHEMAS["runners"]()["$defs"]["runner"]["properties"]["adapter"]["enum"]

    assert set(EVALUATORS.names()) <= set(types)
    assert set(ADAPTERS.names()) <= set(adapters)


@pytest.mark.parametrize(
    ("kind", "definition", "field", "plug_in"),
    [("suite", "evaluator", "type", "acme-sentences"), ("runners", "runner", "adapter", "shout")],
)
def test_an_installed_plug_in_is_included(tmp_path: Path, kind: str, definition: str, field: str, plug_in: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(install(tmp_path))}

    printed = run_command("schema", kind, env=environment)

    assert f'"{plug_in}"' in json.dumps(json.loads(printed.stdout)["$defs"][definition]["properties"][field])


def test_the_command_prints_the_schema(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("schema", "project")

    assert answer.code == 0
    assert json.loads(answer.out) == SCHEMAS["project"]()


def test_the_command_writes_all_schemas(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("schema", "--write", "schemas")

    assert answer.code == 0
    assert sorted(path.name for path in (tmp_path / "schemas").iterdir()) == [
        "project.json",
        "runners.json",
        "suite.json",
    ]


def test_the_command_needs_a_kind_or_a_folder(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("schema")

    assert answer.code == 2
    assert "suite, runners, project" in answer.err
