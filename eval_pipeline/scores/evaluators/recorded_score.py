"""`recorded-score`: the score that another evaluation system gave, of sessions that `import` read from its results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from pydantic import Field, Strict

from eval_pipeline.reports.model import RecordedScoreEvent
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.model import Outcome, Subject

Bound = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


@EVALUATORS.register("recorded-score")
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedScore:
    """The score that the recorded session has under the name `score`, as a share of `range`.

    `range` is the worst and the best number that the other system gives ([0, 1]; [10, 0] where lower is better).
    `labels` are the values of what it wrote in place of numbers. Whatever is neither leaves the score unknown.
    """

    __pydantic_config__: ClassVar = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    score: Text
    range: Annotated[tuple[Bound, Bound], Strict(False)] = (0.0, 1.0)
    labels: Mapping[Text, Share] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.range[0] == self.range[1]:
            raise ValueError("range: expected the worst and the best number, got the same twice")

    def evaluate(self, subject: Subject) -> Outcome:
        recorded = [event for event in subject.report.events if isinstance(event, RecordedScoreEvent)]
        event = next((event for event in recorded if event.name == self.score), None)
        if event is None:
            names = ", ".join(dict.fromkeys(each.name for each in recorded)) or "none"
            return Outcome(None, f"the session has no recorded score '{self.score}'; there are: {names}")
        if event.value is None and isinstance(event.raw, str) and event.raw in self.labels:
            return Outcome(self.labels[event.raw], event.message or f"recorded as {event.raw}")
        if event.value is None:
            return Outcome(None, f"recorded as {_shown(event.raw)}, which is no number and none of labels")
        return self._share(event.value, event.message)

    def _share(self, number: float, message: str | None) -> Outcome:
        worst, best = self.range
        share = (number - worst) / (best - worst)
        if not math.isfinite(share) or not 0 <= share <= 1:
            return Outcome(None, f"recorded as {number:g}, which is not from {worst:g} to {best:g}: set range")
        return Outcome(share, message or f"recorded as {number:g}")


def _shown(raw: Any) -> str:
    return "nothing" if raw is None else str(raw)[:80]
