"""The list of slow tests names tests that there are, and those that take long."""

from __future__ import annotations

import re

import pytest

from eval_pipeline_tests.conftest import TESTS
from eval_pipeline_tests.slow_tests import SLOW_FILES, slow_among, slow_tests


@pytest.mark.parametrize("file", sorted({name.partition("::")[0] for name in slow_tests()} | {*SLOW_FILES}))
def test_every_slow_test_is_there(file: str) -> None:
    there = set(re.findall(r"def (test_\w+)\(", (TESTS / file).read_text(encoding="utf-8")))

    listed = {name.partition("::")[2] for name in slow_tests() if name.startswith(f"{file}::")}

    assert listed - there == set(), "renamed or moved: change slow_tests.txt, too"


def test_a_test_is_slow_by_one_long_case_or_by_many() -> None:
    times = [("a.py::long", 0.1), ("a.py::long", 0.9), *[("a.py::many", 0.1)] * 40, ("a.py::quick", 0.3)]
    of_slow_files = [(f"{SLOW_FILES[0]}::test_of_minutes", 100.0), ("conformance/test_agentv.py::test_rows", 100.0)]

    assert slow_among([*times, *of_slow_files]) == ["a.py::long", "a.py::many"]
