"""`code-grader` and `script`: a program of the suite's author, with AgentV's JSON protocol.

Each follows the AgentV versions that introduced its name: see `scores/programs/payload.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import orjson
from pydantic import ConfigDict, Field, model_validator

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.compatibility import WORKSPACE_VARIABLE, program_variables
from eval_pipeline.parsing.imports import import_roots
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.command import (
    CommandResult,
    argv_of,
    command_content,
    command_text,
    program_folder,
    run_command,
)
from eval_pipeline.scores.programs.payload import Shape, grading_payload
from eval_pipeline.scores.programs.proxy import Access, Proxy, run_proxy
from eval_pipeline.scores.programs.reply import (
    OnError,
    json_object,
    plain_outcome,
    protocol_outcome,
    unreadable_outcome,
    with_error_policy,
)

_ALIAS = "script"
_NEVER_PASSED_ON = ("min_score",)
_OPEN_ARGUMENTS = ConfigDict(**ARGUMENTS, json_schema_extra={"additionalProperties": True, "required": []})
"""The schema allows unknown arguments: they are passed to the program as its `config`."""


@EVALUATORS.register("code-grader")
@dataclass(frozen=True, kw_only=True)
class CodeGrader:
    """Run `command` (a list, or a shell line; `script` is its old name) and read the score that it prints.

    The program reads a JSON object from standard input and prints one: `score`, `assertions`, `details`. It runs in
    `cwd` (default: the suite's folder), at most `timeout_s`. With `target: true` (or `{max_calls, targets}`) it may
    call models, with the address and token in its environment. Unknown arguments become its `config`. A program that
    fails or prints anything else leaves the score without a value (`on_error: fail`: 0, as in AgentV); `plain: true`
    uses its exit code as the result. `payload` is what it reads as `output`: the `messages` (AgentV 4.9), or the
    `text` of the answer (4.36 and later), with a plain answer where it writes no error. Without it the runner's
    `grader_payload` decides, then `usual_payload`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OPEN_ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata")
    sees_workspace: ClassVar[bool] = True
    command: Any
    cwd: Text | None = None
    target: Any = None
    timeout_s: Annotated[Limit, Field(gt=0)] | None = None
    on_error: OnError = "unscored"
    plain: Annotated[bool, Field(strict=True)] = False
    payload: Shape | None = None
    usual_payload: Shape = "messages"
    config: dict[str, Any] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _collect_config(cls, raw: Any) -> Any:
        """Move unknown arguments to `config`: they belong to the program."""
        if not isinstance(raw, Mapping):
            return raw
        known = {argument.name for argument in fields(cls)}
        if raw.get("payload") not in get_args(Shape):
            known -= {"payload"}
        arguments = {name: value for name, value in raw.items() if name in known}
        rest = {name: value for name, value in raw.items() if name not in (*known, _ALIAS, *_NEVER_PASSED_ON)}
        if "command" not in arguments and _ALIAS in raw:
            arguments["command"] = raw[_ALIAS]
        config = arguments.get("config")
        if rest and isinstance(config, Mapping | None):
            arguments["config"] = {**rest, **(config or {})}
        return arguments

    def __post_init__(self) -> None:
        argv_of(self.command)
        access_of(self.target)

    @property
    def shape(self) -> Shape:
        """What the program reads as `output`."""
        return self.payload or self.usual_payload

    @property
    def graders(self) -> tuple[str | None, ...]:
        access = access_of(self.target)
        return (None, *access.targets) if access is not None else ()

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the files that the command names, and of what they import from the suite's folders."""
        roots = import_roots(folder)
        return command_content(argv_of(self.command), program_folder(self.cwd, folder), roots)

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        return await with_error_policy(self._outcome(subject, client), self.on_error)

    async def _outcome(self, subject: Subject, client: GraderClient) -> Outcome:
        result, proxy = await self._run(subject, client)
        outcome = self._read(result)
        calls = {"grader_calls": proxy.calls} if proxy is not None else {}
        return outcome._replace(details={**outcome.details, **calls})

    async def _run(self, subject: Subject, client: GraderClient) -> tuple[CommandResult, Proxy | None]:
        folders = {WORKSPACE_VARIABLE: str(subject.workspace)} if subject.workspace is not None else {}
        env = program_variables(folders)
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-grader-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch)
            payload = grading_payload(subject, self.config, self.shape, folder / "files")
            async with run_proxy(access_of(self.target), client) as proxy:
                result = await run_command(
                    argv_of(self.command),
                    cwd=program_folder(self.cwd, subject.folder),
                    scratch=folder,
                    stdin=orjson.dumps(orjson.loads(to_json(payload)), option=orjson.OPT_INDENT_2),
                    env={**env, **(proxy.env if proxy is not None else {})},
                    timeout_s=self.timeout_s if self.timeout_s is not None else client.timeout_s,
                )
        return result, proxy

    def _read(self, result: CommandResult) -> Outcome:
        """Return the outcome: JSON of a successful program, else its exit code if `plain`."""
        reply = json_object(result.stdout)
        if result.exit_code == 0 and reply is not None:
            return protocol_outcome(reply)
        if self.plain or (self.shape == "text" and reply is None and _is_an_answer(result)):
            return plain_outcome(result.stdout.strip() or result.stderr, result.exit_code)
        if result.exit_code != 0:
            problem = result.stderr.strip() or result.stdout.strip() or "nothing printed"
            return Outcome(None, f"{command_text(argv_of(self.command))} ended with {result.exit_code}: {problem}")
        return unreadable_outcome(result.stdout)


@EVALUATORS.register("script")
@dataclass(frozen=True, kw_only=True)
class Script(CodeGrader):
    """A `code-grader` of AgentV's later versions: its input has the answer's text as `output`, and its exit code
    counts.

    A program that prints no JSON passes with exit code 0 and fails with any other; its output is the reason. JSON may
    contain `pass`, `score`, `reason` and `checks`.
    """

    version: ClassVar[str] = "2"
    plain: Annotated[bool, Field(strict=True)] = True
    usual_payload: Shape = "text"


def _is_an_answer(result: CommandResult) -> bool:
    """Return whether a program without JSON answers by its exit code: one that fails and writes an error does not."""
    return result.exit_code == 0 or not result.stderr.strip()


def access_of(target: Any) -> Access | None:
    """Return the permissions that `target:` grants. Raises ValueError for an invalid value."""
    if target is None or target is False:
        return None
    if target is True:
        return Access()
    if isinstance(target, Mapping) and not set(target) - {"max_calls", "targets"}:
        calls, targets = target.get("max_calls", Access().max_calls), target.get("targets", ())
        named = isinstance(targets, (list, tuple)) and all(isinstance(name, str) for name in targets)
        if type(calls) is int and calls > 0 and named:
            return Access(calls, tuple(targets))
    raise ValueError("target: expected true or a mapping with max_calls (a number above 0) and targets (runner names)")
