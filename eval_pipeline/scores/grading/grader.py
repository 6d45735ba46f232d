"""The common part of evaluators that call a model: graders, votes, and their combination."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, Strict

from eval_pipeline.scores.evaluate import GraderUse
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.grader_calls import MAX_VOTES, GraderCall, call_grader
from eval_pipeline.scores.grading.prompts import Question
from eval_pipeline.scores.grading.votes import Answer, Vote, combined_outcome, single_outcome
from eval_pipeline.scores.model import Outcome, at_least

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderArguments:
    """Arguments that select the graders.

    `target` (or `provider`) names the runner that grades, `graders` several runners; the default is the project's
    grader. `model`, `temperature` and `max_steps` replace the grader's own for these calls; a grader without the
    setting is refused. `votes` is the number of calls per grader; `vote` combines several values: their `mean`,
    `median`, or the `majority`. `threshold` is the minimum value that passes, instead of that of the case or
    its suite; a majority counts the verdicts that reach it.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata")
    type: ClassVar[str] = "llm-grader"
    target: Text | None = None
    provider: Text | None = None
    graders: Annotated[tuple[Text | None, ...], Strict(False)] = ()
    votes: Annotated[int, Field(strict=True, ge=1, le=MAX_VOTES)] = 1
    vote: Vote = "mean"
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] | None = None
    model: Text | None = None
    max_steps: Annotated[int, Field(strict=True, ge=1, le=50)] | None = None
    threshold: Share | None = None

    def __post_init__(self) -> None:
        names = [name for name in ("target", "provider", "graders") if getattr(self, name)]
        if len(names) > 1:
            raise ValueError(f"{' and '.join(names)} have the same meaning; use one of them")
        duplicate = next((name for name in self.graders if self.graders.count(name) > 1), None)
        if duplicate is not None:
            raise ValueError(f"graders: duplicate '{duplicate}'; `votes` calls a grader several times")
        object.__setattr__(self, "graders", self.graders or (self.target or self.provider,))

    def pass_mark(self, limit: float) -> float | None:
        """Return the least value with which a vote passes (None without votes); the case passes from `limit` on."""
        if len(self.graders) * self.votes == 1:
            return None
        return limit if self.threshold is None else self.threshold

    async def call_graders(self, question: Question, client: GraderClient, limit: float) -> Outcome:
        """Call every grader concurrently and combine the outcomes. The case passes from `limit` on. Raises
        GraderFailure when none replies."""
        calls = [(grader, vote) for grader in self.graders for vote in range(self.votes)]
        if len(calls) == 1:
            (grader, vote) = calls[0]
            call = await call_grader(client, question, grader=grader, settings=self._sent(question), vote=vote)
            return self._apply_threshold(single_outcome(call, self._recorded()))
        answers = await asyncio.gather(*(self._answer(question, client, *grader_vote) for grader_vote in calls))
        named = [(_name(grader, vote, answer), answer) for (grader, vote), answer in zip(calls, answers, strict=True)]
        mark = limit if self.threshold is None else self.threshold
        return self._apply_threshold(combined_outcome(named, self.type, self.vote, self._recorded(), mark))

    async def _answer(self, question: Question, client: GraderClient, grader: str | None, vote: int) -> Answer:
        try:
            return await call_grader(client, question, grader=grader, settings=self._sent(question), vote=vote)
        except GraderFailure as failure:
            return failure

    @property
    def grader_calls(self) -> Sequence[GraderUse]:
        """The graders that are called, with what the suite sets of them."""
        return tuple(GraderUse(name, self._settings()) for name in self.graders)

    def _settings(self) -> Mapping[str, Any]:
        values = {"model": self.model, "temperature": self.temperature, "max_steps": self.max_steps}
        return {name: value for name, value in values.items() if value is not None}

    def _sent(self, question: Question) -> Mapping[str, Any]:
        """Return the settings of a call: with the schema of the reply, where its format has one."""
        schema = getattr(question.reply_format, "response_format", None)
        return {**self._settings(), "response_format": schema} if schema is not None else self._settings()

    def _recorded(self) -> dict[str, Any]:
        """Return the settings of the graders that the suite sets, stored with the score."""
        settings = dict(self._settings())
        return {"suite_settings": settings} if settings else {}

    def _apply_threshold(self, outcome: Outcome) -> Outcome:
        """Apply the evaluator's own threshold to the outcome, if it has one."""
        if self.threshold is None or outcome.value is None:
            return outcome
        return outcome._replace(passes=outcome.passes is not False and at_least(outcome.value, self.threshold))


def _name(grader: str | None, vote: int, answer: Answer) -> str:
    """Return a member's name: its grader, and its number after the first vote."""
    known = answer.grader if isinstance(answer, GraderCall) else None
    return (grader or known or "default") + (f" #{vote + 1}" if vote else "")
