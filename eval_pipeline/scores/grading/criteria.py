"""Criteria of a rubric: weights, gates and score bands, read from a suite and validated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from eval_pipeline.errors import did_you_mean

MAX_SCORE = 10
"""The best score of a band, and of a criterion with bands."""
_KNOWN = ("id", "outcome", "description", "weight", "required", "min_score", "required_min_score", "score_ranges",
          "operator")  # fmt: skip
_OPERATORS = ("correctness", "contradiction")
_BAND_FIELDS = ("score_range", "outcome")


@dataclass(frozen=True, slots=True)
class Band:
    """Whole scores from `low` to `high` (of 0 to 10), and the outcome that deserves them."""

    low: int
    high: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One point that a grader checks.

    `required` None means unspecified: a criterion without a score must then be met, one with a score has no gate.
    `min_share` is the share of the best score that must be reached, None without such a gate. A `contradiction`
    criterion is met by an answer that does not contradict its outcome.
    """

    id: str
    outcome: str
    weight: float = 1.0
    required: bool | None = None
    min_share: float | None = None
    bands: tuple[Band, ...] = ()
    operator: Literal["correctness", "contradiction"] = "correctness"


def read_criteria(raw: Sequence[Any], *, field: str = "criteria") -> tuple[Criterion, ...]:
    """Read a list of texts and mappings. Raises ValueError naming the invalid criterion."""
    if not raw:
        raise ValueError(f"{field}: expected a list that is not empty")
    criteria = tuple(_criterion(item, number, field) for number, item in enumerate(raw, start=1))
    ids = [criterion.id for criterion in criteria]
    duplicate = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if duplicate is not None:
        raise ValueError(f"{field}: duplicate id '{duplicate}'")
    return criteria


def has_bands(criteria: Sequence[Criterion]) -> bool:
    """Return whether the criteria are scored from 0 to 10 rather than met or not met."""
    return any(criterion.bands for criterion in criteria)


def _criterion(raw: Any, number: int, field: str) -> Criterion:
    if isinstance(raw, str) and raw.strip():
        return Criterion(id=f"rubric-{number}", outcome=raw.strip())
    if not isinstance(raw, Mapping):
        raise ValueError(f"{field}, criterion {number}: expected a text or a mapping, got {raw!r}")
    error = _CriterionError(f"{field}, criterion {_named(raw, number)}")
    for key in raw:
        if key not in _KNOWN:
            raise error(f"unknown field '{key}'; there are: {', '.join(_KNOWN)}{did_you_mean(str(key), _KNOWN)}")
    bands = _bands(raw.get("score_ranges"), error)
    outcome = _text(raw, "outcome", error) or _text(raw, "description", error) or ""
    if not outcome and not bands:
        raise error("needs an outcome, or score_ranges")
    weight = _number(raw, "weight", 0.0, math.inf, error)
    return Criterion(
        id=_text(raw, "id", error) or f"rubric-{number}",
        outcome=outcome,
        weight=1.0 if weight is None else weight,
        required=_required(raw, error),
        min_share=_min_share(raw, error),
        bands=bands,
        operator=_operator(raw, error),
    )


def _named(raw: Mapping[str, Any], number: int) -> str:
    return f"{number} ('{raw['id']}')" if isinstance(raw.get("id"), str) else str(number)


@dataclass(frozen=True, slots=True)
class _CriterionError:
    """Creates errors that name their criterion."""

    name: str

    def __call__(self, problem: str) -> ValueError:
        return ValueError(f"{self.name}: {problem}")


def _text(raw: Mapping[str, Any], key: str, error: _CriterionError) -> str | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise error(f"{key}: expected a text that is not empty, got {value!r}")


def _number(raw: Mapping[str, Any], key: str, low: float, high: float, error: _CriterionError) -> float | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high and value < math.inf:
        return float(value)
    expected = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
    raise error(f"{key}: expected a number {expected}, got {value!r}")


