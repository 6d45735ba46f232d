"""`field-accuracy`: fields of a JSON answer against the case's expected output.

A field that is wrong, missing or no number is the target's doing and counts as 0; a case without expected data leaves
the score unknown (`on_missing: fail`: 0, as AgentV does).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import orjson
from pydantic import ConfigDict, Field, Strict

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text, Texts
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.suites.arguments import same_value
from eval_pipeline.suites.model import Case

Flag = Annotated[bool, Field(strict=True)]
_MISSING = object()


class Compared(NamedTuple):
    """The comparison of one field: its finding and weight."""

    finding: Finding
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """One field to compare. `tolerance` is an absolute difference, or with `relative` a share of the expected number.

    Date `formats` (`DD/MM/YYYY`) define whether the day or the month comes first in numeric dates.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    path: Text
    match: Literal["exact", "numeric_tolerance", "date"]
    required: Flag = True
    weight: Limit = 1.0
    tolerance: Limit = 0.0
    relative: Flag = False
    formats: Texts | None = None


@EVALUATORS.register("field-accuracy")
@dataclass(frozen=True, slots=True, kw_only=True)
class FieldAccuracy:
    """The weighted share of `fields` that are correct in the answer's JSON; with `all_or_nothing`, 1 if all are.

    A field that the expected output lacks is always correct; an optional field that the answer lacks does not count.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("expected_output",)
    fields: Annotated[tuple[FieldRule, ...], Field(min_length=1), Strict(False)]
    aggregation: Literal["weighted_average", "all_or_nothing"] = "weighted_average"
    on_missing: OnMissing = "unscored"

    def evaluate(self, subject: Subject) -> Outcome:
        expected = _expected_data(subject.case)
        if expected is None:
            return missing(self.on_missing, "the expected output of the case is no JSON object")
        actual = _object_in(subject.output)
        if actual is None:
            return Outcome(0.0, "the answer holds no JSON object", (Finding("the answer holds a JSON object", False),))
        compared = [_compare(rule, _at(actual, rule.path), _at(expected, rule.path)) for rule in self.fields]
        findings = tuple(item.finding for item in compared)
        failed = [finding.text for finding in findings if not finding.passed]
        value = float(not failed) if self.aggregation == "all_or_nothing" else _weighted_share(compared)
        return Outcome(value, "; ".join(failed) or "all fields are right", findings)


def _weighted_share(compared: Sequence[Compared]) -> float:
    total = math.fsum(item.weight for item in compared)
    right = math.fsum(item.weight for item in compared if item.finding.passed)
    return right / total if total else 0.0


def _expected_data(case: Case) -> Mapping[str, Any] | None:
    """Return the object of the last expected assistant message with one, as a mapping or JSON text."""
    for message in reversed(case.expected_output):
        content = message.content
        if message.role == "assistant":
            match = _json_object(content) if isinstance(content, str) else content
            if isinstance(match, Mapping):
                return match
    return None


def _object_in(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object in a text: from its first brace to its last."""
    begin, end = text.find("{"), text.rfind("}")
    return _json_object(text[begin : end + 1]) if begin >= 0 else None


