"""AgentV eval files in JSONL: one test a line, and a file beside it with the suite-level fields.

That file is `<name>.yaml` or `<name>.eval.yaml`; it has no tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from eval_pipeline.formats.agentv.documents import jsonl_tests, read_document
from eval_pipeline.formats.agentv.load_context import Desk, desk_for
from eval_pipeline.formats.agentv.suite import TEST_KEYS, read_suite
from eval_pipeline.parsing.fields import NOTHING, Map, Spot, kind
from eval_pipeline.parsing.source import jsonl_source
from eval_pipeline.suites.load import FORMATS, Reading
from eval_pipeline.suites.model import Suite

_BESIDE = (".yaml", ".yml", ".eval.yaml", ".eval.yml")


@FORMATS.register("agentv-jsonl")
class AgentVJsonl:
    """Files ending in .jsonl whose first row has `id` and `input`."""

    suffixes: tuple[str, ...] = (".jsonl",)

    def recognizes(self, path: Path, head: str) -> bool:
        return '"id"' in head and '"input"' in head

    def mentions(self, path: Path, head: str) -> Iterable[Path]:
        return ()

    def load(self, path: Path, text: str, reading: Reading) -> Suite:
        desk = desk_for(path, reading)
        document, spot = _beside(path, desk)
        return read_suite(document, spot, desk, "agentv-jsonl", jsonl_tests(path, text, desk))


def _beside(path: Path, desk: Desk) -> tuple[Map, Spot]:
    """The suite-level fields in the file beside a dataset; none when there is no such file."""
    spot = Spot(jsonl_source(path))
    base = path.stem.removesuffix(".eval") or path.stem
    for suffix in _BESIDE:
        beside = path.with_name(base + suffix)
        if not beside.is_file():
            continue
        document, there = read_document(beside, desk, spot)
        if not isinstance(document, Mapping):
            raise there.error(f"expected a mapping with the suite's fields, got {kind(document)}")
        if not any(key in document for key in TEST_KEYS):
            return document, there
        del desk.parts[beside.absolute()]
    return NOTHING, spot
