"""`aider`: the text that aider prints with `--no-pretty`: its answers, the edits it applied, and errors of the model.

aider has no tools and no JSON, its exit code is 0 whatever happened, and the tokens that it prints are its own
estimate: usage stays unknown. What was changed is known by the diff of the workspace. Sources: recordings of 0.86.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from eval_pipeline.agents.session_endings import Ending, ReadSession, cut_short, failed, session_report, with_answer
from eval_pipeline.agents.session_entries import Entry, spoken
from eval_pipeline.agents.session_events import resolved
from eval_pipeline.reports.model import FileWriteEvent, RetryEvent, SessionReport
from eval_pipeline.reports.normalize import RawSession
from eval_pipeline.reports.tool_kinds import ToolKind

TOOL_KINDS: Mapping[str, ToolKind] = {}
"""It has none; being listed makes its format that of an agent."""

_VERSION = re.compile(r"^Aider v(\S+)$", re.MULTILINE)
_MODEL = re.compile(r"^(?:Main )?[Mm]odel: (\S+)", re.MULTILINE)
_BEGIN = re.compile(r"^Repo-map:[^\n]*\n", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: [^\n]* sent, [^\n]* received\.[^\n]*\n?", re.MULTILINE)
_APPLIED = re.compile(r"^Applied edit to (.+)$", re.MULTILINE)
_ERROR = re.compile(r"^litellm\.\w+: .*?(?=\n\S[^\n]*\n(?:\n|Retrying)|\nRetrying|\n\n|\Z)", re.MULTILINE | re.DOTALL)
_RETRY = re.compile(r"^Retrying in (\d+(?:\.\d+)?) seconds\.\.\.$", re.MULTILINE)


class AiderNormalizer:
    """One run of aider by its standard output."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        printed = material.ends("stdout") or ""
        version, model, begin = _VERSION.search(printed), _MODEL.search(printed), _BEGIN.search(printed)
        said = printed[begin.end() :] if begin is not None else ""
        *answers, rest = _TOKENS.split(said)
        session = ReadSession(
            entries=tuple(_entries(said, answers, material.folder)),
            ending=_ending(answers, rest, printed=bool(said.strip()), stderr=material.ends("stderr")),
            agent_version=version[1] if version is not None else None,
            model=model[1] if model is not None else None,
            model_calls=len(answers),
        )
        return session_report(material, session, {})


def _entries(said: str, answers: list[str], folder: str | None) -> Iterator[Entry]:
    for match in _RETRY.finditer(said):
        yield RetryEvent(delay_ms=float(match[1]) * 1000)
    for answer in answers:
        yield from spoken(_without_errors(answer), at=None, line=0)
    for match in _APPLIED.finditer(said):
        yield FileWriteEvent(path=resolved(match[1].strip(), folder), ok=True)


def _without_errors(answer: str) -> str:
    """An answer without the errors and retries before it."""
    errors = list(_RETRY.finditer(answer))
    return (answer[errors[-1].end() :] if errors else answer).strip()


def _ending(answers: list[str], rest: str, *, printed: bool, stderr: str | None) -> Ending:
    errors = _ERROR.findall(rest)
    if errors:
        return failed(" ".join(errors[-1].split()))
    if not answers:
        return cut_short(printed=printed, stderr=stderr)
    return with_answer(_without_errors(answers[-1]))
