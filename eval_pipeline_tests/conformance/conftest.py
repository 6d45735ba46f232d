"""The summary of a run: how many rows of each family were reproduced, differ deliberately, or are not possible."""

from __future__ import annotations

import re
from collections import Counter

import pytest

_ROW = re.compile(r"\[(agentv|peers|connexity|skillgym|recordings)/([^/\]]+)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = [report for report in terminalreporter.stats.get("passed", []) if _ROW.search(report.nodeid)]
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if _ROW.search(report.nodeid)]
    if not passed and not skipped:
        return
    differences = Counter(
        (_family(report), str(value))
        for report in passed
        for name, value in report.user_properties
        if name == "difference"
    )
    reasons = Counter((_family(report), _reason(report)) for report in skipped)
    totals = Counter(_family(report) for report in passed)
    terminalreporter.section("conformance")
    for family in sorted({*totals, *(family for family, _ in reasons)}):
        differ = sum(number for (name, _), number in differences.items() if name == family)
        impossible = sum(number for (name, _), number in reasons.items() if name == family)
        line = f"{family}: {totals[family] - differ} reproduced, {differ} deliberate differences, "
        terminalreporter.write_line(f"{line}{impossible} not possible")
        for title, counts in (("difference", differences), ("not possible", reasons)):
            for (name, detail), number in sorted(counts.items()):
                if name == family:
                    terminalreporter.write_line(f"    {title}: {number} × {detail}")


def _family(report: pytest.TestReport) -> str:
    match = _ROW.search(report.nodeid)
    assert match is not None
    source, file = match.groups()
    return source if source in ("connexity", "skillgym", "recordings") else f"{source}/{file}"


def _reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
