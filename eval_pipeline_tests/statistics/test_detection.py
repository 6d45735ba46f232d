"""The smallest difference that a comparison is likely to show."""

from __future__ import annotations

import numpy as np
import pytest

from eval_pipeline.statistics.detection import INDEPENDENT, Variation, detectable_difference


@pytest.mark.parametrize(
    ("cases", "repetitions", "variation", "difference"),
    [
        (100, 1, INDEPENDENT, 0.198),
        (100, 1_000_000, INDEPENDENT, 0.140),
        (400, 1, INDEPENDENT, 0.099),
        (1_000, 1, Variation(0.1, 0.0), 0.028),
        (3, 1, INDEPENDENT, 1.0),
        (1, 9, INDEPENDENT, None),
    ],
)
def test_more_cases_and_more_repetitions_show_smaller_differences(
    cases: int, repetitions: int, variation: Variation, difference: float | None
) -> None:
    found = detectable_difference(cases, repetitions, variation)

    assert found == (None if difference is None else pytest.approx(difference, abs=5e-4))


def test_a_comparison_shows_it_in_four_of_five_simulated_sweeps() -> None:
    cases, sweeps, draw = 300, 4_000, np.random.default_rng(1)
    variation = Variation(0.05, 0.4)
    difference = detectable_difference(cases, 2, variation)
    assert difference is not None

    deltas = draw.normal(difference, np.sqrt(variation.of_means(2)), (sweeps, cases))
    shown = np.abs(deltas.mean(axis=1)) > 1.959964 * deltas.std(axis=1, ddof=1) / np.sqrt(cases)

    assert shown.mean() == pytest.approx(0.8, abs=0.025)
