"""The wire `acme-chat`: chat completions that name the client."""

from __future__ import annotations

from typing import ClassVar

from eval_pipeline import Endpoint, OpenAI


class AcmeChat(OpenAI):
    """Like `openai`, with the header that Acme's gateway requires."""

    name: ClassVar[str] = "acme-chat"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.headers = {**self.headers, "x-acme-client": "evals"}
