"""What becomes of a session that a limit of time or steps ended: an error, an answer to grade, or a failure."""

from __future__ import annotations

from dataclasses import dataclass

from eval_pipeline.failures import MAX_STEPS, TIMEOUT
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.model import INCOMPLETE, Case, Incomplete, Suite

LIMITS = (TIMEOUT.id, MAX_STEPS.id)
"""Failure classes of sessions that a limit ended: what they left may be graded."""


@dataclass(frozen=True, slots=True)
class IncompleteRule:
    """Of which cases of a suite a session that a limit ended counts as an answer: all of them or none (`counts`), but
    the other way round for the ids in `exceptions`."""

    counts: bool = False
    exceptions: frozenset[str] = frozenset()

    def covers(self, case_id: str, failure_class: str | None) -> bool:
        """Return whether a session of a case that ended so counts as an answer."""
        return failure_class in LIMITS and self.counts is not (case_id in self.exceptions)


NONE_COUNTS = IncompleteRule()


def incomplete_of(suite: Suite, case: Case) -> Incomplete:
    """Return what becomes of a session of a case that a limit ended: by the case, else by its suite."""
    return case.incomplete or suite.settings.incomplete


def incomplete_rule(suite: Suite) -> IncompleteRule:
    """Return of which cases of a suite such a session counts."""
    counts = suite.settings.incomplete != "error"
    if not traits_of(suite.cases).sets_incomplete:
        return IncompleteRule(counts)
    others = (case.id for case in suite.cases if (incomplete_of(suite, case) != "error") is not counts)
    return IncompleteRule(counts, frozenset(others))


def read_incomplete(raw: Map, cursor: FieldCursor) -> Incomplete | None:
    """Return the field `incomplete` of a case or a suite, None without it. Raises InputError."""
    chosen = fields.choice(raw, "incomplete", cursor, INCOMPLETE)
    return next((value for value in INCOMPLETE if value == chosen), None)
