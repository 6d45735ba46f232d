"""The description of a coding-agent CLI as one value, and the registry of all CLIs.

A CLI is a folder here (or a plug-in elsewhere) with one `AgentCli` value and one entry point in the group
`eval_pipeline.agents`. Other code reads the registry: the adapter `agent` (launch), the normalizers' registry
(`normalizers`), the kinds of tools (`tool_kinds`) and `eval-pipeline import` (`sessions`). Entry points import a CLI's
module on its first use, so start-up does not load every CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from eval_pipeline.agents.session_store import RecordField, SessionStore
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.normalize import Normalizer
from eval_pipeline.reports.tool_kinds import ToolKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What a runner requests of its CLI. None and empty: not requested."""

    executable: str
    args: tuple[str, ...] = ()
    model: str | None = None
    system: str | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The command that starts a CLI without interaction and with JSON output.

    `command` is the program with its arguments; `{PROMPT}` and the other placeholders of the `command` adapter are
    filled in for each case. `prompt` is how the prompt reaches the program. `preamble` is put before every prompt,
    which is how a CLI without an option for a system prompt gets one.
    """

    command: tuple[str, ...]
    prompt: Literal["argument", "stdin"] = "stdin"
    preamble: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCli:
    """A coding-agent CLI: how it starts, what it prints, where it keeps its sessions, and what its tools do.

    Args:
        name: Its short name, by which sessions and recordings name it; `aliases` are accepted as well.
        executable: The program, looked for on PATH.
        launch: The request of a runner → the command.
        limits: Which of `max_turns` and `max_budget_usd` the CLI has an option for.
        output_format: The normalizer of its standard output, one of `normalizers`.
        normalizers: Readers of its raw formats, by the name of the format.
        tool_kinds: What each of its tools does, by the name of the tool in a report.
        sessions: The sessions that it keeps on this machine.
        printed_session_id: Where its standard output names the session.
        log_completes_output: Whether the log of a session holds what standard output leaves out (token usage, for
            example), so that the adapter keeps it unless a runner sets `keep_session`.
        keys: Names and patterns of the environment variables by which it finds its provider; by default those that
            begin with its name.
        login_files: Files of the user's login, in the folder of its sessions; they are linked into a session's home.
        variables_of_root: Environment variables without which it refuses to work for the user root.
        cache_variable: The variable of a folder that its sessions share, where the CLI unpacks itself.
        addresses: The variables that hold its provider's address, each with the usual one (empty: none is usual).
        model_provider: Who provides its models, by OpenTelemetry's names; None when that depends on the model.
    """

    name: str
    aliases: tuple[str, ...] = ()
    executable: str
    launch: Callable[[LaunchRequest], Launch]
    limits: frozenset[str] = frozenset()
    output_format: str
    normalizers: Mapping[str, Callable[[], Normalizer]]
    tool_kinds: Mapping[str, ToolKind]
    sessions: SessionStore
    printed_session_id: tuple[RecordField, ...] = ()
    log_completes_output: bool = False
    keys: tuple[str, ...] = ()
    login_files: tuple[str, ...] = ()
    variables_of_root: Mapping[str, str] = field(default_factory=dict)
    cache_variable: str | None = None
    model_provider: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> tuple[str, ...]:
        """Return names and patterns of the environment variables that a session gets of the user's."""
        return self.keys or (f"{self.name.upper().replace('-', '_')}_*",)

    @property
    def kinds_by_format(self) -> Mapping[str, Mapping[str, ToolKind]]:
        """Return the kinds of its tools for each raw format that has their names."""
        return dict.fromkeys(self.normalizers, self.tool_kinds)


AGENTS: Registry[AgentCli] = Registry("agent", folder=None, entry_point_group="eval_pipeline.agents")


def all_agents() -> list[AgentCli]:
    """Return every agent CLI once, by name."""
    agents = {agent.name: agent for _, agent in AGENTS}
    return [agents[name] for name in sorted(agents)]


def option(name: str, value: Any) -> list[str]:
    """An option of a command line with its value; nothing for a value of None."""
    return [] if value is None else [name, str(value)]
