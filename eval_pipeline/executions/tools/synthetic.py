"""`synthetic`: nothing carries out the calls of a tool, and every result says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval_pipeline.executions.tools import TOOLS, ToolAnswer, ToolPlace, ToolRequest
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import MAPPING, Field, FieldTable

SIMULATED = {"status": "simulated", "message": "Tool not executed: this is a test without the real tool."}


@TOOLS.register("synthetic")
class Synthetic:
    """Answer every call with the same result: `response`, or that the call was only simulated."""

    settings: ClassVar[FieldTable] = FieldTable(
        "synthetic tool",
        (Field("response", MAPPING, "The result of every call (default: that it was only simulated)."),),
        "Answers every call alike.",
    )

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        self._response = config.get("response") or SIMULATED

    def content(self) -> Mapping[str, str]:
        return {}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        return ToolAnswer(output=self._response)

    async def close(self) -> None:
        return None
