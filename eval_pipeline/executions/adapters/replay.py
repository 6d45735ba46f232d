"""`replay`: recorded answers, so that scoring, comparisons and tests need no target."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import orjson

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.model import Plan, RawExecution, Runner, TargetFailure
from eval_pipeline.failures import FAILURE_CLASSES, RECORDING_MISSING, TARGET_ERROR
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.compatibility import known_systems
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.parsing.source import jsonl_source, show_path
from eval_pipeline.parsing.tables import INTEGER, NUMBER, TEXT, Field, FieldTable
from eval_pipeline.suites.model import Message, content_text

_RAW_FILES = ("stdout_file", "stderr_file", "session_file")
ROW = FieldTable(
    "recorded row",
    (
        Field("suite", TEXT, "The suite that the row belongs to."),
        Field("eval_path", TEXT, "The file of that suite."),
        Field("source_target", TEXT, "The runner that was recorded."),
        Field("variant", TEXT, "The variant of the recording."),
        Field("repetition", INTEGER, "The repetition that the row answers, from 1."),
        Field("attempt", INTEGER, "The same, from 0."),
        Field("latency_ms", NUMBER, "How long the call took."),
        Field("duration_ms", NUMBER, "How long the session took."),
        Field("cost_usd", NUMBER, "What the session cost."),
        Field("exit_code", INTEGER, "The exit code of the program."),
        Field("format", TEXT, "The normalizer that reads the recorded files."),
        *(Field(name, TEXT, "A recorded file, relative to the row's file.") for name in _RAW_FILES),
    ),
    "One row of a recording; what it answers with is read by its format.",
    others=True,
)
_ANSWERS = frozenset({"output", "report", "messages", "error", "turns", *_RAW_FILES})
_IDENTITY = frozenset({
    "case", "test_id", "id", "suite", "eval_path", "repetition", "attempt", "source_target", "variant", "input",
    "schema_version", "fixture_id", "recorded_at", "redaction", "transcript", *_RAW_FILES,
})  # fmt: skip


class _Key(NamedTuple):
    """The plans that a row answers: a case by its id, or any case with this input. None matches everything."""

    suite: str | None
    case: str | None
    repetition: int | None
    input: str | None = None


class _RowLocation(NamedTuple):
    """Location of a row. The rows themselves stay on disk, so that a large recording needs little memory."""

    path: Path
    offset: int
    length: int


@ADAPTERS.register("replay")
class Replay:
    """Answers from a recording: a JSONL file, or the JSONL files directly in a folder.

    A row: `case`, one of `output`, `report` (a stored session report), `error`, `stdout_file` (a CLI's recorded
    output, relative to the row's file, read by the normalizer that `format` names); optionally `suite`,
    `repetition`, `messages`, `usage`, `cost_usd`, `latency_ms`, `exit_code`. `turns` has such answers for the turns of
    a conversation, in order; a row without them answers the same in each. The most specific row answers: one of
    this suite and repetition before one without; of two alike, the later. An `error` is a text, or `class` (one of
    our failure classes) and `message`.

    AgentV's replay fixtures are read too (`test_id`, `suite` or `eval_path`, `attempt` from 0, `output` messages;
    settings: `source_target` and `variant` choose among several), and so are its transcripts (`input` and `output`,
    for the case that has that input).
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "replay",
        (
            Field("recording", TEXT, "A JSONL file of recorded answers, or a folder with such files.", required=True),
            Field("source_target", TEXT, "Which recorded runner to replay, where a recording has several."),
            Field("variant", TEXT, "Which recorded variant to replay."),
            Field("suite", TEXT, "The suite whose recorded rows to use (default: the suite that is run)."),
            MODEL,
        ),
        "Returns recorded answers.",
    )
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False
    reports_cost: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        self._path = runner.folder / settings.text(runner.settings, "recording")
        self._source_target = settings.optional_text(runner.settings, "source_target")
        self._variant = settings.optional_text(runner.settings, "variant")
        self._suite = settings.optional_text(runner.settings, "suite")
        if not self._path.exists():
            raise InputError(f"no recording at {show_path(self._path)}", SourceLocation(field="recording"))
        self._rows: dict[_Key, _RowLocation] | None = None

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of the recorded files. Raises InputError for an unusable row, before anything runs."""
        self._rows = dict(self._index())
        return {str(path.relative_to(self._path.parent)): file_fingerprint(path) for path in self._all_files()}

    async def execute(self, call: Call) -> RawExecution:
        plan = call.plan
        location = self._find(plan)
        if location is None:
            where = show_path(self._path)
            raise TargetFailure(RECORDING_MISSING, f"{where} has no row for case '{plan.case.id}' of '{plan.suite}'")
        row = _of_turn(_row_at(location), call)
        raw = _raw(row, location.path)
        if row.get("error") is not None:
            error = row["error"] if isinstance(row["error"], Mapping) else {"message": str(row["error"])}
            failure = FAILURE_CLASSES.get(str(error.get("class")), TARGET_ERROR)
            raise TargetFailure(failure, str(error.get("message", "recorded error")), raw=raw)
        return raw

    async def close(self) -> None:
        self._rows = None

    def _find(self, plan: Plan) -> _RowLocation | None:
        if self._rows is None:
            self._rows = dict(self._index())
        rows, suite, case, repetition = self._rows, self._suite or plan.suite, plan.case.id, plan.repetition
        keys = [_Key(suite, case, repetition), _Key(suite, case, None), _Key(None, case, repetition)]
        keys += [_Key(None, case, None), _Key(None, None, None, _user_text(plan.case.input))]
        return next((rows[key] for key in keys if key in rows), None)

    def _index(self) -> Iterator[tuple[_Key, _RowLocation]]:
        sources: set[str] = set()
        for path in self._files():
            source, offset = jsonl_source(path), 0
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    location = _RowLocation(path, offset, len(line))
                    offset += len(line)
                    if not line.strip():
                        continue
                    row = _read_row(line, FieldCursor(source, (number,)))
                    if not self._is_selected(row):
                        continue
                    sources.add(row.get("source_target") or "")
                    if len(sources) > 1:
                        raise _ambiguous(sources, path, number)
                    yield from ((key, location) for key in _keys(row))

    def _is_selected(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has the configured source target and variant, if any."""
        other_target = self._source_target is not None and row.get("source_target") not in (None, self._source_target)
        return not other_target and row.get("variant") == self._variant

    def _files(self) -> list[Path]:
        return sorted(self._path.glob("*.jsonl")) if self._path.is_dir() else [self._path]

    def _all_files(self) -> list[Path]:
        return sorted(path for path in self._path.rglob("*") if path.is_file()) if self._path.is_dir() else [self._path]


