"""What the page of an asset shows besides its events: owners, table, columns, code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.orchestration.build import build_definitions, sweep_definitions
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

OF_A_PAIR = ("target_executions", "session_reports", "evaluator_scores", "failure_classes")
TABLES = ("suites", *OF_A_PAIR, "leaderboards")


def asset(folder: ProjectFolder, name: str) -> Any:
    return build_definitions(folder.root).resolve_asset_graph().get(dg.AssetKey(name))


@pytest.mark.parametrize("name", TABLES)
def test_an_asset_names_its_table_with_its_columns(folder: ProjectFolder, name: str) -> None:
    metadata = asset(folder, name).metadata

    assert metadata["dagster/table_name"] == f"results.main.{name}"
    assert metadata["dagster/uri"] == f"duckdb:{folder.data}/results.duckdb"
    columns = metadata["dagster/column_schema"].schema.columns
    assert [(column.name, column.type, column.description) for column in columns] == [
        (column.name, column.type, column.comment) for column in BY_NAME[name].columns
    ]


@pytest.mark.parametrize("name", [*TABLES, "plans", "evaluators"])
def test_an_asset_refers_to_the_files_that_it_comes_from(folder: ProjectFolder, name: str) -> None:
    references = asset(folder, name).metadata["dagster/code_references"].code_references

    files = {reference.label: Path(reference.file_path) for reference in references}
    assert files["project file"] == folder.root / "eval-pipeline.yaml"
    assert ("runners" in files) == (name in ("plans", "target_executions"))
    code = references[-1]
    assert Path(code.file_path).name == "assets.py"
    assert "def " in Path(code.file_path).read_text().splitlines()[code.line_number - 1]


def test_owners_are_those_of_the_project_file(folder: ProjectFolder) -> None:
    assert asset(folder, "evaluator_scores").owners == ["team:evaluation"]

    (folder.root / "eval-pipeline.yaml").write_text("suites: [suites]\nowners: [team:search, ann@example.org]\n")

    assert asset(folder, "evaluator_scores").owners == ["team:search", "ann@example.org"]
    assert asset(folder, "plans").owners == ["team:search", "ann@example.org"]


@pytest.mark.parametrize("owner", ["ann", "team:", "ann@", "@example.org", "team: a b"])
def test_an_owner_that_dagster_would_refuse_is_an_error_of_its_line(folder: ProjectFolder, owner: str) -> None:
    (folder.root / "eval-pipeline.yaml").write_text(f"suites: [suites]\nowners: ['{owner}']\n")

    with pytest.raises(InputError, match=r"eval-pipeline.yaml:2: owners: expected e-mail addresses or team:NAME"):
        load_project(folder.root)


def test_a_sweep_of_the_command_line_does_not_build_details(folder: ProjectFolder) -> None:
    definitions = sweep_definitions(folder.session(), [PairKey("sums", "echo")])

    scores = definitions.resolve_asset_graph().get(dg.AssetKey("evaluator_scores"))
    assert "dagster/column_schema" not in scores.metadata
