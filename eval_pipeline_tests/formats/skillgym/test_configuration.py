"""skillgym's configuration becomes a project file and a runners file; what has no place in them is reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_pipeline.errors import InputError
from eval_pipeline.formats.skillgym.configuration import (
    CONFIGURATION,
    find_config,
    parse_config,
    read_config,
    run_options,
)
from eval_pipeline_tests.cli.sample_project import make_cli_project

AGENT = {"agent": {"type": "codex", "model": "gpt-5"}}


def converted(folder: Path, config: Any) -> tuple[Any, Any, list[str]]:
    path = folder / "skillgym.config.json"
    path.write_text(json.dumps(config))
    (project, runners), lost = CONFIGURATION.convert(path)
    return yaml.safe_load("".join(project.text)), yaml.safe_load("".join(runners.text)), list(lost)


def test_every_key_has_its_place_or_is_reported(tmp_path: Path) -> None:
    claude = {
        "type": "claude-code",
        "model": "opus",
        "command": "./bin/claude",
        "commandArgs": ["-x"],
        "env": {"A": ""},
    }
    project, runners, lost = converted(
        tmp_path,
        {
            "run": {"schedule": "parallel", "maxParallel": 3, "repeat": 2, "repeatFailure": 1, "maxSteps": 9,
                    "tags": ["smoke"], "reporter": "json", "outputDir": "out", "workspace": {"mode": "none"}},
            "defaults": {"timeoutMs": 45000},
            "runners": {"code main": AGENT, "claude": {"agent": claude}},
            "snapshots": {"metric": "inputTokens", "tolerance": {"percent": 5}},
        },
    )  # fmt: skip

    assert project["defaults"] == {"repeat": 2, "on_failure": 1, "concurrency": 3, "tags": ["smoke"]}
    assert (project["data"], project["snapshots"]["metric"]) == ("out", "inputTokens")
    code, other = runners["runners"]
    assert (code["name"], code["agent"], code["timeout_s"]) == ("code-main", "codex", 45)
    assert (other["executable"], other["args"], other["env"], other["max_steps"]) == (
        "./bin/claude",
        ["-x"],
        {"A": ""},
        9,
    )
    assert (code["max_steps"], code["keep_session"], other["keep_session"]) == (9, True, True)
    assert [note.partition(":")[0] for note in lost] == ["run.reporter", "run.workspace", "runners.code main"]


def test_a_wrong_configuration_names_file_field_and_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"skillgym.config.json: run.maxParalel: unknown key.*maxParallel"):
        converted(tmp_path, {"run": {"maxParalel": 1}, "runners": {"r": AGENT}})


@pytest.mark.parametrize("number", ["1e999", "NaN", "1.5", "true"])
def test_a_number_that_is_not_whole_is_wrong(tmp_path: Path, number: str) -> None:
    file = tmp_path / "skillgym.config.json"
    file.write_text(json.dumps({"run": {"repeat": "N"}, "runners": {"a": AGENT}}).replace('"N"', number))

    with pytest.raises(InputError, match=r"skillgym.config.json: run.repeat: expected integer >= 1"):
        read_config(file)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"run": None}, "run: expected plain object"),
        ({"run": {"repeat": None}}, "run.repeat: expected integer >= 1"),
        ({"run": {"workspace": {"mode": "none", "bootstrap": None}}}, "run.workspace.bootstrap: expected this key to"),
    ],
)
def test_null_is_no_missing_value(given: Any, field: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_config({**given, "runners": {"r": AGENT}})

    assert field in str(raised.value)


@pytest.mark.parametrize(
    ("text", "number"), [("0x10", 16), ("1e1", 10), (" 3 ", 3), ("", None), ("1_0", None), ("nan", None), ("inf", None)]
)
def test_numbers_of_the_command_line_are_read_as_javascript_reads_them(text: str, number: int | None) -> None:
    if number is not None:
        assert run_options({"repeat": text}, {})["repeat"] == number
        return
    with pytest.raises(InputError, match="expected integer >= 1"):
        run_options({"repeat": text}, {})


def test_a_time_limit_of_one_millisecond_is_accepted() -> None:
    assert parse_config({"defaults": {"timeoutMs": 1}, "runners": {"r": AGENT}})["defaults"] == {"timeoutMs": 1}


def test_two_configurations_in_a_folder_are_an_error_and_none_is_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("skillgym.config.mjs", "skillgym.config.cjs"):
        (tmp_path / name).write_text("")

    with pytest.raises(InputError, match=r"skillgym.config.cjs, skillgym.config.mjs; keep one of them"):
        find_config(tmp_path / "a")


def test_the_configuration_of_a_folder_is_converted_where_it_is(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)
    (tmp_path / "bench" / "suites").mkdir(parents=True)
    (tmp_path / "bench" / "skillgym.config.json").write_text(json.dumps({"runners": {"r": AGENT}}))

    missing, converted_ = project("convert", "."), project("convert", "bench/suites")

    assert (missing.code, converted_.code) == (2, 0)
    assert "no configuration of skillgym" in missing.err
    assert (tmp_path / "bench" / "eval-pipeline.yaml").is_file()
    assert (tmp_path / "bench" / "runners.yaml").is_file()


NODE = """#!/bin/sh
case "$*" in
--version) echo v{version} ;;
*--experimental-strip-types*) {strips} ;;
*) echo 'TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension ".ts" for /x' >&2; exit 1 ;;
esac
"""
TYPESCRIPT = {
    "an old node": ("20.1.0", "echo 'node: bad option: --experimental-strip-types' >&2; exit 9", None),
    "a newer one": ("22.7.0", f"echo '{json.dumps({'runners': {'r': AGENT}})}'", {"r"}),
}


@pytest.mark.parametrize(("version", "strips", "runners"), TYPESCRIPT.values(), ids=TYPESCRIPT)
def test_typescript_is_read_where_node_can_and_otherwise_the_error_has_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, strips: str, runners: set[str] | None
) -> None:
    node = tmp_path / "bin" / "node"
    node.parent.mkdir()
    node.write_text(NODE.format(version=version, strips=strips))
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(node.parent), prepend=":")
    file = tmp_path / "skillgym.config.ts"
    file.write_text("export default {} as Config")

    if runners is not None:
        assert read_config(file)["runners"].keys() == runners
        return
    with pytest.raises(InputError) as raised:
        read_config(file)
    cure = "is TypeScript, which node v20.1.0 cannot read: use node 22.6 or newer, or write it without types as"
    assert f"{cure} skillgym.config.mjs or skillgym.config.json" in str(raised.value)


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


@needs_node
def test_a_module_may_import_skillgym_which_is_not_installed_and_modules_without_their_suffix(tmp_path: Path) -> None:
    file = tmp_path / "skillgym.config.mjs"
    (tmp_path / "models.js").write_text("exports.model = 'gpt-5';")
    file.write_text(
        """
        import { assert } from "skillgym";
        import { model } from "./models";
        export default { runners: { main: { agent: { type: "codex", model } } } };
        """
    )

    assert read_config(file)["runners"]["main"]["agent"]["model"] == "gpt-5"


ENUM = "echo 'SyntaxError [ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX]: TypeScript enum is not supported' >&2; exit 1"
NODE_WITH_TYPES = """#!/bin/sh
case "$*" in
*--experimental-transform-types*) {transforms} ;;
*) {enum} ;;
esac
"""


@pytest.mark.parametrize("transforms", [True, False])
def test_what_is_more_than_a_type_is_read_where_node_can_and_otherwise_the_error_has_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transforms: bool
) -> None:
    node = tmp_path / "bin" / "node"
    node.parent.mkdir()
    can = f"echo '{json.dumps({'runners': {'r': AGENT}})}'"
    cannot = "echo 'node: bad option: --experimental-transform-types' >&2; exit 9"
    node.write_text(NODE_WITH_TYPES.format(transforms=can if transforms else cannot, enum=ENUM))
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(node.parent), prepend=":")
    file = tmp_path / "skillgym.config.ts"
    file.write_text("enum Level { Low = 1 }")

    if transforms:
        assert read_config(file)["runners"].keys() == {"r"}
        return
    with pytest.raises(InputError, match=r"enum is not supported; node 22\.7 and newer can, or write it without types"):
        read_config(file)


@pytest.mark.parametrize("command", [["validate"], ["convert"], ["run"]])
def test_a_suite_in_typescript_is_told_how_it_is_ported_and_none_of_a_folder_is_an_error(
    tmp_path: Path, command: list[str]
) -> None:
    project = make_cli_project(
        tmp_path,
        {
            "bench/suite.ts": 'import { assert } from "skillgym"; export default [];',
            "bench/cases.py": "from eval_pipeline import Case\nsuite = [Case(id='a', prompt='b', check=print)]\n",
        },
    )

    named, folder = project(*command, "bench/suite.ts"), project("validate", "bench")

    assert named.code == 2 and "is ported to a Python module with the same cases" in named.out + named.err
    assert folder.code == 0 and "suite.ts" not in folder.out + folder.err
