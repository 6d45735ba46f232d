"""The key of a data folder: a random file, with which values that must not be stored are hashed to tell them apart.

A plain hash of a short value is found by trying values. Without this file nobody can try.
"""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from eval_pipeline.fingerprints import canonical_json

KEY_FILE = "identity.key"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key of a data folder, made when it is needed first."""

    folder: Path

    def digest(self, value: object) -> str:
        """Return the keyed hash of a JSON value."""
        return hmac.new(self._key(), canonical_json(value), "sha256").hexdigest()

    def _key(self) -> bytes:
        try:
            return _read(self.folder / KEY_FILE) or _make(self.folder)
        except OSError:
            return _of_this_process()  # nothing can be stored there either


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _make(folder: Path) -> bytes:
    """Write a new key, whole or not at all; of several processes one wins."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, scrap = tempfile.mkstemp(dir=folder, prefix=f".{KEY_FILE}.")  # 0600
    path = folder / KEY_FILE
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
        try:
            os.link(scrap, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            os.replace(scrap, path)  # noqa: PTH105 — as above
    finally:
        Path(scrap).unlink(missing_ok=True)
    return path.read_bytes()


@cache
def _of_this_process() -> bytes:
    return secrets.token_bytes(_BYTES)
