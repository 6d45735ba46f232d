"""`eval-pipeline schema`: JSON Schema of suites, runners files and project files, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.json_schemas import SCHEMAS
from eval_pipeline.cli.terminal import echo, echo_file
from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import show_path


@click.command(name="schema")
@click.argument("kind", type=click.Choice(list(SCHEMAS)), required=False)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write all schemas into this folder instead, over those of an earlier version.",
)
def schema_command(kind: str | None, folder: Path | None) -> None:
    """Print the JSON Schema (draft 2020-12) of KIND of file, with the evaluators and adapters of installed plug-ins.

    A file whose first line is `# yaml-language-server: $schema=schemas/suite.json` is completed and checked by editors
    with a YAML language server. Exit codes: 0 done; 2 invalid input.
    """
    if (kind is None) == (folder is None):
        raise InputError(f"name one of {', '.join(SCHEMAS)}, or a folder for all of them with --write")
    if folder is None:
        echo_file(_text(str(kind)))
        return
    write_files(FileText(folder / name, [text]) for name, text in schema_texts().items())
    echo(f"wrote {', '.join(schema_texts())} to {show_path(folder)}", err=True)


def schema_texts() -> Mapping[str, str]:
    """Return the text of every schema by the name of its file."""
    return {f"{kind}.json": _text(kind) for kind in SCHEMAS}


def _text(kind: str) -> str:
    return json.dumps(SCHEMAS[kind](), indent=1, ensure_ascii=False) + "\n"
