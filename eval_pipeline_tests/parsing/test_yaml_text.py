"""YAML text gives plain values or an InputError with the line, and nothing else, whatever the text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.yaml_text import MAX_DEPTH, Lines, parse_yaml, read_yaml

STEADY = settings(derandomize=True, deadline=None)
SYNTAX = st.sampled_from(
    ["- ", "? ", ": ", "\n", "  ", "\t", "&a ", "*a", "!", "!!int ", "|\n", ">-\n", "{", "}", "[", "]", ",", "<<", "'",
     '"', "\\", "#", "---\n", "...\n", "%YAML 1.1\n", "key", "1", "~", "\ufeff", "\x00", "\x85", "\ud800"]
)  # fmt: skip
PLAIN = st.recursive(
    st.integers() | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=10,
)


def problem_of(text: str) -> str:
    """What is said of a text that cannot be used."""
    with pytest.raises(InputError) as raised:
        parse_yaml(text, "a.yaml")
    return str(raised.value)


@STEADY
@given(st.text())
@example("\ud800")
@example("\x00")
def test_any_text_gives_a_value_or_an_input_error(text: str) -> None:
    try:
        parse_yaml(text, "a.yaml")
    except InputError as error:
        assert str(error).startswith("a.yaml")


@STEADY
@given(st.lists(SYNTAX, max_size=20).map("".join))
def test_any_heap_of_yaml_syntax_gives_a_value_or_an_input_error(text: str) -> None:
    try:
        parse_yaml(text, "a.yaml")
    except InputError as error:
        assert str(error).startswith("a.yaml")


@STEADY
@given(PLAIN)
def test_what_was_written_is_read_back(value: object) -> None:
    assert parse_yaml(yaml.safe_dump(value, allow_unicode=True)) == value


@STEADY
@given(PLAIN)
def test_what_was_written_on_one_line_is_read_back(value: object) -> None:
    assert parse_yaml(yaml.safe_dump(value, default_flow_style=True, width=math.inf)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("yes", "no", "on", "off", "y", "N", "nULL", "tRUE", "NaN", "inf")),
        *((word, word) for word in ("2025-01-15", "12:30:00", "1_000", "0b101", "0x", "0o8", "+", ".", "..", "1e")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL", "# only a comment")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, 12) for word in ("12", "+12", "012", "0xC", "0xc", "0o14")),
        *((word, -12) for word in ("-12", "-012")),
        *((word, 1200.0) for word in ("1200.0", "1200.", "1.2e3", "1.2E+3", "12e2", "+1200.0")),
        *((word, math.inf) for word in (".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF")),
        *((word, -math.inf) for word in ("-.inf", "-.Inf", "-.INF")),
        ("-.5", -0.5),
        ("'12'", "12"), ('"true"', "true"), ("''", ""), ("!!str 12", "12"), ("!!str", ""),
        ("!!int 12", 12), ("!!int '12'", 12), ("!!float 12", 12), ("!!bool true", True), ("!!null ''", None),
        ("!!map {a: 1}", {"a": 1}), ("!!seq [1]", [1]),
        ("|\n  a\n  b\n", "a\nb\n"), (">-\n  a\n  b\n", "a b"), ("a\nb", "a b"),
        ("- - 1\n  - 2\n-", [[1, 2], None]),
        ('{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        ("{\n\t\"a\": [\n\t\t1\n\t]\n}", {"a": [1]}),
        ("1: one\nnull: nothing\ntrue: yes", {"1": "one", "null": "nothing", "true": "yes"}),
        ("a:\nb: ''", {"a": None, "b": ""}),
        ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("9" * 1_000, int("9" * 1_000)),
        ("9" * 1_001, "9" * 1_001),
        ("0x" + "f" * 5_000, "0x" + "f" * 5_000),
    ],
    ids=lambda item: repr(item)[:30],
)  # fmt: skip
def test_scalars_and_collections_are_those_of_yaml_1_2(text: str, value: object) -> None:
    parsed = parse_yaml(text)

    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number_is_a_number(text: str) -> None:
    assert math.isnan(parse_yaml(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="alias"),
        pytest.param("&k key: *k", {"key": "key"}, id="anchor on a key"),
        pytest.param("a: &x b\n*x : c", {"a": "b", "b": "c"}, id="alias as a key"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}, id="an anchor said again"),
        pytest.param("a: &x {p: 1, q: 1}\nb: {<<: *x, q: 2}", {"a": {"p": 1, "q": 1}, "b": {"p": 1, "q": 2}}, id="<<"),
        pytest.param("b: {q: 2, <<: {p: 1, q: 1}}", {"b": {"p": 1, "q": 2}}, id="own keys win wherever << stands"),
        pytest.param("<<: [{p: 1}, {p: 2, q: 2}]", {"p": 1, "q": 2}, id="of several the first wins"),
        pytest.param("<<: {p: 1}\n<<: {p: 2, q: 2}", {"p": 1, "q": 2}, id="<< said twice"),
        pytest.param("'<<': {p: 1}", {"<<": {"p": 1}}, id="a quoted << is a key"),
        pytest.param("<<: []\na: 1", {"a": 1}, id="<< of nothing"),
    ],
)
def test_aliases_and_merge_keys(text: str, value: object) -> None:
    assert parse_yaml(text) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "a.yaml:3: key 'a' appears twice in one mapping", id="duplicate key"),
        pytest.param("a: {b: 1,\n  b: 2}", "a.yaml:2: key 'b' appears twice in one mapping", id="duplicate deeper"),
        pytest.param("1: a\n'1': b", "a.yaml:2: key '1' appears twice in one mapping", id="duplicate when read"),
        pytest.param("a: *x", "a.yaml:1: alias '*x' refers to nothing before it", id="unknown alias"),
        pytest.param("a: &x [*x]", "a.yaml:1: alias '*x' refers to nothing before it", id="alias of itself"),
        pytest.param("? [a, b]\n: c", "a.yaml:1: a key must be a single text", id="list as key"),
        pytest.param("a: &x [1]\n*x : c", "a.yaml:2: a key must be a single text", id="alias of a list as key"),
        pytest.param("a: 1\n<<: 3", "a.yaml:1: '<<' takes a mapping or a list of mappings", id="merge of a number"),
        pytest.param("<<: [{a: 1}, 2]", "a.yaml:1: '<<' takes a mapping or a list of mappings", id="merge of a list"),
        pytest.param("a: !!int x", "a.yaml:1: 'x' is not a whole number", id="wrong int"),
        pytest.param("a: !!int true", "a.yaml:1: 'true' is not a whole number", id="a truth value is no int"),
        pytest.param("a: !!bool 1", "a.yaml:1: '1' is not true or false", id="wrong bool"),
        pytest.param("a: !!timestamp 2025-01-15", "a.yaml:1: tag 'tag:yaml.org,2002:timestamp' is not plain data",
                     id="timestamp"),
        pytest.param("a: !mine 1", "a.yaml:1: tag '!mine' is not plain data", id="own tag"),
        pytest.param("a: !mine {b: 1}", "a.yaml:1: tag '!mine' is not plain data", id="own tag of a mapping"),
        pytest.param("a: !!set {b}", "a.yaml:1: tag 'tag:yaml.org,2002:set' is not plain data", id="set"),
        pytest.param("\n- !!python/object/apply:os.getcwd []",
                     "a.yaml:2: tag 'tag:yaml.org,2002:python/object/apply:os.getcwd' is not plain data", id="code"),
        pytest.param("a: 1\n---\nb: 2", "a.yaml:2: expected one YAML document, found a second one", id="2 documents"),
        pytest.param("a: b: c", "a.yaml:1: not valid YAML: a text that holds ': ' has to be quoted: 'a: b: c'",
                     id="colon in a text"),
        pytest.param("a:\n\t- b", "a.yaml:2: not valid YAML: indent with spaces, not with tabs (→): '→- b'", id="tab"),
        pytest.param("a: [1, 2\nb: 3", "a.yaml:2: not valid YAML: a list in [ ] lacks a ',' or its ']': 'b: 3'",
                     id="open list"),
        pytest.param("a: {b: 1\nc: 3", "a.yaml:2: not valid YAML: a mapping in { } lacks a ',' or its '}': 'c: 3'",
                     id="open mapping"),
        pytest.param("a:\n  - b: 1\n   c: 2", "a.yaml:3: not valid YAML: the indentation does not fit the lines above:"
                     " '   c: 2'", id="indented too far"),
        pytest.param("a:\n  - b\n c: 2", "a.yaml:3: not valid YAML: the indentation does not fit the lines above:"
                     " ' c: 2'", id="indented between"),
        pytest.param('a: 1\nb: "open\nc: 2', "a.yaml:2: not valid YAML: a quote is not closed: 'b: \"open'",
                     id="quote"),
        pytest.param("a: @b", "a.yaml:1: not valid YAML: a text that begins with @ ` or % has to be quoted: 'a: @b'",
                     id="at"),
        pytest.param("a: 1\n\tb: 2", "a.yaml:2: not valid YAML: indent with spaces, not with tabs (→): '→b: 2'",
                     id="tab before a name"),
        pytest.param("a: 'it's'", "a.yaml:1: not valid YAML: a text in quotes goes on after its closing quote; use the "
                     "other kind of quotes around it: 'a: 'it's''", id="quote inside"),
        pytest.param("- a: 1\n   b: 2", "a.yaml:2: not valid YAML: the indentation does not fit the lines above: "
                     "'   b: 2'", id="indented below a text"),
        pytest.param("a\nb: 2", "a.yaml:2: not valid YAML: the line above lacks its ': ': 'b: 2'", id="no colon"),
        pytest.param('a: "\\d"', "a.yaml:1: not valid YAML: an unknown escape in double quotes; write \\\\ for "
                     "\\, or use single quotes: 'a: \"\\d\"'", id="escape"),
        pytest.param("a: - b", "a.yaml:1: not valid YAML: the '- ' of a list begins a line of its own: 'a: - b'",
                     id="list beside its name"),
        pytest.param("a: 1\nb: \x07", "a.yaml:2: not valid YAML: character U+0007 is not allowed", id="control"),
        pytest.param("é: é\nb: \ufffe", "a.yaml:2: not valid YAML: character U+FFFE is not allowed", id="no character"),
        pytest.param("\ud800", "a.yaml: not valid YAML: holds a lone surrogate (half a character)", id="surrogate"),
        pytest.param('"\\ud800"', "a.yaml:1: not valid YAML: found invalid Unicode character escape code: "
                     "'\"\\ud800\"'",
                     id="escaped surrogate"),
    ],
)  # fmt: skip
def test_an_error_says_line_culprit_and_cure(text: str, problem: str) -> None:
    assert problem_of(text) == problem


def test_an_error_of_unnamed_text_says_the_line() -> None:
    with pytest.raises(InputError, match=r"^line 2: key 'a' appears twice"):
        parse_yaml("a: 1\na: 2")


NESTINGS: dict[str, Callable[[int], str]] = {
    "lists": lambda levels: "[" * levels + "]" * levels,
    "mappings": lambda levels: "{a: " * levels + "1" + "}" * levels,
    "blocks": lambda levels: "- " * levels + "1",
    "aliases": lambda levels: "".join([
        "- &a1 [1]\n", *(f"- &a{level} [*a{level - 1}]\n" for level in range(2, levels))
    ]),
    "keys": lambda levels: "- &a1 {k: 1}\n" + "".join(
        f"- &a{level} {{k: *a{level - 1}}}\n" for level in range(2, levels)
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NESTINGS)
def test_depth_is_bounded(kind: str) -> None:
    nested = NESTINGS[kind]

    assert parse_yaml(nested(MAX_DEPTH))
    assert "nested deeper than 100 levels" in problem_of(nested(MAX_DEPTH + 2))
    assert "nested deeper than 100 levels" in problem_of(nested(3_000))


def bomb(levels: int, begin: str, ten_of: Callable[[str], str]) -> str:
    """A text in which every level holds the one before it ten times."""
    return f"- &a0 {begin}\n" + "".join(f"- &a{level} {ten_of(f'*a{level - 1}')}\n" for level in range(1, levels))


def listed(alias: str) -> str:
    return f"[{', '.join([alias] * 10)}]"


def mapped(alias: str) -> str:
    return f"{{{', '.join(f'k{number}: {alias}' for number in range(10))}}}"


def merged(alias: str) -> str:
    return f"{{{', '.join(f'k{number}: {{<<: {alias}}}' for number in range(10))}}}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(bomb(12, "[1]", listed), id="lists"),
        pytest.param(bomb(12, "{a: 1}", mapped), id="mappings"),
        pytest.param(bomb(12, "{a: 1}", merged), id="merged mappings"),
        pytest.param(bomb(6, "x" * 100_000, listed), id="a long text, often"),
    ],
)
def test_aliases_cannot_blow_up(text: str) -> None:
    assert "aliases expand to more than 5,000,000 values" in problem_of(text)


def test_ordinary_use_of_aliases_is_no_bomb() -> None:
    text = "defaults: &d {a: 1, b: [1, 2, 3]}\ncases:\n" + "".join(f"- {{<<: *d, id: {i}}}\n" for i in range(1_000))

    assert len(parse_yaml(text)["cases"]) == 1_000


TEXT = """\
# a comment
name: x
tests:
  - id: one
    input:
      - role: user
        content: hi

  - id: two
    "assertions": [
      {type: contains},
      {type: equals}
    ]
  - &shared
    id: three
