"""The tool implementation `acme-louder`: what carries out the calls of a model's tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval_pipeline import Field, FieldCursor, FieldTable, Kind, ToolAnswer, ToolError, ToolPlace, ToolRequest


class Louder:
    """Return the argument `text` in capitals."""

    settings: ClassVar[FieldTable] = FieldTable(
        "acme-louder", (Field("marks", Kind("a whole number", {"type": "integer"}), "How many exclamation marks."),)
    )

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        self._marks = config.get("marks") or 0

    def content(self) -> Mapping[str, str]:
        """Return no fingerprints: the answer depends on no files."""
        return {}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        """Carry out a call."""
        if "text" not in request.named:
            raise ToolError("there is no text")
        return ToolAnswer(output={"text": str(request.named["text"]).upper() + "!" * self._marks})

    async def close(self) -> None:
        """Hold nothing open."""
