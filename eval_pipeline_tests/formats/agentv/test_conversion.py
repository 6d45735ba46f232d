"""Suites from one format into another: what is read afterwards is what was read before."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.formats.agentv.agent_skills.conversion import as_agent_skills
from eval_pipeline.formats.agentv.conversion import as_json, as_jsonl, as_yaml
from eval_pipeline.parsing.writing import suite_yaml
from eval_pipeline.suites.conversion import in_line, read_raw
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Case, Suite

WRITERS: dict[str, Callable[..., Any]] = {".jsonl": as_jsonl, ".yaml": as_yaml, ".json": as_json}
EXAMPLES = Path(__file__).parents[3] / "examples" / "suites"


def convert(path: Path, target: Path, write: Callable[..., Any] | None = None) -> list[str]:
    """Writes the suite at `path` in another format; what could not be carried over."""
    suite = read_raw(path)
    suite = in_line(suite) if target.suffix == ".jsonl" else suite
    files, lost = (write or WRITERS[target.suffix])(suite, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.path.write_text("".join(file.text), "utf-8")
    return [*suite.lost, *lost.notes()]


def cases(suite: Suite) -> list[Case]:
    """The cases without where they stand."""
    return [replace(case, line=None, origin=None) for case in suite.cases]


def same(expected: Suite, other: Suite) -> None:
    assert cases(other) == cases(expected)
    assert len(other.errors) == len(expected.errors)
    for name in ("name", "description", "tags", "metadata", "settings"):
        assert getattr(other, name) == getattr(expected, name)


TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(str.strip)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system"]), "content": TEXT}),
    min_size=1,
    max_size=3,
)
ASSERTION = st.one_of(
    TEXT,
    st.fixed_dictionaries({"type": st.just("contains"), "value": TEXT}, optional={"weight": st.floats(0, 9)}),
    st.fixed_dictionaries({"type": st.just("llm-grader"), "name": TEXT, "prompt": TEXT}),
)
TEST = st.fixed_dictionaries(
    {"id": TEXT | st.integers(0, 10**9), "input": TEXT | MESSAGES, "criteria": TEXT},
    optional={
        "expected_output": TEXT | MESSAGES | st.dictionaries(TEXT, st.integers(-(2**63), 2**63 - 1) | TEXT, max_size=2),
        "assertions": st.lists(ASSERTION, min_size=1, max_size=3),
        "metadata": st.dictionaries(TEXT, TEXT | st.booleans() | st.integers(-(2**60), 2**60), max_size=2),
        "tags": st.lists(TEXT, max_size=2),
        "execution": st.fixed_dictionaries({}, optional={"threshold": st.floats(0, 1), "skip_defaults": st.booleans()}),
        "unknown": TEXT,
    },
)
DOCUMENT = st.fixed_dictionaries(
    {},
    optional={
        "name": st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True),
        "description": TEXT,
        "tags": st.lists(TEXT, max_size=2),
        "input": TEXT | MESSAGES,
        "assertions": st.lists(ASSERTION, max_size=2),
        "metadata": st.dictionaries(TEXT, TEXT, max_size=2),
        "execution": st.fixed_dictionaries({"threshold": st.floats(0, 1)}),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(DOCUMENT, st.lists(TEST, min_size=1, max_size=3))
def test_a_suite_reads_the_same_in_every_format(
    tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any], tests: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("suites")
    first = folder / "first.yaml"
    first.write_text("".join(suite_yaml(document, tests)), "utf-8")
    chain = [first, folder / "a" / "rows.jsonl", folder / "b" / "back.yaml", folder / "c" / "whole.json"]

    for path, target in itertools.pairwise(chain):
        convert(path, target)

    for target in chain[1:]:
        same(load_suite(first), load_suite(target))
    assert read_raw(chain[-1]).tests == tests


@pytest.mark.parametrize("name", ["coding-agents.yaml", "log-triage.yaml", "unit-conversion.yaml", "gsm8k.jsonl"])
def test_our_examples_read_the_same_in_other_formats(tmp_path: Path, name: str) -> None:
    target = tmp_path / ("x.yaml" if name.endswith(".jsonl") else "x.jsonl")

    convert(EXAMPLES / name, target)

    same(load_suite(EXAMPLES / name), load_suite(target))


def test_placeholders_and_variables_stay_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("tests:\n- {id: a, input: '${{ SOME_NAME }} {{ x }}', vars: {x: 1}, criteria: c}\n")

    convert(path, tmp_path / "b.jsonl")

    assert orjson.loads((tmp_path / "b.jsonl").read_text())["input"] == "${{ SOME_NAME }} {{ x }}"


def test_tests_of_other_files_are_put_in_line_in_jsonl(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("- {id: b, input: '${{ SOME_NAME }}', criteria: c}\n")
    path = tmp_path / "a.yaml"
    path.write_text("tests:\n- {id: a, input: x, criteria: c}\n- file://more.yaml\n")

    written = in_line(read_raw(path))

    assert [test["id"] for test in written.tests] == ["a", "b"]
    assert written.tests[1]["input"] == "${{ SOME_NAME }}"
    assert written.moved[0].endswith("more.yaml now stand in the suite itself")


def test_tests_of_other_files_stay_where_they_are_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"id": "b", "input": "x", "criteria": "c"}\n')
    path = tmp_path / "a.json"
    path.write_text('{"tests": "more.jsonl"}')

    convert(path, tmp_path / "a.yaml")

    assert (tmp_path / "a.yaml").read_text() == "tests: more.jsonl\n"


def test_a_suite_that_is_named_after_its_file_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "first.eval.yaml"
    path.write_text("tests:\n- {id: a, input: x, criteria: c}\n")

    convert(path, tmp_path / "second.jsonl")

    assert (tmp_path / "second.yaml").read_text() == "name: first\n"
    assert load_suite(tmp_path / "second.jsonl").name == "first"


def test_what_holds_for_all_tests_stands_beside_a_jsonl_file_and_never_over_the_suite(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("description: mine\ntests:\n- {id: a, input: x, criteria: c}\n")

    convert(path, tmp_path / "a.jsonl")

    assert (tmp_path / "a.eval.yaml").read_text() == "description: mine\n"
    assert load_suite(tmp_path / "a.jsonl").description == "mine"
    assert path.read_text().startswith("description: mine\ntests:")


def test_lost_comments_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# one\ntests:\n  # two\n- {id: a, input: x, criteria: c}\n")

    assert convert(path, tmp_path / "b.jsonl") == ["2 lines of comments"]


@pytest.mark.parametrize("number", [".inf", "-.inf", ".nan", "123456789012345678901234567890"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_numbers_that_json_has_not_are_told(tmp_path: Path, number: str, suffix: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"tests:\n- {{id: a, input: x, criteria: c, metadata: {{deep: [{number}]}}}}\n")

    assert convert(path, tmp_path / f"b{suffix}") == ["numbers that JSON has not (a)"]


# Agent-Skills

EVALS = {
    "skill_name": "csv",
    "evals": [
        {
            "id": 1, "prompt": "Sum it\nplease", "expected_output": "42", "files": ["a.csv"], "assertions": ["says 42"]
        },
        {"id": 7, "prompt": "Hi", "expected_output": "hello"},
    ],
}  # fmt: skip


def test_evals_become_tests_that_read_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("42")
    (tmp_path / "evals.json").write_bytes(orjson.dumps(EVALS))

    lost = convert(tmp_path / "evals.json", tmp_path / "csv.yaml")

    assert lost == []
    same(load_suite(tmp_path / "evals.json"), load_suite(tmp_path / "csv.yaml"))


def test_evals_come_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "evals.json").write_bytes(orjson.dumps(EVALS))
    convert(tmp_path / "evals.json", tmp_path / "csv.yaml")

    lost = convert(tmp_path / "csv.yaml", tmp_path / "again.json", as_agent_skills)

    assert lost == []
    assert orjson.loads((tmp_path / "again.json").read_bytes()) == EVALS


MORE_THAN_EVALS = """\
name: mine
tags: [x]
assertions: [{type: contains, value: a}]
tests:
  - id: one
    input: [{role: system, content: be kind}, {role: user, content: hi}]
    criteria: polite
    metadata: {a: 1}
  - id: "2"
    input: hi
    expected_output: {answer: 42}
    criteria: right
    assertions: [says hi, {type: rubrics, criteria: [{outcome: short}]}]
