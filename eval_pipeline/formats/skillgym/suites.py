"""skillgym's suites, in Python: a module that defines `suite`, a list or a mapping of `Case`.

A module is recognized by its syntax tree, never by running it; one that makes cases but no `suite`, or that is no
Python, is taken for a broken suite, unless a suite imports it. It is loaded in a worker process with a time limit; only
descriptions of its cases come back, its functions stay there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.executions.function_calls import FunctionError, TooMuchReturned, WorkerDied
from eval_pipeline.formats.skillgym.workspaces import read_workspace
from eval_pipeline.parsing.data_files import data_files, data_fingerprints
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.imports import import_fingerprints, import_roots, imported_files
from eval_pipeline.parsing.python_syntax import ModuleSyntax, module_syntax
from eval_pipeline.parsing.source import show_path
from eval_pipeline.scores.evaluators.python_check import module_call, module_pool
from eval_pipeline.suites.case_list import case_list
from eval_pipeline.suites.load import FORMATS, HEAD, LoadOptions
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, Suite, content_revision
from eval_pipeline.suites.names import category_of, default_name

NOTICE_S = 5.0
"""A module that takes longer is named while it is waited for."""
_SETTING = "defaults.load_limit_s of the project file"
_MENTIONS = re.compile(r"^(\s*suite\b|.*\bimport\b.*\bsuite\b|.*\bas suite\b)", re.MULTILINE)
_IMPORT_LINE = re.compile(r"^(from|import)\s+eval_pipeline\b", re.MULTILINE)
_NAMES_CASE = re.compile(r"\bCase\b")
_OURS = "eval_pipeline"
_PORTED = (
    "a suite of skillgym is ported to a Python module with the same cases and helpers (docs: Evaluate an agent, Write "
    "checks as sentences); `convert` reads its configuration"
)
_CASE = "Case"


@FORMATS.register("skillgym")
class PythonSuites:
    """Modules that define `suite` and import eval_pipeline."""

    suffixes: tuple[str, ...] = (".py",)
    cures: Mapping[str, str] = dict.fromkeys((".ts", ".mts", ".cts", ".js", ".mjs", ".cjs"), _PORTED)

    def recognizes(self, path: Path, head: str) -> bool:
        return self.recognizes_text(path, head) if len(head) < HEAD else _defines_suite(head)

    def recognizes_text(self, path: Path, text: str) -> bool:
        """Return whether a whole module imports ours, and defines `suite` or seems to be meant to."""
        return _defines_suite(text) or _seems_a_suite(text)

    def mentions(self, path: Path, text: str) -> set[Path]:
        """Return the modules that a suite imports and that define no `suite`: they make cases for it."""
        imported = imported_files(path, import_roots(path.parent))
        return {file for file in imported if not _defines_suite(_read(file))}

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        shown = show_path(path)
        _require_suite(text, shown)
        described = _described(path, shown, load_options.load_limit_s)
        workspace = read_workspace(described.get("workspace"), path)
        shared: dict[bool, EvaluatorSpec] = {}
        cases = [replace(_case(fields, path, shared), workspace=workspace) for fields in described["cases"]]
        roots = import_roots(path.parent)
        read = data_fingerprints(path, roots) | import_fingerprints([path], roots)
        return Suite(
            name=default_name(path),
            path=path,
            format="skillgym",
            revision=content_revision(text, read, described["cases"], described.get("workspace")),
            cases=case_list(cases),
            errors=tuple(_errors(described["problems"], shown)),
            warnings=tuple(_warnings(described, shown)),
            category=category_of(shown),
            metadata={"snapshots": described["snapshots"]} if described.get("snapshots") else {},
        )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _syntax(text: str) -> ModuleSyntax | None:
    """Return what a module binds and imports; None for a text that is no Python."""
    try:
        return module_syntax(text.encode())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defines_suite(text: str) -> bool:
    """Return whether a module imports ours and defines `suite`."""
    syntax = _syntax(text) if _OURS in text and _MENTIONS.search(text) else None
    return syntax is not None and "suite" in syntax.bound and _imports_ours(syntax)


def _imports_ours(syntax: ModuleSyntax) -> bool:
    return any(not level and name.partition(".")[0] == _OURS for level, name in syntax.imported)


def _seems_a_suite(text: str) -> bool:
    """Return whether a module makes cases; of one that is no Python, whether its text looks like a suite."""
    if _OURS not in text or not (_NAMES_CASE.search(text) or _MENTIONS.search(text)):
        return False
    syntax = _syntax(text)
    if syntax is None:
        return _IMPORT_LINE.search(text) is not None
    nodes = list(ast.walk(ast.parse(text))) if _imports_ours(syntax) else []
    names = set(_names_of_case(filter(_is_import_of_ours, nodes)))
    return any(isinstance(node, ast.Call) and _calls(node.func, names) for node in nodes)


def _names_of_case(imports: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what imports of ours call `Case`."""
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or _CASE for alias in node.names if alias.name in (_CASE, "*"))
        elif isinstance(node, ast.Import):
            yield from (f"{alias.asname or alias.name}.{_CASE}" for alias in node.names)


