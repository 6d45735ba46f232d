"""`agentv`: AgentV's run folder, for its own tools and for scripts that read it.

A test has one row, whatever its repetitions: see `trials`. Three differences are deliberate: executions never share a
folder; an execution passes by its case's own threshold, everywhere; and ungraded executions are left out of the rates,
with a note. An unknown number is null, except for the `score` of an `execution_error`: it is 0 because AgentV's readers
require a number; they also check `execution_status`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import orjson

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.fingerprints import to_json
from eval_pipeline.formats.agentv.results import (
    assertions,
    evaluator_json,
    index_fields,
    token_usage,
)
from eval_pipeline.formats.agentv.trials import best_of, by_test, common_result, trials
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.messages import known, output_messages
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.moments import iso
from eval_pipeline.reports.unified_diff import changed_files
from eval_pipeline.scores.model import Status
from eval_pipeline.scores.trace import summarize_trace
from eval_pipeline.suites.model import content_text

_LONGEST_NAME = 100
_DIGITS = 3


@EXPORTS.register("agentv")
class AgentVRun:
    """`index.jsonl`, `benchmark.json`, `timing.json`, a folder per execution with grading, timing, input, answer."""

    folder: ClassVar[bool] = True
    default_folder: ClassVar[str] = ".agentv/results/runs"
    paths: ClassVar[Sequence[tuple[str, str]]] = (
        ("grading_path", "grading.json"), ("timing_path", "timing.json"), ("input_path", "input.md"),
        ("output_path", "outputs/response.md"), ("response_path", "outputs/response.md"),
    )  # fmt: skip
    """Fields of a row of the index, and the files of its execution that they name."""

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        run, folders = _Run(), _Folders()
        for repetitions in by_test(records):
            yield from self._test(repetitions, folders, options)
            run.add(common_result(repetitions), repetitions)
        yield FileChunk("benchmark.json", pretty(self.benchmark(run.benchmark(options), options)))
        yield FileChunk("timing.json", pretty(run.timing()))
        if not run.cases:
            yield FileChunk("index.jsonl", b"")

    def _test(self, repetitions: Sequence[ResultRow], folders: _Folders, options: ExportOptions) -> Iterator[FileChunk]:
        """Yield the row of a test, and the files of each repetition; the row names those of the best."""
        best = best_of(repetitions)
        places = {best.repetition: folders.of(best, is_first=True)}
        places |= {each.repetition: folders.of(each) for each in repetitions if each is not best}
        folder, files = places[best.repetition], dict(self.files(best))
        row = self.index_row(common_result(repetitions), folder, options) | trials(repetitions, places)
        paths = {key: f"{folder}/{name}" for key, name in self.paths if name in files}
        yield FileChunk("index.jsonl", to_json(row | paths) + b"\n")
        for each in repetitions:
            written = files if each is best else dict(self.files(each))
            yield from (FileChunk(f"{places[each.repetition]}/{name}", data) for name, data in written.items())

    def index_row(self, record: ResultRow, folder: str, options: ExportOptions) -> dict[str, Any]:
        """Return a row of the index without the paths of its files."""
        return index_fields(record) | {"score": record.verdict.score or 0}

    def benchmark(self, benchmark: dict[str, Any], options: ExportOptions) -> dict[str, Any]:
        """Return the values of `benchmark.json`."""
        return benchmark

    def files(self, record: ResultRow) -> Iterator[tuple[str, bytes]]:
        """Yield the files of one execution; empty ones are left out."""
        yield "grading.json", pretty(grading(record))
        yield from self.common_files(record)
        if record.output is not None:
            yield "outputs/response.md", _blocks([("assistant", record.output)])

    def common_files(self, record: ResultRow) -> Iterator[tuple[str, bytes]]:
        """Yield the files that all versions have alike."""
        yield "timing.json", pretty(_timing([record]))
        if record.input:
            blocks = [(str(each.get("role")), content_text(each.get("content"))) for each in record.input]
            yield "input.md", _blocks(blocks)


def _blocks(messages: Sequence[tuple[str, str]]) -> bytes:
    text = "\n\n".join(f"@[{role}]:\n{text}" for role, text in messages) + "\n"
    return text.encode("utf-8", "replace")


def grading(record: ResultRow) -> dict[str, Any]:
    """Return the values of `grading.json`."""
    mark = record.verdict.threshold
    checked = [assertion for score in record.scores for assertion in assertions(score, mark)]
    passed = sum(assertion["passed"] for assertion in checked)
    summary = {
        "passed": passed,
        "failed": len(checked) - passed,
        "total": len(checked),
        "pass_rate": _rounded(passed / len(checked)) if checked else None,
    }
    return known({
        "assertions": checked,
        "summary": summary,
        "execution_metrics": _metrics(record),
        "evaluators": [evaluator_json(score, mark) for score in record.scores],
        "workspace_changes": _changes(record),
        "conversation": _conversation(record),
    })  # fmt: skip


def _metrics(record: ResultRow) -> dict[str, Any]:
    trace = summarize_trace(record.report) if record.report is not None else None
    if trace is None:
        return {"tool_calls": {}, "total_tool_calls": None, "errors_encountered": None}
    return {
        "tool_calls": dict(trace.tool_calls),
        "total_tool_calls": trace.event_count,
        "errors_encountered": trace.error_count,
    }


def _changes(record: ResultRow) -> dict[str, Any] | None:
    diff = record.report.file_changes if record.report is not None else None
    if not diff:
        return None
    files = changed_files(diff)
    created = sum(file.created for file in files)
    return {
        "files_modified": len(files) - created,
        "files_created": created,
        "diff_summary": f"{len(files)} files changed, {sum(file.added for file in files)} lines added, "
        f"{sum(file.removed for file in files)} removed",
    }


def _conversation(record: ResultRow) -> dict[str, Any] | None:
    if record.conversation_id is None:
        return None
    turns = _turns(record.report) if record.report is not None else 0
    return {"turns": turns, "conversation_id": record.conversation_id}


def _turns(report: SessionReport) -> int:
    """Return the number of turns as AgentV counts them: of a live conversation, else the target's messages."""
    return len(report.turn_starts) or sum(message["role"] == "assistant" for message in output_messages(report))


