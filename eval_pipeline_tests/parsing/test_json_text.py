"""JSON text as values with lines: as strict as YAML, and as JSON says."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.json_text import parse_row, read_json


@pytest.mark.parametrize(
    "value",
    [
        {}, [], "x", 1, None, {"a": [{"b": {"c": [1, 2.5, True, None]}}], "": 0},
        {"odd": "\x7f\x85\u2028 /\t\n😀", "quote": "a \\ud83d\\ude00"}, [10**30, -(10**200)],
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("ascii_", [True, False], ids=["escaped", "as it is"])
def test_json_is_read_as_json(value: object, ascii_: bool) -> None:
    assert read_json(json.dumps(value, ensure_ascii=ascii_))[0] == value


def test_a_field_stands_at_its_line() -> None:
    text = '{"name": "x",\n "tests": [\n {"id": "a"},\n\n {"id": "b",\n  "input": [\n   {"role": "\\ud83d\\ude00"}]}]}'

    _, lines = read_json(text)

    paths = [("name",), ("tests",), ("tests", 0), ("tests", 1), ("tests", 1, "input"), ("tests", 1, "input", 0, "role")]
    assert [lines.of(path) for path in paths] == [1, 2, 3, 5, 6, 7]


def test_an_item_of_a_root_list_stands_at_its_line() -> None:
    _, lines = read_json('[\n{"id": 1},\n\n{"id": 2, "x": "\x7f"}]')

    assert [lines.of((0,)), lines.of((1,)), lines.of((1, "id"))] == [2, 4, 4]


def test_where_only_json_can_be_followed_the_enclosing_item_is_named() -> None:
    _, lines = read_json('{"tests": [\n{"id": "\x7f",\n"input": 3}]}')

    assert lines.of(("tests", 0, "input")) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "s.json:1: not valid JSON: "),
        ('{"a":\n }', "s.json:2: not valid JSON: "),
        ("NaN", "s.json:1: not valid JSON: "),
        ('"\\ud800"', "s.json:1: not valid JSON: "),
        ('{"a": 1,\n"b": {"c": 1},\n"a": 2}', "s.json:3: key 'a' appears twice in one object"),
        ('[{"a": 1}, {"a": 1, "a": 2}]', "s.json: key 'a' appears twice in one object"),
        ("[" * 200 + "]" * 200, "s.json: nested deeper than 100 levels"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        read_json(text, "s.json")

    assert str(raised.value).startswith(problem)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not valid JSON: "),
        ('{"a": {"b": 1, "b": 2}}', "key 'b' appears twice in one object"),
        ('[{"b": 1, "b": 2}]', "key 'b' appears twice in one object"),
        ('{"a": ' + "[" * 150 + "]" * 150 + "}", "nested deeper than 100 levels"),
    ],
)
def test_a_row_is_read_as_strictly(line: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_row(line)
