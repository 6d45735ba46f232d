"""What the page of an asset shows besides its events: owners, table, columns, and the files that it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg

from eval_pipeline.orchestration import assets
from eval_pipeline.orchestration.asset_keys import name_of
from eval_pipeline.sweeps.project import PROJECT_FILE, Project
from eval_pipeline.warehouse.columns import Table
from eval_pipeline.warehouse.tables import BY_NAME

_MADE_BY: dict[str, Any] = {
    "suites": assets.suites_asset,
    "plans": assets.input_assets,
    "evaluators": assets.input_assets,
    "leaderboards": assets.leaderboards_asset,
}
"""The function that defines an asset; the others are those of a pair."""


def details_of(project: Project) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
    """Return a function that adds owners and metadata to the assets of a project."""

    def add(spec: dg.AssetSpec) -> dg.AssetSpec:
        name = name_of(spec.key)
        table = _table_metadata(BY_NAME[name], project) if name in BY_NAME else {}
        references = dg.CodeReferencesMetadataValue(code_references=_references(name, project))
        metadata = {**table, "dagster/code_references": references}
        return spec.merge_attributes(owners=list(project.owners), metadata=metadata)

    return add


def _table_metadata(table: Table, project: Project) -> dict[str, Any]:
    """The table of the published results that an asset fills, and its columns with their comments."""
    columns = [dg.TableColumn(column.name, column.type, column.comment) for column in table.columns]
    return {
        "dagster/table_name": f"results.main.{table.name}",
        "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns)),
        "dagster/uri": project.warehouse or f"duckdb:{project.data / 'results.duckdb'}",
    }


def _references(name: str, project: Project) -> list[dg.LocalFileCodeReference | dg.UrlCodeReference]:
    """The files that decide what an asset holds: those of the project, and the code that makes it."""
    files = {"runners": project.runners if name in ("plans", "target_executions") else None}
    files["project file"] = project.root / PROJECT_FILE
    code = _MADE_BY.get(name, assets.pair_assets).__code__
    references: list[dg.LocalFileCodeReference | dg.UrlCodeReference] = [
        dg.LocalFileCodeReference(file_path=str(path), label=label)
        for label, path in files.items()
        if path is not None and path.is_file()
    ]
    made_by = dg.LocalFileCodeReference(
        file_path=code.co_filename, line_number=code.co_firstlineno, label="definition of the asset"
    )
    return [*references, made_by]