def _json_object(text: str) -> Mapping[str, Any] | None:
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _at(value: Any, path: str) -> Any:
    """Return the value at a path such as `items[0].name`; `_MISSING` when there is none."""
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, (list, tuple)) and re.fullmatch(r"[0-9]{1,9}", step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def _compare(rule: FieldRule, actual: Any, expected: Any) -> Compared:
    if expected is _MISSING:
        return Compared(Finding(f"{rule.path}: nothing expected", True), rule.weight)
    if actual is _MISSING and not rule.required:
        return Compared(Finding(f"{rule.path}: optional and missing", True), 0.0)
    if actual is _MISSING:
        return Compared(Finding(f"{rule.path}: missing", False), rule.weight)
    problem = _PROBLEMS[rule.match](rule, actual, expected)
    return Compared(Finding(f"{rule.path}: {problem or 'right'}", problem is None), rule.weight)


def _exact_problem(rule: FieldRule, actual: Any, expected: Any) -> str | None:
    if same_value(actual, expected):
        return None
    kinds = _kind(actual), _kind(expected)
    if kinds[0] != kinds[1]:
        return f"{_show(actual)} is {kinds[0]}, expected {kinds[1]} ({_show(expected)})"
    return f"{_show(actual)} instead of {_show(expected)}"


def _number_problem(rule: FieldRule, actual: Any, expected: Any) -> str | None:
    numbers = _number(actual), _number(expected)
    if numbers[0] is None or numbers[1] is None:
        return f"{_show(actual if numbers[0] is None else expected)} is not a number"
    difference = abs(numbers[0] - numbers[1])
    if rule.relative and numbers[1] != 0:
        difference /= abs(numbers[1])
    if difference <= rule.tolerance or math.isclose(difference, rule.tolerance, rel_tol=1e-9):
        return None
    return f"{_show(actual)} is further than {rule.tolerance:.12g} from {_show(expected)}"


def _date_problem(rule: FieldRule, actual: Any, expected: Any) -> str | None:
    days = _day(actual, rule.formats or ()), _day(expected, rule.formats or ())
    if days[0] is None or days[1] is None:
        return f"{_show(actual if days[0] is None else expected)} is not a date"
    return None if days[0] == days[1] else f"{days[0]} instead of {days[1]}"


def _number(value: Any) -> float | None:
    """Return a number, or the leading number of a text, as JavaScript's parseFloat reads it; None otherwise."""
    if isinstance(value, str):
        match = re.match(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", value, re.ASCII)
        value = float(match[1]) if match is not None else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _day(value: Any, formats: Sequence[str]) -> date | None:
    """Return the calendar day in a text, without time zone conversion: ISO, English month names, or digits."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        pass
    return next((day for numbers in _dates_in(text, formats) if (day := _calendar_day(*numbers)) is not None), None)


def _dates_in(text: str, formats: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield readings of a text as year, month and day, the most likely first."""
    if (match := _YEAR_FIRST.match(text)) is not None:
        yield int(match["year"]), int(match["month"]), int(match["day"])
    for pattern in _NAMED_MONTH:
        if (match := pattern.match(text)) is not None:
            yield _full_year(match["year"]), _MONTHS.index(match["month"][:3].lower()) + 1, int(match["day"])
    if (match := _DIGITS.match(text)) is not None:
        first, second, year = int(match["one"]), int(match["other"]), _full_year(match["year"])
        readings = ((year, first, second), (year, second, first))
        yield from reversed(readings) if _day_first(formats) else readings


def _day_first(formats: Sequence[str]) -> bool:
    """Return whether all formats start with the day; without formats, the month comes first (US)."""
    european = any(re.match(r"D{1,2}[/.-]M{1,2}(?!M)", item, re.IGNORECASE) for item in formats)
    american = any(re.match(r"M{1,2}[/.-]D", item, re.IGNORECASE) for item in formats)
    return european and not american


def _full_year(digits: str) -> int:
    """Return the year; two digits are expanded as in JavaScript."""
    year = int(digits)
    return year if len(digits) > 2 else year + (2000 if year < 50 else 1900)


def _calendar_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return next(name for type_, name in _KINDS if isinstance(value, type_))


def _show(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:79]}…"


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a truth value"),
    ((int, float), "a number"),
    (str, "a text"),
    (Mapping, "an object"),
    (object, "a list"),
)
_PROBLEMS: Mapping[str, Callable[[FieldRule, Any, Any], str | None]] = {
    "exact": _exact_problem,
    "numeric_tolerance": _number_problem,
    "date": _date_problem,
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[0-9]{4}|[0-9]{2})(?![0-9])"
_NAMED_MONTH = tuple(
    re.compile(_WEEKDAY + pattern, re.IGNORECASE)
    for pattern in (rf"{_DAY}[\s./-]*{_MONTH}[\s.,/-]+{_YEAR}", rf"{_MONTH}[\s.]+{_DAY}[\s,]+{_YEAR}")
)
_YEAR_FIRST = re.compile(r"(?P<year>[0-9]{4})[/.-](?P<month>[0-9]{1,2})[/.-](?P<day>[0-9]{1,2})(?![0-9])")
_DIGITS = re.compile(rf"(?P<one>[0-9]{{1,2}})[/.-](?P<other>[0-9]{{1,2}})[/.-]{_YEAR}")
