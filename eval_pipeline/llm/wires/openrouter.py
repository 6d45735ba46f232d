"""`openrouter`: chat completions with OpenRouter's own fields for thinking and cost."""

from __future__ import annotations

from typing import Any, ClassVar

from eval_pipeline.llm.model import Options
from eval_pipeline.llm.reading import merged
from eval_pipeline.llm.wires import WIRES, Places, at
from eval_pipeline.llm.wires.openai import OpenAI


def _thinking(tokens: Any) -> dict[str, Any]:
    return {"reasoning": {"max_tokens": tokens} if tokens else {"enabled": False}}


@WIRES.register("openrouter")
class OpenRouter(OpenAI):
    """Like `openai`; `thinking_budget` and `reasoning_effort` go below `reasoning`, and the cost is requested."""

    name: ClassVar[str] = "openrouter"
    base_url: ClassVar[str] = "https://openrouter.ai/api/v1"

    @property
    def places(self) -> Places:
        return {
            **super().places,
            "thinking_budget": _thinking,
            "reasoning_effort": at("reasoning", "effort"),
        }

    def fixed(self, options: Options) -> dict[str, Any]:
        return merged({"usage": {"include": True}}, super().fixed(options))
