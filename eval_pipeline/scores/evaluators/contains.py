"""`contains`, `contains-any`, `contains-all`, and the same without regard to case: `icontains…`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text, Texts
from eval_pipeline.scores.model import Outcome, Subject


@EVALUATORS.register("contains")
@dataclass(frozen=True, slots=True, kw_only=True)
class Contains:
    """1 when the output holds `value`, as written."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Text

    def evaluate(self, subject: Subject) -> Outcome:
        return _found(self.value in subject.output, self.value)


@EVALUATORS.register("icontains")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainsIgnoringCase:
    """1 when the output holds `value`, both in lower case."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Text

    def evaluate(self, subject: Subject) -> Outcome:
        return _found(self.value.lower() in subject.output.lower(), self.value)


@EVALUATORS.register("contains-any")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainsAny:
    """1 when the output holds at least one of `value` (a list)."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Texts

    def evaluate(self, subject: Subject) -> Outcome:
        return _any(self.value, [value in subject.output for value in self.value])


@EVALUATORS.register("icontains-any")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainsAnyIgnoringCase:
    """1 when the output holds at least one of `value`, in lower case."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Texts

    def evaluate(self, subject: Subject) -> Outcome:
        output = subject.output.lower()
        return _any(self.value, [value.lower() in output for value in self.value])


@EVALUATORS.register("contains-all")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainsAll:
    """1 when the output holds every one of `value` (a list); no credit for some of them."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Texts

    def evaluate(self, subject: Subject) -> Outcome:
        return _all(self.value, [value in subject.output for value in self.value])


@EVALUATORS.register("icontains-all")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContainsAllIgnoringCase:
    """1 when the output holds every one of `value`, in lower case."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Texts

    def evaluate(self, subject: Subject) -> Outcome:
        output = subject.output.lower()
        return _all(self.value, [value.lower() in output for value in self.value])


def _found(hit: bool, value: str) -> Outcome:
    return Outcome(1.0, f"output contains {value!r}") if hit else Outcome(0.0, f"output does not contain {value!r}")


def _any(values: tuple[str, ...], hits: list[bool]) -> Outcome:
    if True in hits:
        return Outcome(1.0, f"output contains {values[hits.index(True)]!r}")
    return Outcome(0.0, f"output contains none of {list(values)}")


def _all(values: tuple[str, ...], hits: list[bool]) -> Outcome:
    missing = [value for value, hit in zip(values, hits, strict=True) if not hit]
    if missing:
        return Outcome(0.0, f"output lacks {missing}")
    return Outcome(1.0, f"output contains all of {list(values)}")
