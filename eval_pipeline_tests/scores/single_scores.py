"""One evaluator, one answer: what the tests of this room ask again and again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import bind, evaluate
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec
from eval_pipeline_tests.builders import a_case, an_evaluator


def a_report(output: str | None = "", **fields: Any) -> SessionReport:
    """A completed session whose last words are `output`."""
    return SessionReport(execution_id="e1", final_output=output, **fields)


def score(
    spec: EvaluatorSpec, report: SessionReport, *, case: Case | None = None, folder: Path = Path(), **changes: Any
) -> Score:
    """The score that a spec (with `changes`, such as `negate=True`) gives a report."""
    case = case or a_case()
    bound = bind(replace(spec, **changes), case, folder)
    (result,) = evaluate(Subject(case, report, folder), [bound])
    return result


def score_text(type_: str, output: str | None, **config: Any) -> Score:
    """The score that the evaluator `type_` with these arguments gives an answer."""
    return score(an_evaluator(type_, **config), a_report(output))
