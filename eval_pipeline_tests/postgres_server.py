"""A real PostgreSQL for tests: a server of its own on 127.0.0.1, which a test may kill and start again.

It is Debian's package (or any other whose programs are found); `root` may not run it, so it then runs as `postgres`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

PASSWORD = "geheim-7Qx/&"
USER = "pipeline"
ACCOUNT = "postgres"
_WAIT_S = "60"


def programs() -> Path | None:
    """Return the folder of `initdb` and `pg_ctl`, None where PostgreSQL is not installed."""
    named = shutil.which("initdb")
    folders = [Path(named).parent] if named else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").is_file()), None)


@dataclass
class PostgresServer:
    """A server with one superuser, who has a password."""

    folder: Path
    port: int
    _names: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start it, again after `kill`."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run(
            "pg_ctl",
            "-D",
            f"{self.folder}/data",
            "-o",
            options,
            "-l",
            f"{self.folder}/log",
            "-t",
            _WAIT_S,
            "-w",
            "start",
        )

    def stop(self) -> None:
        """End it at once, as a machine that is turned off cleanly."""
        self._control("stop", "-m", "immediate")

    def kill(self) -> None:
        """Kill it and everything that it started."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(
            ["pgrep", "-P", str(first)], capture_output=True, text=True, check=False
        ).stdout.split()
        for pid in (first, *map(int, children)):
            with_no_process(pid)
        (self.folder / "data" / "postmaster.pid").unlink()

    def database(self, name: str) -> str:
        """Make an empty database; return its URL."""
        psycopg2 = pytest.importorskip("psycopg2", reason="the extra `postgres` is not installed")
        connection = psycopg2.connect(self.url("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'CREATE DATABASE "{name}"')
        connection.close()
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
        self._run("initdb", "-D", f"{self.folder}/data", "-U", USER, "--no-sync", "--no-locale", "-E", "UTF8", *secret)

    def _run(self, program: str, *arguments: str) -> None:
        bin_ = programs()
        assert bin_ is not None, "asked before by `postgres_server`"
        with tempfile.TemporaryFile("w+") as said:  # no pipe: a server that goes on would keep it open
            account = ACCOUNT if os.geteuid() == 0 else None
            ended = subprocess.run(
                [str(bin_ / program), *arguments], stdout=said, stderr=said, cwd="/", user=account, check=False
            )
            said.seek(0)
            assert ended.returncode == 0, said.read()

    def _control(self, action: str, *arguments: str) -> None:
        self._run("pg_ctl", action, "-D", f"{self.folder}/data", "-t", _WAIT_S, "-w", *arguments)


def with_no_process(pid: int) -> None:
    """Kill a process that may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server for the time of a block; skip the test where there is none."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
