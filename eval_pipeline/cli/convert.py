"""`eval-pipeline convert`: a suite in another format."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.tables import message_console, print_line
from eval_pipeline.cli.terminal import echo_file
from eval_pipeline.errors import EvalPipelineError, InputError, SourceLocation
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.conversion import (
    PROJECT_CONVERTERS,
    SUITE_WRITERS,
    NewFile,
    ProjectConverter,
    RawSuite,
    in_line,
    read_raw,
)
from eval_pipeline.suites.load import find_suite_files, load_suite
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.sweeps.project import load_project

_BY_SUFFIX = {".yaml": "yaml", ".yml": "yaml", ".jsonl": "jsonl", ".json": "json"}
_ELSEWHERE = frozenset({"line", "origin"})
"""The place of a case: another one in every file."""


_FORMATS = SUITE_WRITERS.names()


@click.command(name="convert")
@click.argument("source", metavar="IN", type=click.Path(path_type=Path, exists=True))
@click.option("--to", type=click.Choice(_FORMATS), help="Format (default: by OUT's name; YAML and JSONL swap).")
@click.option("-o", "--output", metavar="OUT", help="File to write (`-`: stdout; default: beside IN).")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@click.option("--replace", is_flag=True, help="Delete IN once OUT is written and reads the same.")
def convert_command(source: Path, to: str | None, output: str | None, force: bool, replace: bool) -> None:
    """Convert the suite IN between YAML, JSONL, JSON and Agent-Skills' evals.json.

    Placeholders and paths stay as they are written. What holds for a whole suite goes into a YAML file beside a
    JSONL file. IN may be the configuration of another system, or a folder that has one or is below it: it becomes a
    project file and a runners file beside it. What cannot be carried over is reported. Where the project would load
    both IN and OUT, as two suites of one name, nothing is written without --replace. Exit codes: 0 done; 1 done,
    but the suite reads differently now (a file that it names is not found from there); 2 invalid input.
    """
    path = _configuration(source) if source.is_dir() else source.absolute()
    console = message_console()
    converter = next((each for _, each in PROJECT_CONVERTERS if each.recognizes(path)), None)
    if converter is not None:
        _convert_project(converter, path, console, force)
        return
    format_ = to or _format(path, output)
    writer = SUITE_WRITERS.get(format_)
    suite = in_line(read_raw(path)) if writer.in_line else read_raw(path)
    target = path if output == "-" else Path(output).absolute() if output else _beside(path, format_)
    files, lost = writer.write(suite, target)
    if output == "-":
        _print(files, console)
        _report(console, lost=[*suite.lost, *lost.notes()], other=suite.moved)
        return
    _check_free(files, path, force)
    _write(files, path, target, both=replace)
    different = list(_differences(path, target)) if writer.lossless else []
    _report(console, lost=[*suite.lost, *lost.notes()], other=[*suite.moved, *different])
    _report_files(console, files, path, alone=replace)
    if replace:
        _replace(console, suite, files, different)
    sys.exit(1 if different else 0)


def _configuration(folder: Path) -> Path:
    """Return the nearest configuration of another system. Raises InputError, with the reason of each system."""
    reasons = []
    for _, converter in PROJECT_CONVERTERS:
        try:
            return converter.find(folder)
        except InputError as error:
            reasons.append(error.problem)
    raise InputError("; ".join(reasons), SourceLocation(show_path(folder)))


def _convert_project(converter: ProjectConverter, path: Path, console: Console, force: bool) -> None:
    """Write a project file and a runners file beside the configuration of another system."""
    files, lost = converter.convert(path)
    _check_free(files, path, force)
    write_files(FileText(file.path, file.text) for file in files)
    _report(console, lost=lost, other=())
    _report_files(console, files, path, alone=True)


def _format(path: Path, output: str | None) -> str:
    if output not in (None, "-"):
        suffix = Path(output or "").suffix.lower()
        if suffix not in _BY_SUFFIX:
            raise InputError(f"--output: no suite format for '{suffix}' files; --to names one of {', '.join(_FORMATS)}")
        return _BY_SUFFIX[suffix]
    return "jsonl" if path.suffix.lower() in (".yaml", ".yml") else "yaml"


def _beside(path: Path, format_: str) -> Path:
    """Return the default output path beside IN; `.eval.yaml` where the plain name belongs to a JSONL file."""
    base = path.stem.removesuffix(".eval") or path.stem
    plain = path.with_name(base + SUITE_WRITERS.get(format_).suffix)
    return path.with_name(f"{base}.eval.yaml") if format_ == "yaml" and plain.exists() else plain


def _check_free(files: list[NewFile], path: Path, force: bool) -> None:
    for file in files:
        if file.path == path:
            raise InputError(f"{show_path(path)} would be written over itself; name another file with --output")
        if file.path.exists() and not force:
            raise InputError(f"{show_path(file.path)} exists; --force overwrites it, --output names another")


def _write(files: list[NewFile], path: Path, target: Path, *, both: bool) -> None:
    """Write the files of the converted suite, unless the project would then load two suites of one name (`both` allows
    that). Raises InputError and leaves no file behind."""
    existed = target.exists()
    if existed and not both:
        _check_single(path, target)
    write_files(FileText(file.path, file.text) for file in files)
    if existed or both:
        return
    try:
        _check_single(path, target)
    except InputError:
        for file in files:
            file.path.unlink()
        raise


def _check_single(path: Path, target: Path) -> None:
    """Raise InputError when both files are suites of one project: that of the current folder, or that of the file."""
    if any({path, target} <= _suites_of_project(folder) for folder in (Path.cwd(), path.parent)):
        name, other = show_path(target), show_path(path)
        raise InputError(
            f"{name} would be a second suite of this project beside {other}, by the same name; --replace deletes "
            f"{other}, --output names a file outside the project's suites (`-`: stdout)"
        )


def _suites_of_project(folder: Path) -> set[Path]:
    """Return the suite files of the project of a folder; none of a project that cannot be read."""
    try:
        project = load_project(folder)
        return set(find_suite_files(project.suites, project.root))
    except InputError:
        return set()


def _print(files: list[NewFile], console: Console) -> None:
    for piece in files[0].text:
        echo_file(piece)
    for file in files[1:]:
        print_line(console, f"not shown: {file.path.name}, with what holds for all tests", style="yellow")


def _differences(path: Path, target: Path) -> Iterator[str]:
    """Return the differences of the converted suite (a file that is not found from there); empty if none."""
    try:
        before, after = load_suite(path), load_suite(target)
    except EvalPipelineError as error:
        yield f"it could not be compared, as it cannot be loaded: {error}"
        return
    cases = {case.id: case for case in after.cases}
    for case in before.cases:
        changed = _changed(case, cases.pop(case.id, None))
        if changed:
            yield f"case '{case.id}' reads differently: {changed}"
    yield from (f"case '{id_}' reads differently: it was refused before" for id_ in cases)
    if before.settings != after.settings or _about(before) != _about(after):
        yield "the suite's own fields read differently"


def _changed(before: Case, after: Case | None) -> str:
    if after is None:
        return "it is refused now"
    names = [each.name for each in fields(Case) if each.name not in _ELSEWHERE]
    return ", ".join(name for name in names if getattr(before, name) != getattr(after, name))


def _about(suite: Suite) -> tuple[Any, ...]:
    return suite.name, suite.description, suite.tags, suite.metadata


def _replace(console: Console, suite: RawSuite, files: list[NewFile], different: list[str]) -> None:
    """Delete the files of the suite that was converted; those of the new one, where it reads differently."""
    written = [file.path for file in files]
    former = [file for file in (suite.path, suite.beside) if file is not None and file not in written]
    for file in written if different else former:
        file.unlink()
        print_line(console, f"deleted {show_path(file)}{' again' if different else ''}")


def _report(console: Console, *, lost: Sequence[str], other: Sequence[str]) -> None:
    for note in lost:
        print_line(console, note, mark="not carried over:", style="yellow")
    for note in other:
        print_line(console, note, style="yellow")


def _report_files(console: Console, files: list[NewFile], path: Path, *, alone: bool) -> None:
    for file in files:
        print_line(console, f"→ {show_path(file.path)}")
    if not alone and files[0].path.parent == path.parent:
        note = f"{path.name} defines a suite of the same name: keep one of the two"
        print_line(console, note, style="dim")
