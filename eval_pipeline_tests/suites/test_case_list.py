"""Cases of large suites are packed; they read like the tuple of the same cases."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.fields import Interpolated
from eval_pipeline.suites.case_list import PACKED_FROM, PackedCases, case_list, traits_of
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Case, Conversation, EvaluatorSpec, Message
from eval_pipeline.suites.simulation import SimulatedUser, ToolMock
from eval_pipeline.suites.workspace import WorkspaceSpec

SHARED = EvaluatorSpec(type="is-json", name="is-json")
ATTACHED = {"type": "file", "value": "a.txt", "resolved_path": "/a"}
UNUSUAL = [
    Case(id="parts", input=(Message(role="user", content=[ATTACHED]),)),
    Case(id="object", input=(Message(role="user", content={"question": [1, 2.5, None, True]}),)),
    Case(id="filled", input=(Message(role="user", content=Interpolated("7")),), metadata={"n": Interpolated("8")}),
    Case(id="tools", input=(Message(role="assistant", content=None, tool_calls=({"name": "f"},)),)),
    Case(id="place", input=(), origin=Path("/x.yaml"), line=3, workspace=WorkspaceSpec(folder=Path("/x"))),
    Case(id="talk", input=(), conversation=Conversation(turns=((Message(role="user", content="hi"),),))),
    Case(id="user", input=(), user=SimulatedUser(script=("hi",)), mocks=(ToolMock(tool="t", response={"ok": True}),)),
    Case(id="surrogate \ud800", input=(Message(role="user", content="\ud800"),), criteria="c", tags=("a", "b")),
    Case(id="expected", input=(), expected_output=(Message(role="assistant", content="yes", name="n"),)),
    Case(id="settings", input=(), threshold=0.5, runners=("r",), repetitions=3, early_exit=True, cache=False),
    Case(id="two", input=(), evaluators=(SHARED, EvaluatorSpec(type="equals", name="e", minimum=0.8, negate=True))),
    Case(id="again", input=(), evaluators=(SHARED,), depends_on=("two",), on_dependency_failure="run"),
]


def _plain(count: int) -> list[Case]:
    return [
        Case(
            id=f"c{number}",
            input=(Message(role="user", content=f"What is {number} + 3?"),),
            evaluators=(
                EvaluatorSpec(type="contains", name=f"contains-{number}", config={"value": str(number)}),
                SHARED,
            ),
            line=number + 1,
        )
        for number in range(count)
    ]


def _rows(count: int) -> str:
    rows = [{"id": f"c{number}", "input": "?", "assertions": [{"type": "contains", "value": str(number)}]}
            for number in range(count)]  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_packed_cases_equal_the_cases_that_they_were_made_of() -> None:
    cases = [*_plain(600), *UNUSUAL]

    packed = PackedCases(cases)

    assert list(packed) == cases
    assert packed == tuple(cases)
    assert (len(packed), packed[0], packed[-1], packed[300]) == (len(cases), cases[0], cases[-1], cases[300])
    assert packed[598:602] == tuple(cases[598:602])


@pytest.mark.parametrize("case", UNUSUAL, ids=[ascii(case.id) for case in UNUSUAL])
def test_every_field_of_a_case_is_kept(case: Case) -> None:
    (unpacked,) = PackedCases([case])

    assert unpacked == case


def test_an_evaluator_that_cases_share_remains_one_object() -> None:
    evaluators = [case.evaluators[1] for case in PackedCases(_plain(600))]

    assert {id(spec) for spec in evaluators} == {id(SHARED)}


def test_an_index_beyond_the_end_is_an_error() -> None:
    with pytest.raises(IndexError):
        PackedCases(_plain(3))[3]


def test_the_traits_of_a_suite_are_computed_once_for_all_its_pairs() -> None:
    cases = case_list([Case(id="a", input=(), depends_on=("b",))])

    assert traits_of(cases).has_dependencies
    assert traits_of(cases) is traits_of(cases)


def test_traits_are_the_same_for_packed_cases() -> None:
    cases = [*_plain(10), *UNUSUAL]

    assert traits_of(PackedCases(cases)) == traits_of(cases)


def test_few_cases_are_a_tuple_and_many_are_packed() -> None:
    few, many = case_list(iter(_plain(PACKED_FROM))), case_list(iter(_plain(PACKED_FROM + 1)))

    assert isinstance(few, tuple)
    assert isinstance(many, PackedCases)
    assert (len(few), len(many)) == (PACKED_FROM, PACKED_FROM + 1)


def test_a_large_suite_holds_few_case_objects(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(_rows(3 * PACKED_FROM))

    suite = load_suite(tmp_path / "s.jsonl")

    gc.collect()
    alive = sum(isinstance(each, Case) for each in gc.get_objects())
    assert len(suite.cases) == 3 * PACKED_FROM
    assert alive < PACKED_FROM


def test_a_large_file_is_never_in_memory_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PACKED_FROM", "_BLOCK"):
        monkeypatch.setattr(f"eval_pipeline.suites.case_list.{name}", 50)
    padding = "x" * 4_000
    row = {"input": padding, "assertions": [{"type": "contains", "value": "x"}]}
    with (tmp_path / "s.jsonl").open("w") as file:
        file.writelines(json.dumps({"id": f"c{number}", **row}) + "\n" for number in range(1_000))

    tracemalloc.start()
    try:
        suite = load_suite(tmp_path / "s.jsonl")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(suite.cases) == 1_000
    assert peak < (tmp_path / "s.jsonl").stat().st_size / 2  # a block of cases


def test_a_file_that_turns_out_not_to_be_utf_8_is_reported_with_its_byte(tmp_path: Path) -> None:
    text = _rows(3_000).encode()
    (tmp_path / "s.jsonl").write_bytes(text + b"\xff")

    with pytest.raises(InputError, match=f"not UTF-8 text: invalid start byte at byte {len(text)}"):
        load_suite(tmp_path / "s.jsonl")


def test_the_revision_of_a_suite_is_what_it_was_before_tests_were_read_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(_rows(3))

    suite = load_suite(tmp_path / "s.jsonl")

    assert suite.revision == REVISION


REVISION = "77dac4b8fca13a4ba6ab653c300fdfd1294baadd4c4f0066591bd5a6b90f3032"
