"""The client of an evaluator for models and other evaluators: the seam, its values, its fake.

The implementation is in a room to the right (`sweeps/grading.py`): any runner can be a grader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from eval_pipeline.failures import EVALUATOR
from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.model import NOTHING, Score, Subject
from eval_pipeline.suites.model import EvaluatorSpec, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderReply:
    """A grader's reply: `text` is its final message. `settings` are those of the request, secrets redacted.

    `cached` marks a stored reply to an equal request; its `usage` caused no cost now. `state` is what its tools made of
    the state that it was given; None where they changed nothing.
    """

    text: str
    grader: str
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    duration_ms: float | None = None
    cached: bool = False
    state: Mapping[str, Any] | None = None


class GraderFailure(Exception):
    """A grader returned no reply after its retries. The score has no value, and this reason."""

    def __init__(self, message: str, failure_class: str = EVALUATOR.id) -> None:
        super().__init__(message)
        self.failure_class = failure_class


class GraderClient(Protocol):
    """An evaluator's access to models, programs and other evaluators.

    `timeout_s` limits programs that the evaluator starts (None: the evaluator's default).
    """

    @property
    def timeout_s(self) -> float | None: ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        """Return a grader's reply to a conversation. Raises GraderFailure.

        `grader` names a runner (None: the default grader). `settings` override the runner's own (`temperature`,
        `max_tokens`, `response_format`) where it supports them. Equal requests are sent once; another `sample` number
        sends a new request.
        """

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        """Return another evaluator's score of a subject. Raises InputError for an unusable spec."""


@dataclass(slots=True)
class MeteredClient:
    """A client that passes everything on to another one, and adds up what the replies cost.

    `usd` is 0 without calls and with stored replies only; None where the cost of a reply is unknown.
    """

    client: GraderClient
    usd: float | None = 0.0

    @property
    def timeout_s(self) -> float | None:
        """The other client's time limit of programs."""
        return self.client.timeout_s

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        """See GraderClient."""
        try:
            reply = await self.client.complete(messages, grader=grader, settings=settings, sample=sample)
        except GraderFailure:
            self.usd = None  # its attempts may have cost something
            raise
        self._add(0.0 if reply.cached else reply.usage.cost_usd)
        return reply

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        """See GraderClient."""
        score = await self.client.score(spec, subject)
        self._add(score.grading_cost_usd)
        return score

    def _add(self, usd: float | None) -> None:
        self.usd = None if usd is None or self.usd is None else self.usd + usd


@dataclass(slots=True)
class FakeGraderClient:
    """A client for tests: returns `replies` in order and records the requests; `scores` scores sub-evaluators."""

    replies: list[str] = field(default_factory=list)
    requests: list[list[Message]] = field(default_factory=list)
    scores: Callable[[EvaluatorSpec, Subject], Score] | None = None
    timeout_s: float | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        self.requests.append(list(messages))
        if not self.replies:
            raise GraderFailure("the script has no more replies")
        return GraderReply(text=self.replies.pop(0), grader=grader or "scripted", settings=settings)

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        if self.scores is None:
            raise GraderFailure("the script scores no members")
        return self.scores(spec, subject)
