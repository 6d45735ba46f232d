"""`conversation`: the turns of a live conversation, each read by the normalizer of its own format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.executions.exchanges import FORMAT, GIVEN_UP
from eval_pipeline.executions.raw_turns import RawTurn, turns_of
from eval_pipeline.llm.reading import amount, mappings, text
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, TurnStart, Usage
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession, normalize_raw
from eval_pipeline.reports.usage import total_usage


@dataclass(frozen=True, slots=True)
class _ReadTurn:
    """A turn with the report of its session."""

    raw: RawTurn
    report: SessionReport

    @property
    def duration_ms(self) -> float | None:
        """The target's reported time by adapter or report, else the turn's time as measured from outside."""
        raw = self.raw.raw
        reported = raw.duration_ms if raw.duration_ms is not None else self.report.duration_ms
        return reported if reported is not None else amount(raw.payload.get("elapsed_ms", self.raw.elapsed_ms))

    @property
    def is_counted(self) -> bool:
        """Whether the turn has a part in the usage: a refused turn whose tokens are not known used none."""
        return not self.raw.failed or self.report.usage != Usage()

    @property
    def is_unspoken(self) -> bool:
        """Whether the simulator had nothing usable to say, so that the target was not called."""
        return "fault" in (self.raw.speech or ())

    @property
    def is_answered(self) -> bool:
        """Whether the target brought something back, whole or not."""
        return not (self.raw.failed and self.raw.raw.format == FORMAT and not self.raw.raw.payload.get("turns"))

    @property
    def model_calls(self) -> int | None:
        """The calls in the turn; one that was not answered is a call."""
        calls = self.report.model_calls if self.is_answered else 1
        return 1 if calls is None and self.raw.failed else calls

    def events(self) -> tuple[Event, ...]:
        """Return the messages to the target, then its events without repeated messages of the user."""
        messages = (MessageEvent(role=message["role"], text=message["text"]) for message in self.raw.messages)
        return (*messages, *(event for event in self.report.events if not _is_repeated(event)))

    def start(self, position: int) -> TurnStart:
        """Where the turn begins in the events of the whole conversation, and what was measured of it."""
        return TurnStart(
            position=position,
            messages=len(self.raw.messages),
            speaker=self.raw.speaker,
            usage=self.report.usage,
            duration_ms=self.duration_ms,
            ttft_ms=self.report.ttft_ms,
            model_calls=self.model_calls,
            model=self.report.model,
            speech=self.raw.speech,
            failed=self.raw.failed and not self.is_unspoken,
        )


@NORMALIZERS.register("conversation")
class ConversationNormalizer:
    """One report of all turns: messages and events in order, usage added up, and where each turn begins."""

    version = "8"

    def normalize(self, material: RawSession) -> SessionReport:
        turns = [_ReadTurn(turn, _report(material, turn)) for turn in turns_of(material.raw)]
        given_up = tuple(mappings(material.raw.payload.get(GIVEN_UP)))
        if not turns:
            return SessionReport(execution_id=material.execution_id, given_up=given_up)
        called = [turn for turn in turns if not turn.is_unspoken]
        reports = [turn.report for turn in called] or [turns[-1].report]
        last = next((turn.report for turn in reversed(turns) if turn.is_answered), reports[-1])
        failed = next((report for report in reports if report.failure_class is not None), last)
        return replace(
            last,
            final_output=_last_words(turns),
            prompt="\n\n".join(message["text"] for turn in turns for message in turn.raw.messages),
            failure_class=failed.failure_class,
            error=failed.error,
            usage=total_usage([turn.report.usage for turn in turns if turn.is_counted]),
            events=tuple(event for turn in turns for event in turn.events()),
            skills=tuple(dict.fromkeys(skill for report in reports for skill in report.skills)),
            started_at=reports[0].started_at,
            ttft_ms=reports[0].ttft_ms,
            model_calls=_sum(turn.model_calls for turn in called) if called else None,
            unparsed_lines=sum(report.unparsed_lines for report in reports),
            unknown_events=_counts(reports),
            duration_ms=_sum(report.duration_ms for report in reports),
            turn_starts=tuple(_starts(turns)),
            ended_by=text(material.raw.payload.get("ended_by")),
            given_up=given_up,
        )


def _last_words(turns: Sequence[_ReadTurn]) -> str | None:
    """Return the target's last message to the user: that of an earlier turn where the latest failed without words."""
    words = ((turn.report.final_output, turn.raw.failed) for turn in reversed(turns))
    return next((output for output, failed in words if output is not None or not failed), None)


def _report(material: RawSession, turn: RawTurn) -> SessionReport:
    return normalize_raw(replace(material, raw=turn.raw))


def _is_repeated(event: Event) -> bool:
    return isinstance(event, MessageEvent) and event.role == "user" and not event.injected


def _starts(turns: Sequence[_ReadTurn]) -> Iterator[TurnStart]:
    position = 0
    for turn in turns:
        yield turn.start(position)
        position += len(turn.events())


def _sum(values: Iterable[Any]) -> Any:
    """Return the sum; None when one of the values is unknown."""
    known = list(values)
    return None if None in known else sum(known)


def _counts(reports: Iterable[SessionReport]) -> Mapping[str, int]:
    totals: dict[str, int] = {}
    for report in reports:
        for kind, count in report.unknown_events.items():
            totals[kind] = totals.get(kind, 0) + count
    return totals