def _of_turn(row: Mapping[str, Any], call: Call) -> Mapping[str, Any]:
    """Return what a row answers to one turn: one of its `turns` where it has them, else the whole row.

    Raises TargetFailure for a turn that was not recorded.
    """
    turns = row.get("turns")
    if not isinstance(turns, list):
        return row
    number = call.turn or 1
    if number > len(turns):
        raise TargetFailure(RECORDING_MISSING, f"the row of case '{call.plan.case.id}' has no turn {number}")
    answer: Mapping[str, Any] = turns[number - 1]
    return answer


def _row_at(location: _RowLocation) -> Mapping[str, Any]:
    with location.path.open("rb") as file:
        file.seek(location.offset)
        row: Mapping[str, Any] = orjson.loads(file.read(location.length))
        return row


def _keys(row: Mapping[str, Any]) -> Iterator[_Key]:
    """Yield the keys of the plans that a row answers. A row may name its suite by file."""
    case = _case_of(row)
    if case is None:
        yield _Key(None, None, None, _user_text(row["input"]))
        return
    repetition = row.get("repetition")
    if repetition is None and row.get("attempt") is not None:
        repetition = row["attempt"] + 1
    file = row.get("eval_path")
    names = [row.get("suite"), Path(file).stem.removesuffix(".eval") if file else None]
    for name in dict.fromkeys(name for name in names if name) or [None]:
        yield _Key(name, case, repetition)


