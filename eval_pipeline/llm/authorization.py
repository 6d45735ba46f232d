"""Authorization that no fixed header gives: a signature of each request, or a token that expires.

A wire that needs it has an `authorization`; the client adds its headers to each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import httpx


class Authorization(Protocol):
    """Makes the headers that authorize one request."""

    async def headers(self, url: httpx.URL, content: bytes) -> Mapping[str, str]:
        """Return the headers of a POST request of JSON. Raises ModelError."""