def _required(raw: Mapping[str, Any], error: _CriterionError) -> bool | None:
    value = raw.get("required")
    if value is None or isinstance(value, bool):
        return value
    raise error(f"required: expected true or false, got {value!r}")


def _min_share(raw: Mapping[str, Any], error: _CriterionError) -> float | None:
    min_share = _number(raw, "min_score", 0.0, 1.0, error)
    old = _number(raw, "required_min_score", 0.0, float(MAX_SCORE), error)
    if min_share is not None or old is None:
        return min_share
    return old / MAX_SCORE


def _operator(raw: Mapping[str, Any], error: _CriterionError) -> Literal["correctness", "contradiction"]:
    value = raw.get("operator", "correctness")
    if value == "correctness" or value == "contradiction":
        return value  # type: ignore[no-any-return]  # one of the two literals, by the line above
    raise error(f"operator: expected one of {' or '.join(_OPERATORS)}, got {value!r}")


def _bands(raw: Any, error: _CriterionError) -> tuple[Band, ...]:
    if raw is None:
        return ()
    listed = _from_shorthand(raw, error) if isinstance(raw, Mapping) else _from_list(raw, error)
    bands = tuple(sorted(listed, key=lambda band: band.low))
    _check_cover(bands, error)
    return bands


def _from_shorthand(raw: Mapping[Any, Any], error: _CriterionError) -> Iterator[Band]:
    """Read `{0: …, 3: …, 7: …}`: each number starts a band that ends before the next; the last band ends at 10."""
    starts = sorted((_start(key, error), outcome) for key, outcome in raw.items())
    ends = [low - 1 for low, _ in starts[1:]] + [MAX_SCORE]
    for (low, outcome), high in zip(starts, ends, strict=True):
        yield Band(low, high, _outcome(outcome, f"score_ranges {low}", error))


def _start(key: Any, error: _CriterionError) -> int:
    number = int(key) if isinstance(key, str) and key.strip().isdigit() else key
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_SCORE:
        return number
    raise error(f"score_ranges: expected whole numbers from 0 to {MAX_SCORE} as keys, got {key!r}")


def _from_list(raw: Any, error: _CriterionError) -> Iterator[Band]:
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        raise error(f"score_ranges: expected a list or a mapping that is not empty, got {raw!r}")
    for item in raw:
        if not isinstance(item, Mapping) or set(item) - {*_BAND_FIELDS}:
            raise error(f"score_ranges: expected entries with {' and '.join(_BAND_FIELDS)}, got {item!r}")
        limits = item.get("score_range")
        if not _are_limits(limits):
            raise error(f"score_ranges: expected score_range [low, high] of 0 to {MAX_SCORE}, got {limits!r}")
        yield Band(limits[0], limits[1], _outcome(item.get("outcome"), f"score_ranges {limits!r}", error))


def _are_limits(limits: Any) -> TypeGuard[Sequence[int]]:
    if not isinstance(limits, Sequence) or isinstance(limits, str) or len(limits) != 2:
        return False
    read_whole = all(isinstance(limit, int) and not isinstance(limit, bool) for limit in limits)
    return read_whole and 0 <= limits[0] <= limits[1] <= MAX_SCORE


def _outcome(raw: Any, field: str, error: _CriterionError) -> str:
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    raise error(f"{field}: expected a text that describes these scores, got {raw!r}")


def _check_cover(bands: Sequence[Band], error: _CriterionError) -> None:
    """Check that every score from 0 to 10 belongs to exactly one band."""
    expected = 0
    for band in bands:
        if band.low != expected:
            how = "overlap" if band.low < expected else "leave a gap"
            raise error(
                f"score_ranges: they {how} at {min(band.low, expected)}; every score of 0 to {MAX_SCORE} needs one"
            )
        expected = band.high + 1
    if expected != MAX_SCORE + 1:
        raise error(f"score_ranges: they end at {expected - 1}; every score of 0 to {MAX_SCORE} needs one")
