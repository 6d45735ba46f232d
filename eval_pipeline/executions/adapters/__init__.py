"""Adapters: one file per kind of runner. The seam is one method, `execute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from eval_pipeline.executions.model import Plan, RawExecution, Runner
from eval_pipeline.executions.process import Watch
from eval_pipeline.parsing.tables import ANY, TEXT, Field, FieldTable
from eval_pipeline.plugins import Registry
from eval_pipeline.suites.model import Message

MODEL = Field("model", TEXT, "The name of the model, for leaderboards and prices.")
"""A setting of adapters that do not choose the model themselves."""


Start = Callable[[Sequence[str], Mapping[str, str]], tuple[list[str], dict[str, str]]]
"""The words and the variables of a program → those that it is started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt of an adapter: attempt number (from 1), time limit, and a folder for files.

    `files` returns the execution's folder; the attempt's own `folder` below it is created on first use.
    `turn` is the number of the turn in a conversation (from 1). `workspace` is the target's working directory, if
    the case has a workspace. `environment` is what programs begin with (None: that of this process). What an adapter
    puts into `unfinished` is there again when the same turn is tried again, so that it can go on with it.
    `save` makes `unfinished`, which has to be JSON, durable: a killed process goes on with it. `context` is what the
    user of a conversation knows, for tools. `seed` is for sampling, where the target has a seed and none is configured.
    `start` changes what a program is started with.
    `said` are the messages of this turn alone, the last of the case's input; `watch` looks at a program while it runs.
    """

    plan: Plan
    attempt: int
    timeout_s: float
    files: Callable[[], Path]
    workspace: Path | None = None
    environment: Mapping[str, str] | None = None
    turn: int | None = None
    unfinished: dict[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] | None = None
    save: Callable[[], None] = lambda: None
    seed: int | None = None
    start: Start | None = None
    said: tuple[Message, ...] = ()
    watch: Watch | None = None

    @property
    def folder(self) -> Path:
        """The attempt's own folder; it need not exist yet."""
        return self.files() / f"attempt-{self.attempt}"


class Adapter(Protocol):
    """Drives one runner. An adapter whose `execute` is a plain function is called in a thread.

    `version` is part of a plan's identity: increment it when the same settings change their meaning. `settings` are the
    fields of a runner of this adapter beside those of every runner; others are refused. `retries_timeouts` is whether a
    timed-out attempt is worth a retry: for a network call it is, for an agent it is not.

    An adapter may have `reports_cost`, a truth value or a function of the runner: True when a call without a reported
    cost is free, False when no cost is ever reported. Without it, that turns out when the target answers. It may have
    `dependencies()`, which returns fingerprints of what answers depend on beside `content`, by name (imported modules,
    versions of programs), and `reads`, the names of the fields of a case, beyond its input, that the target receives;
    and `declared_tools(runner)`, the tools of a runner whose calls canned answers of cases answer. Both are part of a
    plan's identity. `missing_program()` names what it cannot start here, in a sentence, `missing_login()` why its
    provider would refuse it, `hidden_folder()` what of its folders a sandbox hides; `folder_without_workspace(runner)`
    is the folder in which a coding agent works for a case without a workspace, if nobody named it. One whose
    `keeps_time` is true ends a call by its `timeout_s` itself. One whose `keeps_state` is true remembers earlier turns
    by itself: its conversation begins anew after the process was killed.
    """

    version: ClassVar[str]
    settings: ClassVar[FieldTable]
    default_timeout_s: ClassVar[float]
    retries_timeouts: ClassVar[bool]

    def __init__(self, runner: Runner) -> None:
        """Validate the runner's settings. Raises InputError."""

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of the files that answers depend on (a program, a recording), by name."""

    async def execute(self, call: Call) -> RawExecution:
        """Return the target's answer. Raises TargetFailure when the attempt did not complete."""

    async def close(self) -> None:
        """Release connections and child processes."""


ADAPTERS: Registry[type[Adapter]] = Registry(
    "adapter",
    folder="eval_pipeline.executions.adapters",
    entry_point_group="eval_pipeline.adapters",
    requires=("version", "settings", "default_timeout_s", "retries_timeouts", "content", "execute", "close"),
)


def settings_of(adapter: type[Adapter]) -> FieldTable:
    """Return the fields of an adapter's settings. For a plug-in that declares names only, any value is allowed."""
    settings: FieldTable | frozenset[str] = adapter.settings
    if isinstance(settings, FieldTable):
        return settings
    return FieldTable(adapter.__name__, tuple(Field(name, ANY, "") for name in sorted(settings)))
