"""Writing below a folder without following links: what a suite or a target put there leads nowhere else.

Folders are opened one below the other by descriptor, so a link in the way is an error whenever it appears.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 1 << 20
_PERMISSIONS = 0o777
_WHILE_COPYING = 0o700
REPOSITORY_ELSEWHERE = ".git"
"""A file of this name refers to a repository elsewhere."""


class LinkInTheWay(OSError):
    """A path below a folder leads through a link, or through a file."""


def folder_beneath(top: Path, relative: str) -> Path:
    """Return the path of a folder to be made below `top`; its parents are created.

    Raises LinkInTheWay when it, or a folder on the way, is a link.
    """
    path = PurePosixPath(relative)
    with _opened(top, path.parts[:-1]) as parent:
        if path.name and _is_link(path.name, parent):
            raise _link(path.parts, os.readlink(path.name, dir_fd=parent))
    return top / path


def copy_file(origin: Path, top: Path, relative: str) -> None:
    """Copy a file to a path below `top`, whose parents are created; an older file or link there is replaced.

    Raises LinkInTheWay, OSError.
    """
    path = PurePosixPath(relative)
    with _opened(top, path.parts[:-1]) as parent:
        _copy(origin, path.name, parent)


def write_file(top: Path, relative: str, content: bytes) -> None:
    """Write a file below `top`; an older file or link there is replaced. Raises LinkInTheWay, OSError."""
    path = PurePosixPath(relative)
    with _opened(top, path.parts[:-1]) as parent, _new_file(path.name, parent, stat.S_IRUSR | stat.S_IWUSR) as target:
        while content:
            content = content[os.write(target, content) :]


def copy_template(template: Path, top: Path) -> None:
    """Copy a template's content into a folder. Raises LinkInTheWay, OSError.

    Symbolic links are copied as links; pipes, sockets and links to a git repository elsewhere are skipped.
    """
    with _opened(top, ()) as folder:
        _copy_content(template, folder, (), skipped=REPOSITORY_ELSEWHERE)


def copy_folder(source: Path, top: Path) -> None:
    """Copy everything in a folder but pipes and sockets; the new folder is made. Raises LinkInTheWay, OSError."""
    top.mkdir(parents=True, exist_ok=True)
    with _opened(top, ()) as folder:
        _copy_content(source, folder, ())


@contextlib.contextmanager
def _opened(top: Path, parts: Sequence[str]) -> Iterator[int]:
    """Yield the descriptor of a folder below `top`; missing folders are created. `top` itself may be a link."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, name in enumerate(parts, start=1):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            below = _open_folder(name, folder, parts[:number])
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open_folder(name: str, parent: int, shown: Sequence[str]) -> int:
    if name == "..":
        raise LinkInTheWay(f"'{'/'.join(shown)}' leads out of the workspace")
    if _is_link(name, parent):
        raise _link(shown, os.readlink(name, dir_fd=parent))
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except NotADirectoryError:
        raise LinkInTheWay(f"'{'/'.join(shown)}' in the workspace is not a folder") from None


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _link(parts: Sequence[str], target: str) -> LinkInTheWay:
    return LinkInTheWay(f"'{'/'.join(parts)}' in the workspace is a link (to {target}); nothing is written through it")


def _copy_content(source: Path, folder: int, parts: tuple[str, ...], skipped: str | None = None) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_symlink():
                _discard(entry.name, folder)
                os.symlink(Path(entry.path).readlink(), entry.name, dir_fd=folder)
            elif entry.is_dir():
                _copy_folder(Path(entry.path), folder, (*parts, entry.name), skipped)
            elif entry.is_file() and entry.name != skipped:
                _copy(Path(entry.path), entry.name, folder)


def _copy_folder(source: Path, parent: int, parts: tuple[str, ...], skipped: str | None) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(parts[-1], _WHILE_COPYING, dir_fd=parent)
    folder = _open_folder(parts[-1], parent, parts)
    try:
        _copy_content(source, folder, parts, skipped)
        _copy_status(source.stat(), folder)
    finally:
        os.close(folder)


def _copy(origin: Path, name: str, parent: int) -> None:
    source = os.open(origin, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(source)
        with _new_file(name, parent, _WHILE_COPYING) as target:
            _copy_bytes(source, target, status.st_size)
            _copy_status(status, target)
    finally:
        os.close(source)


def _copy_bytes(source: int, target: int, size: int) -> None:
    """Copy a file's content inside the kernel, which shares the blocks where the file system can; else by reading."""
    try:
        while size > 0 and (copied := os.copy_file_range(source, target, size)):
            size -= copied
    except (OSError, AttributeError):  # another file system, or no such call
        pass
    while block := os.read(source, _BLOCK):
        while block:
            block = block[os.write(target, block) :]


@contextlib.contextmanager
def _new_file(name: str, parent: int, mode: int) -> Iterator[int]:
    """Yield the descriptor of a new file; what has its name is discarded."""
    try:
        target = os.open(name, _NEW_FILE, mode, dir_fd=parent)
    except FileExistsError:
        _discard(name, parent)
        target = os.open(name, _NEW_FILE, mode, dir_fd=parent)
    try:
        yield target
    finally:
        os.close(target)


def _discard(name: str, parent: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)


def _copy_status(status: os.stat_result, descriptor: int) -> None:
    """Copy permissions and times to an open file or folder."""
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & _PERMISSIONS)
    os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
