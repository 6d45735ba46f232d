"""What a Python module binds and imports, found in its syntax tree; nothing is executed.

A tree takes long to make and much memory, so what is found in the tree of a text is kept, and the tree is not.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_MOST_KEPT = 2_000
_IMPORTERS = frozenset({"import_module", "__import__"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class ModuleSyntax:
    """`bound` are the names that statements outside of functions and classes bind; `imported` is what is imported
    anywhere, as level (0: absolute, else the dots of a relative import) and name."""

    bound: frozenset[str]
    imported: tuple[tuple[int, str], ...]


_QUOTED = re.compile(rb"""(['"])([\w.\-/ ]{1,200})\1""")
_KEPT: dict[bytes, ModuleSyntax] = {}


def module_syntax(source: bytes) -> ModuleSyntax:
    """Return what the source of a module binds and imports. Raises SyntaxError, ValueError, RecursionError and
    MemoryError for one that cannot be parsed."""
    key = hashlib.sha256(source).digest()
    if key not in _KEPT:
        found = _found(source)
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        _KEPT[key] = found
    return _KEPT[key]


def quoted_texts(source: bytes) -> frozenset[str]:
    """Return the short texts of a module that may be names of files."""
    return frozenset(text.decode(errors="replace") for _, text in _QUOTED.findall(source))


def _found(source: bytes) -> ModuleSyntax:
    with no_collection():
        tree = ast.parse(source)
        statements = list(_statements(tree.body))
        bound = frozenset(name for node, outside in statements if outside for name in _bound_by(node))
        imported = dict.fromkeys(name for node, _ in statements for name in _imported_by(node))
        if any(name.encode() in source for name in _IMPORTERS):
            imported |= dict.fromkeys(_named_imports(tree))
        del tree, statements  # before garbage is collected again
    return ModuleSyntax(bound, tuple(imported))


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside: a tree has many nodes and no cycles, and collecting takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _statements(body: Sequence[ast.AST], outside: bool = True) -> Iterator[tuple[ast.AST, bool]]:
    """Yield statements and those inside them, each with whether it is outside of functions and classes. Expressions
    hold none."""
    for node in body:
        yield node, outside
        still_outside = outside and not isinstance(node, _SCOPES)
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inside = getattr(node, name, None)
            if isinstance(inside, list):
                yield from _statements(inside, still_outside)


def _imported_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import):
        yield from ((0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = node.module or ""
        yield node.level, module
        yield from ((node.level, f"{module}.{alias.name}".lstrip(".")) for alias in node.names)


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name))


def _named_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that `importlib.import_module("name")` and the like have written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_import(node.func) and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
                yield 0, name.value


def _is_import(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return name in _IMPORTERS