def _calls(called: ast.expr, names: set[str]) -> bool:
    return isinstance(called, ast.Name | ast.Attribute) and ast.unparse(called) in names


def _is_import_of_ours(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == _OURS
    return isinstance(node, ast.Import) and any(alias.name.partition(".")[0] == _OURS for alias in node.names)


def _require_suite(text: str, shown: str) -> None:
    """Raise InputError for a text that is no module with a `suite`; nothing is run for it."""
    try:
        bound = module_syntax(text.encode()).bound
    except SyntaxError as error:
        raise InputError(f"is no Python: {error.msg}", SourceLocation(shown, error.lineno)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"is no Python: {error or type(error).__name__}", SourceLocation(shown)) from None
    if "suite" not in bound:
        problem = "defines no 'suite': expected a list or a mapping of Case" + did_you_mean("suite", sorted(bound))
        raise InputError(problem, SourceLocation(shown, field="suite"))


_DESCRIBED: dict[str, Mapping[str, Any]] = {}
"""Descriptions of modules by what their content and imports are: loading one again in this process imports nothing."""


def _described(path: Path, shown: str, limit_s: float) -> Mapping[str, Any]:
    """Return the description of a module's cases. Raises InputError where there is none."""
    pool, reference = module_pool(path.absolute(), data_files(path, import_roots(path.parent)))
    versions = {name: sorted(files) for name, files in pool.versions.items() if name.split()[0] == reference.module}
    key = f"{reference.private} {sorted(versions.items())}"
    if key in _DESCRIBED:
        return _DESCRIBED[key]
    place = SourceLocation(shown)
    try:
        with _notice(f"{shown} is still being loaded; it is ended after {limit_s:g} s ({_SETTING})"):
            described = pool.call_and_wait(module_call("describe_suite", reference), limit_s)
    except TimeoutError:
        raise InputError(f"took longer than {limit_s:g} s to load and was ended ({_SETTING})", place) from None
    except (WorkerDied, TooMuchReturned) as error:
        raise InputError(f"cannot be loaded: {error}", place) from None
    except FunctionError as error:
        raise InputError(f"cannot be loaded: {error.text}", place) from None
    if not isinstance(described, dict) or "cases" not in described:
        raise InputError("cannot be loaded: its cases hold values that cannot be described", place)
    if not described["cases"] and described["problems"]:
        raise first_of_each(list(_errors(described["problems"], shown)))
    if not described["cases"]:
        raise InputError("has no cases", SourceLocation(shown, field="suite"))
    if len(_DESCRIBED) > 200:
        _DESCRIBED.clear()
    _DESCRIBED[key] = described
    return described


@contextmanager
def _notice(text: str) -> Iterator[None]:
    """Print a text where what is done inside takes long."""
    timer = Timer(NOTICE_S, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _errors(problems: Sequence[Mapping[str, Any]], shown: str) -> Iterator[InputError]:
    """Yield an error for each case with problems, and for each problem of the module."""
    by_case: dict[object, list[InputError]] = {}
    for number, each in enumerate(problems):
        error = InputError(each["problem"], SourceLocation(shown, each["line"], each["field"]))
        by_case.setdefault(("module", number) if each["case"] is None else each["case"], []).append(error)
    return map(first_of_each, by_case.values())


def _warnings(described: Mapping[str, Any], shown: str) -> Iterator[str]:
    printed = str(described.get("printed") or "").strip()
    if printed:
        first = printed.splitlines()[0][:100]
        yield f"{shown}: the module prints while it is loaded ('{first}'); what it prints is not shown"


def _case(fields: Mapping[str, Any], path: Path, shared: dict[bool, EvaluatorSpec]) -> Case:
    specs = tuple(_spec(*spec) for spec in fields["evaluators"])
    if fields["checks"]:
        classifies = bool(fields["classifies"])
        if classifies not in shared:
            config = {"file": path.name, **({"classifies": True} if classifies else {})}
            shared[classifies] = EvaluatorSpec(type="python-check", name="check", config=config)
        specs = (shared[classifies], *specs)
    return Case(
        id=fields["id"],
        input=tuple(Message(role=role, content=content) for role, content in fields["input"]),
        criteria=fields["criteria"],
        evaluators=specs,
        tags=tuple(fields["tags"]),
        metadata=fields["metadata"],
        threshold=fields["threshold"],
        runners=None if fields["runners"] is None else tuple(fields["runners"]),
        timeout_s=fields["timeout_s"],
        expected_fail=fields["expected_fail"],
        repetitions=fields["repetitions"],
        on_failure=fields["on_failure"],
        strategy="on_failure" if fields["on_failure"] else None,
        max_steps=fields["max_steps"],
        should_trigger=fields["should_trigger"],
        incomplete=fields["incomplete"],
        line=fields["line"],
    )


def _spec(
    type_: str, name: str, weight: float, minimum: float | None, negate: bool, class_: str | None, config: Any
) -> EvaluatorSpec:
    return EvaluatorSpec(type=type_, name=name, weight=weight, minimum=minimum, negate=negate, failure_class=class_,
                         config=config)  # fmt: skip
