"""Which texts of a configuration are secret, by the key they stand under, and the same configuration without them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

REDACTED = "***"
SECRET_KEY = re.compile(
    r"((api|access|private)[-_]?key|token|secret|password|passwd|passphrase|authorization|credential|cookie|[-_]pat)s?\Z",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(bearer|basic|token)\s+", re.IGNORECASE)
_TOKEN_COUNTS = frozenset({"max_tokens", "max_output_tokens", "max_completion_tokens"})


def redacted(value: Any) -> Any:
    """`value` with everything under a secret-looking key replaced by `***`."""
    if isinstance(value, Mapping):
        return {key: REDACTED if _is_secret(key, item) else redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    return value


def secrets_in(value: Any) -> list[str]:
    """The secret texts in settings: what must never be stored. Of `Bearer abc`, `abc` alone is one, too."""
    if isinstance(value, Mapping):
        found = [item for key, item in value.items() if _is_secret(key, item)]
        found += [_SCHEME.sub("", item, count=1) for item in found if _SCHEME.match(item)]
        return found + [secret for item in value.values() if not isinstance(item, str) for secret in secrets_in(item)]
    if isinstance(value, list):
        return [secret for item in value for secret in secrets_in(item)]
    return []


def redact_values(value: Any, secrets: Sequence[str]) -> Any:
    """`value` with each of `secrets` replaced by `***` wherever its texts hold one."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, Mapping):
        return {key: redact_values(item, secrets) for key, item in value.items()}
    return [redact_values(item, secrets) for item in value] if isinstance(value, list) else value


def _is_secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and key not in _TOKEN_COUNTS and bool(SECRET_KEY.search(key))
