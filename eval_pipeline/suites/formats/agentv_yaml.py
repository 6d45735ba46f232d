"""AgentV eval files in YAML (or JSON, which is YAML): suite-level fields and a list of tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.suites.agentv import TEST_KEYS, read_suite
from eval_pipeline.suites.environment import interpolate
from eval_pipeline.suites.load import FORMATS, Reading, with_unset_names
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.source import Source, show_path
from eval_pipeline.suites.yaml_text import read_yaml

_TESTS = re.compile(rf"""(?:^|[{{,]\s*)["']?(?:{"|".join(TEST_KEYS)})["']?\s*:""", re.MULTILINE)
_SURROGATE_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


@FORMATS.register("agentv-yaml")
class AgentVYaml:
    """Files ending in .yaml, .yml or .json whose root mapping has `tests` (or an alias of it)."""

    suffixes: tuple[str, ...] = (".yaml", ".yml", ".json")

    def recognizes(self, path: Path, head: str) -> bool:
        return bool(_TESTS.search(head))

    def load(self, path: Path, text: str, reading: Reading) -> Suite:
        text = _json_as_yaml(text) if path.suffix.lower() == ".json" else text
        document, lines = read_yaml(text, show_path(path))
        source = Source(path, show_path(path), lines.of)
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
        rows = (((key, index), test) for index, test in enumerate(tests))
        return with_unset_names(read_suite(document, rows, source, "agentv-yaml"), text, reading)


def _json_as_yaml(text: str) -> str:
    """JSON text with what YAML reads otherwise: characters beyond U+FFFF written as two escapes become one."""
    return _SURROGATE_PAIR.sub(lambda match: f"{match[1]}\\U{_character(match[2], match[3]):08X}", text)


def _character(high: str, low: str) -> int:
    """The code point of a surrogate pair, each half in hexadecimal."""
    return 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
