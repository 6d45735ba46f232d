"""A real PostgreSQL for tests: a server of its own on 127.0.0.1, which a test may kill and start again.

It is Debian's package (or any other whose programs are found); `root` may not run it, so it then runs as `postgres`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PASSWORD = "geheim-7Qx/&"
USER = "pipeline"
ACCOUNT = "postgres"
_WAIT_S = "60"


def why_no_server() -> str | None:
    """Return what is missing for a server, None when nothing is."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    if importlib.util.find_spec("psycopg2") is None:
        return "psycopg2 is not installed (pip install '.[postgres]')"
    return None


def programs() -> Path | None:
    """Return the folder of `initdb` and `pg_ctl`, None where PostgreSQL is not installed."""
    named = shutil.which("initdb")
    folders = [Path(named).parent] if named else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").is_file()), None)


@dataclass(frozen=True)
class PostgresServer:
    """A server with one superuser, who has a password."""

    folder: Path
    port: int

    def start(self, within_s: float = 0.0) -> None:
        """Start it, again after `kill`: processes of a killed server may keep its memory for a while."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        start = ("start", "-D", self._data, "-o", options, "-l", f"{self.folder}/log", "-t", _WAIT_S, "-w")
        deadline = time.monotonic() + within_s
        while True:
            try:
                self._run("pg_ctl", *start)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        """End it at once, as a machine that is turned off cleanly."""
        self._run("pg_ctl", "stop", "-D", self._data, "-t", _WAIT_S, "-w", "-m", "immediate")

    def kill(self) -> None:
        """Kill it and everything that it started."""
        lock = self.folder / "data" / "postmaster.pid"
        first = lock.read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", first], capture_output=True, text=True, check=False).stdout.split()
        for pid in (first, *children):
            with suppress(ProcessLookupError):  # it may be gone already
                os.kill(int(pid), signal.SIGKILL)
        lock.unlink()

    def sql(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of the superuser."""
        connection = importlib.import_module("psycopg2").connect(self.url(database))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return [] if cursor.description is None else list(cursor.fetchall())
        finally:
            connection.close()

    def database(self, name: str) -> str:
        """Make an empty database; return its URL."""
        self.sql("postgres", f'CREATE DATABASE "{name}"')
        return self.url(name)

    def url(self, database: str) -> str:
        """Return the address of a database, with the user and the password."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{database}"

    def make(self) -> None:
        """Make the files of the server."""
        (self.folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(self.folder, ACCOUNT)
            shutil.chown(self.folder / "password", ACCOUNT)
        secret = ("-A", "scram-sha-256", "--pwfile", f"{self.folder}/password")
        self._run("initdb", "-D", self._data, "-U", USER, "--no-sync", "--no-locale", "-E", "UTF8", *secret)

    @property
    def _data(self) -> str:
        return f"{self.folder}/data"

    def _run(self, program: str, *arguments: str) -> None:
        bin_ = programs()
        assert bin_ is not None, "checked by `postgres_server`"
        with tempfile.TemporaryFile("w+") as output:  # no pipe: a server that goes on would keep it open
            account: dict[str, Any] = {"user": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
            command = [str(bin_ / program), *arguments]
            ended = subprocess.run(command, stdout=output, stderr=output, cwd="/", check=False, **account)
            output.seek(0)
            assert ended.returncode == 0, output.read()


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server for the time of a block; skip the test where there is none."""
    if (reason := why_no_server()) is not None:
        pytest.skip(reason)
    # The folder of pytest is of its user alone, and the server may be another one.
    with tempfile.TemporaryDirectory(
        prefix="eval-pipeline-postgres-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o755)
        server = PostgresServer(Path(folder), _free_port())
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _account() -> pwd.struct_passwd | None:
    with suppress(KeyError):
        return pwd.getpwnam(ACCOUNT)
    return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