"""


def test_what_evals_cannot_say_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(MORE_THAN_EVALS)

    lost = convert(path, tmp_path / "evals.json", as_agent_skills)

    first, second = orjson.loads((tmp_path / "evals.json").read_bytes())["evals"]
    assert first == {
        "id": 1,
        "prompt": "be kind\n\nhi",
        "expected_output": "polite",
        "assertions": ["The answer passes the check contains (value: a)"],
    }
    assert (second["id"], second["expected_output"]) == (2, '{"answer":42}')
    assert second["assertions"][:2] == ["says hi", "short"]
    assert lost == [
        "'tags' of the suite",
        "that 'contains' is computed (it becomes a sentence for a grader)",
        "'metadata' (one)",
        "ids that are no numbers (they are counted instead) (one)",
        "the roles of several messages (one)",
        "'criteria' beside an expected output (2)",
        "weights and gates of rubrics (2)",
    ]


# What cannot be read


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", "tests: ]", "a.yaml:1: not valid YAML"),
        ("a.yaml", "name: x", "no tests"),
        ("a.yaml", "- 1", "expected a mapping"),
        ("a.json", "{", "a.json:1: not valid JSON"),
        ("a.json", '{"evals": [1]}', "evals: expected a list of evals"),
        ("a.jsonl", '{"id": 1}\n{\n[]\n', "a.jsonl:2: not valid JSON"),
        ("a.jsonl", '{"id": 1}\n{\n[]\n', "a.jsonl:3: not valid JSON: expected an object"),
        ("a.yaml", "tests: [file://gone.yaml]", "gone.yaml"),
    ],
    ids=["YAML", "no tests", "no mapping", "JSON", "no evals", "a line", "every line", "a named file"],
)
def test_what_cannot_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)

    with pytest.raises((InputError, InputErrors)) as raised:
        in_line(read_raw(tmp_path / name))

    assert problem in str(raised.value)
