"""Addresses of what the page of `eval-pipeline view` shows, for the end of a run and for Dagster's metadata."""

from __future__ import annotations

import os
from urllib.parse import urlencode

PORT = 3100
"""Where `eval-pipeline view` listens unless another port is named."""
VARIABLE = "EVAL_PIPELINE_VIEW_URL"
"""Names another address, such as that of a proxy."""


def page_url(page: str = "", **parameters: str) -> str:
    """Return the address of a page with its parameters; that of the board without a page."""
    base = os.environ.get(VARIABLE) or f"http://127.0.0.1:{PORT}/"
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{base.rstrip('/')}/" + (f"#{page}{query}" if page else "")
