"""Results of tests: JUnit's XML → the outcome of each test, and whether a test has a name that a suite gives it.

A name is a test's own (`test_a`), or qualified as JUnit (`tests.test_x.TestY.test_a`, `tests.test_x::test_a`) or pytest
(`tests/test_x.py::TestY::test_a`) have it. A name without parameters is the test with any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

Result = Literal["passed", "failed", "skipped"]
DID_NOT_RUN = "it did not run"
_FAILED = ("failure", "error")
_SHOWN = 300
_DECLARATION = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test: its qualified name, its result, and what a failure says."""

    __test__ = False  # keeps pytest from collecting the class

    name: str
    result: Result
    message: str | None = None

    def is_called(self, name: str) -> bool:
        """Return whether a name means this test."""
        plain, own = canonical(name), canonical(self.name)
        return any(full == plain or full.endswith(f".{plain}") for full in (own, own.partition("[")[0]))


def canonical(name: str) -> str:
    """Return a name with dots between its parts; what is in brackets stays."""
    qualified, bracket, parameters = name.strip().partition("[")
    return qualified.replace(".py::", ".").replace("::", ".").replace("/", ".") + bracket + parameters


def read_junit(text: str) -> list[TestResult]:
    """Return the tests of a JUnit file. Raises ValueError for any other text, and for one that declares entities."""
    if _DECLARATION.search(text):
        raise ValueError("it declares a document type or entities")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is no XML: {error}") from None
    return [_result(case) for case in root.iter("testcase")]


def named(results: Sequence[TestResult], names: Sequence[str]) -> Iterator[TestResult]:
    """Yield the result of each name; a test that did not run has failed, and one name may mean several tests."""
    for name in names:
        meant = [result for result in results if result.is_called(name)]
        failed = next((result for result in meant if result.result != "passed"), None)
        if not meant:
            yield TestResult(name, "failed", DID_NOT_RUN)
        else:
            yield TestResult(name, "failed", failed.message or "skipped") if failed else TestResult(name, "passed")


def _result(case: ElementTree.Element) -> TestResult:
    class_name, name = case.get("classname"), case.get("name") or "?"
    full = f"{class_name}.{name}" if class_name else name
    problem = next((child for child in case if child.tag in _FAILED), None)
    if problem is not None:
        message = problem.get("message") or problem.text or problem.tag
        return TestResult(full, "failed", message.strip()[:_SHOWN])
    return TestResult(full, "skipped" if case.find("skipped") is not None else "passed")
