"""The address of a lake: `postgres:KEY=VALUE …` or `postgres://USER@HOST/DATABASE?…`, and where its rows are kept.

The keys are those of libpq (host, port, dbname, user, sslmode, sslrootcert, passfile, service …), `data_path`, `files`
(where machines have files in common) and `lease_s`: how many seconds a machine keeps its pairs without a heartbeat.
An address has no password: project files, events, logs and errors show addresses.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from eval_pipeline.errors import InputError, nearest

_EXPECTED = "expected ducklake:postgres:dbname=NAME host=HOST data_path=FOLDER, or ducklake:postgres://USER@HOST/NAME?data_path=…"
LEASE_S = 60.0
"""How long a lease is valid without a heartbeat; a dead worker's pairs are free after it."""
_NO_PASSWORD = (
    "a warehouse URL has no password, since files and messages show it: set PGPASSWORD, or name a password file by"
    " `passfile` or PGPASSFILE"
)
_LIBPQ = """
    host hostaddr port dbname user service servicefile passfile options application_name fallback_application_name
    connect_timeout client_encoding channel_binding require_auth requirepeer target_session_attrs load_balance_hosts
    keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout replication
    sslmode sslnegotiation sslcompression sslcert sslkey sslcertmode sslrootcert sslcrl sslcrldir sslsni sslkeylogfile
    ssl_min_protocol_version ssl_max_protocol_version gssencmode gssdelegation gsslib krbsrvname"""
_KEYS = frozenset(["data_path", "files", "lease_s", *_LIBPQ.split()])
"""Keys of the URL: ours, and those of libpq, which refuses what it does not know itself."""
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """Where the catalog is (keys of libpq) and where the rows are; `data_path` None: as the catalog says."""

    catalog: tuple[tuple[str, str], ...]
    data_path: str | None
    lease_s: float = LEASE_S
    files: str | None = None
    """Where the machines have files in common (a folder or a URL), None: nowhere."""

    @property
    def connection(self) -> str:
        """The catalog as a connection string of libpq."""
        return " ".join(f"{key}={_quoted(value)}" for key, value in self.catalog)

    @property
    def is_remote(self) -> bool:
        """Whether the rows are in an object store."""
        return self.data_path is not None and bool(_SCHEME.match(self.data_path))


def lake_address(address: str, root: Path) -> LakeAddress:
    """Return an address in parts; a relative `data_path` starts at `root`. Raises InputError."""
    kind, _, rest = address.partition(":")
    if kind not in ("postgres", "postgresql") or not rest.strip("/"):
        raise InputError(f"{_EXPECTED}; got ducklake:{kind}:…" if kind else _EXPECTED)
    keys = _of_url(rest) if rest.startswith("//") else _of_words(rest)
    if {"password", "sslpassword"} & set(keys):
        raise InputError(_NO_PASSWORD)
    for key in sorted(keys.keys() - _KEYS):
        if (near := nearest(key, _KEYS)) is not None:
            raise InputError(f"the warehouse URL has no part '{key}'; did you mean '{near}'?")
    data_path, files = (_full_path(keys.pop(key), root) if key in keys else None for key in ("data_path", "files"))
    lease_s = _seconds(keys.pop("lease_s", str(LEASE_S)))
    return LakeAddress(tuple(keys.items()), data_path, lease_s, files)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 1 <= seconds <= 86_400:
        raise InputError(f"lease_s of the warehouse: expected 1 to 86400 seconds, got {text!r}")
    return seconds


def _of_words(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        raise InputError(f"{_EXPECTED}; a quotation mark is not closed") from None
    if not all("=" in word.lstrip("=") for word in words):
        raise InputError(f"{_EXPECTED}; a part is not KEY=VALUE")  # not shown: it may be a password
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _of_url(text: str) -> dict[str, str]:
    parts = urlsplit(f"postgres:{text}")
    if parts.password is not None:
        raise InputError(_NO_PASSWORD)
    try:
        port = parts.port
    except ValueError:
        raise InputError(f"{_EXPECTED}; the port is not a number") from None
    named = {"host": parts.hostname, "port": port, "user": parts.username, "dbname": parts.path.lstrip("/")}
    return {key: unquote(str(value)) for key, value in named.items() if value} | dict(parse_qsl(parts.query))


def _full_path(path: str, root: Path) -> str:
    """Return a folder as an absolute path with a slash at its end; the URL of an object store as it is."""
    text = path if _SCHEME.match(path) else str((root / Path(path).expanduser()).absolute())
    return text.rstrip("/") + "/"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return escaped if escaped and not re.search(r"\s", escaped) and escaped == value else f"'{escaped}'"
