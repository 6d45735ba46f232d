"""Plain asserts of a Python suite that report what they compared: `assert x == y` fails with the values of both.

The modules of the suite's folder are compiled with their asserts rewritten: each part of a condition is evaluated at
most once, as it is written, and kept under a name until the assert is over; only a failure makes a text of them. An
assert with a message of its own, and one outside of a function, stay as they are.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from eval_pipeline.parsing.python_syntax import no_collection
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.assertions.context import AssertionContext
from eval_pipeline.scores.assertions.failed_checks import cut
from eval_pipeline.scores.assertions.matching import nearest_text

_FAILED = "@assertion_failed"
"""A global of each module; no name that a user can write."""
_LONGEST_VALUE = 300
_LONGEST_CONDITION = 1_000
_MOST_VALUES = 5
_MOST_NEAR = 200
_CONTEXT = 40
"""How many characters are shown before and after a difference."""
_DEEP = 3
_NOT_SHOWN = (SessionReport, AssertionContext, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
_INSTALLED = ("site-packages", "dist-packages")
_LOAD = ast.Load()
_Parts = list[tuple[str, str]]
"""The text of a part of a condition, and the name that keeps its value."""


@contextmanager
def rewriting_asserts(folder: str) -> Iterator[None]:
    """Rewrite the asserts of modules of a folder that are imported inside, but for installed packages in it."""
    finder = _Finder(folder)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class RewritingLoader(SourceFileLoader):
    """Loads a module from its source, with its asserts rewritten."""

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the code of a module; bytecode that is stored beside it has the asserts as they are written."""
        path = self.get_filename(fullname)
        return _compiled(self.get_data(path), path)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run a module, which finds the function that reports failures."""
        vars(module)[_FAILED] = assertion_failed
        super().exec_module(module)


def _compiled(source: bytes, path: str) -> types.CodeType:
    if b"assert" in source:
        with suppress(RecursionError), no_collection():  # what is nested too deep for a tree is not for the compiler
            tree = ast.parse(source, path)
            _Rewriter(source).rewrite(tree)
            code = compile(tree, path, "exec", dont_inherit=True)
            del tree  # before garbage is collected again
            return code
    return compile(source, path, "exec", dont_inherit=True)


class _Finder:
    """Finds the modules of a folder as usual, and has them loaded with their asserts rewritten."""

    def __init__(self, folder: str) -> None:
        self._prefix = folder.rstrip("/") + "/"

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or spec.origin is None:
            return None
        inside = spec.origin.startswith(self._prefix) and not any(part in spec.origin for part in _INSTALLED)
        if inside:
            spec.loader = RewritingLoader(name, spec.origin)
        return spec if inside else None


def assertion_failed(fixed: tuple[str, str | None, Sequence[str]], sides: Any, *values: Any) -> AssertionError:
    """Return the failure of a plain assert: its condition, the values of its parts, and what `_hint` returns of the
    sides of its comparison. `fixed` are the condition, the comparison and the text of each part."""
    failed = f"assertion failed: {cut(fixed[0], _LONGEST_CONDITION)}"
    try:
        return AssertionError(". ".join([failed, *_explanation(fixed, sides, values)]))
    except (Exception, SystemExit):  # noqa: BLE001 — the boundary to the user's values: the assert failed all the same
        return AssertionError(failed)


def _explanation(fixed: tuple[str, str | None, Sequence[str]], sides: Any, values: Sequence[Any]) -> Iterator[str]:
    condition, compared, texts = fixed
    observed = [
        f"{text} = {shown_value(value)}"
        for text, value in zip(texts, values, strict=True)
        if not isinstance(value, _NOT_SHOWN) and not (text == condition and value is False)
    ]
    if observed:
        yield f"Observed: {', '.join(observed[:_MOST_VALUES])}"
    hint = _hint(compared, *sides) if compared is not None else None
    if hint is not None:
        yield hint


def _hint(compared: str, left: Any, right: Any) -> str | None:
    """Return where two long texts differ; for a text that is not among others, or in the lines of one, the nearest."""
    if compared == "In" and isinstance(left, str):
        near = _nearest(left, right.splitlines() if isinstance(right, str) else right)
        return None if near is None else f"Nearest: {shown_value(near)}"
    if compared == "Eq" and isinstance(left, str) and isinstance(right, str):
        differing = (place for place, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1])
        place = next(differing, min(len(left), len(right)))
        if place > _LONGEST_VALUE - _CONTEXT:
            begin, end = place - _CONTEXT, place + _CONTEXT
            return f"They differ at character {place + 1:,}: {left[begin:end]!r} and {right[begin:end]!r}"
    return None


def shown_value(value: Any) -> str:
    """Return a value for messages: its `repr`, cut where it is long."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 — the boundary to the user's class
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return cut(text, _LONGEST_VALUE)


def _nearest(wanted: str, among: Any) -> str | None:
    if not isinstance(among, list | tuple | set | frozenset | dict):
        return None
    return nearest_text(wanted, [text for text in list(among)[:_MOST_NEAR] if isinstance(text, str)])


