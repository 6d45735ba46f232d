"""Execution → SessionReport: the verb of the room. Each raw format has a normalizer (`normalizers/`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from eval_pipeline.errors import SourceLocation, UnknownName
from eval_pipeline.executions.model import Execution, RawExecution, Runner
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.failures import NORMALIZATION, OUTPUT_LIMIT
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.llm.reading import amount
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.endings import with_output_quoted
from eval_pipeline.reports.jsonl_records import Records, read_records
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, TurnStart, Usage
from eval_pipeline.reports.recent_reports import recall
from eval_pipeline.reports.record_files import read_document, read_ends, read_record_file
from eval_pipeline.reports.retries import Prices, PricesOf, priced, retries_cost_usd, with_cost, without_computed_cost
from eval_pipeline.reports.tool_kinds import TOOL_KINDS, kind_in_format
from eval_pipeline.reports.wire_usage import with_wire_checked
from eval_pipeline.suites.model import Case

Known = TypeVar("Known")
_MOST_TEXT = 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSession:
    """Input of a normalizer: the raw execution, its case, and the folder that the target worked in."""

    execution_id: str
    raw: RawExecution
    case: Case
    cwd: Path | None = None
    left_out: dict[str, Records] = field(init=False, default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> str | None:
        """The folder that the target worked in: as given, else as the adapter noted it."""
        noted = self.raw.payload.get("cwd")
        return str(self.cwd) if self.cwd is not None else noted if isinstance(noted, str) else None

    def text(self, role: str) -> str | None:
        """Return the text of a raw file (UTF-8, invalid bytes as U+FFFD), else the payload entry `role`, else None."""
        return self._text(role, lambda path: path.read_bytes().decode("utf-8", "replace"))

    def ends(self, role: str, most_bytes: int = _MOST_TEXT) -> str | None:
        """Return the same text; the beginning and the end of one that is larger than `most_bytes`."""
        return self._text(role, lambda path: read_ends(path, most_bytes))

    def document(self, role: str) -> str | None:
        """Return the same text, which is JSON; texts in a large one are cut."""
        return self._text(role, read_document)

    def records(self, role: str, essential: Collection[str] = ()) -> Records:
        """Return the records of the same text, which is JSONL; a large file is read in part (`record_files.py`).

        Records of the types `essential` are never left out.
        """
        if role not in self.raw.files:
            return read_records(self.text(role))
        records = read_record_file(self.raw.files[role], essential)
        if records.left_out:
            self.left_out[role] = records
        return records

    def _text(self, role: str, read: Callable[[Path], str]) -> str | None:
        if role in self.raw.files:
            return read(self.raw.files[role])
        inline = self.raw.payload.get(role)
        return inline if isinstance(inline, str) else None


class Normalizer(Protocol):
    """Reader of one raw format. Increase `version` when the same raw execution gives another report."""

    version: str

    def normalize(self, material: RawSession) -> SessionReport:
        """Return the report. An exception gives a report of failure class `normalization`."""


NORMALIZERS: Registry[Callable[[], Normalizer]] = Registry(
    "normalizer",
    folder="eval_pipeline.reports.normalizers",
    entry_point_group="eval_pipeline.normalizers",
    requires=("version", "normalize"),
    bundles={"eval_pipeline.agents": "normalizers"},
)


def normalize(execution: Execution, case: Case, runner: Runner, prices_of: PricesOf | None = None) -> SessionReport:
    """Return the session report of an execution.

    Times, cost by the runner's prices and the reason of a failed execution are added here for every format. The
    target's own time, from adapter or report, takes precedence over the time of the attempt. A normalizer that raises
    gives a report of failure class `normalization` that keeps the facts of the execution. `prices_of` returns the
    prices of other runners that were called before the one that answered.
    """
    report = _read(execution, case)
    exit_code, own_duration = (execution.raw.exit_code, execution.raw.duration_ms) if execution.raw else (None, None)
    return _with_costs(
        replace(
            report,
            prompt=report.prompt if report.prompt is not None else prompt_text(case),
            model=report.model or runner.model,
            exit_code=_first_known(exit_code, report.exit_code),
            failure_class=execution.failure_class or report.failure_class,
            error=execution.error or report.error,
            started_at=report.started_at or _iso(execution.started_at),
            ended_at=report.ended_at or _iso(execution.finished_at),
            duration_ms=_first_known(own_duration, report.duration_ms, _elapsed_ms(execution)),
            file_changes=execution.workspace.changes if execution.workspace is not None else report.file_changes,
        ),
        execution, runner, prices_of,
    )  # fmt: skip


def _with_costs(
    report: SessionReport, execution: Execution, runner: Runner, prices_of: PricesOf | None
) -> SessionReport:
    """Return a report with what the answer, its turns, and everything beside it cost."""

    def of(name: str) -> Prices | None:
        answered = name == (execution.answered_by or execution.runner)
        return runner.prices if answered or prices_of is None else prices_of(name)

    usage, given_up = _usage(execution, report, runner.prices), priced(report.given_up, execution, of)
    return replace(
        report,
        usage=usage,
        turn_starts=_priced(report.turn_starts, runner.prices) if report.turn_starts else (),
        given_up=tuple(given_up),
        retries_cost_usd=retries_cost_usd(given_up, execution, usage, of),
    )


def prices_key(*prices: Mapping[str, float]) -> str | None:
    """Return the identity of the prices of a runner, or of several in order, by which a stored cost is known to be up
    to date; None without prices."""
    if not any(prices):
        return None
    return fingerprint(prices[0] if len(prices) == 1 else [dict(each) for each in prices])[:16]


def repriced(
    report: SessionReport, execution: Execution, runner: Runner, prices_of: PricesOf | None = None
) -> SessionReport:
    """Return a stored report with its cost by the runner's prices of today; a reported cost stays."""
    starts = (replace(start, usage=without_computed_cost(start.usage)) for start in report.turn_starts)
    report = replace(report, usage=without_computed_cost(report.usage), turn_starts=tuple(starts))
    return _with_costs(report, execution, runner, prices_of)


