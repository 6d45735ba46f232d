"""`tests`: hidden tests, laid over a copy of what the target left, and run there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.executions.sealed_environment import HARMLESS, chosen_variables
from eval_pipeline.executions.session_folders import session_folder
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import copy_file, copy_template
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text, Texts
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.programs.command import CommandResult, argv_of, command_text, run_command
from eval_pipeline.scores.programs.junit import DID_NOT_RUN, TestResult, named, read_junit
from eval_pipeline.scores.programs.reply import OnError, with_error_policy
from eval_pipeline.suites.overlays import overlay_files

_MOST_FINDINGS = 200
_SHOWN = 500


@EVALUATORS.register("tests")
@dataclass(frozen=True, kw_only=True)
class Tests:
    """Run hidden tests on a copy of the workspace; the score is the share of them that pass.

    `files` of the suite (a folder, a file, a list, or a mapping from the path in the workspace to the file) are laid
    over the copy after the session, so the target never sees them. `command` (a list, or a shell line) runs there, at
    most `timeout_s`, with few variables of the environment and those that `pass_env` names. `junit` is the path of the
    JUnit XML that it writes; without one the exit code decides: 0 is 1. `fail_to_pass` and `pass_to_pass` name the
    tests that count: those that the solution makes pass, and those that passed before; one that did not run has failed.
    A command that cannot run, exceeds its time or writes no XML leaves the score without a value (`on_error: fail`: 0).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    __test__: ClassVar[bool] = False  # keeps pytest from collecting the class
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    sees_workspace: ClassVar[bool] = True
    command: Any
    files: Any = None
    junit: Text | None = None
    fail_to_pass: Texts | None = None
    pass_to_pass: Texts | None = None
    pass_env: Texts | None = None
    timeout_s: Annotated[Limit, Field(gt=0)] | None = None
    on_error: OnError = "unscored"

    def __post_init__(self) -> None:
        argv_of(self.command)
        if (self.fail_to_pass or self.pass_to_pass) and self.junit is None:
            raise ValueError("fail_to_pass and pass_to_pass name tests of a JUnit file: set junit to its path")

    @property
    def graders(self) -> tuple[str | None, ...]:
        return ()

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the hidden files, by their paths in the workspace."""
        return {file.path: file.sha256 for file in overlay_files(self.files, folder)} if self.files is not None else {}

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        return await with_error_policy(self._outcome(subject, client), self.on_error)

    async def _outcome(self, subject: Subject, client: GraderClient) -> Outcome:
        if subject.workspace is None:
            return Outcome(None, "there is no workspace to test")
        with session_folder() as folder:
            copy, home = folder / "workspace", folder / "home"
            for each in (copy, home):
                each.mkdir()
            await in_thread(self._lay_over, subject, copy)
            environment = chosen_variables(os.environ, (*HARMLESS, *(self.pass_env or ())))
            result = await run_command(
                argv_of(self.command),
                cwd=copy,
                scratch=folder / "printed",
                stdin=b"",
                env={"HOME": str(home), "TMPDIR": str(home), "GIT_CEILING_DIRECTORIES": str(folder)},
                timeout_s=self.timeout_s if self.timeout_s is not None else client.timeout_s,
                inherited=environment,
            )
            return self._read(result, copy)

    def _lay_over(self, subject: Subject, copy: Path) -> None:
        assert subject.workspace is not None
        copy_template(subject.workspace, copy)
        for file in overlay_files(self.files, subject.folder) if self.files is not None else ():
            copy_file(file.origin, copy, file.path)
        if self.junit is not None:
            _remove(copy, self.junit)  # else a target could write the results of the tests itself

    def _read(self, result: CommandResult, copy: Path) -> Outcome:
        if self.junit is None:
            return _by_exit_code(result, command_text(argv_of(self.command)))
        try:
            results = read_junit((copy / self.junit).read_text("utf-8", "replace"))
        except OSError:
            raise GraderFailure(f"the tests wrote no '{self.junit}' {_ended(result)}") from None
        except ValueError as error:
            raise GraderFailure(f"'{self.junit}' of the tests cannot be read: {error}") from None
        counted = list(self._counted(results))
        if not counted:
            raise GraderFailure(f"'{self.junit}' has no test that ran {_ended(result)}")
        return _by_share(counted)

    def _counted(self, results: Sequence[TestResult]) -> Iterator[tuple[str, TestResult]]:
        """Yield the tests that count, with their group."""
        groups = {"fail_to_pass": self.fail_to_pass, "pass_to_pass": self.pass_to_pass}
        for group, names in groups.items():
            yield from ((group, result) for result in named(results, names or ()))
        if not any(groups.values()):
            yield from (("", result) for result in results if result.result != "skipped")


def _remove(copy: Path, name: str) -> None:
    """Remove a file of the copy; what a link of the target leads to stays."""
    path = copy / name
    if path.parent.resolve().is_relative_to(copy.resolve()):
        path.unlink(missing_ok=True)


def _by_share(counted: Sequence[tuple[str, TestResult]]) -> Outcome:
    passed = sum(result.result == "passed" for _, result in counted)
    failed = [(group, result) for group, result in counted if result.result != "passed"]
    shown = [*failed, *(each for each in counted if each[1].result == "passed")][:_MOST_FINDINGS]
    findings = tuple(Finding(result.name, result.result == "passed", result.message) for _, result in shown)
    names = ", ".join(
        f"{result.name} (did not run)" if result.message == DID_NOT_RUN else result.name for _, result in failed
    )
    reason = f"{passed} of {len(counted)} tests pass" + (f"; not: {names}"[:_SHOWN] if failed else "")
    groups = {group for group, _ in counted if group}
    shares = {group: _share([result for each, result in counted if each == group]) for group in sorted(groups)}
    return Outcome(passed / len(counted), reason, findings, {"passed": passed, "tests": len(counted), **shares})


def _share(results: Sequence[TestResult]) -> float:
    return sum(result.result == "passed" for result in results) / len(results)


def _by_exit_code(result: CommandResult, command: str) -> Outcome:
    if result.exit_code < 0 or result.exit_code in (126, 127):
        raise GraderFailure(f"{command} {_ended(result)}")
    passed = result.exit_code == 0
    finding = Finding(command, passed, _said(result))
    return Outcome(float(passed), f"{command} ended with {result.exit_code}", (finding,))


def _ended(result: CommandResult) -> str:
    return f"(exit code {result.exit_code}): {_said(result) or 'nothing printed'}"


def _said(result: CommandResult) -> str | None:
    return (result.stderr.strip() or result.stdout.strip())[-_SHOWN:] or None
