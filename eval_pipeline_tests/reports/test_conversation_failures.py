"""A turn of a conversation that failed."""

from __future__ import annotations

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline_tests.builders import a_case


class Failing:
    """A format whose payload says how the session ended."""

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        failure = material.raw.payload.get("failure")
        return SessionReport(execution_id=material.execution_id, failure_class=failure, error=failure)


def test_the_failure_of_an_earlier_turn_is_the_conversations() -> None:
    NORMALIZERS.register("failing-turns")(Failing)
    turns = [
        {"messages": [{"role": "user", "text": "x"}], "format": "failing-turns", "payload": {"failure": failure}}
        for failure in (None, "max-steps", None)
    ]
    raw = RawExecution(format="conversation", payload={"turns": turns})

    report = NORMALIZERS.get("conversation")().normalize(RawSession(execution_id="e", raw=raw, case=a_case()))

    assert (report.failure_class, report.error) == ("max-steps", "max-steps")
