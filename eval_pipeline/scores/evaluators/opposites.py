"""`not-…`: the opposite of every evaluator that looks at text or at a session: `not-contains`, `not-regex`, …"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.scores.evaluate import EVALUATORS, negated
from eval_pipeline.scores.evaluators import budgets, contains, execution_metrics, regex, trajectory, whole_text
from eval_pipeline.scores.model import Outcome, Subject

OPPOSITES: Mapping[str, Any] = {
    "contains": contains.Contains,
    "contains-any": contains.ContainsAny,
    "contains-all": contains.ContainsAll,
    "icontains": contains.ContainsIgnoringCase,
    "icontains-any": contains.ContainsAnyIgnoringCase,
    "icontains-all": contains.ContainsAllIgnoringCase,
    "starts-with": whole_text.StartsWith,
    "ends-with": whole_text.EndsWith,
    "equals": whole_text.Equals,
    "is-json": whole_text.IsJson,
    "regex": regex.Regex,
    "latency": budgets.Latency,
    "cost": budgets.Cost,
    "token-usage": budgets.TokenUsage,
    "execution-metrics": execution_metrics.ExecutionMetrics,
    "trajectory:tool-args-match": trajectory.ToolArgsMatch,
    "trajectory:tool-sequence": trajectory.ToolSequence,
    "trajectory:step-count": trajectory.StepCount,
}


def _opposite(name: str, part: Any) -> Any:
    """An evaluator with the same arguments whose outcome is the other way round."""

    def evaluate(self: Any, subject: Subject) -> Outcome:
        return negated(part.evaluate(self, subject))

    said = {"__doc__": f"The opposite of `{name}`: 1 where it is 0.", "__module__": __name__, "evaluate": evaluate}
    slots = {"__slots__": ()} if "__slots__" in vars(part) else {}
    return type(f"Not{part.__name__}", (part,), {**said, **slots})


for _name, _part in OPPOSITES.items():
    EVALUATORS.register(f"not-{_name}")(_opposite(_name, _part))
