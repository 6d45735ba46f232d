"""`vertex`: Google's generateContent as Vertex AI serves it, with the access tokens of Google Cloud."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.llm.authorization import Authorization
from eval_pipeline.llm.google_tokens import GoogleTokens, default_credentials
from eval_pipeline.llm.model import Endpoint
from eval_pipeline.llm.wires import WIRES, headers_of, in_path, without_version
from eval_pipeline.llm.wires.gemini import Gemini


@WIRES.register("vertex")
class Vertex(Gemini):
    """Gemini models of a Google Cloud `project` in a `region` (default: `global`). `credentials` names a file of
    credentials (default: Google's Application Default Credentials); `api_key` is an access token instead of one.
    """

    name: ClassVar[str] = "vertex"
    cloud_settings: ClassVar[frozenset[str]] = frozenset({"region", "project", "credentials"})

    def __init__(self, endpoint: Endpoint) -> None:
        without_version(endpoint, self.name)
        project, region = endpoint.cloud.project, endpoint.cloud.region or "global"
        if not project:
            raise InputError("Vertex needs the id of your Google Cloud project", SourceLocation(field="project"))
        host = "aiplatform.googleapis.com" if region == "global" else f"{in_path(region)}-aiplatform.googleapis.com"
        root = (endpoint.base_url or f"https://{host}").rstrip("/")
        path = f"/v1/projects/{in_path(project)}/locations/{in_path(region)}/publishers/google"
        super().__init__(Endpoint(base_url=root + path))
        self.headers: Mapping[str, str] = headers_of(endpoint)
        self.authorization: Authorization | None = None if endpoint.api_key else _tokens(endpoint.cloud.credentials)


def _tokens(credentials: str | None) -> GoogleTokens:
    return GoogleTokens(Path(credentials).expanduser() if credentials else default_credentials(os.environ))
