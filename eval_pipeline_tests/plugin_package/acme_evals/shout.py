"""The adapter `shout`: a target that answers with the prompt in capitals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from eval_pipeline import Call, InputError, RawExecution, Runner, SourceLocation


class Shout:
    """Answer with the prompt in capitals. Setting: `marks`, how many exclamation marks follow."""

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"marks"})
    default_timeout_s: ClassVar[float] = 10.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        self._marks = runner.settings.get("marks", 1)
        if not isinstance(self._marks, int):
            raise InputError(f"expected a number, got {self._marks!r}", SourceLocation(field="marks"))

    def content(self) -> Mapping[str, str]:
        """Return no fingerprints: the answer depends on no files."""
        return {}

    async def execute(self, call: Call) -> RawExecution:
        """Answer one attempt."""
        text = call.plan.case.input[-1].text.upper() + "!" * self._marks
        return RawExecution(format="loud-text", payload={"loud": text})

    async def close(self) -> None:
        """Hold nothing open."""
