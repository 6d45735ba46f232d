"""A PostgreSQL server of the tests' own on 127.0.0.1, and why there is none where it cannot run."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.lake_engine import extension_file

PASSWORD = f"pw-{uuid.uuid4().hex}"
USER = "owner"


def why_not() -> str | None:
    """Return what is missing for a shared warehouse, None when nothing is."""
    if _programs() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() == 0 and _server_user() is None:
        return "PostgreSQL does not run as root, and there is no user postgres"
    if importlib.util.find_spec("psycopg2") is None:
        return "psycopg2 is not installed (pip install '.[team]')"
    try:
        extension_file("ducklake"), extension_file("postgres_scanner")
    except WarehouseError as error:
        return str(error)
    return None


@dataclass
class Server:
    """A server that runs; `folder` has its data."""

    folder: Path
    port: int

    def url(self, database: str, data_path: Path) -> str:
        """Return the URL of a warehouse; the password is in the environment."""
        return f"ducklake:postgres:host=127.0.0.1 port={self.port} user={USER} dbname={database} data_path={data_path}"

    def new_database(self) -> str:
        """Create a database; return its name."""
        name = f"lake_{uuid.uuid4().hex[:12]}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        return name

    def sql(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement of the owner."""
        driver = importlib.import_module("psycopg2")
        connection = driver.connect(host="127.0.0.1", port=self.port, user=USER, dbname=database)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return [] if cursor.description is None else list(cursor.fetchall())
        finally:
            connection.close()

    def start(self, within_s: float = 0.0) -> None:
        """Start; processes of a killed server may keep its memory for a while."""
        options = f"-p {self.port} -h 127.0.0.1 -k '' -c fsync=off"
        deadline = time.monotonic() + within_s
        while True:
            try:
                _run("pg_ctl", "-D", self._data, "-w", "-o", options, "-l", str(self.folder / "log"), "start")
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self) -> None:
        _run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def kill(self) -> None:
        """Kill the server with `kill -9`."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)


@contextmanager
def running_server() -> Iterator[Server]:
    """Yield a server with an owner that needs a password; PGPASSWORD of this process has it."""
    # The folder of pytest is of its user alone, and the server may be another one.
    folder = Path(mkdtemp(prefix="eval-pipeline-postgres-", dir="/tmp"))
    server = Server(folder, _free_port())
    owner = _server_user()
    if owner is not None:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    password = folder / "password"
    password.write_text(PASSWORD)
    password.chmod(0o644)
    try:
        _run("initdb", "-D", str(folder / "data"), "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-N")
        password.unlink()
        server.start()
        os.environ["PGPASSWORD"] = PASSWORD  # the same for every server of this process
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(program: str, *arguments: str) -> None:
    owner = _server_user()
    account: dict[str, Any] = {} if owner is None else {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    subprocess.run([_program(program), *arguments], check=True, stdout=subprocess.DEVNULL, cwd="/", **account)


def _server_user() -> pwd.struct_passwd | None:
    """Return whom the server runs as: postgres where this is root, else this user (None)."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def _program(name: str) -> str:
    folder = _programs()
    assert folder is not None
    return str(folder / name)


def _programs() -> Path | None:
    found = shutil.which("pg_ctl")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    return Path(found).resolve().parent if found else next(iter(folders), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
