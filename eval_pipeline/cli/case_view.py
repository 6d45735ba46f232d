"""One case as text: what was asked, what each runner answered, how it was scored and why, and what it took."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from eval_pipeline.cli.tables import print_line, print_one_line
from eval_pipeline.executions.prompt import attachment_text, is_attachment
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.show import amount, counted, milliseconds, money
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.reports.events import ErrorEvent, MessageEvent, RetryEvent, is_spoken
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.moments import iso
from eval_pipeline.reports.tool_uses import ToolUse
from eval_pipeline.reports.turns import TurnStart
from eval_pipeline.scores.model import Score, Status, SubScore
from eval_pipeline.suites.model import content_text
from eval_pipeline.warehouse.case_details import CaseDetails

MOST_LINES = 14
MOST_CHARACTERS = 1_600
MOST_TOOLS = 20
COMPACT_LINES = 4
_FIELD = 11
"""The width of the names of fields."""
_STYLES = {Status.PASSED: "green", Status.EXPECTED_FAILED: "green", Status.ERROR: "yellow"}
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "yellow")}
_GRADER_FIELDS = frozenset({
    "grader", "model", "settings", "reply", "tries", "usage", "cached", "duration_ms", "prompt", "passes",
})  # fmt: skip
"""What a grader stores with each score; other details belong to the evaluator itself."""
_TOLD = frozenset({"metric", "outcome"})
"""The types of sub-scores that the findings of their score tell as well, as do its details and the grader's reply."""


def show_case(console: Console, details: Sequence[CaseDetails], artifacts: Path, *, full: bool) -> None:
    """Print the plans of one case: one in detail, several compactly below the input that they share."""
    first = details[0].row
    view = _View(console, full=full)
    print_line(console, f"{first.suite}/{first.case_id}", style="bold")
    view.input(first)
    if len(details) == 1 or full:
        for each in details:
            view.details(each, artifacts)
    else:
        for each in details:
            view.compact(each)
        console.print()
        print_line(console, "everything about one: --runner NAME; about all: --full", style="dim")


