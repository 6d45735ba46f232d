"""Agreement of graders, against published examples."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from eval_pipeline.statistics.agreement import Level, cohens_kappa, krippendorffs_alpha

Ratings = Sequence[int | None]

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, example C: 4 observers, 12 units, 7 values missing.
OBSERVERS: list[Ratings] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
UNITS = [list(unit) for unit in zip(*OBSERVERS, strict=True)]


def from_table(table: Sequence[Sequence[int]]) -> tuple[list[int | None], list[int | None]]:
    """The ratings of two graders that a table of counts stands for: rows the first one's, columns the second one's."""
    cells = [(row, column, count) for row, line in enumerate(table) for column, count in enumerate(line)]
    pairs = [(row, column) for row, column, count in cells for _ in range(count)]
    return [row for row, _ in pairs], [column for _, column in pairs]


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_alpha_of_his_own_example(level: Level, alpha: float) -> None:
    assert krippendorffs_alpha(UNITS, level) == pytest.approx(alpha, abs=5e-4)


def test_krippendorffs_alpha_of_two_observers_and_yes_or_no() -> None:
    """The same paper, example A: 10 units, two observers, binary data."""
    first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]

    assert krippendorffs_alpha(list(zip(first, second, strict=True))) == pytest.approx(0.095, abs=5e-4)


def test_krippendorffs_alpha_of_two_observers_and_several_categories() -> None:
    """The same paper, example B: 12 units, two observers, five nominal values."""
    first, second = "aabbdcccedda", "babbbccceddd"

    assert krippendorffs_alpha(list(zip(first, second, strict=True))) == pytest.approx(0.692, abs=5e-4)


KAPPAS = [
    pytest.param([[88, 14, 18], [10, 40, 10], [2, 6, 12]], 0.492, id="cohen-1960-table-1"),
    pytest.param([[20, 5], [10, 15]], 0.4, id="yes-and-no"),
    pytest.param([[45, 15], [25, 15]], 0.13, id="frequencies-alike"),
    pytest.param([[25, 35], [5, 35]], 0.259, id="frequencies-that-differ"),
    pytest.param([[0, 5], [5, 0]], -1.0, id="always-the-opposite"),
    pytest.param([[7, 0], [0, 3]], 1.0, id="always-alike"),
    pytest.param([[9]], 1.0, id="only-one-answer"),
]


@pytest.mark.parametrize(("table", "kappa"), KAPPAS)
def test_cohens_kappa_of_a_table_of_counts(table: Sequence[Sequence[int]], kappa: float) -> None:
    assert cohens_kappa(*from_table(table)) == pytest.approx(kappa, abs=5e-4)


def test_units_that_not_both_rated_are_left_out() -> None:
    assert cohens_kappa([1, 0, None, 1], [1, 0, 1, None]) == 1.0


def test_without_two_ratings_of_one_unit_nothing_can_be_said() -> None:
    unrated: list[int | None] = [None]

    assert cohens_kappa(unrated, [1]) is None
    assert krippendorffs_alpha([[1], [2, None], []]) is None


def test_full_agreement_is_1_even_when_nothing_varies() -> None:
    assert krippendorffs_alpha([[3, 3], [3, 3]], "interval") == 1.0


@pytest.mark.parametrize(
    ("units", "level", "problem"),
    [
        pytest.param([["low", "high"]], "interval", "interval ratings are numbers, got 'low'", id="words"),
        pytest.param([[True, False]], "ordinal", "ordinal ratings are numbers, got True", id="truth-values"),
        pytest.param([[1, 2]], "ratio", "no level 'ratio'; there are: nominal, ordinal, interval", id="level"),
    ],
)
def test_ratings_that_cannot_be_compared_are_refused(units: list[list[object]], level: Level, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        krippendorffs_alpha(units, level)
