"""Adapters: one file per kind of runner. The seam is one method, `execute`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from eval_pipeline.executions.model import Plan, RawExecution, Runner
from eval_pipeline.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One attempt as an adapter is asked for it: attempt number (from 1), time limit, and a folder it may fill.

    `files` is where the execution keeps its files; the attempt's own `folder` below it is made by whoever writes there.
    `workspace` is the folder that the target is to work in, when its case asks for one.
    """

    plan: Plan
    attempt: int
    timeout_s: float
    files: Callable[[], Path]
    workspace: Path | None = None

    @property
    def folder(self) -> Path:
        """The attempt's own folder; it need not exist yet."""
        return self.files() / f"attempt-{self.attempt}"


class Adapter(Protocol):
    """Drives one runner. An adapter whose `execute` is a plain function is called in a thread.

    `version` is part of a cell's identity: raise it when the same settings come to mean something else.
    `retries_timeouts` is whether an attempt that ran out of time is worth repeating: a network call is, an agent is
    not.
    """

    version: ClassVar[str]
    settings: ClassVar[frozenset[str]]
    default_timeout_s: ClassVar[float]
    retries_timeouts: ClassVar[bool]

    def __init__(self, runner: Runner) -> None:
        """Checks the runner's settings; raises InputError."""

    def content(self) -> Mapping[str, str]:
        """Fingerprints of files that the answers depend on (a program, a recording), by name."""

    async def execute(self, call: Call) -> RawExecution:
        """What the target answered; raises TargetFailure when the attempt did not complete."""

    async def close(self) -> None:
        """Lets go of connections and children."""


ADAPTERS: Registry[type[Adapter]] = Registry(
    "adapter", folder="eval_pipeline.executions.adapters", entry_point_group="eval_pipeline.adapters"
)