def _usage(execution: Execution, report: SessionReport, prices: Prices) -> Usage:
    """Return the usage of the answer with its cost. An attempt that failed without one costs what its call costs."""
    is_talk = bool(report.given_up or report.turn_starts)
    if execution.raw is not None and not (is_talk and _is_unanswered(execution, report)):
        calls = report.model_calls if report.model_calls is not None else max(1, len(report.turn_starts))
        return with_cost(report.usage, prices, calls)
    if not execution.calls:
        return report.usage
    by_call = bool(prices) and (bool(report.given_up) or "per_call" in prices)
    return with_cost(report.usage, {"per_call": prices.get("per_call", 0.0)} if by_call else prices, 1)


def _is_unanswered(execution: Execution, report: SessionReport) -> bool:
    """Return whether the target failed in its first turn, so that its tokens are not known."""
    return execution.failure_class is not None and report.final_output is None and report.usage == Usage()


def _priced(starts: Sequence[TurnStart], prices: Prices) -> tuple[TurnStart, ...]:
    """Return turns with their cost. One that failed, so that its tokens are not known, costs what its call costs."""
    by_call = {"per_call": prices["per_call"]} if "per_call" in prices else {}
    return tuple(
        replace(start, usage=with_cost(start.usage, by_call if _is_refused(start) else prices, start.model_calls))
        for start in starts
    )


def _is_refused(start: TurnStart) -> bool:
    return start.failed and start.usage == Usage()


def _elapsed_ms(execution: Execution) -> float | None:
    """Return the target's time as measured from outside: `elapsed_ms` of the payload, else the duration of the attempt.

    None in the payload is unknown: a replayed answer has no time of its own.
    """
    payload = execution.raw.payload if execution.raw is not None else {}
    return amount(payload["elapsed_ms"]) if "elapsed_ms" in payload else execution.duration_ms


