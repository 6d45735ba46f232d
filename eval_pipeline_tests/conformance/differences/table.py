"""Where we deliberately answer otherwise than a reference: the one list, reviewed as a whole.

The first difference that concerns a row decides how it is checked.
"""

from __future__ import annotations

from eval_pipeline_tests.conformance.differences.connexity import CONNEXITY
from eval_pipeline_tests.conformance.differences.connexity_verdicts import VERDICTS
from eval_pipeline_tests.conformance.differences.evaluations import EVALUATIONS
from eval_pipeline_tests.conformance.differences.loading import LOADING
from eval_pipeline_tests.conformance.differences.model import Difference
from eval_pipeline_tests.conformance.differences.protocols import PROTOCOLS
from eval_pipeline_tests.conformance.differences.runs import RUNS
from eval_pipeline_tests.conformance.differences.sessions import SESSIONS
from eval_pipeline_tests.conformance.differences.statistics import STATISTICS
from eval_pipeline_tests.conformance.differences.stops import STOPS
from eval_pipeline_tests.conformance.differences.suites import SUITES
from eval_pipeline_tests.conformance.recorded_facts import Row

_OWN = {"skillgym": (*SUITES, *SESSIONS, *RUNS), "connexity": (*CONNEXITY, *VERDICTS)}
DIFFERENCES: tuple[Difference, ...] = (
    *STATISTICS, *EVALUATIONS, *STOPS, *PROTOCOLS, *LOADING, *SUITES, *SESSIONS, *RUNS, *CONNEXITY, *VERDICTS,
)  # fmt: skip


def difference_of(row: Row) -> Difference | None:
    """Return the difference that a row falls under."""
    known = _OWN.get(row.family, DIFFERENCES)
    return next((difference for difference in known if difference.concerns(row)), None)
