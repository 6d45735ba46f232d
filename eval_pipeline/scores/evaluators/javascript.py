"""`javascript`: an expression or a file of the suite's author, run by node."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import orjson
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.file_search import NotFound, search_roots
from eval_pipeline.parsing.imports import import_fingerprints, import_roots
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.command import run_command
from eval_pipeline.scores.programs.reply import OnError, with_error_policy
from eval_pipeline.scores.programs.verdict import check_context, value_outcome

FILE_PREFIX = "file://"
RUNTIME = "node"
TIMEOUT_S = 60.0
_CAMEL = ("expected_output", "token_usage", "cost_usd", "duration_ms", "file_changes", "workspace_path")
_HARNESS = Path(__file__).parent.parent / "programs" / "javascript_harness.mjs"


@EVALUATORS.register("javascript")
@dataclass(frozen=True, slots=True, kw_only=True)
class JavaScript:
    """The result of a JavaScript expression, or of a file's function (`file://check.js`, `file://check.js:name`).

    `value` has access to `output` (the answer's text) and `context` (`expectedOutput`, `input`, `metadata`, `trace`,
    `config`, …). Code of several lines, or with `return`, is a function body; it may be async. It returns a truth
    value, a number, or `{pass, score, reason}`; `threshold` is the minimum number that passes. Code that throws, or a
    machine without node, leaves the score without a value (`on_error: fail`: 0, as in AgentV).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata", "tags")
    sees_workspace: ClassVar[bool] = True
    graders: ClassVar[tuple[str | None, ...]] = ()
    value: Text
    threshold: Share | None = None
    config: dict[str, Any] = field(default_factory=dict)
    timeout_s: Limit | None = None
    on_error: OnError = "unscored"

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return the fingerprints of the file and of what it imports from the suite's folders."""
        if not self.value.startswith(FILE_PREFIX):
            return {}
        path, _ = named_function(self.value, folder)
        return {**import_fingerprints([path], import_roots(folder)), self.value: file_fingerprint(path)}

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        return await with_error_policy(self._outcome(subject, client), self.on_error)

    async def _outcome(self, subject: Subject, client: GraderClient) -> Outcome:
        return value_outcome(await self._run(subject, client), self.threshold)

    async def _run(self, subject: Subject, client: GraderClient) -> Any:
        """Run the code and return its result. Raises GraderFailure when it fails."""
        runtime = shutil.which(RUNTIME)
        if runtime is None:
            raise GraderFailure(f"{RUNTIME} is not installed: JavaScript cannot be run on this machine")
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-javascript-", ignore_cleanup_errors=True) as scratch:
            answer = Path(scratch) / "answer.json"
            result = await run_command(
                [runtime, str(_HARNESS), str(answer)],
                cwd=subject.folder.absolute(),
                scratch=Path(scratch),
                stdin=to_json(self._input(subject)),
                env={},
                timeout_s=self.timeout_s or client.timeout_s or TIMEOUT_S,
            )
            if not answer.exists():
                raise GraderFailure(f"the JavaScript ended with {result.exit_code}: {result.stderr.strip()}")
            answer_data = orjson.loads(answer.read_bytes())
        if "error" in answer_data:
            raise GraderFailure(f"the JavaScript threw {answer_data['error']}")
        return answer_data.get("value")

    def _input(self, subject: Subject) -> dict[str, Any]:
        context = check_context(subject, self.config)
        context["trace"] = {**(context["trace"] or {}), **_camel_case(context["trace"] or {})} or None
        camel = _camel_case({name: context[name] for name in _CAMEL})
        fields: dict[str, Any] = {"output": subject.output, "context": {**context, **camel}}
        if self.value.startswith(FILE_PREFIX):
            path, function = named_function(self.value, subject.folder)
            return {**fields, "file": str(path), "function": function}
        return {**fields, "code": self.value}


def named_function(value: str, folder: Path) -> tuple[Path, str | None]:
    """Return the file and function named by `file://path` or `file://path:function`. Raises InputError."""
    name = value.removeprefix(FILE_PREFIX)
    path, _, function = name.rpartition(":")
    if not path or "/" in function or "." in function:
        path, function = name, ""
    try:
        return search_roots(folder).file(path), function or None
    except NotFound as error:
        raise InputError(str(error), SourceLocation(field="value")) from None


def _camel_case(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with camel-case names, as used in JavaScript."""
    return {to_camel(name): value for name, value in fields.items()}
