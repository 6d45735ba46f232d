"""`contains` and its family, `equals`, `starts-with`, `ends-with`, `is-json`: which answers get 1."""

from __future__ import annotations

import pytest

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score, score_text

ABOUT_VALUES = [
    pytest.param("contains", "Paris", "It is Paris.", 1, id="contains-inside"),
    pytest.param("contains", "Paris", "Paris", 1, id="contains-whole"),
    pytest.param("contains", "paris", "It is Paris.", 0, id="contains-minds-case"),
    pytest.param("contains", " 4 ", "2+2=4", 0, id="contains-does-not-trim"),
    pytest.param("contains", "a.c", "abc", 0, id="contains-is-no-pattern"),
    pytest.param("contains", "é", "e\u0301", 0, id="contains-does-not-normalize"),
    pytest.param("contains", "😀", "well 😀", 1, id="contains-beyond-the-basic-plane"),
    pytest.param("contains", "x", "", 0, id="contains-in-nothing"),
    pytest.param("icontains", "PARIS", "it is paris.", 1, id="icontains"),
    pytest.param("icontains", "straße", "STRASSE", 0, id="icontains-lowers-it-does-not-fold"),
    pytest.param("icontains", "ÉTÉ", "un été", 1, id="icontains-beyond-ascii"),
    pytest.param("contains-any", ["no", "yes"], "oh yes", 1, id="any-second"),
    pytest.param("contains-any", ["no", "never"], "oh yes", 0, id="any-none"),
    pytest.param("contains-any", ["YES"], "oh yes", 0, id="any-minds-case"),
    pytest.param("icontains-any", ["NO", "YES"], "oh yes", 1, id="iany"),
    pytest.param("icontains-any", ["NO"], "oh yes", 0, id="iany-none"),
    pytest.param("contains-all", ["a", "b"], "b then a", 1, id="all-in-any-order"),
    pytest.param("contains-all", ["a", "z"], "b then a", 0, id="all-without-partial-credit"),
    pytest.param("contains-all", ["A"], "a", 0, id="all-minds-case"),
    pytest.param("contains-all", ["aa", "aa"], "aa", 1, id="all-twice-the-same"),
    pytest.param("icontains-all", ["A", "B"], "b then a", 1, id="iall"),
    pytest.param("icontains-all", ["A", "Z"], "b then a", 0, id="iall-without-partial-credit"),
    pytest.param("equals", "42", " 42\n", 1, id="equals-trims-the-answer"),
    pytest.param("equals", " 42 ", "42", 1, id="equals-trims-the-value"),
    pytest.param("equals", "42", "42.", 0, id="equals-is-all-of-it"),
    pytest.param("equals", "yes", "Yes", 0, id="equals-minds-case"),
    pytest.param("equals", "", " \n", 1, id="equals-nothing"),
    pytest.param("equals", "a b", "a  b", 0, id="equals-keeps-inner-white-space"),
    pytest.param("equals", "42", "\ufeff42", 1, id="equals-trims-a-byte-order-mark"),
    pytest.param("equals", "42", "42\u3000\u2029", 1, id="equals-trims-as-javascript-does"),
    pytest.param("equals", "42", "42\x1c", 0, id="equals-keeps-what-javascript-does-not-trim"),
    pytest.param("starts-with", "Dear", "\n Dear Ada", 1, id="starts-after-white-space"),
    pytest.param("starts-with", "Dear ", "Dear", 1, id="starts-with-trimmed-value"),
    pytest.param("starts-with", "dear", "Dear Ada", 0, id="starts-minds-case"),
    pytest.param("starts-with", "Ada", "Dear Ada", 0, id="starts-elsewhere"),
    pytest.param("ends-with", "Ada", "Dear Ada\n", 1, id="ends-before-white-space"),
    pytest.param("ends-with", " Ada", "Ada", 1, id="ends-with-trimmed-value"),
    pytest.param("ends-with", "Dear", "Dear Ada", 0, id="ends-elsewhere"),
]

ABOUT_JSON = [
    pytest.param('{"a": [1, 2.5e3, null, true, "x"]}', 1, id="object"),
    pytest.param(" \t\r\n[] \n", 1, id="white-space-around"),
    pytest.param("42", 1, id="number"),
    pytest.param('"text"', 1, id="text"),
    pytest.param("null", 1, id="null"),
    pytest.param('{"a": 1, "a": 2}', 1, id="a-key-twice"),
    pytest.param('"\\ud83d"', 1, id="half-a-surrogate-pair"),
    pytest.param("1" * 5_000, 1, id="a-number-of-five-thousand-digits"),
    pytest.param("", 0, id="nothing"),
    pytest.param("```json\n{}\n```", 0, id="code-fence"),
    pytest.param("{} {}", 0, id="two-values"),
    pytest.param("Sure: {}", 0, id="words-before"),
    pytest.param("{'a': 1}", 0, id="single-quotes"),
    pytest.param("[1,]", 0, id="trailing-comma"),
    pytest.param("NaN", 0, id="not-a-number"),
    pytest.param("-Infinity", 0, id="infinity"),
    pytest.param("01", 0, id="leading-zero"),
    pytest.param("1.", 0, id="no-digit-after-the-point"),
    pytest.param('"a\nb"', 0, id="raw-line-break-in-a-text"),
    pytest.param("\ufeff{}", 0, id="byte-order-mark"),
    pytest.param("\xa0{}", 0, id="white-space-that-is-not-jsons"),
    pytest.param("undefined", 0, id="undefined"),
]


@pytest.mark.parametrize(("type_", "value", "output", "expected"), ABOUT_VALUES)
def test_an_answer_is_compared_with_the_value(type_: str, value: str | list[str], output: str, expected: int) -> None:
    result = score_text(type_, output, value=value)

    assert result.value == expected


@pytest.mark.parametrize(("output", "expected"), ABOUT_JSON)
def test_an_answer_is_json_or_is_not(output: str, expected: int) -> None:
    result = score_text("is-json", output)

    assert result.value == expected


def test_json_nested_too_deeply_to_read_is_not_called_wrong() -> None:
    result = score_text("is-json", "[" * 100_000 + "]" * 100_000)

    assert result.value is None
    assert "too deeply" in result.reason


@pytest.mark.parametrize(("type_", "value", "output", "expected"), ABOUT_VALUES)
def test_negating_turns_every_answer_round(type_: str, value: str | list[str], output: str, expected: int) -> None:
    result = score(an_evaluator(type_, value=value), a_report(output), negate=True)

    assert result.value == 1 - expected


def test_a_target_that_finished_without_words_said_the_empty_text() -> None:
    result = score_text("equals", None, value="")

    assert result.value == 1


@pytest.mark.parametrize(
    ("type_", "value", "output", "message"),
    [
        pytest.param("contains-all", ["a", "y", "z"], "a", "['y', 'z']", id="all-names-what-is-missing"),
        pytest.param("contains-any", ["n", "b", "a"], "a b", "'b'", id="any-names-the-first-hit"),
        pytest.param("contains", "x", "a", "'x'", id="contains-names-the-value"),
        pytest.param("equals", "x", "y" * 100, "…", id="equals-shortens-a-long-answer"),
    ],
)
def test_the_reason_says_what_was_found(type_: str, value: str | list[str], output: str, message: str) -> None:
    result = score_text(type_, output, value=value)

    assert message in result.reason


@pytest.mark.parametrize("name", ["is_json", "contains_any", "icontains_all", "starts_with", "ends_with"])
def test_underscores_name_the_same_evaluator(name: str) -> None:
    same = EVALUATORS.get(name.replace("_", "-"))

    assert EVALUATORS.get(name) is same
