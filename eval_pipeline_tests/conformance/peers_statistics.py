"""Peers' rows about statistics: reducers, intervals, pass@k, paired tests, strengths, limits on getting worse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from eval_pipeline.leaderboards.comparisons import evidence
from eval_pipeline.statistics.intervals import student_interval
from eval_pipeline.statistics.limits import drop_breach
from eval_pipeline.statistics.paired_tests import SignTest, sign_test, signs
from eval_pipeline.statistics.ratings import bradley_terry
from eval_pipeline.statistics.repetitions import mean_pass_at_k, pass_at_k, reduce_repetitions, repetition_error
from eval_pipeline.statistics.student import t_quantile
from eval_pipeline.statistics.summaries import mean, variance
from eval_pipeline_tests.conformance.recorded_facts import Row


def statistics_check(row: Row) -> Callable[[Row], None] | None:
    """How a row about statistics is checked; None for rows about other things."""
    return CHECKS.get(row.kind) if row.file == "stats_cases" else None


def _given(row: Row) -> dict[str, Any]:
    read: dict[str, Any] = _read(row.data["input"])
    return read


def _read(value: Any) -> Any:
    """JSON has no NaN: rows write it as a text."""
    if isinstance(value, list):
        return [_read(one) for one in value]
    if isinstance(value, dict):
        return {name: _read(one) for name, one in value.items()}
    return math.nan if value == "NaN" else value


def _near(row: Row, value: Any) -> Any:
    return pytest.approx(value, abs=row.data.get("tolerance", 1e-9), rel=row.data.get("tolerance_rel"))


def _is_refused(row: Row) -> bool:
    return isinstance(row.data["expect"], str) and row.data["expect"].startswith("ValueError")


def _reduced(row: Row) -> None:
    given, args = _given(row), row.data["input"]["args"]
    if any(isinstance(value, (list, dict)) for value in given["values"]):
        pytest.skip("not offered: a repetition with several values; here it has one score")

    actual = reduce_repetitions(given["values"], given["reducer"], k=args.get("k", 1), mark=args.get("value", 1.0))

    expected = _read(row.data["expect"])
    assert actual == (None if math.isnan(expected) else _near(row, expected))


def _variance(row: Row) -> None:
    values = _given(row)["values"]

    assert variance(values) == (_near(row, row.data["expect"]) if len(values) > 1 else None)  # of one: not known


def _mean(row: Row) -> None:
    assert mean(_given(row)["values"]) == _near(row, row.data["expect"])


def _clustered(row: Row) -> None:
    pytest.skip("not offered: errors of clustered cases; cases are taken as independent")


def _quantile(row: Row) -> None:
    assert t_quantile(_given(row)["df"]) == _near(row, row.data["expect"])


def _student(row: Row) -> None:
    given, expected = _given(row), row.data["expect"]

    actual = student_interval(given["values"], given["level"])

    assert actual == (_near(row, (expected["lower"], expected["upper"])) if len(given["values"]) > 1 else None)


def _grouped(row: Row) -> None:
    given, expected = _given(row), row.data["expect"]
    pairs = list(zip(given["values"], given["groups"], strict=True))

    by_name = {name: mean([value for value, group in pairs if group == name]) for name in set(given["groups"])}

    assert {**by_name, "all": mean(given["values"])} == _near(row, expected)


def _pass_at(row: Row) -> None:
    given = _given(row)
    if _is_refused(row):
        with pytest.raises(ValueError, match="must be"):
            pass_at_k(given["n"], given["c"], given["k"])
        return

    assert pass_at_k(given["n"], given["c"], given["k"]) == _near(row, row.data["expect"])


def _mean_pass_at(row: Row) -> None:
    given = _given(row)

    assert mean_pass_at_k([(n, c) for n, c in given["problems"]], given["k"]) == _near(row, row.data["expect"])


def _flips(row: Row) -> None:
    given, expected = _given(row), row.data["expect"]
    pairs = list(zip(given["baseline"], given["candidate"], strict=True))

    actual = sign_test([after - before for before, after in pairs])

    stable_correct = sum(before == after == 1 for before, after in pairs)
    assert (actual.downs, actual.ups) == (expected["n_regressions"], expected["n_improvements"])
    assert actual.ties - stable_correct == expected["n_stable_wrong"]
    assert actual.downs / len(pairs) == _near(row, expected["regression_rate"])


def _counted(row: Row) -> SignTest:
    given = _given(row)
    ups, downs = given["improvements"], given["regressions"]
    return signs(ups, downs, max(0, given.get("n", ups + downs) - ups - downs))


def _mcnemar(row: Row) -> None:
    actual, expected = _counted(row), row.data["expect"]

    assert actual.p_worse == _near(row, expected["p_value"])
    assert actual.ups + actual.downs == expected.get("n_discordant", actual.ups + actual.downs)
    assert "effect_size" not in expected or actual.effect == _near(row, expected["effect_size"])
    assert (actual.p_worse < 0.05) == expected.get("significant", actual.p_worse < 0.05)


def _verdict(row: Row) -> None:
    expected = row.data["expect"]

    actual = evidence(_counted(row))

    allowed = expected.get("verdict_in") or [expected["verdict"]]
    assert not {"regressed": {"BLOCK"}, "none": {"PASS", "INCONCLUSIVE"}}[actual].isdisjoint(allowed)


def _signs(row: Row) -> None:
    actual, expected = sign_test(_given(row)["deltas"]), row.data["expect"]

    tails = (actual.p_value, actual.p_worse)  # the row does not say which
    assert actual.ties == expected.get("n_ties", actual.ties)
    assert "p_value" not in expected or any(value == _near(row, expected["p_value"]) for value in tails)
    assert expected.get("significant", tails[0] < 0.05) in [value < 0.05 for value in tails]


def _repeated(row: Row) -> None:
    expected = row.data["expect"]

    actual = repetition_error([(n, c) for n, c in _given(row)["problems_n_c"]])

    if expected is None:
        assert actual is None
        return
    assert actual is not None
    ours = {"mean": actual.mean, "se": actual.error, "lower": actual.low, "upper": actual.high}
    assert {name: ours[name] for name in expected} == _near(row, expected)


def _strengths(row: Row) -> None:
    wins = [(winner, loser, count) for winner, loser, count in _given(row)["wins"]]

    assert bradley_terry(wins) == _near(row, row.data["expect"]["powers_geomean_1"])


_BREACHES: Mapping[str, tuple[str | None, ...]] = {
    "GO": (None,),
    "NO-GO": ("absolute", "relative"),
    "BREACH": ("absolute", "relative"),
    "BREACH (relative)": ("relative",),
}


def _limits(row: Row) -> None:
    given, expected = _given(row), row.data["expect"]
    if expected not in _BREACHES:
        pytest.skip(f"not built yet: a gate that says {expected}")
    if given.get("direction") == "lower_is_better":
        pytest.skip("not offered: measures of which less is better; scores are compared, of which more is better")

    actual = drop_breach(
        given["base"],
        given["cand"],
        max_drop=given.get("max_drop"),
        max_relative_drop=given.get("max_relative_drop"),
    )

    assert (None if given.get("tier") == "advisory" else actual) in _BREACHES[expected]


CHECKS: Mapping[str, Callable[[Row], None]] = {
    "epoch_reducer": _reduced,
    "variance": _variance,
    "mean": _mean,
    "clustered_stderr": _clustered,
    "t_ppf_0.975": _quantile,
    "ci_t": _student,
    "ci_t_clustered": _clustered,
    "grouped_mean": _grouped,
    "pass_at_k": _pass_at,
    "aggregate_pass_at_k": _mean_pass_at,
    "flip_report": _flips,
    "mcnemar_exact_one_sided": _mcnemar,
    "compare_verdict": _verdict,
    "sign_test": _signs,
    "sample_level_ci": _repeated,
    "bradley_terry": _strengths,
    "gate": _limits,
}
