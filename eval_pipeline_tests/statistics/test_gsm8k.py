"""Four models on the 1,319 questions of GSM8K: our numbers against those of an independent implementation.

The answers are those published with Cobbe et al. 2021 (arXiv 2110.14168): how many questions each combination of the
four models answers correctly. The expected numbers are computed with numpy and scipy.
"""

from __future__ import annotations

import pytest

from eval_pipeline.statistics.clusters import case_sums, clustered_error, rate_interval
from eval_pipeline.statistics.ranks import rank_intervals
from eval_pipeline_tests.statistics.pairs_of_sides import pair_tests

SOLVERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
QUESTIONS = {
    "0000": 432, "0001": 189, "0010": 46, "0011": 73, "0100": 43, "0101": 109, "0110": 13, "0111": 128,
    "1000": 12, "1001": 19, "1010": 8, "1011": 25, "1100": 14, "1101": 43, "1110": 9, "1111": 156,
}  # fmt: skip
SIDES = [
    [float(pattern[place]) for pattern, count in QUESTIONS.items() for _ in range(count)]
    for place in range(len(SOLVERS))
]
RATES = (
    # rate, standard error, ends of Wilson's interval
    (0.2168309325246399, 0.011350909906677552, 0.1954313944055889, 0.23987508543066718),
    (0.3904473085670963, 0.013437829864668651, 0.3644740968441599, 0.4170567902678588),
    (0.34723275208491283, 0.01311389838214695, 0.3220168538269636, 0.37333590570986525),
    (0.5625473843821076, 0.013664299060751955, 0.5356326528399583, 0.5890988475978164),
)  # fmt: skip
PAIRS = {
    # places: second - first, its standard error, McNemar's exact p-value, Holm's
    (0, 1): (0.17361637604245642, 0.01350874904966465, 3.928874710490944e-36, 1.5715498841963777e-35),
    (0, 2): (0.13040181956027294, 0.013684933094532302, 7.466006443046378e-21, 1.4932012886092756e-20),
    (0, 3): (0.3457164518574678, 0.014869117830683065, 1.6569333623969997e-99, 9.941600174381998e-99),
    (1, 2): (-0.043214556482183475, 0.014361068314278445, 0.003150656880360618, 0.003150656880360618),
    (1, 3): (0.17210007581501138, 0.014106395994627242, 1.2400534250724266e-32, 3.72016027521728e-32),
    (2, 3): (0.21531463229719486, 0.014684157296028007, 2.8913946350346335e-45, 1.4456973175173168e-44),
}  # fmt: skip


@pytest.mark.parametrize("place", range(len(SOLVERS)), ids=SOLVERS)
def test_rates_have_the_same_intervals(place: int) -> None:
    sums, error = case_sums(SIDES[place], [1] * len(SIDES[place])), clustered_error(SIDES[place])

    assert (sums.mean, error, *(rate_interval(sums) or ())) == pytest.approx(RATES[place], abs=1e-9)


def test_all_pairs_have_the_same_differences_and_p_values() -> None:
    tests = pair_tests(SIDES)

    for test in tests:
        difference, error, p_value, adjusted = PAIRS[test.first, test.second]
        assert test.difference == pytest.approx(-difference, abs=1e-9)
        assert (test.p_value, test.adjusted) == pytest.approx((p_value, adjusted), rel=1e-9)
        differences = [b - a for a, b in zip(SIDES[test.first], SIDES[test.second], strict=True)]
        assert clustered_error(differences) == pytest.approx(error, abs=1e-9)
    assert rank_intervals(4, tests) == [(4, 4), (2, 2), (3, 3), (1, 1)]
