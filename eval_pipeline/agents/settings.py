"""Settings of a runner of the adapter `agent` → the equivalent settings of the adapter `command`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from eval_pipeline.agents.agent_cli import AGENTS, AgentCli
from eval_pipeline.agents.launching import ACCESSES, LaunchRequest
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.parsing.tables import COUNT, FLAG, LIST, POSITIVE, TEXT, TEXT_LIST, Field, FieldTable, either, one_of

HOMES = ("isolated", "user")
_LIMITS = ("max_turns", "max_budget_usd")
_OF_THE_COMMAND = frozenset({"cwd", "env", "files_format", "healthcheck", "model", "ok_exit_codes", "retry_failures"})
_KEPT_IN_IDENTITY = ("pass_env", "max_steps", "max_cost_usd")
SETTINGS = FieldTable(
    "agent",
    (
        Field("agent", TEXT, "The agent CLI, such as `claude-code`, `codex` or `copilot`.", required=True),
        Field("executable", TEXT, "The program (default: the CLI's name, looked up on PATH)."),
        Field("wrap", either(TEXT, TEXT_LIST), "Words put before the program: a container, a sandbox."),
        Field("args", either(TEXT, LIST), "Further arguments of the CLI."),
        Field("access", one_of(*ACCESSES), "What a session may change, by the CLI's own options (default: the CLI's)."),
        Field("system", TEXT, "Instructions: by the CLI's own option, else put before every prompt."),
        Field("keep_session", FLAG, "Whether the log that the CLI keeps of the session is stored and read as well."),
        Field("max_steps", COUNT, "The most steps (replies of the model) of a session; one with more is ended."),
        Field("max_cost_usd", POSITIVE, "The most that a session may cost, by its usage while it runs."),
        Field("max_turns", COUNT, "The most turns of a session, for a CLI that has the option."),
        Field("max_budget_usd", POSITIVE, "The most that a session may cost, for a CLI that has the option."),
        Field("model", TEXT, "The model, by the CLI's own option."),
        Field(
            "home",
            one_of(*HOMES),
            "Whether a session has a fresh home with the user's login, or the user's own.",
            "isolated",
        ),
        Field(
            "skills",
            TEXT_LIST,
            "Folders of the only skills that a session has; without those of its workspace. An empty list: none.",
        ),
        Field("pass_env", TEXT_LIST, "Names and patterns of further environment variables that a session gets."),
        *(Command.settings[name] for name in sorted(_OF_THE_COMMAND - {"model"})),
    ),
    "Runs a coding-agent CLI once per case, in the case's workspace.",
)


def cli_of(given: Mapping[str, Any]) -> AgentCli:
    """Return the CLI that settings name. Raises InputError."""
    if given.get("agent") is None:
        there_are = ", ".join(AGENTS.names())
        raise InputError(f"expected the name of an agent; there are: {there_are}", SourceLocation(field="agent"))
    return AGENTS.get(settings.text(given, "agent"), SourceLocation(field="agent"))


def command_settings(given: Mapping[str, Any], session: str | None = None, *, by_stdin: bool = False) -> dict[str, Any]:
    """Return the settings of the `command` adapter; `session` is the id of a session to go on with. Raises InputError.

    What a session was told at its beginning is not repeated when it goes on. With `by_stdin` the prompt is its standard
    input instead of an argument.
    """
    cli = cli_of(given)
    launch = cli.launch(_request(cli, given, session))
    numbers = {str(arg): arg for arg in _listed(given, "args") if not isinstance(arg, str)}
    words = [word for word in launch.command if not (by_stdin and "{PROMPT}" in word)]
    command = [numbers.get(word, word) for word in words]  # unchanged: part of the identity
    made: dict[str, Any] = {"command": command, "format": cli.output_format}
    if not any("{PROMPT}" in word for word in words):
        made["prompt"] = "stdin" if by_stdin else launch.prompt
    if launch.preamble is not None and session is None:
        made["system"] = launch.preamble
    if launch.env:
        made["env"] = {**launch.env, **settings.mapping(given, "env")}
    if given.get("home") == "user":  # the usual one is no part of the identity
        made["home"] = "user"
    if given.get("skills") is not None:  # an empty list is one of no skills
        made["skills"] = given["skills"]
    made.update({name: given[name] for name in _KEPT_IN_IDENTITY if given.get(name)})
    return {**{key: value for key, value in given.items() if key in _OF_THE_COMMAND}, **made}


def _request(cli: AgentCli, given: Mapping[str, Any], session: str | None) -> LaunchRequest:
    for name in _LIMITS:
        if given.get(name) is not None and name not in cli.known_limits:
            has = f"it has {', '.join(sorted(cli.known_limits))}" if cli.known_limits else "use timeout_s"
            ours = "max_steps" if name == "max_turns" else "max_cost_usd"
            raise InputError(f"{cli.name} has no option for this; {has} or {ours}", SourceLocation(field=name))
    return LaunchRequest(
        executable=settings.optional_text(given, "executable") or cli.executable,
        wrap=_wrap(given),
        args=_args(given),
        model=settings.optional_text(given, "model"),
        system=settings.optional_text(given, "system"),
        access=next((each for each in ACCESSES if each == _access(given)), None),
        max_turns=settings.count(given, "max_turns"),
        max_budget_usd=settings.amount(given, "max_budget_usd"),
        session=session,
    )


def _access(given: Mapping[str, Any]) -> str | None:
    return settings.choice(given, "access", ACCESSES, "") if given.get("access") is not None else None


def _wrap(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Words put before the program: a list, or a line that is split as a shell does. Raises InputError."""
    value = given.get("wrap")
    if not isinstance(value, str):
        return settings.names(given, "wrap")
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise InputError(f"cannot be split into words: {error}", SourceLocation(field="wrap")) from error


def _args(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Further arguments as texts. Raises InputError."""
    words = _listed(given, "args")
    if not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in words):
        raise InputError(f"expected a list of arguments, got {given['args']!r}", SourceLocation(field="args"))
    return tuple(map(str, words))


def _listed(given: Mapping[str, Any], name: str) -> list[Any]:
    """Return raw further arguments: a list, or a single one."""
    value = given.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]
