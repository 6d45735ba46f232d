"""Failure classes: why an execution did not pass.

A class belongs to an origin, and the origin decides how the class is counted. Only `quality` means that the target's
answer is wrong and enters pass rates. Every other origin leaves the plan ungraded and lowers coverage (design.md,
promise 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_OUTPUT_MB = 64.0
"""The most that is read of one response, output stream or output file, in MB (10^6 bytes)."""


class Origin(StrEnum):
    """The party that has to act on a failure."""

    QUALITY = "quality"
    TARGET = "target"
    INFRASTRUCTURE = "infrastructure"
    HARNESS = "harness"
    GRADER = "grader"
    SIMULATOR = "simulator"


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One reason for not passing: stable id, label for people, origin."""

    id: str
    label: str
    origin: Origin

    @property
    def graded(self) -> bool:
        """Whether a failure of this class counts as a graded answer."""
        return self.origin is Origin.QUALITY


ASSERTION = FailureClass("assertion", "Assertion failure", Origin.QUALITY)
GATE = FailureClass("gate", "Required evaluator below its minimum", Origin.QUALITY)
DEPENDENCY = FailureClass("dependency", "A case it depends on failed", Origin.QUALITY)
SNAPSHOT = FailureClass("snapshot", "Snapshot verification", Origin.QUALITY)
UNEXPECTED_PASSED = FailureClass("unexpected-passed", "Unexpected pass", Origin.QUALITY)

TIMEOUT = FailureClass("timeout", "Timeout", Origin.TARGET)
TARGET_CRASH = FailureClass("target-crash", "Target crashed", Origin.TARGET)
TARGET_ERROR = FailureClass("target-error", "Target reported an error", Origin.TARGET)
OUTPUT_MISSING = FailureClass("output-missing", "Target gave no output", Origin.TARGET)
MALFORMED_REPLY = FailureClass("malformed-reply", "Reply could not be read", Origin.TARGET)
MAX_STEPS = FailureClass("max-steps", "Step or budget limit of the agent reached", Origin.TARGET)
TRUNCATED = FailureClass("truncated", "Answer cut by the token limit", Origin.TARGET)
OUTPUT_LIMIT = FailureClass("output-limit", "More output than is read", Origin.TARGET)
CONVERSATION_TURNS = FailureClass("conversation-turns", "Conversation without an end: turns", Origin.TARGET)
CONVERSATION_TIME = FailureClass("conversation-time", "Conversation without an end: time", Origin.TARGET)
CONVERSATION_TOKENS = FailureClass("conversation-tokens", "Conversation without an end: tokens", Origin.TARGET)
CONVERSATION_COST = FailureClass("conversation-cost", "Conversation without an end: cost", Origin.TARGET)

BAD_REQUEST = FailureClass("bad-request", "Request refused", Origin.INFRASTRUCTURE)
AUTHENTICATION = FailureClass("authentication", "Not authorized", Origin.INFRASTRUCTURE)
MODEL_REJECTED = FailureClass("model-rejected", "Rejected model", Origin.INFRASTRUCTURE)
RATE_LIMITED = FailureClass("rate-limited", "Rate limited", Origin.INFRASTRUCTURE)
SERVER_ERROR = FailureClass("server-error", "Provider error", Origin.INFRASTRUCTURE)
CONNECTION = FailureClass("connection", "Connection failed", Origin.INFRASTRUCTURE)

CANCELLED = FailureClass("cancelled", "Cancelled", Origin.HARNESS)
BUDGET_EXCEEDED = FailureClass("budget-exceeded", "Budget exceeded", Origin.HARNESS)
WORKSPACE = FailureClass("workspace", "Workspace could not be prepared", Origin.HARNESS)
WORKSPACE_BOOTSTRAP = FailureClass("workspace-bootstrap", "Workspace bootstrap", Origin.HARNESS)
DEPENDENCY_FAILED = FailureClass("dependency-failed", "A case it depends on was not carried out", Origin.HARNESS)
STOPPED = FailureClass("stopped", "Not started after an earlier error", Origin.HARNESS)
RECORDING_MISSING = FailureClass("recording-missing", "No recording for this case", Origin.HARNESS)
ADAPTER = FailureClass("adapter", "Adapter failed", Origin.HARNESS)
NORMALIZATION = FailureClass("normalization", "Report normalization", Origin.HARNESS)

ASSERT_HOOK = FailureClass("assert-hook", "Assert hook crash", Origin.GRADER)
EVALUATOR = FailureClass("evaluator", "Evaluator returned no score", Origin.GRADER)
GRADER_MISSING = FailureClass("grader", "No grader for this case", Origin.GRADER)
NO_EVALUATORS = FailureClass("no-evaluators", "Nothing evaluates this case", Origin.GRADER)

SIMULATOR_FAULT = FailureClass("simulator-fault", "Simulated user said nothing usable", Origin.SIMULATOR)

FAILURE_CLASSES: dict[str, FailureClass] = {
    value.id: value for value in list(globals().values()) if isinstance(value, FailureClass)
}


def failure_class(id_: str) -> FailureClass:
    """Return the class of an id.

    An unknown id comes from a suite (`failure_class: wrong-alias`) and becomes a quality class.
    """
    return FAILURE_CLASSES.get(id_) or FailureClass(id_, id_.replace("-", " ").capitalize(), Origin.QUALITY)


HTTP_FAILURES: dict[int, FailureClass] = {
    400: BAD_REQUEST,
    401: AUTHENTICATION,
    403: AUTHENTICATION,
    404: MODEL_REJECTED,
    408: TIMEOUT,
    413: BAD_REQUEST,
    422: BAD_REQUEST,
    429: RATE_LIMITED,
}


def failure_of_status(status: int) -> FailureClass:
    """Return the failure class of an HTTP error status (400 to 599)."""
    if status in HTTP_FAILURES:
        return HTTP_FAILURES[status]
    return SERVER_ERROR if status >= 500 else BAD_REQUEST
