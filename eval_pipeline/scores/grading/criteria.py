"""Criteria of a rubric: weights, gates and score bands, read from a suite and validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import DETACHED, FieldCursor, Map
from eval_pipeline.parsing.tables import ANY, FLAG, SHARE, WEIGHT, WORDS, Field, FieldTable, Kind, one_of

MAX_SCORE = 10
"""The best score of a band, and of a criterion with bands."""
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
    values = _read_fields(raw, error)
    bands = _bands(values["score_ranges"], error)
    outcome = values["outcome"] or values["criteria"] or values["description"] or ""
    if not outcome and not bands:
        raise error("needs an outcome, or score_ranges")
    return Criterion(
        id=values["id"] or f"rubric-{number}",
        outcome=outcome,
        weight=values["weight"],
        required=values["required"],
        min_share=_min_share(values),
        bands=bands,
        operator=values["operator"] or "correctness",
    )


def _named(raw: Mapping[str, Any], number: int) -> str:
    return f"{number} ('{raw['id']}')" if isinstance(raw.get("id"), str) else str(number)


@dataclass(frozen=True, slots=True)
class _CriterionError:
    """Creates errors that name their criterion."""

    name: str

    def __call__(self, problem: str) -> ValueError:
        return ValueError(f"{self.name}: {problem}")


def _min_share(values: Mapping[str, Any]) -> float | None:
    """Return the least share of the best score; `required_min_score` is one of 10."""
    old = values["required_min_score"]
    least: float | None = values["min_score"]
    return least if least is not None or old is None else old / MAX_SCORE


def _score_of_ten(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    value = fields.number(raw, key, cursor)
    if value is None or 0 <= value <= MAX_SCORE:
        return value
    raise cursor.error(f"expected a number from 0 to {MAX_SCORE}, got {fields.kind(value)}", key)


_OF_TEN = Kind(f"a number from 0 to {MAX_SCORE}", {"type": "number", "minimum": 0, "maximum": MAX_SCORE}, _score_of_ten)
CRITERION = FieldTable(
    "criterion",
    (
        Field("id", WORDS, "The name of the criterion in the grader's reply."),
        Field("outcome", WORDS, "What the answer has to do."),
        Field("criteria", WORDS, "Another spelling of `outcome`."),
        Field("description", WORDS, "Another spelling of `outcome`."),
        Field("weight", WEIGHT, "The weight of the criterion.", 1.0),
        Field("required", FLAG, "Whether the criterion must be met."),
        Field("min_score", SHARE, "The share of the best score that must be reached."),
        Field("required_min_score", _OF_TEN, "The same, of ten."),
        Field("score_ranges", ANY, "The outcomes that deserve each score from 0 to 10."),
        Field("operator", one_of("correctness", "contradiction"), "Whether the answer states the outcome, or does not"
              " contradict it.", "correctness"),
    ),
)  # fmt: skip


def _read_fields(raw: Mapping[str, Any], error: _CriterionError) -> dict[str, Any]:
    """Return the value of every field of a criterion. Raises ValueError for an unknown or unusable one."""
    for key in raw:
        if key not in CRITERION:
            raise error(f"unknown field '{key}'; there are: {', '.join(CRITERION)}{did_you_mean(str(key), CRITERION)}")
    given = {key: value for key, value in raw.items() if value is not None}
    try:
        return {field.name: field.read(given, DETACHED) for field in CRITERION.fields}
    except InputError as problem:
        raise error(f"{problem.place.field}: {problem.problem}") from None


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