def check_format(runner: Runner) -> None:
    """Raise UnknownName where a runner names a format that nothing reads: its answers would be paid for nothing."""
    format_ = runner.settings.get("format")
    if isinstance(format_, str) and NORMALIZERS.find(format_) is None:
        raise UnknownName("normalizer", format_, NORMALIZERS.names(), SourceLocation(field="format"))


def normalizer_version(format_: str) -> str:
    """Return the identity of the normalizer of a format, which is part of a report's identity."""
    factory = NORMALIZERS.find(format_)
    return f"{format_}/{factory().version}" if factory is not None else f"{format_}/none"


def _read(execution: Execution, case: Case) -> SessionReport:
    raw = execution.raw
    if raw is not None and execution.failure_class == OUTPUT_LIMIT.id:  # a cut output is kept, and not read
        raw = _without_cut_turn(raw) if case.is_conversation else None
    if raw is None:
        return SessionReport(execution_id=execution.execution_id)
    material = RawSession(execution_id=execution.execution_id, raw=raw, case=case)
    known = recall(raw)
    if known is not None:
        return replace(known, execution_id=execution.execution_id)
    try:
        return normalize_raw(material)
    except Exception as error:  # noqa: BLE001 — the one boundary to normalizers: what they cannot read becomes a report
        problem = f"{raw.format}: {type(error).__name__}: {error}"
        return SessionReport(execution_id=execution.execution_id, failure_class=NORMALIZATION.id, error=problem)


def _without_cut_turn(raw: RawExecution) -> RawExecution | None:
    """Return a conversation whose failed turn has nothing of the target; None for a raw execution without turns."""
    turns = raw.payload.get("turns")
    if not isinstance(turns, list):
        return None
    unread = {"format": raw.format, "payload": {"turns": []}}
    return replace(
        raw, payload={**raw.payload, "turns": [{**turn, **(unread if turn.get("failed") else {})} for turn in turns]}
    )


def normalize_raw(material: RawSession) -> SessionReport:
    """Return the report of a raw execution by the normalizer of its format, with the kinds of its tools."""
    report = NORMALIZERS.get(material.raw.format)().normalize(material)
    for role, records in material.left_out.items():
        report = _with_gap(report, role, records)
    report = with_output_quoted(report, partial(material.ends, "stdout"))
    report = _with_facts(report, material.raw.payload)
    wire = material.raw.files.get("wire")
    report = with_wire_checked(report, wire) if wire is not None else report
    return _with_tool_kinds(report, material.raw.format) if report.tool_calls else report


def _with_facts(report: SessionReport, payload: Mapping[str, Any]) -> SessionReport:
    """Return the report with what its adapter knows of the agent: the version of its program, and what of the usage
    belongs to earlier turns of its session."""
    version, before = payload.get("agent_version"), payload.get("usage_before")
    if report.agent_version is None and isinstance(version, str):
        report = replace(report, agent_version=version)
    if not isinstance(before, Mapping):
        return report
    now = {name: getattr(report.usage, name) for name in before}
    left = {name: max(0, value - before[name]) for name, value in now.items() if value is not None}
    return replace(report, usage=replace(report.usage, **left))


def _with_gap(report: SessionReport, role: str, records: Records) -> SessionReport:
    """Return the report with a note where records are left out."""
    gap = records.gap or 0
    note = f"{records.left_out:,} lines of {role} from line {gap:,} on are left out here; the stored file has them"
    before = next((at for at, event in enumerate(report.events) if (event.line or 0) >= gap), len(report.events))
    event = MessageEvent(role="system", text=note, injected=True, line=gap)
    return replace(report, events=(*report.events[:before], event, *report.events[before:]))


def _with_tool_kinds(report: SessionReport, format_: str) -> SessionReport:
    """Return the report with the kind of each tool call; unchanged for a format without tool names of its own."""
    if TOOL_KINDS.find(format_) is None:
        return report
    events = (
        replace(event, tool_kind=kind_in_format(event.tool, format_))
        if isinstance(event, ToolCallEvent) and event.tool_kind is None
        else event
        for event in report.events
    )
    return replace(report, events=tuple(events))


def _first_known(*values: Known | None) -> Known | None:
    return next((value for value in values if value is not None), None)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
