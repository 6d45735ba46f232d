"""`webhook`: a service of the suite's author grades an answer over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
from pydantic import ConfigDict

from eval_pipeline.failures import DEFAULT_OUTPUT_MB
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.bodies import ACCEPTED, Body
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.reply import OnError, with_error_policy
from eval_pipeline.scores.programs.verdict import check_context, value_outcome

TIMEOUT_S = 60.0
_SHOWN = 300
_MAX_BYTES = int(DEFAULT_OUTPUT_MB * 1_000_000)


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
            status, text = await self._reply(content, limit)
        except TimeoutError:
            raise GraderFailure(f"the webhook did not answer within {limit:g} s") from None
        except ModelError as error:
            raise GraderFailure(f"the webhook cannot be read: {error}") from error
        except httpx.HTTPError as error:
            raise GraderFailure(f"the webhook did not answer: {type(error).__name__}: {error}") from error
        if not 200 <= status < 300:
            raise GraderFailure(f"the webhook answered with status {status}: {text[:_SHOWN]}")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise GraderFailure(f"the webhook's response is not JSON: {text[:_SHOWN]}") from None

    async def _reply(self, content: bytes, limit_s: float) -> tuple[int, str]:
        """Return the status and the body of the service's response. Raises ModelError for one that is too large."""
        headers = {"content-type": "application/json", "accept-encoding": ACCEPTED}
        async with (
            asyncio.timeout(limit_s),
            httpx.AsyncClient(timeout=limit_s) as client,
            client.stream("POST", self.value, content=content, headers=headers) as reply,
        ):
            body = await Body(reply, _MAX_BYTES).read()
            return reply.status_code, body.decode("utf-8", "replace")
