"""`webhook`: a service of the suite's author grades an answer over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
from pydantic import ConfigDict

from eval_pipeline.fingerprints import to_json
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.reply import OnError, with_error_policy
from eval_pipeline.scores.programs.verdict import check_context, value_outcome

TIMEOUT_S = 60.0
_SHOWN = 300


@EVALUATORS.register("webhook")
@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The result of the service at the address `value`.

    It receives `{"output", "context"}` by POST and returns a truth value, a number, or `{pass, score, reason}`;
    `threshold` is the minimum number that passes. A service that fails or returns anything else leaves the score
    without a value (`on_error: fail`: 0, as in AgentV).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata", "tags")
    graders: ClassVar[tuple[str | None, ...]] = ()
    value: Text
    threshold: Share | None = None
    config: dict[str, Any] = field(default_factory=dict)
    timeout_s: Limit | None = None
    on_error: OnError = "unscored"

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.value)
        except httpx.InvalidURL as error:
            raise ValueError(f"value: not an address: {error}") from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(f"value: expected an address that begins with http:// or https://, got {self.value!r}")

    async def grade(self, subject: Subject, grader_client: GraderClient) -> Outcome:
        return await with_error_policy(self._outcome(subject, grader_client), self.on_error)

    async def _outcome(self, subject: Subject, grader_client: GraderClient) -> Outcome:
        return value_outcome(await self._request(subject, grader_client), self.threshold)

    async def _request(self, subject: Subject, grader_client: GraderClient) -> Any:
        """Send the request and return the parsed response. Raises GraderFailure when it fails or is not JSON."""
        content = to_json({"output": subject.output, "context": check_context(subject, self.config)})
        limit = self.timeout_s or grader_client.timeout_s or TIMEOUT_S
        try:
            async with asyncio.timeout(limit), httpx.AsyncClient(timeout=limit) as client:
                reply = await client.post(self.value, content=content, headers={"content-type": "application/json"})
        except TimeoutError:
            raise GraderFailure(f"the webhook did not answer within {limit:g} s") from None
        except httpx.HTTPError as error:
            raise GraderFailure(f"the webhook did not answer: {type(error).__name__}: {error}") from error
        if not reply.is_success:
            raise GraderFailure(f"the webhook answered with status {reply.status_code}: {reply.text[:_SHOWN]}")
        try:
            return json.loads(reply.text)
        except (ValueError, RecursionError):
            raise GraderFailure(f"the webhook's response is not JSON: {reply.text[:_SHOWN]}") from None