again: *shared
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param((), 2, id="the document"),
        pytest.param(("name",), 2, id="a field"),
        pytest.param(("tests",), 3, id="a list"),
        pytest.param(("tests", 0), 4, id="an entry"),
        pytest.param(("tests", 0, "input", 0, "content"), 7, id="deep inside"),
        pytest.param(("tests", 1, "assertions", 1, "type"), 12, id="on one line with others"),
        pytest.param(("tests", 1, "criteria"), 9, id="a field that is not there: where it should be"),
        pytest.param(("tests", 7), 3, id="an entry that is not there"),
        pytest.param(("name", "deeper"), 2, id="inside a text"),
        pytest.param(("again", "id"), 15, id="through an alias"),
    ],
)
def test_a_field_is_found_at_its_line(path: tuple[Any, ...], line: int) -> None:
    assert Lines(TEXT).of(path) == line


@pytest.mark.parametrize("text", ["", "# nothing", "a: [", "a: *x", "\ud800"])
def test_a_text_without_fields_has_no_lines(text: str) -> None:
    assert Lines(text).of(("a",)) is None


def test_of_a_large_text_the_line_of_the_enclosing_item_has_to_do() -> None:
    text = "name: x\n" + "# note\n" * 200_000 + "tests:\n  - id: a\n    input: i\n  - id: b\n    input: i\n"

    _, lines = read_yaml(text)

    paths: list[tuple[str | int, ...]] = [("name",), ("tests",), ("tests", 1), ("tests", 1, "input"), ("none",), ()]
    assert [lines.of(path) for path in paths] == [1, 200_002, 200_005, 200_005, None, None]
