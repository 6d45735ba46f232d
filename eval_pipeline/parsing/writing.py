"""Plain values → the text of a suite file: readable YAML, and JSONL.

YAML keeps the order of keys, shows texts of several lines as blocks, and is read back as exactly the same value, by our
reader and by others (what only one version of YAML takes for a number or a truth value is quoted).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.visible import has_hidden
from eval_pipeline.parsing.yaml_text import plain_scalar

try:
    from yaml import CSafeDumper as _FastDumper
except ImportError:  # PyYAML without libyaml: slower, same text
    from yaml import SafeDumper as _FastDumper  # type: ignore[assignment]

_WIDE = 1_000_000
_ODD = re.compile("[^\\n -~\xa0-\u2027\u202a-\ufefe\uff00-\U0010ffff]")
"""Characters that only a quoted text with escapes carries safely: controls, and the line breaks of Unicode."""
_BEYOND_BMP = re.compile(rb"[\xf0-\xf4]")
"""The first byte of a character that libyaml would write as an escape (an emoji)."""


class _Slow(yaml.SafeDumper):
    """Dumper that escapes no characters."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _Fast(_FastDumper):
    """Faster dumper for large suites."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", value, style=_style(value))
    return node


def _style(value: str) -> str | None:
    if _ODD.search(value) or value.endswith("\n\n"):  # such a block scalar does not read back the same
        return '"'
    if "\n" in value and value.strip():
        return "|"
    return "'" if value == "" or plain_scalar(value) != value else None


for _dumper in (_Slow, _Fast):
    _dumper.add_representer(str, _text)


def yaml_text(value: Any) -> str:
    """A value of JSON's types as a YAML document."""
    as_json = to_json(value)
    dumper = _Slow if _BEYOND_BMP.search(as_json) else _Fast
    plain = not has_hidden(as_json.decode())  # what reorders or hides text is only written as an escape
    written: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=plain, width=_WIDE)
    return written


def suite_yaml(document: Mapping[str, Any], tests: Iterable[Any], key: str = "tests") -> Iterator[str]:
    """A suite as pieces of YAML: the fields of `document`, then each test after a blank line."""
    if document:
        yield yaml_text(dict(document))
    items = (textwrap.indent(yaml_text([test]), "  ") for test in tests)
    first = next(items, None)
    yield f"{key}: []\n" if first is None else f"{key}:\n{first}"
    for item in items:
        yield f"\n{item}"


def jsonl_text(rows: Iterable[Any]) -> Iterator[str]:
    """Rows as lines of JSON."""
    return (to_json(row).decode() + "\n" for row in rows)
