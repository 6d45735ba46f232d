from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from eval_pipeline.parsing.writing import jsonl_text, suite_yaml, yaml_text
from eval_pipeline.parsing.yaml_text import parse_yaml

HARD = [
    "", "~", "null", "yes", "on", "1e3", "0o17", "0x1F", ".5", "1:30", "2025-01-15", "=", "<<", "- a\n- b", "a: b\nc",
    "...\n", "---\na", "a\n\n", "\n a", "a\n ", " a\nb", "a\tb\nc", "# x\ny", "a\r\nb", "\x85", "\u2028\n", "\ufeffa",
    "😀\nb", "é", "'", '"', "${{ NAME }}", "{{ x }}", "@[User]:", "%a", "`a`", "trailing ", ": ", " #",
    "\u202ea", "a\u2066\nb", "\x9b31m", "é\u200f\n\n",
]  # fmt: skip
TEXTS = st.sampled_from(HARD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS.filter(lambda key: key != "tests"), VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_a_written_suite_reads_as_what_it_was(document: dict[str, Any], tests: list[Any]) -> None:
    assert parse_yaml("".join(suite_yaml(document, tests))) == {**document, "tests": tests}


@pytest.mark.parametrize("text", HARD)
def test_a_text_stays_a_text_for_readers_of_older_yaml(text: str) -> None:
    assert yaml.safe_load(yaml_text({"text": text})) == {"text": text}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("one\ntwo", "a: |-\n  one\n  two\n", id="lines are a block"),
        pytest.param("one\n", "a: |\n  one\n", id="one line with its end"),
        pytest.param("x" * 200 + " y", f"a: {'x' * 200} y\n", id="a long line is not folded"),
        pytest.param("1e3", "a: '1e3'\n", id="what would be a number is quoted"),
        pytest.param("😀", "a: 😀\n", id="characters as they are"),
        pytest.param([{"b": 1, "a": 2}], "a:\n- b: 1\n  a: 2\n", id="keys in their order"),
    ],
)
def test_yaml_is_written_to_be_read_by_people(value: Any, text: str) -> None:
    assert yaml_text({"a": value}) == text


def test_values_that_stand_twice_are_written_twice() -> None:
    shared = [1]

    assert yaml_text({"a": shared, "b": shared}) == "a:\n- 1\nb:\n- 1\n"


def test_tests_are_apart_by_a_blank_line() -> None:
    assert "".join(suite_yaml({"name": "x"}, [{"id": "a"}, {"id": "b"}])) == (
        "name: x\ntests:\n  - id: a\n\n  - id: b\n"
    )


def test_a_suite_without_tests_has_an_empty_list() -> None:
    assert "".join(suite_yaml({}, [])) == "tests: []\n"


def test_rows_are_lines_of_json() -> None:
    assert "".join(jsonl_text([{"b": "é\n"}, {"a": None}])) == '{"b":"é\\n"}\n{"a":null}\n'


def test_what_reorders_text_is_written_as_an_escape() -> None:
    written = yaml_text({"a": "\u202egpj.exe\u2066"})

    assert written == 'a: "\\u202Egpj.exe\\u2066"\n'
