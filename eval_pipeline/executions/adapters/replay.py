"""`replay`: recorded answers, so that scoring, comparing and testing need no target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import orjson

from eval_pipeline.errors import InputError, Place
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.failures import FAILURE_CLASSES, RECORDING_MISSING, TARGET_ERROR
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.suites.source import show_path

_Key = tuple[str | None, str, int | None]
_RAW_FILES = ("stdout_file", "stderr_file", "session_file")
_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    "suite": ("a text", str),
    "repetition": ("a whole number", int),
    "latency_ms": ("a number", (int, float)),
    "exit_code": ("a whole number", int),
    "format": ("a text", str),
    **dict.fromkeys(_RAW_FILES, ("the name of a file", str)),
}
_ANSWERS = frozenset({"output", "report", "messages", "error", *_RAW_FILES})


@ADAPTERS.register("replay")
class Replay:
    """Answers from a recording: a JSONL file, or the JSONL files directly in a folder.

    A row: `case`, one of `output`, `report` (a stored session report), `error`, `stdout_file` (a CLI's recorded
    output, relative to the row's file, read by the normalizer that `format` names); optionally `suite`,
    `repetition`, `messages`, `usage`, `cost_usd`, `latency_ms`, `exit_code`. The most specific row answers: one of
    this suite and repetition before one without; of two alike, the later. An `error` is a text, or `class` (one of
    our failure classes) and `message`.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"recording", "model"})
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        self._path = runner.folder / settings.text(runner.settings, "recording")
        if not self._path.exists():
            raise InputError(f"no recording at {show_path(self._path)}", Place(field="recording"))
        self._rows: dict[_Key, tuple[Path, int, int]] | None = None

    def content(self) -> Mapping[str, str]:
        """The recorded files; a row that cannot be used raises InputError here, before anything runs."""
        self._rows = dict(self._index())
        return {str(path.relative_to(self._path.parent)): file_fingerprint(path) for path in self._all_files()}

    async def execute(self, call: Call) -> RawExecution:
        plan = call.plan
        row, file = self._find(plan.suite, plan.case.id, plan.repetition)
        if row is None:
            where = show_path(self._path)
            raise TargetFailure(RECORDING_MISSING, f"{where} has no row for case '{plan.case.id}' of '{plan.suite}'")
        raw = _raw(row, file)
        if row.get("error") is not None:
            error = row["error"] if isinstance(row["error"], Mapping) else {"message": str(row["error"])}
            failure = FAILURE_CLASSES.get(str(error.get("class")), TARGET_ERROR)
            raise TargetFailure(failure, str(error.get("message", "recorded error")), raw=raw)
        return raw

    async def close(self) -> None:
        self._rows = None

    def _find(self, suite: str, case: str, repetition: int) -> tuple[Mapping[str, Any] | None, Path]:
        if self._rows is None:
            self._rows = dict(self._index())
        for key in ((suite, case, repetition), (suite, case, None), (None, case, repetition), (None, case, None)):
            spot = self._rows.get(key)
            if spot is not None:
                path, offset, length = spot
                with path.open("rb") as file:
                    file.seek(offset)
                    return orjson.loads(file.read(length)), path
        return None, self._path

    def _index(self) -> Iterator[tuple[_Key, tuple[Path, int, int]]]:
        """Where each row stands: the rows themselves stay on disk, however many there are."""
        for path in self._files():
            offset = 0
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.strip():
                        yield _row_key(line, path, number), (path, offset, len(line))
                    offset += len(line)

    def _files(self) -> list[Path]:
        return sorted(self._path.glob("*.jsonl")) if self._path.is_dir() else [self._path]

    def _all_files(self) -> list[Path]:
        return sorted(path for path in self._path.rglob("*") if path.is_file()) if self._path.is_dir() else [self._path]


def _row_key(line: bytes, path: Path, number: int) -> _Key:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error}", Place(show_path(path), number)) from None
    case = row.get("case") if isinstance(row, dict) else None
    if not isinstance(case, (str, int)) or isinstance(case, bool):
        raise InputError("a recording row needs 'case', the id of a case", Place(show_path(path), number))
    if _ANSWERS.isdisjoint(row):
        problem = f"a recording row needs one of: {', '.join(sorted(_ANSWERS))}"
        raise InputError(problem, Place(show_path(path), number))
    _check_kinds(row, path, number)
    return row.get("suite"), str(case), row.get("repetition")


def _check_kinds(row: Mapping[str, Any], path: Path, number: int) -> None:
    for key in _KINDS.keys() & row.keys():
        expected, kind = _KINDS[key]
        value = row[key]
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise InputError(f"expected {expected}, got {value!r}", Place(show_path(path), number, key))
    for file in _raw_files(row, path).values():
        if not file.is_file():
            raise InputError(f"no file {show_path(file)}", Place(show_path(path), number))


def _raw_files(row: Mapping[str, Any], recording: Path) -> dict[str, Path]:
    """The files that a row names, by role."""
    return {key.removesuffix("_file"): _inside(recording, row[key]) for key in _RAW_FILES if row.get(key) is not None}


def _raw(row: Mapping[str, Any], file: Path) -> RawExecution:
    return RawExecution(
        format=str(row.get("format", "replay")),
        payload={key: value for key, value in row.items() if key not in ("suite", "case", "repetition", *_RAW_FILES)},
        files=_raw_files(row, file),
        exit_code=row.get("exit_code"),
        duration_ms=row.get("latency_ms"),
    )


def _inside(recording: Path, name: Any) -> Path:
    """A file that a recording names: it has to lie below the recording's folder."""
    root = recording.parent.resolve()
    path = (root / str(name)).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"'{name}' is outside the recording's folder", Place(show_path(recording)))
    return path
