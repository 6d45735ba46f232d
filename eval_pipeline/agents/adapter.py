"""`agent`: any coding-agent CLI of the registry, started in a non-interactive mode.

The CLI's `launch` turns the runner's settings into a command, which the `command` adapter runs. A runner of this
adapter therefore has the same identity as a `command` runner with that command.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.agents.agent_cli import AGENTS, AgentCli, LaunchRequest
from eval_pipeline.agents.session_environment import SessionEnvironment
from eval_pipeline.agents.session_store import HEAD_BYTES, find_log, first_value
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import OUTPUT_LIMIT
from eval_pipeline.parsing.tables import COUNT, FLAG, LIST, POSITIVE, TEXT, TEXT_LIST, Field, FieldTable, either, one_of
from eval_pipeline.reports.jsonl_records import read_records
from eval_pipeline.reports.record_files import read_ends

HOMES = ("isolated", "user")
_LIMITS = ("max_turns", "max_budget_usd")
_OF_THE_COMMAND = frozenset({"cwd", "env", "files_format", "healthcheck", "model", "ok_exit_codes", "retry_failures"})
_SETTINGS = FieldTable(
    "agent",
    (
        Field("agent", TEXT, "The agent CLI, such as `claude-code`, `codex` or `copilot`.", required=True),
        Field("executable", TEXT, "The program (default: the CLI's name, looked up on PATH)."),
        Field("args", either(TEXT, LIST), "Further arguments of the CLI."),
        Field("system", TEXT, "Instructions: by the CLI's own option, else put before every prompt."),
        Field("keep_session", FLAG, "Whether the log that the CLI keeps of the session is stored and read as well."),
        Field("max_turns", COUNT, "The most turns of a session, for a CLI that has the option."),
        Field("max_budget_usd", POSITIVE, "The most that a session may cost, for a CLI that has the option."),
        Field("model", TEXT, "The model, by the CLI's own option."),
        Field(
            "home",
            one_of(*HOMES),
            "Whether a session has a fresh home with the user's login, or the user's own.",
            "isolated",
        ),
        Field("pass_env", TEXT_LIST, "Names and patterns of further environment variables that a session gets."),
        *(Command.settings[name] for name in sorted(_OF_THE_COMMAND - {"model"})),
    ),
    "Runs a coding-agent CLI once per case, in the case's workspace.",
)


class Agent:
    """Runs a coding-agent CLI once per case, in the case's workspace, and keeps what it printed.

    Settings: `agent` (which CLI: `claude-code`, `codex`, `copilot`, or one that a plug-in brings), `model`, `system`
    (instructions: by the CLI's own option, else put before every prompt), `max_turns` and `max_budget_usd` (limits, for
    a CLI that has the option), `args` (further arguments of the CLI), `executable` (the program, default: the CLI's
    name, looked for on PATH), `keep_session` (whether the log that the CLI keeps of the session is stored and read as
    well; default: where standard output leaves something out). As for `command`: `cwd` (a case's workspace goes before
    it), `env`, `ok_exit_codes` (default [0]), `files_format`, `healthcheck`, `retry_failures`; in `args`, its
    placeholders are filled in.
    """

    version: ClassVar[str] = Command.version
    settings: ClassVar[FieldTable] = _SETTINGS
    incidental: ClassVar[frozenset[str]] = Command.incidental | {"keep_session"}
    default_timeout_s: ClassVar[float] = Command.default_timeout_s
    retries_timeouts: ClassVar[bool] = Command.retries_timeouts
    first_alone: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def __init__(self, runner: Runner, now: Callable[[], float] = time.time) -> None:
        self._now = now  # compared with the times of session files
        self._cli = _cli(runner.settings)
        self._keeps_session = settings.flag(runner.settings, "keep_session", self._cli.log_completes_output)
        self._command = Command(self.equivalent(runner))
        self._max_bytes = runner.max_output_bytes
        self._env = settings.texts(runner.settings, "env")
        self._session_environment = SessionEnvironment(
            cli=self._cli,
            passed=settings.names(runner.settings, "pass_env"),
            isolated=settings.choice(runner.settings, "home", HOMES, "isolated") == "isolated",
        )
        self._cwd = runner.folder / (settings.optional_text(runner.settings, "cwd") or ".")

    @staticmethod
    def equivalent(runner: Runner) -> Runner:
        """Return the equivalent runner of the `command` adapter, which determines this runner's identity."""
        cli = _cli(runner.settings)
        given, public = (_command_settings(cli, values) for values in (runner.settings, runner.public_settings))
        return replace(runner, adapter="command", settings=given, public_settings=public)

    def content(self) -> Mapping[str, str]:
        return self._command.content()

    async def execute(self, call: Call) -> RawExecution:
        begin = self._now()
        async with self._session_environment.session() as environment:
            call = replace(call, environment=environment)
            try:
                raw = await self._command.execute(call)
            except TargetFailure as failure:
                with contextlib.suppress(TargetFailure):  # the first failure counts
                    failure.raw = await self._with_session(failure.raw, call, begin) if failure.raw else None
                raise
            return await self._with_session(raw, call, begin)

    async def close(self) -> None:
        await self._command.close()

    async def _with_session(self, raw: RawExecution, call: Call, begin: float) -> RawExecution:
        """Return the execution with the session's log, if it is to be kept and exists. Raises TargetFailure."""
        if not self._keeps_session:
            return raw
        log = await in_thread(self._kept_log, raw, call, begin)
        return raw if log is None else replace(raw, files={**raw.files, "session": log})

    def _kept_log(self, raw: RawExecution, call: Call, begin: float) -> Path | None:
        """Copy the session's log beside the output, because the CLI may append to the original."""
        printed = read_ends(raw.files["stdout"], 2 * HEAD_BYTES) if "stdout" in raw.files else ""
        session_id = first_value(read_records(printed).rows, self._cli.printed_session_id)
        environment = {**(call.environment or {}), **self._env}
        home, cwd = Path(environment.get("HOME") or Path.home()), call.workspace or self._cwd
        log = find_log(self._cli.sessions, home, environment, session_id=session_id, cwd=cwd, since=begin)
        if log is None:
            return None
        if log.path.stat().st_size > self._max_bytes:
            problem = f"the session's log exceeds the limit of {self._max_bytes / 1e6:g} MB (max_output_mb)"
            raise TargetFailure(OUTPUT_LIMIT, problem, raw=raw)
        copy = call.folder / "session"
        self._cli.sessions.copy(log, copy)
        return copy


