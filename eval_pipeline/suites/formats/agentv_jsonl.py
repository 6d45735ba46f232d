"""AgentV eval files in JSONL: one test a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.suites.agentv import read_suite
from eval_pipeline.suites.environment import interpolate
from eval_pipeline.suites.load import FORMATS, Reading, with_unset_names
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.source import FieldPath, Source, jsonl_source
from eval_pipeline.suites.yaml_text import MAX_DEPTH


@FORMATS.register("agentv-jsonl")
class AgentVJsonl:
    """Files ending in .jsonl whose first row has `id` and `input`."""

    suffixes: tuple[str, ...] = (".jsonl",)

    def recognizes(self, path: Path, head: str) -> bool:
        return '"id"' in head and '"input"' in head

    def load(self, path: Path, text: str, reading: Reading) -> Suite:
        source = jsonl_source(path)
        return with_unset_names(read_suite({}, _rows(text, source, reading), source, "agentv-jsonl"), text, reading)


def _rows(text: str, source: Source, reading: Reading) -> Iterator[tuple[FieldPath, Any]]:
    for number, line in enumerate(_lines(text), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield (number,), source.error((number,), f"not valid JSON: {error}")
            continue
        if line.count("[") + line.count("{") > MAX_DEPTH and _deeper_than(MAX_DEPTH, row):
            yield (number,), source.error((number,), f"nested deeper than {MAX_DEPTH} levels")
            continue
        yield (number,), interpolate(row, reading.environment) if "${{" in line else row


def _lines(text: str) -> Iterator[str]:
    """The lines of a text one at a time: a list of them would double the memory of a large suite."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _deeper_than(levels: int, value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels < 0 or any(_deeper_than(levels - 1, item) for item in inner)
