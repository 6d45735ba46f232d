"""The arguments of evaluators as tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from eval_pipeline.errors import UnknownName
from eval_pipeline.scores.arguments import argument_fields
from eval_pipeline.scores.evaluate import EVALUATORS

NAMES = [pytest.param(name, id=name) for name in EVALUATORS.names()]


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_in_the_table_and_described_in_one_sentence(name: str) -> None:
    table = argument_fields(name)

    class_: Any = EVALUATORS.get(name)
    assert set(table) == {field.name for field in dataclasses.fields(class_) if field.init}
    assert [field.name for field in table.values() if not (field.doc[:1].isupper() and field.doc.endswith("."))] == []


def test_an_argument_has_kind_default_and_need() -> None:
    table = argument_fields("token-usage")

    assert table["max_total"].kind.title == "a number"
    assert table["on_missing"].default == "unscored"
    assert table["on_missing"].kind.title == "one of unscored, fail"
    assert not table["max_total"].required
    assert argument_fields("contains")["value"].required


def test_a_camel_case_spelling_is_an_alias() -> None:
    assert argument_fields("tool-trajectory")["args_match"].aliases == ("argsMatch",)


def test_an_unknown_evaluator_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'contains'"):
        argument_fields("contians")
