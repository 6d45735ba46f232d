"""`equals`, `starts-with`, `ends-with`, `is-json`: checks of the whole output; surrounding white space is ignored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, AnyText, Text
from eval_pipeline.scores.model import Outcome, Subject

_SHOWN = 60
_WHITE_SPACE = "\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))


@EVALUATORS.register("equals")
@dataclass(frozen=True, slots=True, kw_only=True)
class Equals:
    """1 when output and `value` are equal after trimming."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: AnyText

    def evaluate(self, subject: Subject) -> Outcome:
        output = trimmed(subject.output)
        if output == trimmed(self.value):
            return Outcome(1.0, "output is the expected text")
        return Outcome(0.0, f"output is {_short(output)}, not {_short(self.value)}")


@EVALUATORS.register("starts-with")
@dataclass(frozen=True, slots=True, kw_only=True)
class StartsWith:
    """1 when the trimmed output starts with the trimmed `value`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Text

    def evaluate(self, subject: Subject) -> Outcome:
        if trimmed(subject.output).startswith(trimmed(self.value)):
            return Outcome(1.0, f"output starts with {_short(self.value)}")
        return Outcome(0.0, f"output does not start with {_short(self.value)}")


@EVALUATORS.register("ends-with")
@dataclass(frozen=True, slots=True, kw_only=True)
class EndsWith:
    """1 when the trimmed output ends with the trimmed `value`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Text

    def evaluate(self, subject: Subject) -> Outcome:
        if trimmed(subject.output).endswith(trimmed(self.value)):
            return Outcome(1.0, f"output ends with {_short(self.value)}")
        return Outcome(0.0, f"output does not end with {_short(self.value)}")


@EVALUATORS.register("is-json")
@dataclass(frozen=True, slots=True, kw_only=True)
class IsJson:
    """1 when the whole output is one JSON value (RFC 8259: any value, no code fences, no NaN)."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()

    def evaluate(self, subject: Subject) -> Outcome:
        try:
            json.loads(subject.output, parse_constant=_no_constant, parse_int=str)
        except RecursionError:
            return Outcome(None, "output is nested too deeply to parse")
        except ValueError as error:
            return Outcome(0.0, f"output is not JSON: {error}")
        return Outcome(1.0, "output is valid JSON")


def trimmed(text: str) -> str:
    """Return the text without surrounding white space, as JavaScript trims (a byte order mark is white space)."""
    return text.strip(_WHITE_SPACE)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
