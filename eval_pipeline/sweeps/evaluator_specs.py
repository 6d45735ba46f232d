"""What an evaluator is at the time that it scores, as a row that a person can read: arguments, graders, versions."""

from __future__ import annotations

from eval_pipeline.scores.evaluate import BoundEvaluator, grader_uses, requires_client
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.grading import Graders, MissingGrader
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row


def spec_row(bound: BoundEvaluator, pair: Pair, context: SweepContext) -> Row:
    """Return the `evaluator_specs` row of an evaluator that scores answers of a pair."""
    return rows.spec_row(bound, graders_of(bound, pair, context.graders), *_names(pair), context.clock.now())


def graders_of(bound: BoundEvaluator, pair: Pair, graders: Graders) -> list[Row] | None:
    """Return the graders of an evaluator: runner, model, the suite's settings and revision; None where it has none, or
    they are missing."""
    evaluator = bound.evaluator
    if not requires_client(evaluator):
        return None
    described: list[Row] = []
    for use in grader_uses(evaluator):
        try:
            runner = graders.choose(pair.runner, use.name)
        except MissingGrader:
            continue
        revision = graders.revision(pair.runner, use.name, use.settings)
        settings = dict(use.settings)
        model = settings.get("model") or runner.model
        described.append({"runner": runner.name, "model": model, "settings": settings or None, "revision": revision})
    return described or None


def _names(pair: Pair) -> tuple[str, str]:
    return pair.name.suite, pair.name.runner
