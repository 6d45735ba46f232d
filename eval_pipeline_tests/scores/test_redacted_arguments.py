"""A test of a leak holds although answers are redacted before they are scored."""

from __future__ import annotations

import pytest

from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline_tests.scores.single_scores import score_text

SECRET = "sk-1234567890"


@pytest.mark.parametrize(("type_", "value"), [
    ("contains", SECRET), ("icontains", SECRET), ("not-contains", SECRET), ("contains-any", ["none", SECRET]),
    ("ends-with", SECRET), ("not_contains_all", [SECRET]),
])  # fmt: skip
def test_an_argument_with_a_secret_finds_the_place_where_it_was(type_: str, value: object) -> None:
    KNOWN.add([SECRET])
    leaked, kept = (0, 1) if type_.startswith("not") else (1, 0)

    assert score_text(type_, "your key is ***", value=value).value == leaked
    assert score_text(type_, "no key here", value=value).value == kept