def _cli(given: Mapping[str, Any]) -> AgentCli:
    if given.get("agent") is None:
        there_are = ", ".join(AGENTS.names())
        raise InputError(f"expected the name of an agent; there are: {there_are}", SourceLocation(field="agent"))
    return AGENTS.get(settings.text(given, "agent"), SourceLocation(field="agent"))


def _command_settings(cli: AgentCli, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the `command` adapter. Raises InputError."""
    launch = cli.launch(_request(cli, given))
    numbers = {str(arg): arg for arg in _listed_args(given) if not isinstance(arg, str)}
    command = [numbers.get(word, word) for word in launch.command]  # unchanged: part of the identity
    made: dict[str, Any] = {"command": command, "format": cli.output_format}
    if not any("{PROMPT}" in word for word in launch.command):
        made["prompt"] = launch.prompt
    if launch.preamble is not None:
        made["system"] = launch.preamble
    if launch.env:
        made["env"] = {**launch.env, **settings.mapping(given, "env")}
    if given.get("home") == "user":  # the usual one is no part of the identity
        made["home"] = "user"
    if given.get("pass_env"):
        made["pass_env"] = given["pass_env"]
    return {**{key: value for key, value in given.items() if key in _OF_THE_COMMAND}, **made}


def _request(cli: AgentCli, given: Mapping[str, Any]) -> LaunchRequest:
    for name in _LIMITS:
        if given.get(name) is not None and name not in cli.limits:
            has = f"it has {', '.join(sorted(cli.limits))}" if cli.limits else "use timeout_s"
            raise InputError(f"{cli.name} has no option for this; {has}", SourceLocation(field=name))
    return LaunchRequest(
        executable=settings.optional_text(given, "executable") or cli.executable,
        args=_args(given),
        model=settings.optional_text(given, "model"),
        system=settings.optional_text(given, "system"),
        max_turns=settings.count(given, "max_turns"),
        max_budget_usd=settings.amount(given, "max_budget_usd"),
    )


def _args(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Further arguments as texts. Raises InputError."""
    words = _listed_args(given)
    if not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in words):
        raise InputError(f"expected a list of arguments, got {given['args']!r}", SourceLocation(field="args"))
    return tuple(map(str, words))


def _listed_args(given: Mapping[str, Any]) -> list[Any]:
    """Return raw further arguments: a list, or a single one."""
    value = given.get("args")
    return value if isinstance(value, list) else [] if value is None else [value]
