"""`mock`: the canned answers of the case carry out the calls of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from eval_pipeline.executions.canned_answers import merged
from eval_pipeline.executions.tools import TOOLS, ToolAnswer, ToolPlace, ToolRequest
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import FieldTable


@TOOLS.register("mock")
class Mock:
    """Give the canned answers of the case (`mocks`), in order, each once in a conversation."""

    settings: ClassVar[FieldTable] = FieldTable("mock tool", (), "Answers calls with the mocks of the case.")

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        pass

    def content(self) -> Mapping[str, str]:
        return {}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        canned = request.canned.take(request.tool, request.arguments)
        if canned is None:
            problem = request.canned.why_none(request.tool)
            return ToolAnswer(output={"error": problem}, is_error=True, unmatched=True)
        state = merged(request.state, canned.state) if canned.state is not None else None
        return ToolAnswer(output=canned.response, state=state)

    async def close(self) -> None:
        return None
