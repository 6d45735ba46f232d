"""`not-…`: the opposite of every evaluator that reads text or a session: `not-contains`, `not-regex`, …"""

from __future__ import annotations

from typing import Any

from eval_pipeline.scores.boundary import negate_outcome
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import budgets, contains, execution_metrics, regex, trajectory, whole_text
from eval_pipeline.scores.model import Outcome, Subject


def _opposite(name: str, class_: Any) -> Any:
    """Return an evaluator with the same arguments and the opposite outcome."""

    def evaluate(self: Any, subject: Subject) -> Outcome:
        return negate_outcome(class_.evaluate(self, subject))

    added = {"__doc__": f"The opposite of `{name}`: 1 where it is 0.", "__module__": __name__, "evaluate": evaluate}
    slots = {"__slots__": ()} if "__slots__" in vars(class_) else {}
    return type(f"Not{class_.__name__}", (class_,), {**added, **slots})


EVALUATORS.register("not-contains")(_opposite("contains", contains.Contains))
EVALUATORS.register("not-contains-any")(_opposite("contains-any", contains.ContainsAny))
EVALUATORS.register("not-contains-all")(_opposite("contains-all", contains.ContainsAll))
EVALUATORS.register("not-icontains")(_opposite("icontains", contains.ContainsIgnoringCase))
EVALUATORS.register("not-icontains-any")(_opposite("icontains-any", contains.ContainsAnyIgnoringCase))
EVALUATORS.register("not-icontains-all")(_opposite("icontains-all", contains.ContainsAllIgnoringCase))
EVALUATORS.register("not-starts-with")(_opposite("starts-with", whole_text.StartsWith))
EVALUATORS.register("not-ends-with")(_opposite("ends-with", whole_text.EndsWith))
EVALUATORS.register("not-equals")(_opposite("equals", whole_text.Equals))
EVALUATORS.register("not-is-json")(_opposite("is-json", whole_text.IsJson))
EVALUATORS.register("not-regex")(_opposite("regex", regex.Regex))
EVALUATORS.register("not-latency")(_opposite("latency", budgets.Latency))
EVALUATORS.register("not-cost")(_opposite("cost", budgets.Cost))
EVALUATORS.register("not-token-usage")(_opposite("token-usage", budgets.TokenUsage))
EVALUATORS.register("not-execution-metrics")(_opposite("execution-metrics", execution_metrics.ExecutionMetrics))
EVALUATORS.register("not-trajectory:tool-args-match")(_opposite("trajectory:tool-args-match", trajectory.ToolArgsMatch))
EVALUATORS.register("not-trajectory:tool-sequence")(_opposite("trajectory:tool-sequence", trajectory.ToolSequence))
EVALUATORS.register("not-trajectory:step-count")(_opposite("trajectory:step-count", trajectory.StepCount))