def _case_of(row: Mapping[str, Any]) -> str | None:
    named = (row.get(key) for key in ("case", "test_id", "id"))
    return next((str(id_) for id_ in named if isinstance(id_, (str, int)) and not isinstance(id_, bool)), None)


def _user_text(messages: Any) -> str:
    """Return the user's text with normalized white space, which identifies the case of a transcript."""
    if isinstance(messages, str):
        return " ".join(messages.split())
    texts = []
    for message in messages if isinstance(messages, (list, tuple)) else ():
        if isinstance(message, Message):
            message = {"role": message.role, "content": message.content}
        if isinstance(message, Mapping) and message.get("role") == "user":
            texts.append(content_text(message.get("content")))
    return " ".join(" ".join(texts).split())


def _read_row(line: bytes, cursor: FieldCursor) -> Mapping[str, Any]:
    """Parse and validate a row. Raises InputError."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise cursor.error(f"not valid JSON: {error}") from None
    problem = _problem_of(row)
    if problem is not None:
        raise cursor.error(problem)
    _check_fields(row, cursor)
    usable: Mapping[str, Any] = row
    return usable


def _problem_of(row: Any) -> str | None:
    """Return the reason why a row as a whole is unusable, or None."""
    if not isinstance(row, dict) or (_case_of(row) is None and not _is_transcript(row)):
        return "a recording row needs 'case', the id of a case"
    version = row.get("schema_version")
    if version is not None and version not in _schemas():
        return f"rows of '{version}' are not read; there are: {', '.join(_schemas())}"
    turns = row.get("turns")
    if isinstance(turns, list) and not all(isinstance(turn, dict) and not _ANSWERS.isdisjoint(turn) for turn in turns):
        return "turns: expected an object with an output for each turn"
    if _ANSWERS.isdisjoint(row):
        return f"a recording row needs one of: {', '.join(sorted(_ANSWERS))}"
    return None


@cache
def _schemas() -> tuple[str, ...]:
    """The versions of recorded rows that are read."""
    return tuple(schema for system in known_systems() for schema in system.recording_schemas)


def _is_transcript(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("input"), (str, list)) and bool(_user_text(row["input"])) and "output" in row


def _check_fields(row: Mapping[str, Any], cursor: FieldCursor) -> None:
    for field in ROW.fields:
        field.read(row, cursor)
    for file in _raw_files(row, cursor.source.path).values():
        if not is_file(file):
            raise cursor.error(f"no file {show_path(file)}")


def _ambiguous(sources: set[str], path: Path, number: int) -> InputError:
    named = ", ".join(sorted(filter(None, sources))) + ("" if all(sources) else " and none")
    problem = f"the recording is of several targets ({named}): select one with 'source_target'"
    return InputError(problem, SourceLocation(show_path(path), number, "source_target"))


def _raw_files(row: Mapping[str, Any], recording: Path) -> dict[str, Path]:
    """Return the files that a row names, by role."""
    return {key.removesuffix("_file"): _inside(recording, row[key]) for key in _RAW_FILES if row.get(key) is not None}


def _raw(row: Mapping[str, Any], file: Path) -> RawExecution:
    """Return the recorded answer. The lookup time is discarded: it is not the target's."""
    payload = {key: value for key, value in row.items() if key not in _IDENTITY}
    model = row["source"].get("model") if isinstance(row.get("source"), Mapping) else None
    return RawExecution(
        format=str(row.get("format", "replay")),
        payload={**({"model": model} if model else {}), **payload, "elapsed_ms": None},
        files=_raw_files(row, file),
        exit_code=row.get("exit_code"),
        duration_ms=row.get("latency_ms"),
    )


def _inside(recording: Path, name: Any) -> Path:
    """Resolve a file name of a recording. Raises InputError for a file outside the recording's folder."""
    root = Path(os.path.realpath(recording.parent))
    path = Path(os.path.realpath(root / str(name)))
    if not path.is_relative_to(root):
        raise InputError(f"'{name}' is outside the recording's folder", SourceLocation(show_path(recording)))
    return path
