"""`similar`: the semantic similarity of an answer to a text, by a model's embeddings of both."""

from __future__ import annotations

import asyncio
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.llm.client import ChatClient, Embeddings
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.context import conversation_text
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Finding, Outcome, Subject, at_least

DEFAULT_THRESHOLD = 0.75
TIMEOUT_S = 60.0
_TRIES = 3
_FIRST_DELAY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProvider:
    """The endpoint of embeddings in OpenAI's format (`wire: azure` for Azure's)."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    model: Text
    base_url: Text | None = None
    api_key: Text | None = field(default=None, repr=False)
    wire: Text = "openai"
    headers: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.client().wire.embeddings(self.model)

    def client(self) -> ChatClient:
        """Return a client for the endpoint. Raises InputError for an unusable endpoint."""
        return ChatClient(self.base_url, wire=self.wire, api_key=self.api_key, headers=self.headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarConfig:
    """The `config` of a `similar` evaluator."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    embedding_provider: EmbeddingProvider


@EVALUATORS.register("similar")
@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """The cosine similarity of the output and `value` (a text; of several, the most similar), at least 0.

    It passes from `threshold` on (0.75). The default of `value` is the case's expected output. `config` names the
    source of embeddings: `{embedding_provider: {base_url, model, api_key}}`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("expected_output",)
    graders: ClassVar[tuple[str | None, ...]] = ()
    config: SimilarConfig
    value: Any = None
    threshold: Share = DEFAULT_THRESHOLD

    def __post_init__(self) -> None:
        texts = self.value if isinstance(self.value, list) else [self.value]
        if self.value is not None and not (texts and all(isinstance(text, str) and text.strip() for text in texts)):
            raise ValueError(f"value: expected a text, or a list of texts, got {self.value!r}")

    async def grade(self, subject: Subject, grader_client: GraderClient) -> Outcome:
        expected = self._expected(subject)
        if not expected:
            return Outcome(None, "nothing to compare with: neither a value nor an expected output")
        if not subject.output.strip():
            return Outcome(0.0, "the output is empty", passes=False)
        embeddings = await self._embed([subject.output, *expected], grader_client.timeout_s or TIMEOUT_S)
        output, *targets = embeddings.vectors
        similarities = [cosine(output, target) for target in targets]
        return self._outcome(expected, similarities, embeddings)

    def _expected(self, subject: Subject) -> list[str]:
        if self.value is None:
            text = conversation_text(subject.case.expected_output)
            return [text] if text.strip() else []
        return [self.value] if isinstance(self.value, str) else list(self.value)

    def _outcome(self, texts: Sequence[str], similarities: Sequence[float | None], reply: Embeddings) -> Outcome:
        details = {"model": reply.model or self.config.embedding_provider.model, "input_tokens": reply.input_tokens}
        known = [similarity for similarity in similarities if similarity is not None]
        if not known:
            return Outcome(None, "the embeddings have no direction or different sizes", details=details)
        nearest = max(known)
        passes = at_least(nearest, self.threshold)
        reason = f"similarity {nearest:.3f}, {'at least' if passes else 'below'} {self.threshold:g}"
        findings = tuple(
            Finding(f"similarity {similarity:.3f} to {text[:80]!r}", at_least(similarity, self.threshold))
            for text, similarity in zip(texts, similarities, strict=True)
            if similarity is not None
        )
        return Outcome(max(0.0, min(1.0, nearest)), reason, findings, details, passes=passes)

    async def _embed(self, texts: Sequence[str], timeout_s: float) -> Embeddings:
        """Return the embeddings of texts, with retries. Raises GraderFailure."""
        provider = self.config.embedding_provider
        client = provider.client()
        try:
            for attempt in range(_TRIES):
                try:
                    return await client.embed(texts, model=provider.model, timeout_s=timeout_s)
                except ModelError as error:
                    if attempt == _TRIES - 1 or not error.retryable:
                        raise GraderFailure(f"no embeddings: {error}") from error
                    await asyncio.sleep(error.retry_after_s or _FIRST_DELAY_S * 2**attempt)
        finally:
            await client.close()
        raise AssertionError("the last attempt returns or raises")


def cosine(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the cosine of the angle between two vectors; None for a zero vector or different sizes."""
    if len(first) != len(second):
        return None
    length = math.hypot(*first) * math.hypot(*second)
    return sum(map(operator.mul, first, second)) / length if length else None
