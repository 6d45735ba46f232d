"""`file-changes`: which files of its workspace the session changed, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.parsing.globs import compile_glob
from eval_pipeline.reports.unified_diff import ChangedFile, changed_files
from eval_pipeline.scores.assertions.checks import listed
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL, Texts
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject

Number = Annotated[int, Field(strict=True, ge=0)]


@EVALUATORS.register("file-changes")
@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """1 when the session changed the files of its workspace as each given argument requires.

    `must_change` are patterns of which each matches a changed file, `must_not_change` patterns that match none, `only`
    patterns of which every changed file matches one. `*` and `?` match within a folder, `**` across folders.
    `max_files` and `max_lines` bound the number of changed files and of added and removed lines.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    must_change: Texts | None = None
    must_not_change: Texts | None = None
    only: Texts | None = None
    max_files: Number | None = None
    max_lines: Number | None = None
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        if all(
            value is None
            for value in (self.must_change, self.must_not_change, self.only, self.max_files, self.max_lines)
        ):
            raise ValueError("needs at least one of must_change, must_not_change, only, max_files, max_lines")

    def evaluate(self, subject: Subject) -> Outcome:
        diff = subject.report.file_changes
        if diff is None:
            return missing(self.on_missing, "the report has no file changes: the session had no workspace")
        files = changed_files(diff)
        findings = (*self._patterns(files), *self._bounds(files))
        reason = "; ".join(finding.text for finding in findings if not finding.passed)
        shown = listed(file.path for file in files)
        return Outcome(float(not reason), f"{reason or 'as required'}. Changed files: {shown}", findings)

    def _patterns(self, files: Sequence[ChangedFile]) -> list[Finding]:
        paths = [file.path for file in files]
        findings = [
            Finding(f"a file that matches '{pattern}' has to change", any(map(compile_glob(pattern), paths)))
            for pattern in self.must_change or ()
        ]
        for pattern in self.must_not_change or ():
            hits = list(filter(compile_glob(pattern), paths))
            found = f" but {listed(hits)} did" if hits else ""
            findings.append(Finding(f"no file that matches '{pattern}' may change{found}", not hits))
        if self.only is not None:
            allowed = [compile_glob(pattern) for pattern in self.only]
            others = [path for path in paths if not any(matches(path) for matches in allowed)]
            found = f" but {listed(others)} did" if others else ""
            findings.append(Finding(f"only {', '.join(self.only)} may change{found}", not others))
        return findings

    def _bounds(self, files: Sequence[ChangedFile]) -> list[Finding]:
        lines = sum(file.added + file.removed for file in files)
        bounds = ((len(files), self.max_files, "files"), (lines, self.max_lines, "lines"))
        return [
            Finding(f"{number} {noun} changed, at most {most} allowed", number <= most)
            for number, most, noun in bounds
            if most is not None
        ]
