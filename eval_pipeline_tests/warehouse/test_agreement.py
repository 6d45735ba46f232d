"""The views on graders' agreement, against published examples and the definitions."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import permutations

import duckdb
import pytest

from eval_pipeline_tests.warehouse.sample_ratings import agreement_database, rows, store

Unit = Sequence[float | None]

# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, example C: 4 observers, 12 units, 7 values missing.
OBSERVERS: list[Unit] = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


@pytest.fixture
def warehouse() -> Iterator[duckdb.DuckDBPyConnection]:
    with agreement_database() as connection:
        yield connection


def alpha(units: Sequence[Unit]) -> float:
    """Krippendorff's alpha by its definition: squared differences of ordered pairs within units, and of all."""
    rated = [known for unit in units if len(known := [value for value in unit if value is not None]) > 1]
    together = [value for unit in rated for value in unit]
    within = sum((a - b) ** 2 / (len(unit) - 1) for unit in rated for a, b in permutations(unit, 2))
    return 1 - within / (sum((a - b) ** 2 for a, b in permutations(together, 2)) / (len(together) - 1))


def kappa(first: Unit, second: Unit) -> float:
    """Cohen's kappa of passing (from 0.8) by its definition."""
    pairs = [(a >= 0.8, b >= 0.8) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    share_a, share_b = sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs)
    by_chance = share_a * share_b + (1 - share_a) * (1 - share_b)
    return (sum(a == b for a, b in pairs) / len(pairs) - by_chance) / (1 - by_chance)


