"""Whatever stands in a file: a suite, or an error with a place. Never a traceback, never more than the file's worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.suites.load import LoadOptions, find_suite_files, load_suite
from eval_pipeline_tests.fuzzing.limits import fuzzed, timed

pytestmark = pytest.mark.usefixtures("in_the_folder")

SUITE = """\
name: sums
description: &d Adding
tags: [a, b]
vars: {city: Rome}
execution: {targets: [x], threshold: 0.5, trials: {count: 2, strategy: mean}}
input: [{role: system, content: *d}]
input_files: [notes.md]
assertions: [{type: contains, value: "{{ city }}", required: true}, Is polite]
tests:
  - {id: a, criteria: c, input: "Where is {{ city }}?", expected_output: {answer: 4}, metadata: {n: 1}}
  - id: b
    input: [{role: user, content: [{type: file, value: notes.md}, {type: text, value: "${{ NAME }}"}]}]
    depends_on: [a]
    rubrics: [Brief]
  - id: c
    mode: conversation
    turns: [{input: Hi, assertions: [Greets]}, {input: Bye, expected_output: Bye}]
    aggregation: min
  - file://cases.csv
  - file://rows.jsonl
"""
ROW = '{"id": "a", "input": "i", "criteria": "c", "assertions": [{"type": "is-json"}, "x"], "tags": ["t"]}\n'
SKILLS = '{"skill_name": "s", "evals": [{"id": 1, "prompt": "p", "expected_output": "o", "files": ["notes.md"]}]}'
SEEDS = {"fuzz.yaml": SUITE, "fuzz.jsonl": ROW * 2, "fuzz.json": SKILLS}
FIELDS = (
    "id", "tests", "input", "criteria", "expected_output", "assertions", "assert", "evaluators", "execution", "type",
    "value", "role", "content", "metadata", "tags", "vars", "turns", "mode", "workspace", "depends_on", "rubrics",
    "input_files", "include", "name", "weight", "required", "min_score", "targets", "trials", "count", "threshold",
    "aggregation", "template", "hooks", "before_all", "command", "repos", "path", "repeat", "conversation_id", "suite",
    "evals", "prompt", "files", "skill_name", "timeout_s", "expected_fail", "on_turn_failure", "window_size",
)  # fmt: skip
WORDS = (
    "", " ", "user", "text", "file", "image", "contains", "rubrics", "conversation", "notes.md", "../notes.md", "/",
    ".", "**", "file://*", "file://cases.csv", "fuzz.yaml", "\0", "{{ a }}", "${{ A }}", "a" * 300, "\ud800", "0.5",
)  # fmt: skip

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=20)
    | st.sampled_from([10**30, -(10**400), 1e308])
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(FIELDS), values, max_size=6)
tests = st.lists(st.dictionaries(st.sampled_from(FIELDS), values, max_size=8), max_size=3)


@pytest.fixture(autouse=True)
def _neighbours(in_the_folder: Path) -> None:
    Path("notes.md").write_text("notes")
    Path("cases.csv").write_text("id,input,assert\nd,i,is-json\n")
    Path("rows.jsonl").write_text(ROW.replace('"a"', '"e"'))


def check(file: str, content: bytes) -> None:
    """Loading gives a suite that can be stored, or an error that says where."""
    path = Path(file)
    path.write_bytes(content)
    try:
        suite = load_suite(path, LoadOptions({"NAME": "Ann"}))
    except InputError as error:
        problems = problems_of(error)
    else:
        problems = tuple(problem for error in suite.errors for problem in problems_of(error))
        assert to_json([suite.cases, suite.metadata, suite.settings])
        assert all(isinstance(warning, str) for warning in suite.warnings)
        assert len({case.id for case in suite.cases}) == len(suite.cases)
    assert all(problem.place.file and problem.problem for problem in problems)


def mutations(text: str) -> st.SearchStrategy[str]:
    """The text with pieces of it cut out, repeated, or replaced."""
    places = st.integers(0, len(text))
    pieces = st.sampled_from(
        [*WORDS, *FIELDS, "\n", "  ", "- ", ": ", "[", "]", "{", "}", '"', "'", "*d", "&d", "|\n", "#"]
    )
    edits = st.lists(st.tuples(places, st.integers(0, 12), pieces | st.just(text[40:90])), min_size=1, max_size=4)
    return edits.map(lambda edits: _edited(text, edits))


def _edited(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    return text


@fuzzed
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
@example(content=b"\xef\xbb\xbftests: []")
@example(content=b"- " * 2_000)
@example(content=b"[" * 2_000)
@example(content=b'{"a":' * 5_000)
@example(content=b"? " * 300 + b"x")
@example(content=b"a: &a [*a]")
@example(content=b"tests: [&a {id: *a}]")
@example(content=b"%YAML 9.9\n---\n")
@example(content=b"tests: !!python/object/apply:os.getcwd []")
@example(content=b"{" + b",".join(b'"%d":%d' % (n, n) for n in range(200)) + b"}")
@timed
def test_any_bytes(content: bytes) -> None:
    for file in SEEDS:
        check(file, content)


@fuzzed
@given(document=documents, rows=tests)
@timed
def test_any_fields_with_any_values(document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    for cases in (rows, document.get("tests", rows)):
        check("fuzz.yaml", json.dumps({**document, "tests": cases}).encode("utf-8", "replace"))


@fuzzed
@given(rows=tests)
@timed
def test_any_rows(rows: list[dict[str, Any]]) -> None:
    check("fuzz.jsonl", "\n".join(json.dumps(test) for test in rows).encode("utf-8", "replace"))


@pytest.mark.parametrize("file", SEEDS)
def test_mutated_suites(file: str) -> None:
    @fuzzed
    @given(text=mutations(SEEDS[file]))
    @timed
    def mutated(text: str) -> None:
        check(file, text.encode("utf-8", "replace"))

    mutated()


@fuzzed
@given(text=mutations(SUITE))
@timed
def test_finding_suites_never_fails(text: str) -> None:
    Path("evals").mkdir(exist_ok=True)
    Path("evals/a.yaml").write_bytes(text.encode("utf-8", "replace"))
    Path("evals/b.jsonl").write_text(ROW)

    assert set(find_suite_files(["evals"], Path.cwd())) <= {
        Path("evals", name).absolute() for name in ("a.yaml", "b.jsonl")
    }


@pytest.mark.parametrize("file", ["fuzz.yaml", "fuzz.json"])
def test_a_small_file_never_becomes_large(file: str) -> None:
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )

    with pytest.raises(InputError):
        load_suite(_written(file, text + "tests: []\n"))


def _written(file: str, text: str) -> Path:
    Path(file).write_text(text)
    return Path(file)
