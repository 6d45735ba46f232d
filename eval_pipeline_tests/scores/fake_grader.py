"""A desk that scores members as the real one does, and one score of an evaluator that asks the outside."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import bind, evaluate_with
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Score, Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec
from eval_pipeline_tests.builders import a_case


@dataclass(slots=True)
class MembersDesk(FakeGraderClient):
    """Grader replies by script, members by their own evaluators."""

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        (score,) = await evaluate_with(self, subject, [bind(spec, subject.case, subject.folder)])
        return score


def graded(
    spec: EvaluatorSpec,
    report: SessionReport,
    *,
    case: Case | None = None,
    folder: Path = Path(),
    workspace: Path | None = None,
    client: FakeGraderClient | None = None,
    threshold: float = DEFAULT_THRESHOLD,
) -> Score:
    """The score that a spec gives a report, the outside being a desk."""
    case = case or a_case()
    bound = bind(spec, case, folder, threshold=threshold)
    subject = Subject(case, report, folder, workspace, threshold)
    (score,) = asyncio.run(evaluate_with(client or MembersDesk(), subject, [bound]))
    return score
