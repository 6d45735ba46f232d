"""Values of this room: runner, plan, execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from eval_pipeline.errors import InputError
from eval_pipeline.failures import DEFAULT_OUTPUT_MB, WORKSPACE, WORKSPACE_BOOTSTRAP, FailureClass
from eval_pipeline.suites.model import Case

JsonMap = Mapping[str, Any]
Isolation = Literal["process", "in-process"]
"""Where functions of users are called: in a worker process, or in the process of the sweep."""
ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)
RunnerAddress = tuple[str, Path, Path | None]
DEFAULT_CONCURRENCY = 10
"""Attempts of a runner at the same time where nothing is set, and its adapter has no `usual_concurrency`."""
"""The default number of concurrent attempts of a runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Number and delays of retries.

    The delay before retry n (from 0) is `initial_delay_s · factor^n`, at most `max_delay_s`, spread evenly over [1 -
    jitter, 1 + jitter]. A provider's `Retry-After` is the minimum delay, up to `max_retry_after_s`. `statuses` are the
    HTTP statuses to retry (None: the adapter decides).
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

    `settings` are the adapter's settings with placeholders resolved; `public_settings` are the same without secrets,
    used for identity and storage. Relative paths in settings are resolved against `folder`; `unset` are environment
    names in the entry that have no value. `grader` names the default grader of its answers; `fallbacks` are the runners
    to try, in order, after every attempt of this one failed. `grader_payload` is what grading programs read as the
    `output` of its answers. `missing_grader` is why its grader cannot grade: no runner
    has the name. That matters only where an evaluator needs it. `max_output_mb` is the most that is read of one
    answer (None: the default). `place` is the folder of the suite that it answers: the runners that it names are those
    of that suite. With `runs_in_place` its programs run there. `isolation` is where a function of the user is called
    (None: the default). `headers_digest` is a keyed hash of headers that are hidden, but tell one system from another.
    `simulator` names the runner that plays the user in its conversations. `stands_for` names the runner whose cases and
    hooks it has (None: its own); with `in_sweeps` it is of the matrices of these sweeps, and takes part in them alone.
    `arm_of` names the runner that it is an `arm` of, the one at `arm_place`, from 0.
    """

    name: str
    adapter: str
    settings: JsonMap = field(default_factory=dict, repr=False)
    public_settings: JsonMap = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    folder: Path = Path()
    timeout_s: float | None = None
    concurrency: int | None = None
    max_output_mb: float | None = None
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    prices: JsonMap = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    unset: tuple[str, ...] = ()
    grader: str | None = None
    grader_payload: str | None = None
    missing_grader: InputError | None = field(default=None, compare=False)
    fallbacks: tuple[str, ...] = ()
    place: Path | None = None
    runs_in_place: bool = False
    isolation: Isolation | None = None
    headers_digest: str | None = None
    simulator: str | None = None
    stands_for: str | None = None
    in_sweeps: tuple[str, ...] = ()
    arm_of: str | None = None
    arm: str | None = None
    arm_place: int | None = None

    @property
    def address(self) -> RunnerAddress:
        """Where the runner is configured and where its programs run: equal for the same runner of several suites."""
        return self.name, self.folder, self.place if self.runs_in_place else None

    @property
    def base(self) -> Path:
        """The folder that its programs run in."""
        return self.place if self.runs_in_place and self.place is not None else self.folder

    @property
    def model(self) -> str | None:
        """The model that the settings name, or None."""
        model = self.settings.get("model")
        return model if isinstance(model, str) else None

    @property
    def max_output_bytes(self) -> int:
        """The most bytes that are read of one response, output stream or output file."""
        return int((self.max_output_mb or DEFAULT_OUTPUT_MB) * 1_000_000)


RunnerNamed = Callable[[str, Path | None], Runner]
"""Returns the runner of a name, for a suite in a folder (None: for the project). Raises UnknownName."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One plan to execute: case × runner × repetition (from 1), with its identity `key`.

    `earlier_key` is the key by which an older version of this program stored the same content, None where it is `key`.
    `after` are the keys of plans that must be settled first: those of the cases it depends on (same repetition).
    `seed` is that of sampling, where the target has one.
    """

    suite: str
    case: Case
    runner: Runner
    repetition: int
    key: str
    after: tuple[str, ...] = ()
    earlier_key: str | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceTrace:
    """The record of an execution's workspace.

    `path` is the folder as the target left it, while graders read it (None: removed); `kept` is whether it stays, and
    `place` where.
    `changes` is the unified diff between the start and the end of the session (None: unknown). `hooks` maps each hook
    to its output. `filled_ns` is when the copy of its template was complete (None: not known).
    """

    path: Path | None = None
    place: Path | None = None
    kept: bool = False
    changes: str | None = None
    hooks: JsonMap = field(default_factory=dict)
    filled_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RawExecution:
    """The result of an adapter, in one form for all adapters.

    `format` names the normalizer that reads it. `payload` is JSON-like; `files` are large outputs on disk, by role
    (`stdout`, `stderr`, …). `duration_ms` is the target's own time when it reports one.
    """

    format: str
    payload: JsonMap = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    exit_code: int | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a plan: start time (UTC), duration, and the failure, if any. `runner` names the fallback that made
    it; None: the runner itself did."""

    started_at: datetime
    duration_ms: float
    failure_class: str | None = None
    error: str | None = None
    status: int | None = None
    retry_after_s: float | None = None
    runner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file beside the tables: its role, path relative to the artifacts folder, size in bytes and SHA-256."""

    role: str
    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A plan carried out: its attempts, the last one's result, and the failure, if any.

    `duration_ms` is the last attempt's; `failure_class` is None when the target finished. `answered_by` names the
    fallback runner that answered instead.
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
    def calls(self) -> int:
        """How many attempts called the target."""
        return len(self.calling)

    @property
    def calling(self) -> list[Attempt]:
        """The attempts that called the target; one whose workspace could not be prepared did not."""
        unprepared = (WORKSPACE.id, WORKSPACE_BOOTSTRAP.id)
        return [attempt for attempt in self.attempts if attempt.failure_class not in unprepared]

    @property
    def completed(self) -> bool:
        """Whether the target finished and answered, rightly or wrongly. Only completed executions are reused."""
        return self.failure_class is None


class TargetFailure(Exception):
    """An attempt that did not complete: raised by adapters, turned into a row by the engine.

    `raw` holds the partial output. `retryable` is whether another attempt may succeed; `closes_runner` whether every
    other plan of the runner would fail in the same way. `workspace` is the record of one that could not be prepared.
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
        closes_runner: bool = False,
        workspace: WorkspaceTrace | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.retryable = retryable
        self.status = status
        self.retry_after_s = retry_after_s
        self.raw = raw
        self.closes_runner = closes_runner
        self.workspace = workspace
