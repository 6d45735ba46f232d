"""What an evaluator may ask of the outside: a model's opinion, and other evaluators. The seam, its values, its fake.

Who carries this out stands to the right of this room (`orchestration/grading.py`): any runner can be a grader.
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
    """What a grader said: `text` is its last word. `settings` are those it was asked with, secrets redacted.

    `cached` tells a reply that an earlier question of the same content brought; its `usage` cost nothing now.
    """

    text: str
    grader: str
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    duration_ms: float | None = None
    cached: bool = False


class GraderFailure(Exception):
    """A grader brought no reply (after its retries): the score stays open with this reason."""

    def __init__(self, message: str, failure_class: str = EVALUATOR.id) -> None:
        super().__init__(message)
        self.failure_class = failure_class


class GraderClient(Protocol):
    """The outside as an evaluator sees it.

    `timeout_s` bounds programs that it starts (None: the evaluator's own default).
    """

    timeout_s: float | None

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        """A grader's reply to a conversation. Raises GraderFailure.

        `grader` names a runner (None: the one that grades by default). `settings` go over the runner's own
        (`temperature`, `max_tokens`, `response_format`), where it knows them. Equal questions are asked once; another
        `sample` number asks anew.
        """

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        """What another evaluator says of a subject. Raises InputError for an unusable spec."""


@dataclass(slots=True)
class FakeGraderClient:
    """A desk for tests: replies taken in turn, what was asked kept; members are scored by `scores`."""

    replies: list[str] = field(default_factory=list)
    asked: list[list[Message]] = field(default_factory=list)
    scores: Callable[[EvaluatorSpec, Subject], Score] | None = None
    timeout_s: float | None = None

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        self.asked.append(list(messages))
        if not self.replies:
            raise GraderFailure("the script has no more replies")
        return GraderReply(text=self.replies.pop(0), grader=grader or "scripted", settings=settings)

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        if self.scores is None:
            raise GraderFailure("the script scores no members")
        return self.scores(spec, subject)
