"""AgentV eval files in YAML (or JSON, which is YAML): suite-level fields and a list of tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.suites.agentv import TEST_KEYS, read_suite
from eval_pipeline.suites.environment import interpolate
from eval_pipeline.suites.load import FORMATS, Reading
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.source import show_path, yaml_source
from eval_pipeline.suites.yaml_text import parse_yaml


@FORMATS.register("agentv-yaml")
class AgentVYaml:
    """Files ending in .yaml, .yml or .json whose root mapping has `tests` (or an alias of it)."""

    suffixes: tuple[str, ...] = (".yaml", ".yml", ".json")

    def recognizes(self, path: Path, head: str) -> bool:
        return any(key in head for key in TEST_KEYS)

    def load(self, path: Path, text: str, reading: Reading) -> Suite:
        source = yaml_source(path, text)
        document = parse_yaml(text, show_path(path))
        if not isinstance(document, Mapping):
            raise source.error((), "expected a mapping with a list of tests")
        if "${{" in text:
            document = interpolate(document, reading.environment)
        key = next((key for key in TEST_KEYS if key in document), None)
        if key is None:
            raise source.error((), "no tests: expected a list under 'tests'")
        tests: Any = document[key]
        if not isinstance(tests, list):
            raise source.error((key,), "expected a list of tests")
        return read_suite(document, (((key, index), test) for index, test in enumerate(tests)), source, "agentv-yaml")
