"""What a rubric asks for: criteria with weights, gates and bands of scores, read from a suite and checked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from eval_pipeline.errors import did_you_mean

BEST = 10
"""The best score of a band, and of a criterion that has bands."""
_KNOWN = ("id", "outcome", "description", "weight", "required", "min_score", "required_min_score", "score_ranges",
          "operator")  # fmt: skip
_OPERATORS = ("correctness", "contradiction")
_BAND_FIELDS = ("score_range", "outcome")


@dataclass(frozen=True, slots=True)
class Band:
    """Whole scores from `low` to `high` (of 0 to 10), and what deserves them."""

    low: int
    high: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that a grader checks.

    `required` is None when the suite does not say: a criterion that is met or not has to be met then, one that is
    scored has no gate. `least` is the share of the best score that must be reached, None without such a gate. A
    `contradiction` criterion is met by an answer that does not contradict its outcome.
    """

    id: str
    outcome: str
    weight: float = 1.0
    required: bool | None = None
    least: float | None = None
    bands: tuple[Band, ...] = ()
    operator: Literal["correctness", "contradiction"] = "correctness"


def read_criteria(given: Sequence[Any], *, field: str = "criteria") -> tuple[Criterion, ...]:
    """The criteria of a list of texts and mappings. Raises ValueError naming the criterion that is wrong."""
    if not given:
        raise ValueError(f"{field}: expected a list that is not empty")
    criteria = tuple(_criterion(item, number, field) for number, item in enumerate(given, start=1))
    ids = [criterion.id for criterion in criteria]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise ValueError(f"{field}: two of them have the id '{twice}'")
    return criteria


def has_bands(criteria: Sequence[Criterion]) -> bool:
    """Whether the criteria are scored from 0 to 10 instead of met or not."""
    return any(criterion.bands for criterion in criteria)


def _criterion(given: Any, number: int, field: str) -> Criterion:
    if isinstance(given, str) and given.strip():
        return Criterion(id=f"rubric-{number}", outcome=given.strip())
    if not isinstance(given, Mapping):
        raise ValueError(f"{field}, criterion {number}: expected a text or a mapping, got {given!r}")
    wrong = _Wrong(f"{field}, criterion {_named(given, number)}")
    for key in given:
        if key not in _KNOWN:
            raise wrong(f"unknown field '{key}'; there are: {', '.join(_KNOWN)}{did_you_mean(str(key), _KNOWN)}")
    bands = _bands(given.get("score_ranges"), wrong)
    outcome = _text(given, "outcome", wrong) or _text(given, "description", wrong) or ""
    if not outcome and not bands:
        raise wrong("needs an outcome, or score_ranges")
    return Criterion(
        id=_text(given, "id", wrong) or f"rubric-{number}",
        outcome=outcome,
        weight=_number(given, "weight", 0.0, math.inf, wrong, 1.0) or 0.0,
        required=_required(given, wrong),
        least=_least(given, wrong),
        bands=bands,
        operator=_operator(given, wrong),
    )


def _named(given: Mapping[str, Any], number: int) -> str:
    return f"{number} ('{given['id']}')" if isinstance(given.get("id"), str) else str(number)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What is wrong with a criterion, said with its name."""

    name: str

    def __call__(self, problem: str) -> ValueError:
        return ValueError(f"{self.name}: {problem}")


def _text(given: Mapping[str, Any], key: str, wrong: _Wrong) -> str | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise wrong(f"{key}: expected a text that is not empty, got {value!r}")


def _number(
    given: Mapping[str, Any], key: str, low: float, high: float, wrong: _Wrong, default: float | None = None
) -> float | None:
    value = given.get(key, default)
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high and value < math.inf:
        return float(value)
    expected = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
    raise wrong(f"{key}: expected a number {expected}, got {value!r}")


def _required(given: Mapping[str, Any], wrong: _Wrong) -> bool | None:
    value = given.get("required")
    if value is None or isinstance(value, bool):
        return value
    raise wrong(f"required: expected true or false, got {value!r}")


def _least(given: Mapping[str, Any], wrong: _Wrong) -> float | None:
    least = _number(given, "min_score", 0.0, 1.0, wrong)
    old = _number(given, "required_min_score", 0.0, float(BEST), wrong)
    if least is not None or old is None:
        return least
    return old / BEST


def _operator(given: Mapping[str, Any], wrong: _Wrong) -> Literal["correctness", "contradiction"]:
    value = given.get("operator", "correctness")
    if value == "correctness" or value == "contradiction":
        return value  # type: ignore[no-any-return]  # one of the two literals, by the line above
    raise wrong(f"operator: expected one of {' or '.join(_OPERATORS)}, got {value!r}")


def _bands(given: Any, wrong: _Wrong) -> tuple[Band, ...]:
    if given is None:
        return ()
    listed = _from_shorthand(given, wrong) if isinstance(given, Mapping) else _from_list(given, wrong)
    bands = tuple(sorted(listed, key=lambda band: band.low))
    _check_cover(bands, wrong)
    return bands


def _from_shorthand(given: Mapping[Any, Any], wrong: _Wrong) -> Iterator[Band]:
    """`{0: …, 3: …, 7: …}`: each number begins a band that ends before the next, the last one at 10."""
    begins = sorted((_begin(key, wrong), outcome) for key, outcome in given.items())
    ends = [low - 1 for low, _ in begins[1:]] + [BEST]
    for (low, outcome), high in zip(begins, ends, strict=True):
        yield Band(low, high, _outcome(outcome, f"score_ranges {low}", wrong))


def _begin(key: Any, wrong: _Wrong) -> int:
    number = int(key) if isinstance(key, str) and key.strip().isdigit() else key
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= BEST:
        return number
    raise wrong(f"score_ranges: expected whole numbers from 0 to {BEST} as keys, got {key!r}")


def _from_list(given: Any, wrong: _Wrong) -> Iterator[Band]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise wrong(f"score_ranges: expected a list or a mapping that is not empty, got {given!r}")
    for item in given:
        if not isinstance(item, Mapping) or set(item) - {*_BAND_FIELDS}:
            raise wrong(f"score_ranges: expected entries with {' and '.join(_BAND_FIELDS)}, got {item!r}")
        limits = item.get("score_range")
        if not _are_limits(limits):
            raise wrong(f"score_ranges: expected score_range [low, high] of 0 to {BEST}, got {limits!r}")
        yield Band(limits[0], limits[1], _outcome(item.get("outcome"), f"score_ranges {limits!r}", wrong))


def _are_limits(limits: Any) -> TypeGuard[Sequence[int]]:
    if not isinstance(limits, Sequence) or isinstance(limits, str) or len(limits) != 2:
        return False
    whole = all(isinstance(limit, int) and not isinstance(limit, bool) for limit in limits)
    return whole and 0 <= limits[0] <= limits[1] <= BEST


def _outcome(given: Any, what: str, wrong: _Wrong) -> str:
    if isinstance(given, str) and given.strip():
        return given.strip()
    raise wrong(f"{what}: expected a text that says what deserves these scores, got {given!r}")


def _check_cover(bands: Sequence[Band], wrong: _Wrong) -> None:
    """Every score from 0 to 10 belongs to exactly one band."""
    expected = 0
    for band in bands:
        if band.low != expected:
            how = "overlap" if band.low < expected else "leave a gap"
            raise wrong(f"score_ranges: they {how} at {min(band.low, expected)}; every score of 0 to {BEST} needs one")
        expected = band.high + 1
    if expected != BEST + 1:
        raise wrong(f"score_ranges: they end at {expected - 1}; every score of 0 to {BEST} needs one")