class _Rewriter:
    """Rewrites the asserts of a module in place."""

    def __init__(self, source: bytes) -> None:
        self._lines = source.splitlines()

    def rewrite(self, tree: ast.Module) -> None:
        self._visit(tree, in_function=False)

    def _visit(self, node: Any, in_function: bool) -> None:
        """Rewrite the asserts of the statements in a node; expressions hold none."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            in_function = not isinstance(node, ast.ClassDef)
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                setattr(node, name, [new for old in statements for new in self._statements(old, in_function)])
        for name in ("handlers", "cases"):
            for child in getattr(node, name, ()):
                self._visit(child, in_function)

    def _statements(self, node: ast.stmt, in_function: bool) -> list[ast.stmt]:
        if not isinstance(node, ast.Assert):
            self._visit(node, in_function)
            return [node]
        if not in_function or node.msg is not None:
            return [node]
        both = isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And)
        tests: Sequence[ast.expr] = node.test.values if both else [node.test]  # type: ignore[attr-defined]
        return [new for test in tests for new in self._checked(test, node)]

    def _checked(self, test: ast.expr, node: ast.Assert) -> list[ast.stmt]:
        """Return `if not test: raise assertion_failed(…)` for one condition of an assert.

        Where not every part may be evaluated, all names get a value before: one that is never shown.
        """
        condition, at = self._text(test), _place_of(node)
        parts: _Parts = []
        evaluates_all = _evaluates_all(test)
        kept = self._kept_of(test, parts)
        compared, sides = None, list[ast.expr]()
        if isinstance(kept, ast.Compare) and evaluates_all:
            compared, sides = type(kept.ops[0]).__name__, [_again(kept.left), _again(kept.comparators[0])]
        fixed: Any = (condition, compared, tuple(text for text, _ in parts))
        compared_sides = ast.Tuple(sides, _LOAD, **at)
        values = [ast.Name(name, _LOAD, **at) for _, name in parts]
        failure = ast.Call(
            ast.Name(_FAILED, _LOAD, **at), [ast.Constant(fixed, **at), compared_sides, *values], [], **at
        )
        check = ast.If(ast.UnaryOp(ast.Not(), kept, **at), [ast.Raise(failure, **at)], [], **at)
        if evaluates_all or not parts:
            return [check]
        names: list[ast.expr] = [ast.Name(name, ast.Store(), **at) for _, name in parts]
        return [ast.Assign(names, ast.Name(_FAILED, _LOAD, **at), **at), check]

    def _kept_of(self, test: ast.expr, parts: _Parts) -> ast.expr:
        """Keep the parts of a condition, also those that are evaluated only by the values of others."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test.operand = self._kept_of(test.operand, parts)
        elif isinstance(test, ast.Compare):
            test.left = self._kept(test.left, parts)
            test.comparators = [self._kept(value, parts) for value in test.comparators]
        elif isinstance(test, ast.BoolOp):
            test.values = [self._kept_of(value, parts) for value in test.values]
        elif isinstance(test, ast.IfExp):
            test.test = self._kept_of(test.test, parts)
            test.body, test.orelse = self._kept_of(test.body, parts), self._kept_of(test.orelse, parts)
        else:
            return self._kept(test, parts)
        return test

    def _kept(self, node: ast.expr, parts: _Parts, depth: int = 0) -> ast.expr:
        """Return an expression that keeps its value and those of its arguments."""
        if _is_literal(node) or isinstance(node, ast.Starred | ast.Lambda | ast.GeneratorExp):
            return node
        place = len(parts)
        text = self._text(node.target if isinstance(node, ast.NamedExpr) else node)
        if isinstance(node, ast.Call) and depth < _DEEP:
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
                node.func.value = self._kept(node.func.value, parts, depth + 1)
            node.args = [self._kept(argument, parts, depth + 1) for argument in node.args]
        name = f"@{node.lineno}:{node.col_offset}:{node.end_col_offset}:{depth}"
        parts.insert(place, (text, name))
        at = _place_of(node)
        return ast.NamedExpr(ast.Name(name, ast.Store(), **at), node, **at)

    def _text(self, node: ast.expr) -> str:
        """Return the source of an expression in one line; columns are of bytes."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        if first == last:
            return self._lines[first][node.col_offset : node.end_col_offset].decode(errors="replace")
        lines = [self._lines[first][node.col_offset :], *self._lines[first + 1 : last]]
        lines.append(self._lines[last][: node.end_col_offset])
        return " ".join(line.strip().decode(errors="replace") for line in lines)


def _place_of(node: ast.stmt | ast.expr) -> dict[str, Any]:
    """Return the place of a node for another one; `ast.fix_missing_locations` takes ten times as long."""
    return {
        "lineno": node.lineno,
        "col_offset": node.col_offset,
        "end_lineno": node.end_lineno,
        "end_col_offset": node.end_col_offset,
    }


def _evaluates_all(test: ast.expr) -> bool:
    """Return whether no part of a condition decides whether another one is evaluated."""
    while isinstance(test, ast.UnaryOp):
        test = test.operand
    return not isinstance(test, ast.BoolOp | ast.IfExp) and (not isinstance(test, ast.Compare) or len(test.ops) == 1)


def _again(node: ast.expr) -> ast.expr:
    """Return a side of a comparison without evaluating it again."""
    if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
        return ast.Name(node.target.id, _LOAD, **_place_of(node))
    return node if _is_literal(node) else ast.Constant(None, **_place_of(node))


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return all(map(_is_literal, node.elts))
    return isinstance(node, ast.Constant)
