"""Suite files on disk: what `eval-pipeline validate` reports of one, and what `load_suite` makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline import InputError, InputErrors, LoadOptions, Suite, load_suite
from eval_pipeline.parsing.interpolation import names_in
from eval_pipeline_tests.conformance.differences.model import Problem
from eval_pipeline_tests.conformance.public_verbs import command, new_folder

Json = Mapping[str, Any]
TMP = "<tmp>"


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A suite file in a folder of its own."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path.parent

    def problems(self) -> tuple[Problem, ...]:
        """Return what `validate` reports of the file."""
        result = command("validate", self.path, "--project", self.folder, "--json")
        assert result.code in (0, 2), result.err
        findings = [finding for finding in result.json if finding["file"] is None or self.path.name in finding["file"]]
        return tuple(map(self.problem, findings))

    @staticmethod
    def problem(finding: Json) -> Problem:
        """Return a finding that `validate --json` printed."""
        return Problem(finding["field"] or "", finding["message"], finding["severity"])

    def suite(self) -> Suite | None:
        """Return the suite; None when the file is refused."""
        try:
            return load_suite(self.path, LoadOptions(self.environment))
        except (InputError, InputErrors):
            return None


def write_suite(text: str, name: str = "row.eval.json", files: Mapping[str, str] | None = None) -> SuiteFile:
    """Write a suite file with files beside it; the variables that it names are set."""
    folder = new_folder()
    environment = dict.fromkeys(names_in(text), "local")
    variables = "".join(f"{variable}={value}\n" for variable, value in environment.items())
    beside = {"eval-pipeline.yaml": '{"suites": []}', ".env": variables, **(files or {})}
    for file, content in {**beside, name: text.replace(TMP, str(folder))}.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content, "utf-8")
    return SuiteFile(folder / name, environment)


def write_test(test: Json, files: Mapping[str, str] | None = None, **suite_fields: Any) -> SuiteFile:
    """Write a suite of one test."""
    given = {"id": "row", "input": "as recorded", "criteria": "as recorded", **test}
    return write_suite(json.dumps({**suite_fields, "tests": [given]}), files=files)
