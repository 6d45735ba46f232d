"""Identity by content: equal content gives equal fingerprints, other content others, and nothing makes it fail."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.fingerprints import canonical_json, file_fingerprint, fingerprint, to_json

STEADY = settings(derandomize=True, deadline=None)
SURROGATE = "half a \ud83d character"
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=12,
)


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    where: Any


def nested(levels: int, innermost: object = "end") -> object:
    value = innermost
    for _ in range(levels):
        value = [value]
    return value


def test_a_fingerprint_is_the_sha_256_of_the_canonical_json() -> None:
    assert canonical_json({"b": 1, "a": [True, None, "é"]}) == '{"a":[true,null,"é"],"b":1}'.encode()
    assert fingerprint({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@STEADY
@given(JSON_VALUES)
def test_canonical_json_is_json_of_the_same_value(value: object) -> None:
    assert orjson.loads(canonical_json(value)) == value


@STEADY
@given(st.dictionaries(st.text(), JSON_VALUES))
def test_the_order_of_keys_is_no_part_of_identity(value: dict[str, object]) -> None:
    assert fingerprint(dict(reversed(value.items()))) == fingerprint(value)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        pytest.param([1, 2], [2, 1], id="order of a list"),
        pytest.param({"a": None}, {}, id="null and absent"),
        pytest.param("1", 1, id="text and number"),
        pytest.param(["ab", "c"], ["a", "bc"], id="where one text ends"),
        pytest.param(2**64, 2**64 + 1, id="integers beyond 64 bits"),
        pytest.param(SURROGATE, "half a character", id="odd text"),
        pytest.param(nested(150, "a"), nested(150, "b"), id="deep inside"),
    ],
)
def test_other_content_has_another_fingerprint(first: object, other: object) -> None:
    assert fingerprint(first) != fingerprint(other)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        pytest.param((1, 2), [1, 2], id="tuple and list"),
        pytest.param({1: "a"}, {"1": "a"}, id="a number as key"),
        pytest.param({3, 1, 2}, {2, 3, 1}, id="sets"),
        pytest.param({"a", 1, SURROGATE}, {SURROGATE, 1, "a"}, id="a set of several kinds"),
        pytest.param(Colour.RED, "red", id="a word of an enumeration"),
        pytest.param(
            datetime(2026, 1, 15, 12, tzinfo=UTC), datetime(2026, 1, 15, 12, tzinfo=timezone(timedelta(0))),
            id="one moment",
        ),
    ],
)  # fmt: skip
def test_equal_content_has_one_fingerprint(first: object, other: object) -> None:
    assert fingerprint(first) == fingerprint(other)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({"a": SURROGATE}, '{"a":"half a ��� character"}', id="lone surrogate"),
        pytest.param({SURROGATE: 1}, '{"half a ��� character":1}', id="lone surrogate in a key"),
        pytest.param([2**70], '["1180591620717411303424"]', id="huge integer"),
        pytest.param([float("nan"), float("inf")], "[null,null]", id="not a number"),
        pytest.param(Point(1, "here"), '{"x":1,"where":"here"}', id="a dataclass"),
        pytest.param(Point(1, Path("a/b")), '{"x":1,"where":"a/b"}', id="a path in a dataclass"),
        pytest.param([Path("a/b"), b"x"], '["a/b","b\'x\'"]', id="things that are no JSON"),
    ],
)
def test_what_json_cannot_hold_is_made_plain(value: object, written: str) -> None:
    assert to_json(value).decode() == written


@pytest.mark.parametrize("levels", [100, 254, 255, 5_000])
def test_depth_makes_nothing_fail(levels: int) -> None:
    assert fingerprint(nested(levels)) == fingerprint(nested(levels))


def test_what_is_too_deep_says_so() -> None:
    assert b"nested deeper than 200 levels" in to_json(nested(300))


def test_a_file_has_the_sha_256_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")

    assert file_fingerprint(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
