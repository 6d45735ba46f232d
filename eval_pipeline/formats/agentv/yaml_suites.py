"""AgentV eval files in YAML or JSON: suite-level fields and the tests, or references to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from eval_pipeline.fingerprints import require_regular_file
from eval_pipeline.formats.agentv.documents import parse_document
from eval_pipeline.formats.agentv.eval_files import EvalFiles
from eval_pipeline.formats.agentv.load_context import open_context
from eval_pipeline.formats.agentv.suite import TEST_KEYS, read_suite
from eval_pipeline.parsing.file_search import NotFound, SearchRoots, is_pattern, search_roots
from eval_pipeline.suites.load import FORMATS, LoadOptions
from eval_pipeline.suites.model import Suite

_KEY = rf"""["']?(?:{"|".join(TEST_KEYS)})["']?"""
_NAMED = re.compile(
    rf"""file://([^\s"',\]}}]+)|^[{{\s]*{_KEY}[ \t]*:[ \t]*["']?([^\s"'\[{{#|>&*!-][^"'\n#]*)""", re.MULTILINE
)
_TESTS = re.compile(rf"""(?:^|[{{,]\s*){_KEY}\s*:""", re.MULTILINE)

_TABLE = re.compile(
    r"""(?:^|[{,]\s*)["']?cases["']?[ \t]*:[ \t]*(?:\{[^}]*?|(?:\#.*)?(?:\n[ \t].*)*?\n[ \t]+)["']?from["']?[ \t]*:""",
    re.MULTILINE,
)
_ROOT_TESTS = re.compile(rf"""^(?:\{{[ \t]*)?{_KEY}[ \t]*:""", re.MULTILINE)


@FORMATS.register("agentv-yaml")
class AgentVYaml(EvalFiles):
    """Files ending in .yaml, .yml or .json whose root mapping has `tests` (or an alias), or a table of `cases`."""

    suffixes: tuple[str, ...] = (".yaml", ".yml", ".json")
    schemas: tuple[str, ...] = ("agentv-eval",)

    def recognizes(self, path: Path, head: str) -> bool:
        return bool(_TESTS.search(head) or _TABLE.search(head))

    def recognizes_text(self, path: Path, text: str) -> bool:
        """Whether the root of a long file has tests; a key deep in some data set does not make it a suite."""
        return _has_tests(path, text)

    def mentions(self, path: Path, text: str) -> Iterable[Path]:
        if "file://" not in text and not _NAMED.search(text):
            return ()
        roots = search_roots(path.parent)
        names = {match[1] or match[2] for match in _NAMED.finditer(text)}
        files = {file for name in names for file in _files(name.strip().removeprefix("file://"), roots)}
        return {file for file in files if file.suffix.lower() not in self.suffixes or not _is_suite(file)}

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        context = open_context(path, load_options)
        document, cursor = parse_document(path, text, context)
        if not isinstance(document, Mapping):
            raise cursor.error("expected a mapping with a list of tests")
        return read_suite(document, cursor, context, "agentv-yaml")


def _is_suite(path: Path) -> bool:
    """Whether a file is a mapping with tests: a suite of its own, whoever names it; a part is a list of tests."""
    try:
        require_regular_file(path)
        return _has_tests(path, path.read_text(encoding="utf-8-sig", errors="replace"))
    except OSError:
        return False


def _has_tests(path: Path, text: str) -> bool:
    if path.suffix.lower() != ".json":
        return bool(_ROOT_TESTS.search(text))
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and not document.keys().isdisjoint(TEST_KEYS)


def _files(name: str, roots: SearchRoots) -> list[Path]:
    try:
        return roots.matches(name) if is_pattern(name) else [roots.file(name)]
    except NotFound:
        return []
