"""Questions to a session that ended: it goes on in a fresh home with its log, and may only read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.session_environment import SessionEnvironment
from eval_pipeline.agents.session_exports import import_session
from eval_pipeline.agents.settings import cli_of, command_settings
from eval_pipeline.errors import InputError
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.kept_sessions import KeptSession, workspace_again
from eval_pipeline.executions.model import RawExecution, Runner
from eval_pipeline.executions.threads import in_thread


async def ask_session(
    runner: Runner, environment: SessionEnvironment, session: KeptSession, call: Call
) -> RawExecution:
    """Return what a session answers to the input of a call's case. Raises TargetFailure, InputError, OSError."""
    cli = cli_of(runner.settings)
    if not cli.resumes:
        raise InputError(f"{cli.name} cannot go on with a session")
    if environment.isolated and not cli.keeps_sessions:
        why = "keeps its sessions where they cannot be put back: they end with the case"
        raise InputError(f"{cli.name} {why}; `home: user` of the runner lets them go on")
    if environment.isolated and (session.log is None or session.log_name is None):
        raise InputError(_not_kept(runner, cli))
    given = {**runner.settings, "access": "read-only"}
    asking = replace(runner, adapter="command", settings=command_settings(given, session.session_id))
    command = Command(asking)
    async with AsyncExitStack() as stack:
        variables = await stack.enter_async_context(environment.session())
        if session.workspace is not None:
            folder = workspace_again(session.workspace, _worked_in(cli, session.log))
            call = replace(call, workspace=await in_thread(folder.__enter__))
            stack.push_async_callback(in_thread, folder.__exit__, None, None, None)
        if environment.isolated:
            place = await in_thread(_restore_log, cli, session, {**variables, **settings.texts(given, "env")})
            if cli.imports:
                cwd = call.workspace or place.parent
                await in_thread(import_session, cli, asking, place, variables, cwd)
        return await command.execute(replace(call, environment=variables))


def _not_kept(runner: Runner, cli: AgentCli) -> str:
    if runner.settings.get("keep_session"):
        return f"its log was not kept: {cli.name} left none that has the session's id, or none was to be kept then"
    return "its log is not kept: set `keep_session: true` of the runner, and execute it again (run --refresh all)"


def _worked_in(cli: AgentCli, log: Path | None) -> Path | None:
    """Return the folder that a session worked in, by its log."""
    if log is None:
        return None
    cwd = cli.sessions.facts(log.read_text("utf-8", "replace")).cwd
    return Path(cwd) if cwd is not None else None


def _restore_log(cli: AgentCli, session: KeptSession, environment: Mapping[str, str]) -> Path:
    """Copy the log of a session to its place among the files of its CLI; return it. Raises InputError, OSError."""
    assert session.log is not None  # looked at by the caller
    assert session.log_name is not None
    folder = cli.sessions.folder(Path(environment.get("HOME") or Path.home()), environment)
    place = Path(os.path.normpath(folder / session.log_name))
    if not place.is_relative_to(folder):
        raise InputError(f"the log of the session has its place outside of the CLI's folder: {session.log_name}")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(session.log, place)
    return place
