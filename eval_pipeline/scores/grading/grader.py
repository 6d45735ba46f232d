"""What every evaluator that asks a model has in common: which graders, how often, what becomes of their opinions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, Strict

from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.grader_calls import GraderCall, opinion_of
from eval_pipeline.scores.grading.prompts import Question
from eval_pipeline.scores.grading.votes import Answer, Vote, outcome_of_many, outcome_of_one
from eval_pipeline.scores.model import Outcome, at_least

Share = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
MOST_VOTES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class AsksGraders:
    """The arguments that say who grades.

    `target` (or `provider`) names the runner that grades, `graders` several of them; without either the default one
    does. `votes` asks each that often, `vote` makes one value of several: their `mean`, `median`, or what the
    `majority` thinks. `threshold` is the least value that passes, where the common 0.8 is not meant.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata")
    type: ClassVar[str] = "llm-grader"
    target: Text | None = None
    provider: Text | None = None
    graders: Annotated[tuple[Text | None, ...], Strict(False)] = ()
    votes: Annotated[int, Field(strict=True, ge=1, le=MOST_VOTES)] = 1
    vote: Vote = "mean"
    temperature: Annotated[float, Field(strict=True, ge=0, le=2)] | None = None
    model: Text | None = None
    max_steps: Annotated[int, Field(strict=True, ge=1, le=50)] | None = None
    threshold: Share | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("target", "provider", "graders") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} say the same thing; one of them is enough")
        twice = next((name for name in self.graders if self.graders.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"graders: '{twice}' twice; `votes` asks a grader several times")
        object.__setattr__(self, "graders", self.graders or (self.target or self.provider,))

    async def ask_graders(self, question: Question, client: GraderClient) -> Outcome:
        """The outcome of asking every grader, side by side. Raises GraderFailure when none replies."""
        asked = [(grader, vote) for grader in self.graders for vote in range(self.votes)]
        if len(asked) == 1:
            (grader, vote) = asked[0]
            one = await opinion_of(client, question, grader=grader, settings=self._settings(), vote=vote)
            return self._judged(outcome_of_one(one, self._recorded()))
        answers = await asyncio.gather(*(self._answer(question, client, *who) for who in asked))
        named = [(_name(grader, vote, answer), answer) for (grader, vote), answer in zip(asked, answers, strict=True)]
        return self._judged(outcome_of_many(named, self.type, self.vote, self._recorded()))

    async def _answer(self, question: Question, client: GraderClient, grader: str | None, vote: int) -> Answer:
        try:
            return await opinion_of(client, question, grader=grader, settings=self._settings(), vote=vote)
        except GraderFailure as failure:
            return failure

    def _settings(self) -> Mapping[str, Any]:
        return {} if self.temperature is None else {"temperature": self.temperature}

    def _recorded(self) -> dict[str, Any]:
        """What the suite says that no grader is asked with, kept with the score."""
        given = {"model": self.model, "max_steps": self.max_steps}
        said = {name: value for name, value in given.items() if value is not None}
        return {"suite_settings": said} if said else {}

    def _judged(self, outcome: Outcome) -> Outcome:
        """The outcome by the evaluator's own threshold, when it has one."""
        if self.threshold is None or outcome.value is None:
            return outcome
        return outcome._replace(passes=outcome.passes is not False and at_least(outcome.value, self.threshold))


def _name(grader: str | None, vote: int, answer: Answer) -> str:
    """How a member is called: by its grader, and its number when it is not the first vote."""
    known = answer.grader if isinstance(answer, GraderCall) else None
    return (grader or known or "default") + (f" #{vote + 1}" if vote else "")
