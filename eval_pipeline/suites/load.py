"""Text → Suite: find suite files and load each by the format that recognizes it."""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from eval_pipeline.errors import InputError, InputErrors, SourceLocation
from eval_pipeline.fingerprints import require_regular_file
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules
from eval_pipeline.parsing.source import show_path
from eval_pipeline.plugins import Registry
from eval_pipeline.suites.folder_suites import joined_by_folder
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.names import default_name, with_unique_names

HEAD = 65_536
"""Characters of a file that `recognizes` is given."""
LOAD_LIMIT_S = 60.0
"""How long a module of suites may take where nothing else is set."""
_BY_ZEROS = {
    b"\1\0\1\0": "utf-16-le",
    b"\0\1\0\1": "utf-16-be",
    b"\1\0\0\0": "utf-32-le",
    b"\0\0\0\1": "utf-32-be",
}
"""Encodings by which of the first four bytes are zero, for a file without a byte order mark."""

_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "recordings"})


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Inputs of a format besides the file.

    `environment` has the values of `${{ NAME }}`. `evaluators` are the types of the registered evaluators: a format may
    search an author's own script for a type that is not among them; without any it never searches. `configurations` are
    the configuration files of other systems that already apply to the whole run. `environment_in` returns the values
    for suites of a folder, where those are not the same everywhere. `secret_rules` are which of the values are secret.
    `versions` are those of other systems that the project is written for, by name. `arguments` are those of evaluators
    that have them and whose author does not set them. `load_limit_s` is how long running a module may take.
    """

    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    evaluators: Container[str] = frozenset()
    configurations: frozenset[Path] = frozenset()
    environment_in: Callable[[Path], Mapping[str, str]] | None = None
    secret_rules: SecretRules = NO_RULES
    versions: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    load_limit_s: float = LOAD_LIMIT_S

    def for_file(self, path: Path) -> LoadOptions:
        """Return the options for a suite in this file."""
        if self.environment_in is None:
            return self
        return replace(self, environment=self.environment_in(path.absolute().parent), environment_in=None)


class Format(Protocol):
    """One file format of suites.

    A format whose suites take cases from other files also has `mentions(path, text)`, which returns the files named in
    the text that can only be parts, not suites. One whose cases may begin late has `recognizes_text(path, text)` for
    the whole of a long file (of a LineFormat: its first line) whose beginning it does not recognize. A format may have
    `schemas` (the names that a file's `$schema` may have), `cures` (what to do with files of other suffixes), and the
    methods of `LineFormat`, `ConvertibleFormat` (conversion.py) and `ReviewedFormat` (review.py).
    """

    suffixes: tuple[str, ...]

    def recognizes(self, path: Path, head: str) -> bool:
        """Whether a file of these suffixes looks like a suite (`head`: its first 64 KiB)."""

    def load(self, path: Path, text: str, load_options: LoadOptions) -> Suite:
        """The suite; raises InputError when nothing of it can be used."""


@runtime_checkable
class LineFormat(Protocol):
    """A format that reads a file line by line, so that a suite of any size takes little memory."""

    def load_lines(self, path: Path, lines: Iterable[str], load_options: LoadOptions) -> Suite:
        """The suite of these lines, without their ends; called in place of `load`."""


FORMATS: Registry[Callable[[], Format]] = Registry(
    "suite format",
    folder=None,
    entry_point_group="eval_pipeline.formats",
    requires=("suffixes", "recognizes", "load"),
)


def load_suite(path: Path | str, load_options: LoadOptions | None = None) -> Suite:
    """Load the suite in a file. Raises InputError when the file cannot be read or is no suite."""
    path = Path(path)
    load_options = (load_options or LoadOptions()).for_file(path)
    head = _head(path)
    if head is None:
        _read_text(path)  # raises with the reason
    format_ = _format_for(path, head or "")
    if not isinstance(format_, LineFormat):
        return format_.load(path, _read_text(path), load_options)
    with _open_lines(path) as lines:
        return format_.load_lines(path, lines, load_options)


def format_of(path: Path) -> Format:
    """Return the format that recognizes a file, else the first one with its suffix. Raises InputError."""
    return _format_for(path, _head(path) or "")


def _format_for(path: Path, head: str) -> Format:
    candidates = [format_ for format_ in _formats() if path.suffix.lower() in format_.suffixes]
    if not candidates:
        known = sorted({suffix for format_ in _formats() for suffix in format_.suffixes})
        cures = [getattr(format_, "cures", {}).get(path.suffix.lower()) for format_ in _formats()]
        cure = "".join(f"; {cure}" for cure in cures if cure is not None)
        problem = f"no suite format for '{path.suffix}' files; there are: {', '.join(known)}{cure}"
        raise InputError(problem, SourceLocation(show_path(path)))
    recognized = (format_ for format_ in candidates if format_.recognizes(path, head))
    late = (format_ for format_ in candidates if len(head) == HEAD and _recognizes(format_, path))
    return next(chain(recognized, late), candidates[0])


def load_suites(patterns: Sequence[str], folder: Path, load_options: LoadOptions | None = None) -> list[Suite]:
    """Return the suites of paths, folders and globs, sorted by path. Raises InputErrors with every invalid file."""
    suites, errors = read_suites(patterns, folder, load_options)
    if errors:
        raise InputErrors(errors)
    return suites


def read_suites(
    patterns: Sequence[str],
    folder: Path,
    load_options: LoadOptions | None = None,
    beside: Callable[[], Iterable[Path]] = tuple,
) -> tuple[list[Suite], list[InputError]]:
    """Return the suites of paths, folders and globs, sorted by path, and an error for each invalid file.

    An explicitly named file must be a suite; other files in folders and globs are skipped. Files of one case each are
    joined by folder, unless named explicitly (`folder_suites.py`). Suites of one name, also of the files `beside` them,
    are called by their paths (`names.py`).
    """
    errors: list[InputError] = []
    suites: list[Suite] = []
    for path in find_suite_files(patterns, folder):
        try:
            suites.append(load_suite(path, load_options))
        except InputError as error:
            errors.append(error)
    suites = joined_by_folder(suites, named_files(patterns, folder))
    return with_unique_names(suites, _claims(suites, beside(), load_options)), errors


def named_files(patterns: Iterable[str], folder: Path) -> set[Path]:
    """Return the files that are named explicitly."""
    paths = [Path(os.path.normpath((folder / _expanded(pattern)).absolute())) for pattern in patterns]
    return {path for path in paths if os.path.isfile(path)}  # noqa: PTH113 — False, not an error, for any name


def _claims(suites: Iterable[Suite], files: Iterable[Path], load_options: LoadOptions | None) -> dict[Path, str]:
    """Return the names of other files, and folders, that are called like one of these suites; of unreadable files those
    by default."""
    suites = list(suites)
    names = {suite.name for suite in suites}
    paths = {path for suite in suites for path in (suite.path, *suite.parts)}
    claims: dict[Path, str] = {}
    for path in files:
        if path in paths or not {default_name(path), path.parent.name} & names:
            continue
        name, place = default_name(path), path
        with suppress(InputError):
            suite = load_suite(path, load_options)
            name, place = (suite.name, path) if suite.folder is None else (suite.folder.name, suite.folder)
        if place not in {suite.folder for suite in suites}:
            claims[place] = name
    return claims


def find_suite_files(patterns: Iterable[str], folder: Path) -> list[Path]:
    """Return the distinct suite files of `patterns` (paths, folders or globs, relative to `folder`).

    A file whose cases another file includes is not a suite, unless named explicitly.
    """
    files: dict[Path, None] = {}
    explicit: set[Path] = set()
    for pattern in patterns:
        path = (folder / _expanded(pattern)).absolute()
        if os.path.isdir(path):  # noqa: PTH112 — False, not an error, for a name that no file can have
            matches = sorted(_suites_below(path))
        elif os.path.exists(path):  # noqa: PTH110
            matches = [path]
            explicit.add(Path(os.path.normpath(path)))
        else:
            matches = sorted(_globbed(pattern, folder))
            if not matches:
                raise InputError(
                    f"no suite at '{pattern}': no such file, folder or glob match (in {show_path(folder)})"
                )
        files.update(dict.fromkeys(Path(os.path.normpath(match)) for match in matches))
    parts = _parts({path: _mentioned_by(path) for path in files}) - explicit if len(files) > 1 else set()
    return [path for path in files if path not in parts]


def mentioned_files(patterns: Iterable[str], folder: Path) -> list[Path]:
    """Return the files that the suites of `patterns` take cases from (`tests: file://…`), where there are suites."""
    with suppress(InputError):
        suites = find_suite_files(patterns, folder)
        return sorted(set().union(*map(_mentioned_by, suites)))
    return []


def _parts(mentioned: Mapping[Path, set[Path]]) -> set[Path]:
    """Return the files that suites take their cases from: those that an unmentioned file leads to.

    Files that only mention each other are no parts: all of them are loaded, and report what is wrong.
    """
    parts: set[Path] = set()
    following = list(mentioned.keys() - set().union(*mentioned.values()))
    while following:
        new = mentioned.get(following.pop(), set()) - parts
        parts |= new
        following += new
    return parts


def _mentioned_by(path: Path) -> set[Path]:
    """Return the other files that a suite takes its cases from."""
    formats = [format_ for format_ in _formats() if path.suffix.lower() in format_.suffixes]
    naming = [format_ for format_ in formats if hasattr(format_, "mentions") and _recognizes(format_, path)]
    text = (_text(path) or "") if naming else ""
    return {file for format_ in naming for file in format_.mentions(path, text)} - {path}


def _recognizes(format_: Format, path: Path) -> bool:
    """Whether a file looks like a suite of a format: by its beginning, else by the whole of a longer one."""
    head = _head(path)
    if head is None or format_.recognizes(path, head):
        return head is not None
    whole = getattr(format_, "recognizes_text", None)
    if whole is None or len(head) < HEAD:
        return False
    return bool(whole(path, _text(path, only_first_line=isinstance(format_, LineFormat)) or ""))


def _formats() -> list[Format]:
    return [make() for _, make in FORMATS]


def _expanded(pattern: str) -> str:
    return os.path.expanduser(pattern)  # noqa: PTH111 — unlike pathlib's, no error for an unknown user


def _globbed(pattern: str, folder: Path) -> Iterator[Path]:
    plain = _expanded(pattern)
    if "\0" in plain:
        return
    # The folder is not a pattern, whatever characters its name has; `Path.glob` takes no absolute pattern.
    for name in glob.iglob(plain, root_dir=folder, recursive=True):  # noqa: PTH207
        path = (folder / name).absolute()
        if path.is_dir():
            yield from _suites_below(path)
        elif _looks_like_suite(path):
            yield path


def _suites_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(parent) / name
            if not name.startswith(".") and _looks_like_suite(path):
                yield path


def _looks_like_suite(path: Path) -> bool:
    formats = [format_ for format_ in _formats() if path.suffix.lower() in format_.suffixes]
    if not formats or path.is_dir() or not path.exists():
        return False
    if _head(path) is None or _calls_itself_a_suite(path):
        return True  # possibly a suite: loading reports the problem
    return any(_recognizes(format_, path) for format_ in formats)


def _calls_itself_a_suite(path: Path) -> bool:
    """Return whether the name is `x.eval.yaml`, which must be a suite, unless it belongs to a data set `x.jsonl`."""
    plain = path.with_suffix("")
    return plain.suffix == ".eval" and not plain.with_suffix(".jsonl").exists()


def _head(path: Path) -> str | None:
    """Return the beginning of a file; None when unreadable."""
    try:
        require_regular_file(path)
        with path.open("r", encoding=_encoding(path), errors="replace") as file:
            return file.read(HEAD)
    except OSError:
        return None


def _text(path: Path, *, only_first_line: bool = False) -> str | None:
    """Return a file's text, whatever is wrong in it; None when unreadable."""
    try:
        with path.open("r", encoding=_encoding(path), errors="replace") as file:
            return file.readline() if only_first_line else file.read()
    except OSError:
        return None


def _encoding(path: Path) -> str:
    """Return the encoding that a file's first bytes show: UTF-8, or one that a suite must not have."""
    with path.open("rb") as file:
        start = file.read(4)
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return _BY_ZEROS.get(bytes(map(bool, start)), "utf-8-sig")


@contextmanager
def _open_lines(path: Path) -> Iterator[Iterator[str]]:
    """Yield the lines of a file, without their ends. Raises InputError for text that is not UTF-8."""
    try:
        if _encoding(path) != "utf-8-sig":
            _read_text(path)  # raises with the encoding
        with path.open(encoding="utf-8-sig") as file:
            yield (line.removesuffix("\n") for line in file)
    except UnicodeDecodeError:
        _read_text(path)  # raises with the place, which is counted from the beginning of the file
        raise


def _read_text(path: Path) -> str:
    try:
        require_regular_file(path)
        encoding = _encoding(path)
        if encoding != "utf-8-sig":
            raise InputError(f"is {encoding.upper()} text; save it as UTF-8", SourceLocation(show_path(path)))
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"not UTF-8 text: {error.reason} at byte {error.start}", SourceLocation(show_path(path))
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", SourceLocation(show_path(path))) from None
