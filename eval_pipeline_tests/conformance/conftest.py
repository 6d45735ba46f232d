"""How often we deliberately differ, said at the end of a run."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed = terminalreporter.stats.get("passed", [])
    names = Counter(value for report in passed for name, value in report.user_properties if name == "difference")
    if names:
        counted = ", ".join(f"{name} {number}" for name, number in sorted(names.items()))
        terminalreporter.write_line(f"deliberate differences: {counted}")
