"""Files that all machines of a shared warehouse have in common, in a folder or an object store, named by their content.

Three kinds: what was executed and is not stored yet (a line of a journal), raw output of executions, and replies of
graders. A machine writes them in the background beside those of its own data folder; another one that takes a dead
machine's pairs over reads them. Nothing here is needed while every machine lives.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, WarehouseError
from eval_pipeline.fingerprints import fingerprint

_LOG = logging.getLogger(__name__)
_THREADS = 4
_TRIES_AFTER_S = (0.5, 2.0, 8.0)
_JOURNALS, _ARTIFACTS, _REPLIES = "journals", "artifacts", "replies"
_LISTED_S = 0.5
"""How old a list of journals may be: less than a lease lasts without a heartbeat."""
Line = tuple[bytes, Sequence[tuple[Path, str]]]
"""A line of a journal, and the files that it names with their SHA-256."""


class SharedFiles:
    """The common files at a URL: a folder, or whatever `fsspec` knows (`s3://BUCKET/PREFIX`)."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._opening = threading.Lock()
        self._opened: tuple[Any, str] | None = None
        self._listing = threading.Lock()
        self._journals: tuple[float, tuple[str, ...]] = (-math.inf, ())
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Do something in the background, again after errors; what fails for good is reported."""
        with self._opening:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "shared-files")
            return self._pool.submit(self._tried, work)

    def put(self, name: str, content: bytes) -> None:
        """Write a file, which readers see whole or not at all."""
        files, root = self._files()
        path = f"{root}/{name}"
        if "://" in self.url:
            files.pipe_file(path, content)
            return
        part = f"{path}.{os.getpid()}.{uuid.uuid4().hex[:8]}.part"
        files.pipe_file(part, content)
        files.mv(part, path)

    def get(self, name: str) -> bytes | None:
        """Return the content of a file, None where there is none."""
        files, root = self._files()
        try:
            content: bytes = files.cat_file(f"{root}/{name}")
        except FileNotFoundError:
            return None
        return content

    def remove(self, names: Collection[str]) -> None:
        """Remove files, which need not exist."""
        files, root = self._files()
        for name in names:
            with suppress(FileNotFoundError):
                files.rm_file(f"{root}/{name}")

    def listed(self, folder: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the files below a folder by name, with what the store says of them."""
        files, root = self._files()
        found: Mapping[str, Mapping[str, Any]] = files.find(f"{root}/{folder}", detail=True)
        start = len(root) + 1
        return {path[start:]: about for path, about in sorted(found.items()) if not path.endswith(".part")}

    def journals(self, folder: str) -> list[str]:
        """Return the files of a folder of journals: all are listed at once, there are few, and kept for a moment."""
        with self._listing:
            at, names = self._journals
            if time.monotonic() - at > _LISTED_S:
                at, names = time.monotonic(), tuple(self.listed(_JOURNALS))
                self._journals = at, names
        return [name for name in names if name.startswith(f"{folder}/")]

    # -- raw output ----------------------------------------------------------------------------------------------------

    def keep_artifact(self, path: Path, sha256: str) -> None:
        """Store a file by its content, once."""
        files, root = self._files()
        name = _artifact(sha256)
        with suppress(FileNotFoundError):
            if files.info(f"{root}/{name}")["size"] == path.stat().st_size:
                return
        self.put(name, path.read_bytes())

    def fetch_artifact(self, path: Path, sha256: str) -> bool:
        """Write a stored file to a path of this machine; return whether there is one of this content."""
        content = self.get(_artifact(sha256))
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(path)
        return True

    def remove_artifacts_but(self, kept: Collection[str], older_than_s: float) -> int:
        """Remove raw output that no row names (by SHA-256) and that was written so long ago; return how many."""
        names = {_artifact(sha256) for sha256 in kept}
        before = time.time() - older_than_s
        old = [
            name for name, about in self.listed(_ARTIFACTS).items() if name not in names and _written(about) < before
        ]
        self.remove(old)
        return len(old)

    # -- replies of graders --------------------------------------------------------------------------------------------

    def reply(self, key: str) -> bytes | None:
        """Return the stored reply of a grader."""
        try:
            return self.get(_reply(key))
        except Exception as error:  # noqa: BLE001 — any kind of store; the call is made again then
            _LOG.warning("the common replies of graders cannot be read: %s", _text(error))
            return None

    def keep_reply(self, key: str, content: bytes) -> None:
        """Store the reply of a grader in the background."""
        self.submit(lambda: self.put(_reply(key), content))

    def _files(self) -> tuple[Any, str]:
        """Return the file system and the root in it. Raises InputError for a store that cannot be had."""
        with self._opening:
            if self._opened is None:
                self._opened = _opened(self.url)
            return self._opened

    def _tried(self, work: Callable[[], None]) -> None:
        for wait_s in (*_TRIES_AFTER_S, None):
            try:
                work()
            except Exception as error:  # noqa: BLE001 — any kind of store; the data folder of this machine has all
                if wait_s is None:
                    _LOG.warning("a file is only in the data folder of this machine: %s", _text(error))
                else:
                    time.sleep(wait_s)
            else:
                return


