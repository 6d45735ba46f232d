"""`trajectory:goal-success`: a model grades whether a session reached its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.grading.context import build_context
from eval_pipeline.scores.grading.grader import GraderArguments
from eval_pipeline.scores.grading.prompts import question
from eval_pipeline.scores.grading.verdicts import FreeForm
from eval_pipeline.scores.model import Outcome, Subject

_PROMPT = """The goal that the session below should reach:
{goal}

Judge whether the session reached it: fully (1.0), in part, or not at all (0.0). What was really done counts; a claim
that the session itself does not bear out does not.

What happened, in order:
{{{{ transcript }}}}

Its last words:
{{{{ output }}}}"""


@EVALUATORS.register("trajectory:goal-success")
@dataclass(frozen=True, slots=True, kw_only=True)
class GoalSuccess(GraderArguments):
    """A model's score in [0, 1] of how far the session progressed towards the goal in `value`.

    `value` is a text or `{goal: …}`; without one, the case's criteria are the goal.
    """

    value: Any = None

    def __post_init__(self) -> None:
        GraderArguments.__post_init__(self)
        _goal(self.value)

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        goal = _goal(self.value) or subject.case.criteria
        if not goal:
            return Outcome(None, "no goal: neither a value nor criteria of the case")
        template = _PROMPT.format(goal=goal)
        material = build_context(subject, ("transcript", "output"))
        asked = question(material, FreeForm(), template=template, criteria="")
        return await self.call_graders(asked, client, subject.pass_mark)


def _goal(value: Any) -> str | None:
    """Return the goal in `value`, or None. Raises ValueError for an invalid value."""
    raw = value.get("goal") if isinstance(value, Mapping) and set(value) == {"goal"} else value
    if raw is None or (isinstance(raw, str) and raw.strip()):
        return raw
    raise ValueError(f"value: expected a text, or a mapping with goal, got {value!r}")