@dataclass(frozen=True, slots=True)
class _View:
    """Prints parts of a case; long texts are cut unless `full`."""

    console: Console
    full: bool

    def input(self, row: ResultRow) -> None:
        self._section("input", "\n".join(_message(each) for each in row.input))
        self._section("criteria", row.criteria or "")
        self._section("expected", "\n".join(_message(each) for each in row.expected_output))

    def compact(self, details: CaseDetails) -> None:
        row = details.row
        self.console.print()
        self._verdict(row)
        self._print(_cut(row.output or row.error or "no output", COMPACT_LINES, MOST_CHARACTERS // 4), indent=2)
        for score in row.scores:
            self._score_line(score, row.verdict.threshold)

    def details(self, details: CaseDetails, artifacts: Path) -> None:
        row, report = details.row, details.row.report
        self.console.print()
        self._verdict(row)
        self._field("reason", row.verdict.reason)
        if row.error:
            self._field("error", row.error)
        for name, output in row.hooks.items() if row.error else ():
            self._section(f"output of {name}", str(output))
        self._answer(row)
        if report is not None:
            self._section("tool calls", "\n".join(self._tools(report.tool_uses)))
            self._section("errors and retries", "\n".join(_troubles(report)))
        self._scores(row)
        self._section("changes", report.file_changes or "" if report is not None else "")
        self.console.print()
        for name, text in _measures(details):
            self._field(name, text)
        for name, text in _places(details, artifacts):
            self._field(name, text)

    def _verdict(self, row: ResultRow) -> None:
        repetition = f" · repetition {row.repetition}" if row.repetition > 1 else ""
        verdict = row.verdict
        failure = f" ({verdict.failure_class})" if verdict.failure_class else ""
        score = f"  score {amount(verdict.score, 3)} of {verdict.threshold:g}" if verdict.status.graded else ""
        style = _STYLES.get(verdict.status, "red")
        self.console.print(
            Text.assemble((f"{row.runner}{repetition}  ", "bold"), (verdict.status.value, style), f"{failure}{score}"),
            soft_wrap=True,
        )

    def _answer(self, row: ResultRow) -> None:
        report = row.report
        if report is not None and (len(report.turns) > 1 or report.turn_starts):
            spoken = (event for event in report.events if is_spoken(event, "user", "assistant"))
            self._section("conversation", "\n".join(_spoken(event) for event in spoken), lines=4 * MOST_LINES)
            if report.ended_by is not None:
                self._field("ended by", report.ended_by)
            if simulators := dict.fromkeys(name for name in map(_simulator, report.turn_starts) if name):
                self._field("simulator", ", ".join(simulators))
        else:
            self._section("answer", row.output if row.output is not None else "no output")

    def _tools(self, uses: Sequence[ToolUse]) -> Iterator[str]:
        shown = uses if self.full else uses[:MOST_TOOLS]
        for number, use in enumerate(shown, 1):
            yield f"{number}. {use.tool} {self._short(_json(use.call.arguments))}".rstrip()
            if use.result is not None:
                failed = "failed: " if use.result.is_error else ""
                output = use.result.output.strip()
                yield f"   → {failed}{output if self.full else self._short(output) or 'no output'}"
        if len(shown) < len(uses):
            yield f"… {len(uses) - len(shown)} more (--full)"

    def _short(self, text: str) -> str:
        line = " ".join(text.split())
        return line if self.full or len(line) <= 160 else f"{line[:160]}…"

    def _scores(self, row: ResultRow) -> None:
        if row.scores:
            print_line(self.console, "scores", style="bold")
        for score in row.scores:
            self._score_line(score, row.verdict.threshold, whole=True)
            codes = _failure_codes(score)
            for finding in score.findings:
                evidence = f" — {finding.evidence}" if finding.evidence else ""
                code = codes.get(finding.text.partition(":")[0], "")
                self._marked(finding.passed, self._text(f"{finding.text}{code}{evidence}"), indent=6)
            others = [member for member in score.members if member.type not in _TOLD]
            for member in others:
                self._member(member, row.verdict.threshold)
            if self.full or len(others) == len(score.members):
                for member in score.members if self.full else ():
                    if member.type in _TOLD:
                        self._other_details(member.details, f"{member.type} {member.name}: ")
                self._grader(score.details)
                self._other_details(score.details)
            elif score.details.get("grader"):
                self._print(f"{_grader_name(score.details)} (its reply: --full)", indent=6)

    def _score_line(self, score: Score, threshold: float, *, whole: bool = False) -> None:
        passed = score.passed(score.minimum if score.minimum is not None else threshold)
        required = f", required ≥ {score.minimum:g}" if score.minimum is not None else ""
        weight = f", weight {score.weight:g}" if score.weight != 1 else ""
        title = f"{score.evaluator}  {amount(score.value, 3)}  {score.type}{required}{weight}"
        if whole:
            self._marked(passed, title, indent=2)
            self._print(self._text(score.reason), indent=6)
        else:
            mark, _ = _MARKS[passed]
            print_one_line(self.console, f"  {mark} {title}: {' '.join(score.reason.split())}")

    def _member(self, member: SubScore, threshold: float) -> None:
        grader = f" by {member.grader}" if member.grader and member.grader != member.name else ""
        self._marked(
            member.passed(threshold), f"{member.name}{grader}  {amount(member.value, 3)}  {member.reason}", indent=6
        )
        self._grader(member.details, indent=8)

    def _grader(self, details: Mapping[str, Any], indent: int = 6) -> None:
        if details.get("reply") is None:
            return
        self._print(f"{_grader_name(details)} replied:", indent=indent)
        self._print(self._text(str(details["reply"])), indent=indent + 2)
        if self.full and details.get("prompt"):
            self._print("to the prompt:", indent=indent)
            self._print("\n".join(_message(each) for each in details["prompt"]), indent=indent + 2)

    def _other_details(self, details: Mapping[str, Any], of: str = "") -> None:
        others = {name: value for name, value in details.items() if name not in _GRADER_FIELDS}
        if others:
            self._print(self._text(f"{of}details {_json(others)}"), indent=6)

    def _marked(self, passed: bool | None, text: str, indent: int) -> None:
        mark, style = _MARKS[passed]
        self._print(text, indent + 2, Text.assemble(" " * indent, (mark, style), " "))

    def _section(self, title: str, text: str, lines: int = MOST_LINES) -> None:
        """Print a titled text; nothing for an empty one."""
        if text.strip():
            print_line(self.console, title, style="bold")
            self._print(self._text(text, lines), indent=2)

    def _field(self, name: str, text: str) -> None:
        self._print(self._text(text), _FIELD, Text(name.ljust(_FIELD), "dim"))

    def _text(self, text: str, lines: int = MOST_LINES) -> str:
        return text if self.full else _cut(text, lines, MOST_CHARACTERS)

    def _print(self, text: str, indent: int, lead: Text | None = None) -> None:
        """Print an indented text, `lead` before its first line; on a terminal wrapped lines keep the indent."""
        room = max(20, self.console.width - indent)
        first, *more = (
            part for line in map(escape_controls, text.splitlines() or [""]) for part in _wrapped(line, room)
        )
        margin = " " * indent
        body = "\n".join([first, *(margin + line for line in more)])
        self.console.print(Text.assemble(lead or margin, body), soft_wrap=True)


def _grader_name(details: Mapping[str, Any]) -> str:
    grader = " ".join(str(part) for part in (details.get("grader"), details.get("model")) if part)
    return f"grader {grader}" + (" (a stored reply)" if details.get("cached") else "")


def _failure_codes(score: Score) -> Mapping[str, str]:
    """Return the failure code of each metric of a judge that has one, with the turns that show it."""
    codes = {}
    for member in score.members:
        if member.type == "metric" and (code := member.details.get("failure_code")):
            turns = ", ".join(str(turn) for turn in member.details.get("turns") or ())
            codes[member.name] = f", {code}" + (f" in turn {turns}" if turns else "")
    return codes


def _wrapped(line: str, room: int) -> list[str]:
    if len(line) <= room:
        return [line]
    first, *more = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False, drop_whitespace=False)
    return [first.rstrip(), *(part.strip() for part in more)]


def _cut(text: str, lines: int, characters: int) -> str:
    """Return the beginning of a long text, with a note of what is left out."""
    kept = "\n".join(text.splitlines()[:lines])[:characters]
    if len(kept.rstrip()) >= len(text.rstrip()):
        return text.rstrip()
    more = len(text.splitlines()) - len(kept.splitlines())
    rest = counted(more, "more line") if more else counted(len(text) - len(kept), "more character")
    return f"{kept}\n… {rest} (--full)"


def _message(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else _parts(content or ()) if _has_parts(content) else _json(content)
    calls = message.get("tool_calls") or ()
    parts = [text] if text else []
    parts += [f"calls {_json(call)}" for call in calls]
    return f"{message.get('role', 'message')}: " + "\n".join(parts)


def _parts(content: Sequence[Any]) -> str:
    """Return the texts of a message in their order, attached files with their paths."""
    texts = (attachment_text(part, "inline") if is_attachment(part) else content_text([part]) for part in content)
    return "\n".join(text for text in texts if text)


def _has_parts(content: Any) -> bool:
    return isinstance(content, Sequence) and all(isinstance(part, Mapping) for part in content)


def _spoken(event: MessageEvent) -> str:
    return f"{event.role}: {event.text}"


def _simulator(start: TurnStart) -> str | None:
    return (start.speech or {}).get("simulator")


def _troubles(report: SessionReport) -> Iterator[str]:
    for number, start in enumerate(report.turn_starts, 1):
        for line in (start.speech or {}).get("discarded") or ():
            yield f"line {number} of the simulator is not used: {line['fault']}: {' '.join(line['text'].split())}"
    for event in report.events:
        if isinstance(event, ErrorEvent):
            yield event.message
        elif isinstance(event, RetryEvent):
            yield f"retry {event.attempt or ''}: {event.message or event.status or 'no reason is stored'}"


def _measures(details: CaseDetails) -> Iterator[tuple[str, str]]:
    """Yield what the plan took: tokens, cost, times, attempts."""
    row, report = details.row, details.row.report
    if report is not None:
        yield "tokens", ", ".join(_tokens(report)) or "not reported"
        of_retries = f"{money(report.retries_cost_usd)} of it beside the answer" if report.retries_cost_usd else None
        parts = (report.usage.cost_source, of_retries, report.retries_cost_note)
        notes = ", ".join(note for note in parts if note)
        yield "cost", money(report.cost_usd) + (f" ({notes})" if notes else "")
        first = f", first token after {milliseconds(report.ttft_ms)}" if report.ttft_ms is not None else ""
        yield "latency", f"{milliseconds(report.duration_ms)}{first}"
    yield "attempts", "; ".join(_attempts(details.attempts)) or str(row.attempts or 0)
    if details.exit_code is not None:
        yield "exit code", str(details.exit_code)
    model = [f"model {row.model}"] if row.model else []
    answered = [f"answered by {row.answered_by}"] if row.answered_by else []
    yield "runner", ", ".join([f"{row.runner} ({row.adapter})", *model, *answered])


def _tokens(report: SessionReport) -> Iterator[str]:
    usage = report.usage
    named = {
        "input": usage.input_tokens, "cached": usage.cached_input_tokens, "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }  # fmt: skip
    yield from (f"{name} {count:,}" for name, count in named.items() if count is not None)


def _attempts(attempts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for number, attempt in enumerate(attempts, 1):
        took = milliseconds(attempt.get("duration_ms"))
        failure = attempt.get("failure_class")
        outcome = f"{failure}: {attempt.get('error') or ''}".rstrip(": ") if failure else "completed"
        yield f"{number} {outcome} ({took})"


def _places(details: CaseDetails, artifacts: Path) -> Iterator[tuple[str, str]]:
    """Yield where the plan's rows, files and workspace are."""
    row = details.row
    yield "execution", f"{row.execution_id} of sweep {row.sweep_id}, {iso(row.started_at) or 'not started'}"
    if row.suite_path:
        yield "suite", row.suite_path
    yield from _files({artifacts / file["path"]: file["bytes"] for file in details.artifacts if file["bytes"]})
    folder = details.workspace.get("path")
    if folder:
        yield "workspace", _path(Path(folder))


def _files(sizes: Mapping[Path, int]) -> Iterator[tuple[str, str]]:
    """Yield the folder of the files that are not empty, and each file in it."""
    if not sizes:
        return
    folder = Path(os.path.commonpath([path.parent for path in sizes]))
    yield "artifacts", _path(folder)
    for path, size in sizes.items():
        yield "", f"{path.relative_to(folder)} ({size:,} bytes)"


def _path(path: Path) -> str:
    return show_path(path) if path.exists() else f"{show_path(path)}, deleted since"


def _json(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else to_json(value).decode()
