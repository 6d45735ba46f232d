"""AgentV eval files in YAML or JSON: suite-level fields and the tests, or references to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

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


@FORMATS.register("agentv-yaml")
class AgentVYaml(EvalFiles):
    """Files ending in .yaml, .yml or .json whose root mapping has `tests` (or an alias of it)."""

    suffixes: tuple[str, ...] = (".yaml", ".yml", ".json")
    schemas: tuple[str, ...] = ("agentv-eval",)

    def recognizes(self, path: Path, head: str) -> bool:
        return bool(_TESTS.search(head))

    def mentions(self, path: Path, head: str) -> Iterable[Path]:
        if "file://" not in head and not _NAMED.search(head):
            return ()
        roots = search_roots(path.parent)
        names = {match[1] or match[2] for match in _NAMED.finditer(head)}
        return {file for name in names for file in _files(name.strip().removeprefix("file://"), roots)}

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        context = open_context(path, load_options)
        document, cursor = parse_document(path, text, context)
        if not isinstance(document, Mapping):
            raise cursor.error("expected a mapping with a list of tests")
        return read_suite(document, cursor, context, "agentv-yaml")


def _files(name: str, roots: SearchRoots) -> list[Path]:
    try:
        return roots.matches(name) if is_pattern(name) else [roots.file(name)]
    except NotFound:
        return []
