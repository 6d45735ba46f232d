"""Tools of a model: one file per kind of thing that carries out a call. The seam is one method, `answer`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from eval_pipeline.executions.canned_answers import CannedAnswers
from eval_pipeline.executions.model import Isolation
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.plugins import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """One call of a tool: its arguments (the text, where the model wrote no JSON), what the user of the conversation
    knows, the state before the call, the seconds that it may take, and the canned answers of the case."""

    tool: str
    arguments: Any = None
    context: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    timeout_s: float = 30.0
    canned: CannedAnswers = field(default_factory=CannedAnswers)

    @property
    def named(self) -> Mapping[str, Any]:
        """The arguments by name; none where they are no object."""
        return self.arguments if isinstance(self.arguments, Mapping) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The result of a call, as JSON. `state` is the whole state after it (None: unchanged); `unmatched` is whether no
    canned answer was for this call."""

    output: Any
    is_error: bool = False
    state: Mapping[str, Any] | None = None
    unmatched: bool = False


class ToolError(Exception):
    """A call that failed: the model sees the message as the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlace:
    """Where a tool is declared: the folder that its files are in, and where functions of the user are called."""

    folder: Path = Path()
    isolation: Isolation = "process"


class Tool(Protocol):
    """Carries out the calls of one declared tool.

    `settings` are the fields of its `implementation` beside `type`. What `answer` raises is an error that the model
    sees. `content` returns fingerprints of the files that its answers depend on, by name. One with a true `keeps_state`
    remembers earlier calls: after a kill, its conversation begins anew.
    """

    settings: ClassVar[FieldTable]

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        """Validate the settings. Raises InputError."""

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of files, by name."""

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        """Return the result of a call."""

    async def close(self) -> None:
        """Release connections and child processes."""


TOOLS: Registry[type[Tool]] = Registry(
    "tool implementation",
    folder="eval_pipeline.executions.tools",
    entry_point_group="eval_pipeline.tools",
    requires=("settings", "content", "answer", "close"),
)


def with_state(value: Any) -> ToolAnswer:
    """Return the answer in `{result, state}`. Raises ToolError for anything else."""
    if not isinstance(value, Mapping) or not set(value) <= {"result", "state"} or "result" not in value:
        raise ToolError("expected an object with result, and state where it changed")
    state = value.get("state")
    if state is not None and not isinstance(state, Mapping):
        raise ToolError("the state has to be an object")
    return ToolAnswer(output=value["result"], state=state)