class SharedJournal:
    """What was executed of one pair and is not stored yet, as all machines see it."""

    def __init__(self, shared: SharedFiles, suite: str, runner: str) -> None:
        self._shared = shared
        self._folder = f"{_JOURNALS}/{fingerprint([suite, runner])}"
        self._turn = threading.Lock()
        self._waiting: list[Line] = []
        self._is_writing = False
        self._written: list[str] = []
        self._writes: list[Future[None]] = []

    def append(self, line: bytes, artifacts: Sequence[tuple[Path, str]]) -> None:
        """Store a line in the background, after the files that it names (with their SHA-256). What comes while a line
        is written goes into one file."""
        with self._turn:
            self._waiting.append((line, artifacts))
            if not self._is_writing:
                self._is_writing = True
                self._writes.append(self._shared.submit(self._write))

    def _write(self) -> None:
        """Write what waits, until nothing does. After an error it waits again, for the next try."""
        while waiting := self._taken():
            try:
                name = self._put(waiting)
            except BaseException:
                with self._turn:
                    self._waiting[:0] = waiting
                    self._is_writing = False
                raise
            with self._turn:
                self._written.append(name)

    def _taken(self) -> list[Line]:
        with self._turn:
            waiting, self._waiting = self._waiting, []
            self._is_writing = bool(waiting)
        return waiting

    def _put(self, lines: Sequence[Line]) -> str:
        for path, sha256 in (artifact for _, artifacts in lines for artifact in artifacts):
            if path.is_file():
                self._shared.keep_artifact(path, sha256)
        content = b"".join(line + b"\n" for line, _ in lines)
        name = f"{self._folder}/{hashlib.sha256(content).hexdigest()}.jsonl"
        self._shared.put(name, content)
        return name

    def remove(self) -> None:
        """Remove the lines in the background, once they are stored."""
        with self._turn:
            writes, self._writes = self._writes, []
        if writes:
            self._shared.submit(lambda: self._remove(writes))

    def _remove(self, writes: Sequence[Future[None]]) -> None:
        for write in writes:
            write.result()
        with self._turn:
            written, self._written = self._written, []
        self._shared.remove(written)

    def left_over(self) -> Iterator[tuple[str, bytes]]:
        """Yield files that machines left: name and lines. One that is not as its name says is skipped."""
        for name in self._shared.journals(self._folder):
            content = self._shared.get(name)
            if content is not None and hashlib.sha256(content).hexdigest() == Path(name).stem:
                yield name, content


def local_artifact(shared: SharedFiles | None, path: Path, sha256: str | None) -> Path:
    """Return the path of an artifact, which is fetched where only another machine has it so far."""
    if shared is not None and sha256 and not path.is_file():
        try:
            shared.fetch_artifact(path, sha256)
        except Exception as error:  # noqa: BLE001 — any kind of store; the file is missing then, which callers report
            _LOG.warning("raw output of another machine cannot be read: %s", _text(error))
    return path


def _opened(url: str) -> tuple[Any, str]:
    try:
        if "://" not in url:
            local: Any = importlib.import_module("fsspec.implementations.local").LocalFileSystem(auto_mkdir=True)
            return local, url
        options: dict[str, Any] = {"use_listings_cache": False}
        if url.startswith("s3://") and os.environ.get("AWS_ENDPOINT_URL"):
            options["endpoint_url"] = os.environ["AWS_ENDPOINT_URL"]
        files, root = importlib.import_module("fsspec").url_to_fs(url, **options)
    except (ImportError, ValueError) as error:
        raise InputError(f"files of the warehouse: {error} (for s3://: pip install 'eval-pipeline[s3]')") from None
    return files, str(root).rstrip("/")


def _written(about: Mapping[str, Any]) -> float:
    """Return when a file was written (seconds since 1970), as far as the store says it; else that it is new."""
    at = about.get("mtime", about.get("LastModified"))
    return float(at) if isinstance(at, (int, float)) else time.time() if at is None else float(at.timestamp())


def _artifact(sha256: str) -> str:
    return f"{_ARTIFACTS}/{sha256[:2]}/{sha256}"


def _reply(key: str) -> str:
    return f"{_REPLIES}/{key[:2]}/{key}.json"


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, WarehouseError) else f"{type(error).__name__}: {error}"