def _timing(records: Sequence[ResultRow]) -> dict[str, Any]:
    return _timing_of([_measures(record) for record in records])


def _measures(record: ResultRow) -> dict[str, float | None]:
    usage = record.report.usage if record.report is not None else None
    counted = token_usage(record) or {}
    return {
        "duration_ms": record.duration_ms,
        "input": counted.get("input"),
        "output": counted.get("output"),
        "reasoning": counted.get("reasoning"),
        "cost_usd": usage.cost_usd if usage is not None else None,
        "tokens": _sum([usage.uncached_input_tokens, usage.output_tokens]) if usage is not None else None,
    }


def _measured(record: ResultRow) -> dict[str, float | None]:
    trace = summarize_trace(record.report) if record.report is not None else None
    return {**_measures(record), "tool_calls": trace.event_count if trace is not None else None}


def _timing_of(measured: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    sums = {name: _sum([each[name] for each in measured]) for name in ("duration_ms", "input", "output", "reasoning")}
    duration = sums["duration_ms"]
    return {
        "total_tokens": _sum([sums["input"], sums["output"]]),
        "duration_ms": duration,
        "total_duration_seconds": _rounded(duration / 1000) if duration is not None else None,
        "token_usage": {name: sums[name] for name in ("input", "output", "reasoning")},
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None, not 0, without any."""
    counted = [value for value in values if value is not None]
    return sum(counted) if counted else None


@dataclass(slots=True)
class _Run:
    """Values for the files about the whole run, accumulated execution by execution."""

    cases: set[str] = field(default_factory=set)
    suite_paths: dict[str, None] = field(default_factory=dict)
    passed: dict[str, list[float]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    measured: dict[str, list[dict[str, float | None]]] = field(default_factory=dict)
    graders: dict[str, list[float]] = field(default_factory=dict)

    def add(self, record: ResultRow, repetitions: Sequence[ResultRow]) -> None:
        """Count a test by its common result, and what all of its repetitions took."""
        self.cases.add(record.case_id)
        if record.suite_path is not None:
            self.suite_paths[record.suite_path] = None
        passed = self.passed.setdefault(record.runner, [])
        if record.verdict.status is Status.ERROR:
            self.errors[record.runner] += 1
        else:
            passed.append(float(record.verdict.status.as_expected))
        self.measured.setdefault(record.runner, []).extend(map(_measured, repetitions))
        for score in record.scores:
            if score.value is not None:
                self.graders.setdefault(f"{score.evaluator}:{score.type}", []).append(score.value)

    def timing(self) -> dict[str, Any]:
        return _timing_of([each for measured in self.measured.values() for each in measured])

    def benchmark(self, options: ExportOptions) -> dict[str, Any]:
        return {
            "metadata": {
                "eval_file": ", ".join(self.suite_paths),
                "timestamp": iso(options.at),
                "targets": sorted(self.measured),
                "tests_run": sorted(self.cases),
            },
            "run_summary": {runner: self._summary(runner) for runner in sorted(self.measured)},
            "per_grader_summary": {name: _spread(self.graders[name]) for name in sorted(self.graders)},
            "notes": [
                f"{runner}: {count} of {len(self.measured[runner])} could not be graded and are not in pass_rate"
                for runner, count in sorted(self.errors.items())
            ],
        }

    def _summary(self, runner: str) -> dict[str, Any]:
        def of(name: str) -> list[float]:
            return [value for each in self.measured[runner] if (value := each[name]) is not None]

        always = {
            "pass_rate": self.passed[runner],
            "time_seconds": [duration / 1000 for duration in of("duration_ms")],
            "tokens": of("tokens"),
        }
        sometimes = {name: of(name) for name in ("tool_calls", "cost_usd")}
        chosen = always | {name: values for name, values in sometimes.items() if values}
        return {name: _spread(values) for name, values in chosen.items()}


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    """Return mean and population deviation, with AgentV's rounding."""
    if not values:
        return {"mean": None, "stddev": None}
    middle = sum(values) / len(values)
    return {
        "mean": _rounded(middle),
        "stddev": _rounded((sum((value - middle) ** 2 for value in values) / len(values)) ** 0.5),
    }


def _rounded(value: float) -> float:
    return round(value, _DIGITS)


def pretty(value: object) -> bytes:
    """Return a value as indented JSON."""
    try:
        return orjson.dumps(value, option=_INDENTED)
    except orjson.JSONEncodeError:  # for example lone surrogates, which `to_json` replaces
        return orjson.dumps(orjson.loads(to_json(value)), option=_INDENTED)


_INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


@dataclass(slots=True)
class _Folders:
    """One folder per execution: `suite/case`, then the runner unless it is the suite's first, the repetition unless it
    is the test's best, and a number where names collide by sanitizing or letter case."""

    taken: set[str] = field(default_factory=set)
    first_runner: dict[str, str] = field(default_factory=dict)

    def of(self, record: ResultRow, *, is_first: bool = False) -> str:
        first = self.first_runner.setdefault(record.suite, record.runner)
        suite = segment(record.suite)
        parts = [f"_{suite}" if suite.lower() in _RUN_FILES else suite, segment(record.case_id)]
        parts += [segment(record.runner)] if record.runner != first else []
        parts += [] if is_first else [f"repetition-{record.repetition}"]
        base = "/".join(parts)
        folder, number = base, 1
        while folder.lower() in self.taken:
            number += 1
            folder = f"{base}-{number}"
        self.taken |= {folder.lower(), f"{folder.lower()}/outputs"}
        return folder


_RUN_FILES = ("index.jsonl", "benchmark.json", "timing.json")
_ODD = re.compile(r"[^\w.-]+")
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?\Z")


def segment(name: str) -> str:
    """Return a name as one path segment on any system; a long name is shortened and ends in its hash."""
    safe = _ODD.sub("_", name).strip(".") or "_"
    if len(safe) > _LONGEST_NAME:
        safe = f"{safe[:_LONGEST_NAME]}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f"_{safe}" if _DEVICES.match(safe) else safe
