"""`regex`: JavaScript's patterns mean here what they mean there, and none of them hangs or breaks a sweep."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.javascript_regex import PatternError, compile_javascript
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.javascript_patterns import MATCHING, MODIFIERS, REFUSED
from eval_pipeline_tests.scores.single_scores import a_report, score, score_text

STEADY = settings(derandomize=True, deadline=None)
PLENTY_S = 10.0
ROWS = [pytest.param(*row[1:], id=row[0]) for row in (*MATCHING, *MODIFIERS)]
PIECES = [
    *"ab1 \n_-é😀^$.|*+?(){}[]\\/,<>=!:&~#ux", "(?:", "(?=", "(?<!", "(?<x>", "(?i:", "\\d", "\\W", "\\b", "\\1",
    "\\k<x>", "\\u{41}", "\\ud83d", "\\p{L}", "\\cA", "\\c", "\\012", "{2}", "{1,", "{,2}", "[^", "a-z", "\\]",
]  # fmt: skip


def matches(pattern: str, flags: str, text: str) -> bool:
    return compile_javascript(pattern, flags).search(text, PLENTY_S) is not None


@pytest.mark.parametrize(("pattern", "flags", "texts", "others"), ROWS)
def test_a_pattern_matches_what_it_matches_in_javascript(
    pattern: str, flags: str, texts: list[str], others: list[str]
) -> None:
    result = [text for text in (*texts, *others) if matches(pattern, flags, text)]

    assert result == texts


@pytest.mark.parametrize(("pattern", "flags"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_javascript_refuses_is_refused_before_anything_runs(pattern: str, flags: str) -> None:
    with pytest.raises(PatternError):
        compile_javascript(pattern, flags)


@STEADY
@given(
    pattern=st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=12),
    flags=st.text("dgimsuvy", max_size=3),
    text=st.text("ab1 \n_-é😀K", max_size=6),
)
@example(pattern="(" * 5_000 + ")" * 5_000, flags="", text="a")
@example(pattern="a{4294967295}", flags="", text="a")
@example(pattern="(?:(?:a{1000}){1000}){1000}", flags="", text="a")
@example(pattern="\ud800[\udfff-\ud800]", flags="u", text="a")
def test_any_text_is_a_pattern_or_a_pattern_error(pattern: str, flags: str, text: str) -> None:
    with contextlib.suppress(PatternError, TimeoutError):
        compile_javascript(pattern, flags).search(text, 0.1)


@STEADY
@given(text=st.text(max_size=20))
def test_a_text_escaped_by_code_points_matches_itself(text: str) -> None:
    pattern = "".join(f"\\u{{{ord(char):x}}}" for char in text)

    result = compile_javascript(f"^{pattern}$", "u").search(text, PLENTY_S)

    assert result == text


@STEADY
@given(text=st.text(max_size=20))
def test_the_matched_text_is_given_back_whole_although_it_was_read_by_units(text: str) -> None:
    result = compile_javascript("^[^]*$").search(text, PLENTY_S)

    assert result == text


def test_a_pattern_that_takes_forever_ends_without_a_score_within_seconds() -> None:
    endless = an_evaluator("regex", value="^(a|aa)+$")

    result = score(endless, a_report("a" * 60 + "b"), negate=True)

    assert result.value is None
    assert "longer than" in result.reason


@pytest.mark.parametrize(
    ("config", "output", "expected"),
    [
        pytest.param({"value": "^b$"}, "a\nb\nc", 0, id="whole-text"),
        pytest.param({"value": "^b$", "flags": "m"}, "a\nb\nc", 1, id="lines"),
        pytest.param({"value": "B", "flags": "i"}, "abc", 1, id="case"),
    ],
)
def test_the_evaluator_searches_the_answer_with_its_flags(config: dict[str, str], output: str, expected: float) -> None:
    result = score_text("regex", output, **config)

    assert result.value == expected


def test_a_wrong_pattern_is_an_input_error_even_when_negated() -> None:
    with pytest.raises(InputError, match="not a valid pattern: nothing to repeat"):
        score(an_evaluator("regex", value="*"), a_report("anything"), negate=True)


def test_the_reason_shows_pattern_flags_and_what_matched() -> None:
    result = score_text("regex", "The Answer is 42.", value="answer is \\d+", flags="i")

    assert result.reason == "/answer is \\d+/i matches 'Answer is 42'"


def test_the_same_arguments_build_the_same_evaluator() -> None:
    spec = an_evaluator("regex", value="a+", flags="i")

    assert build(spec) == build(spec)
