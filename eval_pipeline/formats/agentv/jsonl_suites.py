"""AgentV eval files in JSONL: one test a line, and a file beside it with the suite-level fields.

That file is `<name>.yaml` or `<name>.eval.yaml`; it has no tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.formats.agentv.documents import RawTest, jsonl_tests, lines_of, read_document
from eval_pipeline.formats.agentv.eval_files import EvalFiles
from eval_pipeline.formats.agentv.load_context import LoadContext, open_context
from eval_pipeline.formats.agentv.suite import TEST_KEYS, read_suite
from eval_pipeline.parsing.fields import NOTHING, FieldCursor, Map, kind
from eval_pipeline.parsing.source import jsonl_source, show_path
from eval_pipeline.suites.load import FORMATS, LoadOptions
from eval_pipeline.suites.model import Suite

_BESIDE = (".yaml", ".yml", ".eval.yaml", ".eval.yml")


@FORMATS.register("agentv-jsonl")
class AgentVJsonl(EvalFiles):
    """Files ending in .jsonl whose first row has `id` and `input`."""

    suffixes: tuple[str, ...] = (".jsonl",)

    def recognizes(self, path: Path, head: str) -> bool:
        return '"id"' in head and '"input"' in head

    def recognizes_text(self, path: Path, text: str) -> bool:
        """Whether the first row, of any length, has both fields."""
        return self.recognizes(path, text)

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        return self.load_lines(path, lines_of(text), load_options)

    def load_lines(self, path: Path, lines: Iterable[str], load_options: LoadOptions) -> Suite:
        """See LineFormat: a large suite is never in memory as a whole."""
        context = open_context(path, load_options)
        document, cursor = _beside(path, context)
        return read_suite(document, cursor, context, "agentv-jsonl", _tests(path, lines, context))


def _tests(path: Path, lines: Iterable[str], context: LoadContext) -> Iterator[RawTest]:
    tests = jsonl_tests(path, lines, context)
    first = next(tests, None)
    if first is None:
        context.diagnostics.add("the file has no rows: the suite has no tests", SourceLocation(show_path(path)))
        return
    if _is_result(first.raw):
        raise InputError(f"{show_path(path)} has results, not tests: eval-pipeline compare and trend read it")
    yield first
    yield from tests


def _is_result(row: object) -> bool:
    return isinstance(row, Mapping) and "id" not in row and row.keys() >= {"test_id", "score"}


def _beside(path: Path, context: LoadContext) -> tuple[Map, FieldCursor]:
    """The suite-level fields in the file beside a dataset; none when there is no such file."""
    cursor = FieldCursor(jsonl_source(path))
    base = path.stem.removesuffix(".eval") or path.stem
    for suffix in _BESIDE:
        beside = path.with_name(base + suffix)
        if not beside.is_file():
            continue
        document, there = read_document(beside, context, cursor)
        if not isinstance(document, Mapping):
            raise there.error(f"expected a mapping with the suite's fields, got {kind(document)}")
        if not any(key in document for key in TEST_KEYS):
            return document, there
        del context.parts[beside.absolute()]
    return NOTHING, cursor
