"""Differences about skillgym's suites and settings."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row

_NUMBERS = ("maxParallel", "repeat", "repeatFailure", "retryFailed")


def _empty_number(row: Row) -> bool:
    """An empty text for a number of the command line, of which JavaScript makes 0."""
    if row.family != "skillgym" or row.file != "oracle_run_options" or not row.data["ok"]:
        return False
    return any(str(row.data["cli"].get(name, "0")).strip() == "" for name in _NUMBERS)


def _refuses_the_option(row: Row, observations: Observations) -> None:
    (error,) = observations[AS_WRITTEN].errors
    assert error.field.startswith("CLI option --repeat") or error.field.startswith("CLI option --retry")
    assert error.text.startswith("expected integer >= ")


def _crash_is_no_answer(row: Row) -> bool:
    """An execution whose runner crashed: failed there; here nothing was graded."""
    return row.family == "skillgym" and row.file == "expected_failure" and row.data["raw"]["failureOrigin"] == "runner"


def _is_an_error(row: Row, observations: Observations) -> None:
    values = observations[AS_WRITTEN].values
    assert (values["passed"], values["status"], values["origin"]) == (False, "error", "target")
    assert (values["class"], values["label"]) == ("target-crash", "Target crashed")


def _default_limit(row: Row) -> Any:
    """The default time limit of a configuration that theirs refuses; None for another row."""
    config = row.data["args"][0] if row.kind == "parseConfig" else row.data.get("config")
    error = row.data.get("error") or ""
    message = error if isinstance(error, str) else error["message"]
    if row.family != "skillgym" or "defaults.timeoutMs" not in message or not isinstance(config, dict):
        return None
    return config["defaults"]["timeoutMs"]


def _has_default_limit(row: Row) -> bool:
    return row.file in ("config", "oracle_config") and _default_limit(row) is not None


def _is_least_one(row: Row, observations: Observations) -> None:
    limit, seen = _default_limit(row), observations[AS_WRITTEN]
    if limit == 1:
        assert seen.errors == () and seen.values["parsed"]["defaults"] == {"timeoutMs": 1}
        return
    (error,) = seen.errors
    assert (error.field, error.text) == ("defaults.timeoutMs", "expected integer >= 1")


def _is_equal_but_for_floats(row: Row) -> bool:
    """A count that is exactly what its percentage allows, and above it in floating point."""
    if row.family != "skillgym" or row.file != "oracle_snapshot_tolerance" or row.data["ok"]:
        return False
    baseline, actual, tolerance = Fraction(str(row.data["baseline"])), row.data["actual"], row.data["tolerance"]
    bounds = [baseline + Fraction(str(tolerance["absolute"]))] if "absolute" in tolerance else []
    bounds += [baseline * (1 + Fraction(str(tolerance["percent"])) / 100)] if "percent" in tolerance else []
    return Fraction(str(actual)) <= min(bounds)


def _passes(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].values["ok"] is True


SUITES = (
    Difference(
        "a time limit of one millisecond is one",
        "skillgym's bound leaves 1 out, which nobody expects of a limit in milliseconds",
        _has_default_limit,
        _is_least_one,
    ),
    Difference(
        "a count equal to what is allowed passes",
        "15 % above 100 is 115 exactly, and equality passes; floating point puts the bound below",
        _is_equal_but_for_floats,
        _passes,
    ),
    Difference(
        "an empty number of the command line is none",
        "JavaScript reads an empty text as 0; nobody who writes --repeat-failure '' means that",
        _empty_number,
        _refuses_the_option,
    ),
    Difference(
        "a crash is an error and no failed answer",
        "what crashed gave no answer to grade: it lowers coverage and never a pass rate",
        _crash_is_no_answer,
        _is_an_error,
    ),
)
