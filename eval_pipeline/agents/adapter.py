"""`agent`: any coding-agent CLI of the registry, started in a non-interactive mode.

The CLI's `launch` turns the runner's settings into a command, which the `command` adapter runs. A runner of this
adapter therefore has the same identity as a `command` runner with that command.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.agents.agent_talks import AgentTalk, AgentTalks
from eval_pipeline.agents.capacity import sessions_at_once
from eval_pipeline.agents.session_environment import SessionEnvironment
from eval_pipeline.agents.session_exports import EXPORT, exported_session
from eval_pipeline.agents.session_questions import ask_session
from eval_pipeline.agents.session_skills import SessionSkills
from eval_pipeline.agents.session_store import SessionLog, find_log, newest_log
from eval_pipeline.agents.session_watch import GrowingFile, SessionWatch
from eval_pipeline.agents.settings import HOMES, SETTINGS, cli_of, command_settings
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.kept_sessions import SESSION_FILE, KeptSession
from eval_pipeline.executions.live_sessions import LIVE_SESSIONS, LiveSession
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.program_versions import absence_of, installed, program_version
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.session_folders import SESSIONS_VARIABLE, sessions_path
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import AUTHENTICATION, OUTPUT_LIMIT, TARGET_CRASH
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.tables import FieldTable

_LOG = logging.getLogger(__name__)
_MAY_LOG_IN = ("executable", "wrap", "args", "env", "pass_env", "replay", "provider_url", "cwd", "healthcheck")
"""Settings by which a runner may have a login, or need none, that nobody but the CLI knows of."""
_MOST_ARGUMENT_BYTES = 120_000
"""Linux takes arguments below 128 KiB; a prompt may have instructions put before it."""
VERSION = "agent_version"
"""The entry of a payload with the version of the CLI, where its program tells one."""


class Agent:
    """Runs a coding-agent CLI once per case, in the case's workspace, and keeps what it printed.

    Settings: `agent` (which CLI: `claude-code`, `codex`, `copilot`, or one that a plug-in brings), `model`, `system`
    (instructions: by the CLI's own option, else put before every prompt), `access` (`full`, `workspace`, `read-only`),
    `max_steps` and `max_cost_usd` (limits, watched while it runs), `max_turns` and `max_budget_usd` (limits, for a CLI
    that has the option), `args` (further arguments of the CLI), `executable` (the program, default: the CLI's name,
    looked for on PATH), `wrap` (words put before it), `keep_session` (whether the log that the CLI keeps of the session
    is stored and read as well; default: where standard output leaves something out). As for `command`: `cwd` (a case's
    workspace goes before it), `env`, `ok_exit_codes` (default [0]), `files_format`, `healthcheck`, `retry_failures`; in
    `args`, its placeholders are filled in.
    """

    version: ClassVar[str] = Command.version
    settings: ClassVar[FieldTable] = SETTINGS
    incidental: ClassVar[frozenset[str]] = Command.incidental | {"keep_session"}
    default_timeout_s: ClassVar[float] = Command.default_timeout_s
    retries_timeouts: ClassVar[bool] = Command.retries_timeouts
    first_alone: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    def __init__(self, runner: Runner, now: Callable[[], float] = time.time) -> None:
        self._now = now  # compared with the times of session files
        self._runner = runner
        self._cli = cli_of(runner.settings)
        self._keeps_session = settings.flag(runner.settings, "keep_session", self._cli.log_completes_output)
        self._keeps_unfinished = settings.flag(
            runner.settings, "keep_session", self._keeps_session or self._cli.log_completes_unfinished
        )
        self._command = Command(self.equivalent(runner))
        self._max_bytes = runner.max_output_bytes
        self._env = settings.texts(runner.settings, "env")
        self._session_environment = SessionEnvironment(
            cli=self._cli, passed=settings.names(runner.settings, "pass_env"), isolated=_is_isolated(runner)
        )
        self._skills = _skills_of(runner)
        self._cwd = runner.folder / (settings.optional_text(runner.settings, "cwd") or ".")
        self._max_steps = settings.count(runner.settings, "max_steps")
        self._max_cost_usd = settings.amount(runner.settings, "max_cost_usd")
        self._talks = AgentTalks(self._session_environment)
        self._version: str | None = None
        self._warned = False
        self._check_program()

    @property
    def usual_concurrency(self) -> int:
        """How many sessions run at the same time where nothing is set: two for each processor, one for each GiB."""
        return sessions_at_once()

    @staticmethod
    def equivalent(runner: Runner) -> Runner:
        """Return the equivalent runner of the `command` adapter, which determines this runner's identity: the files of
        its skills are part of it."""
        given, public = (command_settings(values) for values in (runner.settings, runner.public_settings))
        skills = _skills_of(runner)
        public |= {} if skills is None else {"skills": skills.content()}
        return replace(runner, adapter="command", settings=given, public_settings=public)

    @staticmethod
    def folder_without_workspace(runner: Runner) -> Path | None:
        """Return the folder in which sessions without a workspace work; None where `cwd` names it."""
        return None if runner.settings.get("cwd") else Path(os.path.realpath(runner.base))

    def content(self) -> Mapping[str, str]:
        return self._command.content()

    def missing_program(self) -> str | None:
        """Return that the program is not on PATH here; None where it is, or is a file."""
        return self._command.missing_program()

    def missing_login(self) -> str | None:
        """Return that sessions would have no key and no login here, and the cure; None where they may have one."""
        if any(self._runner.settings.get(name) for name in _MAY_LOG_IN):
            return None
        problem = self._session_environment.login_problem()
        return f"{problem}; set a key, or log in" if problem is not None else None

    def hidden_folder(self) -> str | None:
        """Return that sessions work in a folder which the sandbox of the CLI hides; None where it does not."""
        words, folder = self.equivalent(self._runner).settings["command"], sessions_path()
        if not self._cli.without_sandbox.isdisjoint(map(str, words)):
            return None
        hiding = next((each for each in self._cli.sandbox_hides if folder.is_relative_to(each)), None)
        if hiding is None:
            return None
        cure = f"set {SESSIONS_VARIABLE} to a folder elsewhere"
        return f"sessions work in {folder}, and the sandbox of {self._cli.name} has a {hiding} of its own; {cure}"

    async def execute(self, call: Call) -> RawExecution:
        self._check_start()
        begin = self._now()
        async with self._session(call) as (environment, talk):
            command, call = self._command_of(call, talk)
            call = replace(call, environment=environment)
            async with self._having_skills(call):
                with LIVE_SESSIONS.shown(_live(call)) as live:
                    call = replace(call, watch=self._watch(call, live, begin))
                    raw = await self._executed(command, call, begin, talk)
            if talk is not None:
                talk.note(raw, self._cli)
            return raw

    async def ask(self, session: KeptSession, call: Call) -> RawExecution:
        """Return the answer of a session that ended; it may only read. Raises TargetFailure, InputError, OSError."""
        self._check_start()
        return await ask_session(self._runner, self._session_environment, session, call)

    async def end_talk(self, key: str) -> None:
        """Release what the conversation of a plan holds: its home."""
        await self._talks.end(key)

    async def close(self) -> None:
        await self._talks.close()
        await self._command.close()

    def _check_start(self) -> None:
        """Raise TargetFailure for an agent that can be started for no case at all."""
        program, environment = self._runner_program, {**os.environ, **self._env}
        found = installed(program, self._cwd, environment)
        if found is None:
            cure = f"install {self._cli.name}, or name it in `executable`"
            problem = f"cannot be started: {absence_of(program, self._cwd, environment)}; {cure}"
            raise TargetFailure(TARGET_CRASH, problem, closes_runner=True)
        self._warn_of_hidden_folder()
        self._version = program_version(found) if not self._runner.settings.get("wrap") else None
        no_login = self.missing_login()
        if no_login is not None:
            raise TargetFailure(AUTHENTICATION, no_login, closes_runner=True)

    def _warn_of_hidden_folder(self) -> None:
        problem = self.hidden_folder() if not self._warned else None
        self._warned = True
        if problem is not None:
            _LOG.warning("runner '%s': %s", self._runner.name, problem)

    def _check_program(self) -> None:
        """Raise InputError for a program that is named by its path and cannot be started. One that is searched on PATH
        may be installed where the agent runs: its first session reports it."""
        program = self._runner_program
        if "/" not in program or "{" in program:
            return
        path = self._cwd / program
        if path.is_file() and os.access(path, os.X_OK):
            return
        problem = f"'{program}' is not executable" if path.is_file() else f"there is no program '{program}'"
        name = "wrap" if self._runner.settings.get("wrap") else "executable"
        raise InputError(f"{problem} (a path begins in {show_path(self._cwd)})", SourceLocation(field=name))

    @property
    def _runner_program(self) -> str:
        command: Any = self.equivalent(self._runner).settings["command"]
        return str(command[0])

    @asynccontextmanager
    async def _session(self, call: Call) -> AsyncIterator[tuple[Mapping[str, str], AgentTalk | None]]:
        """Yield the environment of a session: fresh, or that of the conversation that the call belongs to."""
        if call.turn is not None and self._cli.resumes:
            talk = await self._talks.at(call)
            yield talk.environment, talk
            return
        async with self._session_environment.session() as environment:
            yield environment, None

    @asynccontextmanager
    async def _having_skills(self, call: Call) -> AsyncIterator[None]:
        """Let a session have the skills of the runner and no others, where it names them."""
        if self._skills is None:
            yield
            return
        environment, _ = self._places(call)
        opened = self._skills.within(self._cli, environment, call.workspace, self._cwd)
        await in_thread(opened.__enter__)
        try:
            yield
        finally:
            await in_thread(opened.__exit__, None, None, None)

    def _command_of(self, call: Call, talk: AgentTalk | None) -> tuple[Command, Call]:
        """Return the command of a call, and the call: one that goes on with the session of a conversation has what was
        said since."""
        session = talk.session_id if talk is not None and call.said else None
        if session is not None:
            call = replace(call, plan=replace(call.plan, case=replace(call.plan.case, input=call.said)))
        by_stdin = self._cli.reads_stdin and not _is_argument(prompt_text(call.plan.case, files="reference"))
        if session is None and not by_stdin:
            return self._command, call
        given = command_settings(self._runner.settings, session, by_stdin=by_stdin)
        return Command(replace(self._runner, adapter="command", settings=given)), call

    async def _executed(self, command: Command, call: Call, begin: float, talk: AgentTalk | None) -> RawExecution:
        try:
            raw = await command.execute(call)
        except TargetFailure as failure:
            with contextlib.suppress(TargetFailure):  # the first failure counts
                failure.raw = await self._completed(failure.raw, call, begin, talk) if failure.raw else None
            raise
        return await self._completed(raw, call, begin, talk)

    async def _completed(self, raw: RawExecution, call: Call, begin: float, talk: AgentTalk | None) -> RawExecution:
        """Return the execution with the agent's version and the session's log, if it is to be kept and exists.

        Raises TargetFailure.
        """
        more: dict[str, Any] = {VERSION: self._version} if self._version is not None else {}
        before = dict(talk.usage_before) if talk is not None else {}
        more |= {"usage_before": before} if before else {}
        raw = replace(raw, payload={**raw.payload, **more}) if more else raw
        keeps = self._keeps_session if raw.exit_code is not None else self._keeps_unfinished
        if not keeps and talk is None:
            return raw
        return await in_thread(self._with_log, raw, call, begin, talk)

    def _with_log(self, raw: RawExecution, call: Call, begin: float, talk: AgentTalk | None) -> RawExecution:
        """Return the execution with a copy of the session's log, because the CLI may append to the original."""
        log = self._log_of(raw, call, begin)
        if log is None:
            return self._with_export(raw, call)
        size = log.path.stat().st_size
        read = talk.read_before(log.path, size) if talk is not None else 0
        if size - read > self._max_bytes:
            problem = f"the session's log exceeds the limit of {self._max_bytes / 1e6:g} MB (max_output_mb)"
            raise TargetFailure(OUTPUT_LIMIT, problem, raw=raw)
        copy = call.folder / "session"
        self._cli.sessions.copy(log, copy, read)
        environment, home = self._places(call)
        name = os.path.relpath(log.path, self._cli.sessions.folder(home, environment))
        return replace(raw, files={**raw.files, "session": copy}, payload={**raw.payload, SESSION_FILE: name})

    def _with_export(self, raw: RawExecution, call: Call) -> RawExecution:
        """Return the execution with its session as the CLI prints it, where the CLI keeps no file of it."""
        session_id = self._cli.printed_session(raw.files.get("stdout"))
        if session_id is None or not self._cli.exports:
            return raw
        environment, _ = self._places(call)
        command, cwd = self.equivalent(self._runner), call.workspace or self._cwd
        content = exported_session(self._cli, command, session_id, environment, cwd)
        if content is None or len(content) > self._max_bytes:
            return raw
        copy = call.folder / "session"
        copy.write_bytes(content)
        return replace(raw, files={**raw.files, "session": copy}, payload={**raw.payload, SESSION_FILE: EXPORT})

    def _log_of(self, raw: RawExecution, call: Call, begin: float) -> SessionLog | None:
        session_id = self._cli.printed_session(raw.files.get("stdout"))
        environment, home = self._places(call)
        cwd = call.workspace or self._cwd
        return find_log(self._cli.sessions, home, environment, session_id=session_id, cwd=cwd, since=begin)

    def _places(self, call: Call) -> tuple[dict[str, str], Path]:
        environment = {**(call.environment or {}), **self._env}
        return environment, Path(environment.get("HOME") or Path.home())

    def _watch(self, call: Call, live: LiveSession, begin: float) -> SessionWatch:
        environment, home = self._places(call)
        isolated = self._session_environment.isolated
        store = self._cli.sessions
        return SessionWatch(
            session=live,
            read=self._cli.live(),
            stdout=GrowingFile(call.folder / "stdout"),
            find_log=lambda: newest_log(store, home, environment, begin) if isolated else None,
            prices=self._runner.prices,
            max_steps=call.plan.case.max_steps or self._max_steps,
            max_cost_usd=self._max_cost_usd,
        )


def _is_argument(prompt: str) -> bool:
    """Return whether a program can have a prompt as an argument."""
    return "\0" not in prompt and len(prompt.encode(errors="replace")) <= _MOST_ARGUMENT_BYTES


def _is_isolated(runner: Runner) -> bool:
    return settings.choice(runner.settings, "home", HOMES, "isolated") == "isolated"


def _skills_of(runner: Runner) -> SessionSkills | None:
    named = settings.names(runner.settings, "skills") if runner.settings.get("skills") is not None else None
    return SessionSkills.read(named, runner.folder, isolated=_is_isolated(runner))


def _live(call: Call) -> LiveSession:
    plan = call.plan
    return LiveSession(suite=plan.suite, runner=plan.runner.name, case_id=plan.case.id, repetition=plan.repetition)
