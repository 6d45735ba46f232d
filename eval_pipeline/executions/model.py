"""What a runner, a plan and an execution are. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from eval_pipeline.failures import FailureClass
from eval_pipeline.suites.model import Case

JsonMap = Mapping[str, Any]
DEFAULT_CONCURRENCY = 10
"""Attempts of a runner at once, where nobody says how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently an attempt is repeated.

    Delay before retry n (from 0): `initial_delay_s · factor^n`, at most `max_delay_s`, spread evenly over
    [1 - jitter, 1 + jitter]; a `Retry-After` of the provider is the least delay, up to `max_retry_after_s`. `statuses`
    are the HTTP statuses that are worth another attempt (None: those that the adapter takes for it).
    """

    max_retries: int = 5
    initial_delay_s: float = 0.5
    factor: float = 2.0
    max_delay_s: float = 30.0
    jitter: float = 0.5
    max_retry_after_s: float = 120.0
    statuses: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A configured system under test.

    `settings` are the adapter's own, placeholders filled in; `public_settings` the same without secrets, which is
    what identity and storage use. `folder` is where relative paths of the settings begin; `unset` are environment
    names that the entry mentions and that have no value. `grader` names the runner that grades its answers where an
    evaluator names none; `fallbacks` are runners asked, in order, when every attempt of this one failed.
    """

    name: str
    adapter: str
    settings: JsonMap = field(default_factory=dict, repr=False)
    public_settings: JsonMap = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    folder: Path = Path()
    timeout_s: float | None = None
    concurrency: int | None = None
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    prices: JsonMap = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    unset: tuple[str, ...] = ()
    grader: str | None = None
    fallbacks: tuple[str, ...] = ()

    @property
    def model(self) -> str | None:
        """The model the settings name, when they do."""
        model = self.settings.get("model")
        return model if isinstance(model, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One cell to carry out: case × runner × repetition (from 1), with its identity `key`.

    `after` are the keys of plans that have to be settled first: those of cases it depends on (of the same repetition).
    """

    suite: str
    case: Case
    runner: Runner
    repetition: int
    key: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTrace:
    """What is left of the workspace that an execution worked in.

    `path` is the folder as the target left it, for as long as graders look at it (None: it is gone); `kept` whether it
    stays. `changes` is the unified diff between the begin and the end of the session (None: not known). `hooks` holds
    what each hook printed, by its name.
    """

    path: Path | None = None
    kept: bool = False
    changes: str | None = None
    hooks: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawExecution:
    """What an adapter brings back, the same for every adapter.

    `format` names the normalizer that reads it. `payload` is JSON-like and small or large; `files` are large things
    already on disk, by role (`stdout`, `stderr`, …). `duration_ms` is the target's own time when it reports one.
    """

    format: str
    payload: JsonMap = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    exit_code: int | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a plan: when (UTC), how long, and why it failed when it did."""

    started_at: datetime
    duration_ms: float
    failure_class: str | None = None
    error: str | None = None
    status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file kept beside the tables: its role, path relative to the artifacts folder, bytes and SHA-256."""

    role: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A plan carried out: its attempts, what the last one brought back, and why it failed when it did.

    `duration_ms` is the last attempt's; `failure_class` is None when the target finished. `answered_by` names the
    fallback runner that answered in the runner's place.
    """

    execution_id: str
    key: str
    suite: str
    case_id: str
    runner: str
    repetition: int
    started_at: datetime
    finished_at: datetime
    duration_ms: float
    attempts: tuple[Attempt, ...]
    raw: RawExecution | None = None
    failure_class: str | None = None
    error: str | None = None
    workspace: WorkspaceTrace | None = None
    answered_by: str | None = None

    @property
    def completed(self) -> bool:
        """Whether the target finished and answered, rightly or wrongly: only then is the execution reused."""
        return self.failure_class is None


class TargetFailure(Exception):
    """An attempt that did not complete: raised by adapters, turned into a row by the engine.

    `raw` keeps what there is of the output. `retryable` is whether another attempt may help.
    """

    def __init__(
        self,
        failure: FailureClass,
        message: str,
        *,
        retryable: bool = False,
        status: int | None = None,
        retry_after_s: float | None = None,
        raw: RawExecution | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retryable = retryable
        self.status = status
        self.retry_after_s = retry_after_s
        self.raw = raw
