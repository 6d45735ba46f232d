"""AgentV eval files in JSONL: one test a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.suites.agentv import read_suite
from eval_pipeline.suites.environment import interpolate
from eval_pipeline.suites.load import FORMATS, Reading
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.source import FieldPath, Source, jsonl_source


@FORMATS.register("agentv-jsonl")
class AgentVJsonl:
    """Files ending in .jsonl whose first row has `id` and `input`."""

    suffixes: tuple[str, ...] = (".jsonl",)

    def recognizes(self, path: Path, head: str) -> bool:
        return '"id"' in head and '"input"' in head

    def load(self, path: Path, text: str, reading: Reading) -> Suite:
        source = jsonl_source(path)
        return read_suite({}, _rows(text, source, reading), source, "agentv-jsonl")


def _rows(text: str, source: Source, reading: Reading) -> Iterator[tuple[FieldPath, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            yield (number,), source.error((number,), f"not valid JSON: {error}")
            continue
        yield (number,), interpolate(row, reading.environment) if "${{" in line else row
