"""A request to a model or an agent that failed, as the failure of an attempt."""

from __future__ import annotations

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.llm.errors import ModelError


def target_failure(error: ModelError, call: Call, format_: str) -> TargetFailure:
    """Return the failure, with what is known of the response: the beginning of one that is too large as a file."""
    return TargetFailure(
        error.failure,
        str(error),
        retryable=error.retryable,
        status=error.status,
        retry_after_s=error.retry_after_s,
        raw=_raw_of(error, call, format_),
    )


def _raw_of(error: ModelError, call: Call, format_: str) -> RawExecution | None:
    if error.partial is not None:
        call.folder.mkdir(parents=True, exist_ok=True)
        response = call.folder / "response"
        response.write_bytes(error.partial)
        return RawExecution(format=format_, payload={"error": str(error)}, files={"response": response})
    return RawExecution(format=format_, payload={"error": error.body}) if error.body else None
