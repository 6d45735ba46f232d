"""Files that an answer consists of → text for graders: printed by a program of the suite's author, else read as UTF-8.

Only files in the folder that the target worked in are read. What cannot be read is a note in the text that the grader
sees, except for a folder that exists no more: without it nothing can be graded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import ConfigDict

from eval_pipeline.executions.threads import in_thread
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import MessageEvent, SessionReport, is_spoken
from eval_pipeline.scores.evaluators import ARGUMENTS, Text
from eval_pipeline.scores.grader_client import GraderFailure
from eval_pipeline.scores.model import Subject
from eval_pipeline.scores.programs.command import argv_of, command_content, run_command

MOST_BYTES = 1_000_000
MEDIA_TYPES: Mapping[str, str] = {
    "csv": "text/csv",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "htm": "text/html",
    "html": "text/html",
    "json": "application/json",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "sql": "application/sql",
    "txt": "text/plain",
    "xhtml": "application/xhtml+xml",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}
"""The media types that `type` of a preprocessor may name by a suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocessor:
    """A program that prints the text of files of one type: a suffix (`xlsx`), or a media type.

    Its standard input is `{path, original_path, media_type}` as JSON.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    type: Text
    command: Any

    def __post_init__(self) -> None:
        argv_of(self.command)

    def reads(self, media_type: str) -> bool:
        """Return whether the program is for files of a media type."""
        return _normal(self.type) == _normal(media_type)


class _Unreadable(Exception):
    """A file that cannot be shown to a grader; the message is the reason."""


def programs_content(preprocessors: Sequence[Preprocessor], folder: Path) -> Mapping[str, str]:
    """Return fingerprints of the files of all programs, which run in the suite's folder. Raises InputError."""
    contents = [command_content(argv_of(each.command), folder) for each in preprocessors]
    return {name: content for each in contents for name, content in each.items()}


async def with_files_as_text(
    subject: Subject, preprocessors: Sequence[Preprocessor], timeout_s: float | None
) -> Subject:
    """Return the subject with the files of its answer as text after the answer's own; the subject itself without any.

    Raises GraderFailure where the folder of the files is no longer there.
    """
    answer = _answer(subject.report)
    if answer is None or not answer.files:
        return subject
    texts, notes = [answer.text] if answer.text else [], []
    for file in answer.files:
        try:
            text = await _text_of(file, subject, preprocessors, timeout_s)
            texts.append(f"[[ file: {file['path']} ]]\n{text}")
        except _Unreadable as reason:
            notes.append(f"[file preprocessing warning] {file['path']} ({file['media_type']}): {reason}")
    return replace(subject, report=replace(subject.report, final_output="\n".join([*texts, *notes])))


def _answer(report: SessionReport) -> MessageEvent | None:
    spoken: Iterator[MessageEvent] = (event for event in reversed(report.events) if is_spoken(event, "assistant"))
    return next(spoken, None)


async def _text_of(
    file: Mapping[str, str], subject: Subject, preprocessors: Sequence[Preprocessor], timeout_s: float | None
) -> str:
    path = await in_thread(_located, file, subject)
    program = next((each for each in preprocessors if each.reads(file["media_type"])), None)
    if program is None:
        return await in_thread(_read, path)
    payload = {"path": str(path), "original_path": file["path"], "media_type": file["media_type"]}
    with tempfile.TemporaryDirectory(prefix="eval-pipeline-file-", ignore_cleanup_errors=True) as scratch:
        result = await run_command(
            argv_of(program.command),
            cwd=subject.folder.absolute(),
            scratch=Path(scratch),
            stdin=to_json(payload),
            env={},
            timeout_s=timeout_s,
        )
    if result.exit_code != 0:
        raise _Unreadable(result.stderr.strip() or f"the preprocessor ended with {result.exit_code}")
    return result.stdout.strip()


def _located(file: Mapping[str, str], subject: Subject) -> Path:
    """Return the path of a file. Raises _Unreadable for one that is not in the target's folder."""
    name = file["path"]
    scheme = urlsplit(name).scheme if "://" in name else ""
    if scheme not in ("", "file"):
        raise _Unreadable("only files of this machine can be read")
    base = subject.workspace or (Path(file["folder"]) if "folder" in file else None)
    if base is None or not base.is_dir():
        raise GraderFailure(f"the answer's file '{name}' cannot be read: the folder of the session is gone")
    path = (base / (unquote(urlsplit(name).path) if scheme else name)).resolve()
    if not path.is_relative_to(base.resolve()):
        raise _Unreadable("outside of the folder that the target worked in")
    if not path.is_file():
        raise _Unreadable("no such file")
    return path


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _Unreadable(f"more than {MOST_BYTES:,} bytes")
        content = path.read_bytes()
        if b"\0" in content:
            raise _Unreadable("not a text; configure a preprocessor")
        return content.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _Unreadable("not UTF-8 text; configure a preprocessor") from None
    except OSError as error:
        raise _Unreadable(error.strerror or str(error)) from None


def _normal(type_: str) -> str:
    name = type_.strip().lower()
    return MEDIA_TYPES.get(name, name)
