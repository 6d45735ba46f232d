"""Redaction: secrets are found in a configuration by their keys, and replaced in values, texts and files.

A secret shorter than eight characters (`api_key: none`) is not replaced in answers: it may be an ordinary word, and
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
    """Return `value` with the values of secret-looking keys replaced by `***`."""
    if isinstance(value, Mapping):
        return {key: REDACTED if _is_secret(key, item) else redacted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item) for item in value]
    return value


def secrets_in(value: Any) -> list[str]:
    """Return the secret texts in settings, which must never be stored. Of `Bearer abc`, `abc` is a secret, too."""
    if isinstance(value, Mapping):
        secrets = [item for key, item in value.items() if _is_secret(key, item)]
        secrets += [_SCHEME.sub("", item, count=1) for item in secrets if _SCHEME.match(item)]
        return secrets + [secret for item in value.values() if not isinstance(item, str) for secret in secrets_in(item)]
    if isinstance(value, list):
        return [secret for item in value for secret in secrets_in(item)]
    return []


def redact_values(value: Any, secrets: Sequence[str]) -> Any:
    """Return `value` with each of `secrets` in its texts replaced by `***`."""
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
    """Return the secrets to replace in answers, longest first: a shorter one may be part of a longer one."""
    return sorted((secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True)


def redact(value: Any, secrets: Sequence[str]) -> Any:
    """Return a JSON value with every secret replaced, also in keys; the same object when it contains none."""
    text = to_json(value)  # one search of the text instead of a walk: most values contain no secret
    present = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET and _escaped(secret) in text]
    return _redacted_json(orjson.loads(text), present) if present else value


def redact_text(text: str, secrets: Sequence[str]) -> str:
    """Return a text with each of `secrets` replaced."""
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
    """Return a secret as it appears in JSON text."""
    return to_json(secret)[1:-1]
