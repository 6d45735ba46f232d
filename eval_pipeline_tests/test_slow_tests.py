"""The list of slow tests names tests that there are, and those that take long."""

from __future__ import annotations

import re

from eval_pipeline_tests.conftest import TESTS
from eval_pipeline_tests.slow_tests import SLOW_FILES, slow_among, slow_tests


def test_every_slow_test_is_there() -> None:
    files = {name.partition("::")[0] for name in slow_tests()} | {*SLOW_FILES}
    there = {
        f"{file}::{test}"
        for file in files
        for test in re.findall(r"def (test_\w+)\(", (TESTS / file).read_text(encoding="utf-8"))
    }

    assert {name for name in slow_tests() if "::" in name} - there == set(), "renamed or moved: change slow_tests.txt"


def test_a_test_is_slow_by_one_long_case_or_by_many() -> None:
    quick = [(f"a.py::quick{n}", 0.1) for n in range(3)]
    times = [("a.py::long", 0.1), ("a.py::long", 0.9), *[("a.py::many", 0.1)] * 40, *quick]
    mostly = [("b.py::long", 0.9), ("b.py::longer", 1.9), ("b.py::quick", 0.0)]
    of_slow_files = [(f"{SLOW_FILES[0]}::test_of_minutes", 100.0), ("conformance/test_agentv.py::test_rows", 100.0)]

    assert slow_among([*times, *mostly, *of_slow_files]) == ["a.py::long", "a.py::many", "b.py"]
