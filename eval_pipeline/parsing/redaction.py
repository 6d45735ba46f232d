"""Secrets: which texts of a configuration are secret, by their keys, and values, texts and files without them.

A secret shorter than eight characters (`api_key: none`) is not looked for in answers: it is a word like any other, and
replacing it would change answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.fingerprints import to_json

REDACTED = "***"
SHORTEST_SECRET = 8
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
    """The secret texts in settings, which must never be stored. Of `Bearer abc`, `abc` alone is one, too."""
    if isinstance(value, Mapping):
        secrets = [item for key, item in value.items() if _is_secret(key, item)]
        secrets += [_SCHEME.sub("", item, count=1) for item in secrets if _SCHEME.match(item)]
        return secrets + [secret for item in value.values() if not isinstance(item, str) for secret in secrets_in(item)]
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


def longest_first(secrets: Sequence[str]) -> list[str]:
    """The secrets to look for in answers, the longest first: one may be part of another."""
    return sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)


def redact(value: Any, secrets: Sequence[str]) -> Any:
    """A value of JSON types with every secret in it replaced, keys included; the very same value when it holds none."""
    text = to_json(value)
    present = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET and _escaped(secret) in text]
    return _redacted_json(orjson.loads(text), present) if present else value


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """A text with every one of `secrets` replaced."""
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return text


def redact_files(folder: Path, secrets: Sequence[str]) -> None:
    """Replace every secret in the files below a folder."""
    sought = [secret.encode(errors="surrogatepass") for secret in longest_first(secrets)]
    for path in folder.rglob("*") if sought else ():
        if path.is_file() and not path.is_symlink():
            _redact_file(path, sought)


def _redact_file(path: Path, secrets: Sequence[bytes]) -> None:
    content = path.read_bytes()
    without = content
    for secret in secrets:
        without = without.replace(secret, REDACTED.encode())
    if without != content:
        path.write_bytes(without)


def _redacted_json(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return redact_text(value, secrets)
    if isinstance(value, dict):
        return {redact_text(key, secrets): _redacted_json(item, secrets) for key, item in value.items()}
    return [_redacted_json(item, secrets) for item in value] if isinstance(value, list) else value


def _escaped(secret: str) -> bytes:
    """A secret as JSON text holds it."""
    return to_json(secret)[1:-1]
