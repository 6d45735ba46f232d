"""`eval-pipeline init`: a small project that runs at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.terminal import echo
from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.new_projects import PROJECT_KINDS, ProjectKind, template_files


@click.command(name="init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--kind", help="What is evaluated: chat, program, agent, or a kind that a format adds (see below).")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder to import from, for a kind that imports (default: FOLDER).",
)
def init_command(folder: Path, kind: str | None, source: Path | None) -> None:
    """Write a small project into FOLDER (default: the current one): suites, runners, project file, schemas.

    Without --kind the kinds are listed; on a terminal, you are prompted for one. Existing files are never
    overwritten: then nothing is written (`dagster.yaml` and `workspace.yaml`, for Dagster's own commands, may exist).
    Exit codes: 0 done; 2 invalid input.
    """
    chosen = PROJECT_KINDS.get(kind if kind is not None else _ask_kind())
    if source is not None and not chosen.imports:
        raise InputError("--from names a folder to import, and this kind imports none")
    texts = {**chosen.files(folder.absolute(), (source or folder).absolute()), **_schemas()}
    _check_free(texts, folder)
    texts |= {name: text for name, text in template_files("dagster").items() if not (folder / name).exists()}
    write_files(FileText(folder / name, [text]) for name, text in texts.items())
    _report(texts, folder, chosen)


def _ask_kind() -> str:
    for name, kind in PROJECT_KINDS:
        echo(f"{name:8} {kind.summary}", err=True)
    names = PROJECT_KINDS.names()
    if not sys.stdin.isatty():
        raise InputError(f"--kind: name one of {', '.join(names)}")
    return str(click.prompt("kind", type=click.Choice(names), err=True))


def _schemas() -> Mapping[str, str]:
    from eval_pipeline.cli.schema import schema_texts  # noqa: PLC0415 — imports every evaluator and adapter

    return {f"schemas/{name}": text for name, text in schema_texts().items()}


def _check_free(texts: Mapping[str, str], folder: Path) -> None:
    """Raise InputError when a file exists; schemas of an earlier `init` may be overwritten."""
    taken = [name for name in texts if (folder / name).exists()]
    if taken:
        listed = ", ".join(show_path(folder / name) for name in taken)
        raise InputError(f"nothing was written: {listed} exist already; name another folder")


def _report(texts: Mapping[str, str], folder: Path, kind: ProjectKind) -> None:
    for name in texts:
        echo(f"wrote {show_path(folder / name)}", err=True)
    echo("\nnext:", err=True)
    if folder.resolve() != Path.cwd():
        echo(f"  cd {folder}", err=True)
    width = max(len(command) for command, _ in kind.next_steps)
    for command, purpose in kind.next_steps:
        echo(f"  {command:{width}}  # {purpose}", err=True)
