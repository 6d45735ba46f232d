"""Results that other evaluation systems stored: the registry of their formats, and what all of them hold.

A format reads one file into samples. How samples become a suite, recordings and runners is in `cli/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.errors import InputError
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.events import RecordedScoreEvent
from eval_pipeline.reports.model import SessionReport


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSample:
    """One answer of one system to one case.

    `suite` is the task, `runner` the system as its log names it. `input` is a text or a list of messages with `role`
    and `content`; `expected_output` is a text or a list of texts. `repetition` counts from 1. `report` is what is known
    of the session, with a `RecordedScoreEvent` for each score. `scorers` are the scores that its log sets for every
    sample, as far as it names them: one that failed has none. `task` is the whole name of the task, where that is more.
    """

    suite: str
    runner: str
    case_id: str
    repetition: int
    input: str | Sequence[Mapping[str, Any]]
    report: SessionReport
    expected_output: str | Sequence[str] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    scorers: tuple[str, ...] = ()
    task: str = ""

    @property
    def scores(self) -> tuple[RecordedScoreEvent, ...]:
        """The scores that the other system gave."""
        return tuple(event for event in self.report.events if isinstance(event, RecordedScoreEvent))


class OtherKind(InputError):
    """A file has a name as results have, and holds something else."""


class ResultLogFormat(Protocol):
    """The files in which one system keeps results."""

    @property
    def patterns(self) -> Sequence[str]:
        """The names of its files, as patterns."""
        ...

    def samples(self, path: Path) -> Iterator[RecordedSample]:
        """Yield the samples of a file.

        Raises OtherKind for a file of another kind, InputError for a broken one, OSError for an unreadable one.
        """
        ...


RESULT_LOGS: Registry[ResultLogFormat] = Registry(
    "format of stored results", folder=None, entry_point_group="eval_pipeline.result_logs"
)


def recorded_score(name: str, raw: Any, message: Any = None) -> RecordedScoreEvent:
    """Return the score of another system: `value` for a number or a truth value, `raw` for anything else."""
    text = message if isinstance(message, str) and message else None
    if isinstance(raw, (bool, int, float)):
        return RecordedScoreEvent(name=name, value=float(raw), message=text)
    return RecordedScoreEvent(name=name, raw=raw, message=text)
