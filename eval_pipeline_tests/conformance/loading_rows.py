"""Rows about loading written down as suite files and loaded by the public verb."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.parsing.interpolation import names_in
from eval_pipeline.scores.evaluate import EvaluatorSet
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline_tests.conformance.recorded_facts import Row

TMP = "<tmp>"


@dataclass(frozen=True, slots=True)
class Difference:
    name: str
    family: str
    concerns: Callable[[Row], bool]
    reason: str
    check: Callable[[Row], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a suite file: the suite, or every problem that was found in it."""

    suite: Suite | None
    errors: tuple[InputError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def case(self) -> Case:
        assert self.suite is not None, self.errors
        assert not self.errors, [str(error) for error in self.errors]
        (case,) = self.suite.cases
        return case


def load_text(text: str, folder: Path, name: str = "row.eval.yaml") -> Loaded:
    """A suite file of this text, loaded and its evaluators built."""
    path = folder / name
    path.write_text(text.replace(TMP, str(folder)), "utf-8")
    environment = dict.fromkeys(names_in(text), "local")
    try:
        suite = load_suite(path, LoadOptions(environment))
    except InputError as error:
        return Loaded(None, problems_of(error))
    refused = [problem for error in suite.errors for problem in problems_of(error)]
    return Loaded(suite, (*refused, *EvaluatorSet(suite).check().values()), suite.warnings)


def load_document(document: Mapping[str, Any], folder: Path) -> Loaded:
    return load_text(json.dumps(document), folder, "row.eval.json")


def load_test(test: Mapping[str, Any], folder: Path, **suite_fields: Any) -> Loaded:
    given = {"id": "row", "input": "as recorded", "criteria": "as recorded", **test}
    return load_document({**suite_fields, "tests": [given]}, folder)


def in_a_folder(check: Callable[[Row, Path], None]) -> Callable[[Row], None]:
    def run(row: Row) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(row, Path(folder).resolve())

    return run


def differs(name: str, concerns: Callable[[Row], bool], reason: str, check: Callable[[Row], None]) -> Difference:
    return Difference(name, "agentv", concerns, reason, check)
