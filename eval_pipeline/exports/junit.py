"""`junit`: XML for CI systems, in the schema of Jenkins.

A case that failed has a `failure`, one that could not be graded an `error`; a case passes by its own threshold.
A case that failed as expected is `skipped`, as pytest writes its xfails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar
from xml.sax.saxutils import escape, quoteattr

from eval_pipeline.exports import EXPORTS, ExportOptions, FileChunk
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.sweep_gates import SweepGate
from eval_pipeline.parsing.visible import visible_xml
from eval_pipeline.scores.model import Score, Status

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUTCOMES = {
    Status.FAILED: "failure",
    Status.UNEXPECTED_PASSED: "failure",
    Status.ERROR: "error",
    Status.EXPECTED_FAILED: "skipped",
}


@dataclass(slots=True)
class _TestSuite:
    """The cases of one suite × runner, written and counted. `time_s` is None while no case has a known duration."""

    name: str
    tests: int = 0
    time_s: float | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("failure", "error", "skipped"), 0))
    body: list[bytes] = field(default_factory=list)

    def add(self, record: ResultRow) -> None:
        outcome = _OUTCOMES.get(record.verdict.status)
        self.tests += 1
        if record.duration_ms is not None:
            self.time_s = (self.time_s or 0.0) + record.duration_ms / 1000
        if outcome is not None:
            self.counts[outcome] += 1
        self.body.append(_case(record, outcome).encode())

    @property
    def attributes(self) -> dict[str, Any]:
        return {"tests": self.tests, "failures": self.counts["failure"], "errors": self.counts["error"],
                "skipped": self.counts["skipped"], "time": _seconds(self.time_s)}  # fmt: skip


@EXPORTS.register("junit")
class JUnit:
    """One `testsuite` per suite and runner, one `testcase` per plan, with measures and the evaluators' reasons."""

    folder: ClassVar[bool] = False

    def pieces(self, records: Iterable[ResultRow], options: ExportOptions) -> Iterator[FileChunk]:
        suites: list[_TestSuite] = []
        for (suite, runner), group in groupby(records, key=lambda record: (record.suite, record.runner)):
            suites.append(_TestSuite(f"{suite} · {runner}"))
            for record in group:
                suites[-1].add(record)
        times = [suite.time_s for suite in suites if suite.time_s is not None]
        all_ = _TestSuite(options.name, sum(suite.tests for suite in suites), sum(times) if times else None)
        all_.counts = {name: sum(suite.counts[name] for suite in suites) for name in all_.counts}
        yield FileChunk("", b'<?xml version="1.0" encoding="UTF-8"?>\n')
        yield FileChunk("", _open("testsuites", {"name": all_.name, **all_.attributes}).encode() + b"\n")
        for suite in suites:
            head = _open(
                "testsuite", {"name": suite.name, **suite.attributes, "timestamp": f"{options.at:%Y-%m-%dT%H:%M:%S}"}
            )
            yield FileChunk("", f"  {head}\n".encode())
            yield from (FileChunk("", case) for case in suite.body)
            yield FileChunk("", b"  </testsuite>\n")
        yield FileChunk("", b"</testsuites>\n")


_GATE_OUTCOMES = {"NO-GO": "failure", "INCONCLUSIVE": "skipped"}


def gate_document(sweep: str, gate: SweepGate) -> str:
    """Return the gate of a sweep as XML: a `testcase` per rule, a `failure` where it is shown to be missed, `skipped`
    where that is open."""
    outcomes = [_GATE_OUTCOMES.get(line.decision) for line in gate.lines]
    counts = {"tests": len(outcomes), "failures": outcomes.count("failure"), "skipped": outcomes.count("skipped")}
    name = f"gate of {sweep}"
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', _open("testsuites", {"name": name, **counts})]
    lines.append("  " + _open("testsuite", {"name": name, **counts}))
    for line, outcome in zip(gate.lines, outcomes, strict=True):
        head = _open("testcase", {"classname": f"gate.{sweep}", "name": f"{line.subject}: {line.rule}"})
        why = _open(outcome, {"message": str(line)}, "/") if outcome is not None else ""
        lines.append(f"    {head}{why}<system-out>{_text(f'{line.decision} {line}')}</system-out></testcase>")
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""])


def _case(record: ResultRow, outcome: str | None) -> str:
    name = record.case_id if record.repetition == 1 else f"{record.case_id} #{record.repetition}"
    time = _seconds(record.duration_ms / 1000 if record.duration_ms is not None else None)
    head = {"classname": f"{record.suite}.{record.runner}", "name": name, "time": time}
    lines = [_open("testcase", head), "  <properties>"]
    lines += [f"    {_open('property', {'name': key, 'value': value}, '/')}" for key, value in _properties(record)]
    lines.append("  </properties>")
    if outcome is not None:
        verdict = record.verdict
        why = {"message": verdict.reason, "type": verdict.failure_class if outcome != "skipped" else None}
        lines.append(f"  {_open(outcome, why)}{_text(_details(record))}</{outcome}>")
    lines += [f"  <system-out>{_text(_reasons(record.scores))}</system-out>", "</testcase>"]
    return "".join(f"    {line}\n" for line in lines)


def _properties(record: ResultRow) -> Iterator[tuple[str, Any]]:
    usage = record.report.usage if record.report is not None else None
    verdict = record.verdict
    yield from (
        (name, value)
        for name, value in (
            ("status", verdict.status.value),
            ("score", verdict.score),
            ("threshold", verdict.threshold),
            ("failure_class", verdict.failure_class),
            ("incomplete", verdict.incomplete),
            ("repetition", record.repetition),
            ("model", record.model),
            ("tags", ",".join(record.tags) or None),
            ("input_tokens", usage.input_tokens if usage is not None else None),
            ("output_tokens", usage.output_tokens if usage is not None else None),
            ("cost_usd", record.report.cost_usd if record.report is not None else None),
            ("execution_id", record.execution_id),
        )
        if value is not None
    )


def _details(record: ResultRow) -> str:
    """Return what did not pass, one per line: every failed finding, else the reason."""
    failed = [finding.text for score in record.scores for finding in score.findings if not finding.passed]
    return "\n".join([record.error or record.verdict.reason, *failed])


def _reasons(scores: Iterable[Score]) -> str:
    return "\n".join(
        f"{score.evaluator}: {'not scored' if score.value is None else f'{score.value:g}'}: {score.reason}"
        for score in scores
    )


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _open(element: str, attributes: dict[str, Any], end: str = "") -> str:
    pairs = (
        f" {name}={visible_xml(quoteattr(_clean(str(value))))}"
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{element}{''.join(pairs)}{end}>"


def _text(text: str) -> str:
    return visible_xml(escape(_clean(text)))


def _clean(text: str) -> str:
    """Return the text without characters that XML 1.0 forbids (control characters, lone surrogates)."""
    return _NOT_XML.sub("", text)
