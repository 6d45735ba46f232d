"""Cron expressions as the schedule of a project takes them: five fields, or a name such as `@daily`."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_PART = re.compile(r"(\*|[a-z]+|\d+)(?:-([a-z]+|\d+))?(?:/(\d+))?")
_NTH_WEEKDAY = re.compile(r"([a-z]+|\d+)#[1-5]")


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its numbers from `low` to `high`, names for the first of them, and other texts that it may hold."""

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    special: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        named = f" or {self.names[0]}–{self.names[-1]}" if self.names else ""
        return f"{self.title} of {self.low}–{self.high}{named}"

    def number(self, text: str) -> int | None:
        """The number of a text, None when the field cannot hold it."""
        if text in self.names:
            return self.low + self.names.index(text)
        number = int(text) if text.isdecimal() else -1
        return number if self.low <= number <= self.high else None


_FIELDS = (
    _Field("a minute", 0, 59),
    _Field("an hour", 0, 23),
    _Field("a day of the month", 1, 31, special=("?", "l")),
    _Field("a month", 1, 12, _MONTHS),
    _Field("a day of the week", 0, 7, _WEEKDAYS, special=("?",)),
)


def cron_problem(text: str) -> str | None:
    """Return what a cron expression should have been (`expected …`), None when it can be used."""
    if text.strip().lower() in NAMES:
        return None
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        return "a cron expression of five fields, such as '0 2 * * *'"
    values = []
    for field, part in zip(_FIELDS, parts, strict=True):
        numbers = _numbers(field, part)
        if numbers is None:
            return f"{field.expected} where the cron expression has {part!r}"
        values.append(numbers)
    return _date_problem(days=values[2], months=values[3], any_weekday=parts[4] in ("*", "?"))


def _numbers(field: _Field, text: str) -> set[int] | None:
    """The numbers that a field selects; None when it cannot be read."""
    everything = set(range(field.low, field.high + 1))
    if text in field.special or _is_nth_weekday(field, text):
        return everything
    selected: set[int] = set()
    for item in text.split(","):
        numbers = _item(field, item)
        if numbers is None:
            return None
        selected |= numbers
    return selected & everything


def _is_nth_weekday(field: _Field, text: str) -> bool:
    """Whether a text is such as `fri#2`: the second Friday of a month."""
    match = _NTH_WEEKDAY.fullmatch(text) if field.names is _WEEKDAYS else None
    return match is not None and field.number(match.group(1)) is not None


def _item(field: _Field, text: str) -> set[int] | None:
    """The numbers of one item of a list: `*`, `3`, `mon-fri`, `22-2`, `*/5`, `1-20/2`."""
    match = _PART.fullmatch(text)
    if match is None or (match[1] == "*" and match[2]) or match[3] == "0":
        return None
    low = field.low if match[1] == "*" else field.number(match[1])
    high = field.number(match[2]) if match[2] else field.high if match[1] == "*" or match[3] else low
    if low is None or high is None:
        return None
    if low <= high:
        return set(range(low, high + 1, int(match[3] or 1)))
    return {*range(low, field.high + 1), *range(field.low, high + 1)}


def _date_problem(*, days: set[int], months: set[int], any_weekday: bool) -> str | None:
    longest = max(_LONGEST_MONTH.get(month, 31) for month in months)
    if (any_weekday or months == {2}) and min(days) > longest:
        return "a day that one of the months of the cron expression has"
    return None