@pytest.mark.parametrize("seed", range(5))
def test_agreement_of_random_ratings_is_that_of_the_definitions(
    warehouse: duckdb.DuckDBPyConnection, seed: int
) -> None:
    chance = random.Random(seed)
    units = [[chance.choice([None, 0.0, 0.35, 0.8, 0.95, 1.0]) for _ in range(3)] for _ in range(60)]
    store(warehouse, units)

    (overall,) = rows(warehouse, "grader_agreement")
    pairs = rows(warehouse, "grader_pairs")

    passed = [[None if value is None else float(value >= 0.8) for value in unit] for unit in units]
    rated = [unit for unit in units if sum(value is not None for value in unit) > 1]
    assert (overall["units"], overall["graders"]) == (len(rated), 3)
    assert overall["ratings"] == sum(value is not None for unit in rated for value in unit)
    assert overall["krippendorffs_alpha"] == pytest.approx(alpha(units), abs=1e-12)
    assert overall["krippendorffs_alpha_ordinal"] == pytest.approx(ordinal_alpha(units), abs=1e-12)
    assert overall["krippendorffs_alpha_passed"] == pytest.approx(alpha(passed), abs=1e-12)
    columns = dict(zip("abc", zip(*units, strict=True), strict=True))
    for pair in pairs:
        expected = kappa(columns[pair["grader_a"]], columns[pair["grader_b"]])
        assert pair["cohens_kappa"] == pytest.approx(expected, abs=1e-12)
    assert [(pair["grader_a"], pair["grader_b"]) for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_krippendorffs_alpha_of_his_own_example(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [list(unit) for unit in zip(*OBSERVERS, strict=True)])

    assert rows(warehouse, "grader_agreement")[0]["krippendorffs_alpha"] == pytest.approx(0.849, abs=5e-4)


def ordinal_alpha(units: Sequence[Unit]) -> float:
    """Krippendorff's alpha of an order by its definition: the ratings between two values, and half of both's."""
    rated = [known for unit in units if len(known := [value for value in unit if value is not None]) > 1]
    together = [value for unit in rated for value in unit]

    def difference(a: float, b: float) -> float:
        low, high = sorted((a, b))
        between = sum(low <= value <= high for value in together)
        return float(between - (together.count(low) + together.count(high)) / 2) ** 2 if a != b else 0.0

    within = sum(difference(a, b) / (len(unit) - 1) for unit in rated for a, b in permutations(unit, 2))
    return 1 - within / (sum(difference(a, b) for a, b in permutations(together, 2)) / (len(together) - 1))


def test_ordinal_alpha_is_that_of_the_definition_and_of_krippendorffs_own_example(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    units = [list(unit) for unit in zip(*OBSERVERS, strict=True)]
    store(warehouse, units)

    found = rows(warehouse, "grader_agreement")[0]["krippendorffs_alpha_ordinal"]
    assert found == pytest.approx(ordinal_alpha(units), abs=1e-12)
    assert found == pytest.approx(0.815, abs=5e-4)


def test_krippendorffs_alpha_of_two_observers_and_yes_or_no(warehouse: duckdb.DuckDBPyConnection) -> None:
    """The same paper, example A: 10 units, two observers, binary data."""
    first, second = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    store(warehouse, list(zip(first, second, strict=True)))

    assert rows(warehouse, "grader_agreement")[0]["krippendorffs_alpha_passed"] == pytest.approx(0.095, abs=5e-4)


@pytest.mark.parametrize(
    ("counts", "kappa"),
    [
        pytest.param([[20, 5], [10, 15]], 0.4, id="yes-and-no"),
        pytest.param([[45, 15], [25, 15]], 0.13, id="frequencies-alike"),
        pytest.param([[25, 35], [5, 35]], 0.259, id="frequencies-that-differ"),
        pytest.param([[0, 5], [5, 0]], -1.0, id="always-the-opposite"),
        pytest.param([[7, 0], [0, 3]], 1.0, id="always-alike"),
        pytest.param([[9, 0], [0, 0]], 1.0, id="only-one-answer"),
    ],
)
def test_cohens_kappa_of_a_table_of_counts(
    warehouse: duckdb.DuckDBPyConnection, counts: Sequence[Sequence[int]], kappa: float
) -> None:
    units = [(float(row), float(column)) for row in (0, 1) for column in (0, 1) for _ in range(counts[row][column])]
    store(warehouse, units)

    assert rows(warehouse, "grader_pairs")[0]["cohens_kappa"] == pytest.approx(kappa, abs=5e-4)


def test_the_share_of_agreement_is_a_mean_over_units(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])

    (overall,) = rows(warehouse, "grader_agreement")

    assert overall["agreement"] == pytest.approx((1 + 1 / 3) / 2)
    assert overall["unanimous"] == 0.5


def test_graders_that_always_rate_the_same_agree_fully(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[0.1, 0.1]] * 7)

    assert rows(warehouse, "grader_agreement")[0]["krippendorffs_alpha"] == 1.0
    assert rows(warehouse, "grader_pairs")[0]["cohens_kappa"] == 1.0


def test_a_graders_own_word_on_passing_counts_before_its_value(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[0.5, 0.9]], details='{"passes": true}')

    assert rows(warehouse, "grader_pairs")[0]["agreement"] == 1.0


def test_scores_of_the_past_members_of_composites_and_single_ratings_are_left_out(
    warehouse: duckdb.DuckDBPyConnection,
) -> None:
    store(warehouse, [[1.0, 0.0]], key="old", current=False)
    store(warehouse, [[1.0, 0.0]], key="composite", evaluator="composite", grader=None)
    store(warehouse, [[1.0, None]], key="single", evaluator="single")

    assert rows(warehouse, "grader_agreement") == []
    assert rows(warehouse, "grader_pairs") == []


def test_panels_are_told_apart(warehouse: duckdb.DuckDBPyConnection) -> None:
    store(warehouse, [[1.0, 1.0]] * 3, key="k1", evaluator="tone")
    store(warehouse, [[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, key="k2", evaluator="facts")

    actual = defaultdict(
        float, {row["evaluator"]: row["krippendorffs_alpha"] for row in rows(warehouse, "grader_agreement")}
    )

    assert actual["tone"] == 1.0
    assert actual["facts"] < 0
