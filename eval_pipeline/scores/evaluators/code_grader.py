"""`code-grader` and `script`: a program of the suite author's grades, in AgentV's JSON protocol.

The two speak to the program as the AgentV versions that named them do: see `scores/programs/payload.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import orjson
from pydantic import ConfigDict, Field, model_validator

from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.compatibility import WORKSPACE_VARIABLE, program_variables
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.model import Outcome, Subject
from eval_pipeline.scores.programs.command import (
    CommandResult,
    argv_of,
    command_content,
    program_folder,
    run_command,
    shown,
)
from eval_pipeline.scores.programs.payload import Shape, grading_payload
from eval_pipeline.scores.programs.proxy import Access, Proxy, proxied
from eval_pipeline.scores.programs.reply import (
    OnError,
    json_object,
    not_understood,
    plain_outcome,
    protocol_outcome,
    told,
)

_ALIAS = "script"
_NEVER_PASSED_ON = ("min_score",)


@EVALUATORS.register("code-grader")
@dataclass(frozen=True, kw_only=True)
class CodeGrader:
    """Runs `command` (a list, or a line for the shell; `script` is its old name) and takes the score it prints.

    The program finds a JSON object on its standard input and prints one: `score`, `assertions`, `details`. It runs in
    `cwd` (default: the suite's folder), at most `timeout_s`. With `target: true` (or `{max_calls, targets}`) it may ask
    models, by the address and token in its environment. Arguments that are none of these are its `config`. A program
    that ends with an error or prints something else leaves the score open (`on_error: fail`: 0, as in AgentV);
    `plain: true` takes its exit code for the answer.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata")
    shape: ClassVar[Shape] = "messages"
    command: Any
    cwd: Text | None = None
    target: Any = None
    timeout_s: Annotated[Limit, Field(gt=0)] | None = None
    on_error: OnError = "unscored"
    plain: Annotated[bool, Field(strict=True)] = False
    config: dict[str, Any] = field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _pass_on(cls, given: Any) -> Any:
        """What is no argument of ours is the program's own."""
        if not isinstance(given, Mapping):
            return given
        known = {one.name for one in fields(cls)}
        own = {name: value for name, value in given.items() if name in known}
        rest = {name: value for name, value in given.items() if name not in (*known, _ALIAS, *_NEVER_PASSED_ON)}
        if "command" not in own and _ALIAS in given:
            own["command"] = given[_ALIAS]
        config = own.get("config")
        if rest and isinstance(config, Mapping | None):
            own["config"] = {**rest, **(config or {})}
        return own

    def __post_init__(self) -> None:
        argv_of(self.command)
        access_of(self.target)

    @property
    def graders(self) -> tuple[str | None, ...]:
        access = access_of(self.target)
        return (None, *access.targets) if access is not None else ()

    def content(self, folder: Path) -> Mapping[str, str]:
        """The fingerprints of the files that the command names."""
        return command_content(argv_of(self.command), program_folder(self.cwd, folder))

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        return await told(self._outcome(subject, client), self.on_error)

    async def _outcome(self, subject: Subject, client: GraderClient) -> Outcome:
        ran, proxy = await self._run(subject, client)
        outcome = self._read(ran)
        calls = {"grader_calls": proxy.calls} if proxy is not None else {}
        return outcome._replace(details={**outcome.details, **calls})

    async def _run(self, subject: Subject, client: GraderClient) -> tuple[CommandResult, Proxy | None]:
        folders = {WORKSPACE_VARIABLE: str(subject.workspace)} if subject.workspace is not None else {}
        env = program_variables(folders)
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-grader-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch)
            payload = grading_payload(subject, self.config, self.shape, folder / "files")
            async with proxied(access_of(self.target), client) as proxy:
                ran = await run_command(
                    argv_of(self.command),
                    cwd=program_folder(self.cwd, subject.folder),
                    scratch=folder,
                    stdin=orjson.dumps(orjson.loads(to_json(payload)), option=orjson.OPT_INDENT_2),
                    env={**env, **(proxy.env if proxy is not None else {})},
                    timeout_s=self.timeout_s if self.timeout_s is not None else client.timeout_s,
                )
        return ran, proxy

    def _read(self, ran: CommandResult) -> Outcome:
        """What the program's end says: JSON of a program that ended well, else its exit code where that counts."""
        said = json_object(ran.stdout)
        if ran.exit_code == 0 and said is not None:
            return protocol_outcome(said)
        if self.plain:
            return plain_outcome(ran.stdout.strip() or ran.stderr, ran.exit_code)
        if ran.exit_code != 0:
            problem = ran.stderr.strip() or ran.stdout.strip() or "nothing printed"
            return Outcome(None, f"{shown(argv_of(self.command))} ended with {ran.exit_code}: {problem}")
        return not_understood(ran.stdout)


@EVALUATORS.register("script")
@dataclass(frozen=True, kw_only=True)
class Script(CodeGrader):
    """A `code-grader` of AgentV's later versions: `output` on its input is the answer's text, and its exit code counts.

    A program that prints no JSON says yes by ending with 0 and no by ending otherwise; what it printed is the reason.
    JSON may say `pass`, `score`, `reason` and `checks`.
    """

    shape: ClassVar[Shape] = "text"
    plain: Annotated[bool, Field(strict=True)] = True


def access_of(target: Any) -> Access | None:
    """What `target:` allows. Raises ValueError for what it cannot be."""
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
