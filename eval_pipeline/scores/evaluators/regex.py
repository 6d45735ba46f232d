"""`regex`: whether a JavaScript-style pattern matches anywhere in the output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from pydantic import ConfigDict

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, AnyText, Text
from eval_pipeline.scores.javascript_regex import JavaScriptPattern, PatternError, compile_javascript
from eval_pipeline.scores.model import Outcome, Subject

TIME_LIMIT_S = 2.0


@EVALUATORS.register("regex")
@dataclass(frozen=True, slots=True, kw_only=True)
class Regex:
    """1 when `value` matches anywhere; `flags` as in JavaScript (i, m, s, u; y: only at the start; d and g have no
    effect).

    A match that exceeds two seconds leaves the score without a value.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Text
    flags: AnyText = ""

    def __post_init__(self) -> None:
        try:
            _compiled(self.value, self.flags)
        except PatternError as error:
            raise ValueError(f"not a valid pattern: {error}") from None

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            match = _compiled(self.value, self.flags).search(subject.output, TIME_LIMIT_S)
        except TimeoutError:
            return Outcome(None, f"/{self.value}/ took longer than {TIME_LIMIT_S:g} s to match")
        if match is not None:
            return Outcome(1.0, f"/{self.value}/{self.flags} matches {match[:60]!r}")
        return Outcome(0.0, f"/{self.value}/{self.flags} does not match")


@lru_cache(maxsize=2_000)
def _compiled(pattern: str, flags: str) -> JavaScriptPattern:
    return compile_javascript(pattern, flags)
