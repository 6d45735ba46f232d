"""The description of a coding-agent CLI as one value, and the registry of all CLIs.

A CLI is a folder here (or a plug-in elsewhere) with one `AgentCli` value and one entry point in the group
`eval_pipeline.agents`. Other code reads the registry: the adapter `agent` (launch), the normalizers' registry
(`normalizers`), the kinds of tools (`tool_kinds`) and `eval-pipeline import` (`sessions`). Entry points import a CLI's
module on its first use, so start-up does not load every CLI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.agents.launching import Launch as Launch
from eval_pipeline.agents.launching import LaunchRequest as LaunchRequest
from eval_pipeline.agents.launching import LaunchTable
from eval_pipeline.agents.live_records import LiveReader, claude_live
from eval_pipeline.agents.session_store import HEAD_BYTES, RecordField, SessionStore, first_value
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.jsonl_records import read_records
from eval_pipeline.reports.normalize import Normalizer
from eval_pipeline.reports.record_files import read_ends
from eval_pipeline.reports.tool_kinds import ToolKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCli:
    """A coding-agent CLI: how it starts, what it prints, where it keeps its sessions, and what its tools do.

    Args:
        name: Its short name, by which sessions and recordings name it; `aliases` are accepted as well.
        executable: The program, looked for on PATH.
        launch: The request of a runner → the command: a table, or a function.
        limits: Which of `max_turns` and `max_budget_usd` the CLI has an option for, where `launch` is a function.
        live: A reader of what its records tell while a session runs; each session has its own.
        output_format: The normalizer of its standard output, one of `normalizers`.
        normalizers: Readers of its raw formats, by the name of the format.
        tool_kinds: What each of its tools does, by the name of the tool in a report.
        sessions: The sessions that it keeps on this machine.
        printed_session_id: Where its standard output names the session.
        log_completes_output: Whether the log of a session holds what standard output leaves out (token usage, for
            example), so that the adapter keeps it unless a runner sets `keep_session`.
        log_completes_unfinished: Whether it does so where a session was ended before its last record.
        reads_stdin: Whether its prompt may be standard input, where it is no argument: one that is too long for that.
        keys: Names and patterns of the environment variables by which it finds its provider; by default those that
            begin with its name.
        login_files: Files of the user's login, in the folder of its sessions; they are linked into a session's home.
        variables_of_root: Environment variables without which it refuses to work for the user root.
        cumulative: Measures of usage that a resumed session reports for all its turns together.
        cache_variable: The variable of a folder that its sessions share, where the CLI unpacks itself.
        skills_folder: The folder of a user's skills, in the home folder; None: `skills` in the folder of its sessions.
        sandbox_hides: Folders that its sandbox has of its own: sessions below them cannot run a command.
        without_sandbox: Words of its command line that start it without the sandbox.
        addresses: The variables that hold its provider's address, each with the usual one (empty: none is usual).
        exports: The words of a command that prints a session (`{SESSION}`) as text, where sessions are in a database.
        imports: The words of a command that takes such a text (`{FILE}`) in.
        model_provider: Who provides its models, by OpenTelemetry's names; None when that depends on the model.
    """

    name: str
    aliases: tuple[str, ...] = ()
    executable: str
    launch: Callable[[LaunchRequest], Launch]
    limits: frozenset[str] = frozenset()
    live: Callable[[], LiveReader] = lambda: claude_live
    output_format: str
    normalizers: Mapping[str, Callable[[], Normalizer]]
    tool_kinds: Mapping[str, ToolKind]
    sessions: SessionStore
    printed_session_id: tuple[RecordField, ...] = ()
    log_completes_output: bool = False
    log_completes_unfinished: bool = False
    reads_stdin: bool = False
    keys: tuple[str, ...] = ()
    login_files: tuple[str, ...] = ()
    variables_of_root: Mapping[str, str] = field(default_factory=dict)
    cumulative: frozenset[str] = frozenset()
    cache_variable: str | None = None
    model_provider: str | None = None
    skills_folder: str | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    sandbox_hides: tuple[str, ...] = ()
    without_sandbox: frozenset[str] = frozenset()
    exports: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """Return names and patterns of the environment variables that a session gets of the user's."""
        return self.keys or (f"{self.name.upper().replace('-', '_')}_*",)

    def skills_in(self, home: Path, environment: Mapping[str, str]) -> Path:
        """Return the folder where the CLI looks for the skills of a user."""
        if self.skills_folder is not None:
            return home / self.skills_folder
        return self.sessions.folder(home, environment) / "skills"

    def printed_session(self, stdout: Path | None) -> str | None:
        """Return the id of the session that an output names at its beginning or its end."""
        printed = read_ends(stdout, 2 * HEAD_BYTES) if stdout is not None and stdout.is_file() else ""
        return first_value(read_records(printed).rows, self.printed_session_id)

    @property
    def known_limits(self) -> frozenset[str]:
        """Return which limits of a session the CLI has an option for."""
        return self.limits.union(self.launch.limits if isinstance(self.launch, LaunchTable) else ())

    @property
    def resumes(self) -> bool:
        """Return whether the CLI can go on with an earlier session."""
        return isinstance(self.launch, LaunchTable) and bool(self.launch.resume)

    @property
    def keeps_sessions(self) -> bool:
        """Return whether a session can be stored, and put back among the files of the CLI."""
        return bool(self.imports) or bool(getattr(self.sessions, "patterns", ()))

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
