"""Differences about skillgym's suites and settings."""

from __future__ import annotations

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


SUITES = (
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
