"""`eval-pipeline import`: sessions stored by coding agents → a transcript file, or a suite."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from eval_pipeline.agents.agent_cli import AGENTS, AgentCli, all_agents
from eval_pipeline.agents.session_import import (
    SESSION_FORMATS,
    Session,
    SessionOwner,
    agents_of,
    read_folder,
    read_head,
    read_session,
)
from eval_pipeline.agents.session_store import SessionLog, is_log_of, with_distinct_ids
from eval_pipeline.agents.transcripts import REPLAYABLE, TRANSCRIPTS
from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.imported_results import (
    check_free,
    describe,
    find_files,
    format_named,
    name_runners,
    read_results,
    result_files,
    write_results,
)
from eval_pipeline.cli.imported_suite import SUITE_NAME, SuiteFiles, check_suite_files, plan_suite_files
from eval_pipeline.cli.options import open_project, past_moment, project_options
from eval_pipeline.cli.tables import Layout, message_console, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo_file
from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.failures import NORMALIZATION
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.interpolation import names_in
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.writing import jsonl_text
from eval_pipeline.reports.result_logs import RESULT_LOGS, ResultLogFormat
from eval_pipeline.sweeps.project import Project

_SHOWN_PROMPT = 80
_SHOWN_ERROR = 160
_LISTED = 50
_DEFAULT_FOLDER = Path("recordings", "transcripts")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """A selection of sessions. `since` is a time; sessions started in or below `cwd` match."""

    names: tuple[str, ...] = ()
    since: datetime | None = None
    cwd: Path | None = None
    last: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self.names and self.since is None and self.cwd is None and self.last is None


class _Import(click.Command):
    """The command, with a line for every installed agent in its help."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_section(formatter, "Agents", [(each.name, _place(each)) for each in all_agents() if each.keeps_sessions])
        systems = [(name, f"files: {', '.join(format_.patterns)}") for name, format_ in RESULT_LOGS]
        _write_section(formatter, "Other evaluation systems", systems)


def _write_section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    """Write a titled list; nothing for an empty one (entry points of an older installation)."""
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _place(agent: SessionOwner) -> str:
    return f"sessions in {_folder(agent, os.environ)} ({agent.sessions.variable})"


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in (*AGENTS.names(), *RESULT_LOGS.names()) if name.startswith(incomplete)]


@click.command(name="import", cls=_Import)
@click.argument("agent", shell_complete=_complete)
@click.argument("sessions", nargs=-1, metavar="[SESSION]...")
@click.option("--list", "listed", is_flag=True, help="List the sessions instead of importing them.")
@click.option("--since", callback=past_moment, help="Only sessions active since: a date, a time, or an age (7d, 12h).")
@click.option("--cwd", type=click.Path(path_type=Path), help="Only sessions of this folder or one below it.")
@click.option("--last", type=click.IntRange(1), help="Only so many, the newest.")
@click.option("-o", "--output", help="Transcript file (`-`: stdout; default: recordings/transcripts/….jsonl).")
@click.option("--suite", metavar="NAME", help="Also write a suite of the sessions and a runner that replays them.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@project_options
def import_sessions_command(
    *,
    agent: str,
    sessions: tuple[str, ...],
    listed: bool,
    since: datetime | None,
    cwd: Path | None,
    last: int | None,
    output: str | None,
    suite: str | None,
    force: bool,
    project: Path | None,
    data: Path | None,
) -> None:
    """Import sessions of AGENT into a transcript file, one line a session.

    AGENT may be `atif`: trajectories of any program. SESSION is a session's id (or the beginning of it) or a log file.
    Logs are looked for where the agent keeps them. AGENT may also be another evaluation system (inspect, promptfoo,
    lm-eval) and SESSION files or folders of its results: each task becomes a suite, each model a runner that replays
    its answers, and the scores that the system gave are evaluators beside any others.
    Exit codes: 0 done; 1 some sessions could not be imported; 2 none could, or invalid input.
    """
    selected = SessionFilter(names=sessions, since=since, cwd=cwd, last=last)
    results = format_named(agent)
    if results is not None:
        _check_options(agent, since=since, cwd=cwd, last=last, output=output)
        _import_results(agent, results, sessions, open_project(project, data), listed=listed, suite=suite, force=force)
        return
    cli = SESSION_FORMATS.get(agent) or AGENTS.get(agent)
    logs = select_logs(cli, selected, os.environ)
    if listed:
        _list(cli, logs)
        return
    if selected.is_empty:
        raise InputError("name the sessions: their ids, --last N, --since 7d or --cwd FOLDER (--list shows them)")
    if suite is not None and not SUITE_NAME.match(suite):
        raise InputError(f"--suite: expected lower-case letters, digits and hyphens (at most 64), got '{suite}'")
    files = plan_suite_files(suite, open_project(project, data)) if suite is not None else None
    target = _target(output, suite or _name(cli, logs), open_project(project, data).root)
    _check_free(target, files, force)
    console = message_console()
    imported = _read(cli, logs, console)
    if not imported:
        raise InputError("nothing was imported")
    _write(imported, target, files, console)
    sys.exit(0 if len(imported) == len(logs) else 1)


def _check_options(agent: str, **options: object) -> None:
    """Raise InputError for options that select sessions."""
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"{given[0]}: is for sessions of agents; results of {agent} are named by files and folders")


def _import_results(
    system: str, format_: ResultLogFormat, names: Sequence[str], project: Project, *,
    listed: bool, suite: str | None, force: bool,
) -> None:  # fmt: skip
    """Import results of another system. Exits with 1 when some could not be imported."""
    if not names:
        raise InputError(f"name the results of {system}: files, or folders with {' or '.join(format_.patterns)}")
    if suite is not None and not SUITE_NAME.match(suite):
        raise InputError(f"--suite: expected lower-case letters, digits and hyphens (at most 64), got '{suite}'")
    console = message_console()
    result = read_results(format_, find_files(format_, names), all(map(os.path.isfile, names)), suite)
    for why in result.skipped:
        print_line(console, why, mark="not imported:", style="yellow")
    if not result.tasks:
        raise InputError("nothing was imported")
    if listed:
        columns = ("suite", "runner", "answers", "cases", "recorded scores")
        print_rows(table_console(), columns, list(describe(result)), Layout(prose=True))
        return
    files = result_files(system, project)
    name_runners(result, files)
    if not force:
        check_free(result.tasks, files)
    for line in write_results(result, files):
        print_line(console, line)
    suites = " ".join(show_path(files.suites / f"{name}.yaml") for name in result.tasks)
    print_line(console, f"eval-pipeline run {suites}", style="dim")
    sys.exit(1 if result.skipped else 0)


# Selection


def select_logs(agent: SessionOwner, selected: SessionFilter, environment: Mapping[str, str]) -> list[SessionLog]:
    """Return the selected logs, newest first, or in the order of the given names. Raises InputError."""
    files = {name: log for name in selected.names if (log := _file(agent, name)) is not None}
    listed = getattr(agent.sessions, "listed", agent.sessions.logs)
    if isinstance(agent, AgentCli) and not agent.keeps_sessions:
        raise InputError(f"{agent.name} keeps its sessions in a database that only it reads: none can be imported")
    only_files = bool(files) and len(files) == len(set(selected.names))
    stored: list[SessionLog] = [] if only_files else listed(Path.home(), environment)
    named = [files.get(name) or _named(agent, name, stored, environment) for name in selected.names]
    logs = (with_distinct_ids(named) if agent.name in SESSION_FORMATS else named) if selected.names else stored
    logs = [log for log in logs if selected.since is None or log.changed_at >= selected.since]
    if selected.cwd is not None:
        folder = selected.cwd.expanduser().resolve()
        logs = [log for log in logs if _is_below(agent, log, folder)]
    if not logs:
        raise InputError(f"no {agent.name} session matches, of {len(stored)} in {_folder(agent, environment)}")
    return logs[: selected.last]


def _file(agent: SessionOwner, name: str) -> SessionLog | None:
    return agent.sessions.log_at(Path(name).expanduser()) if name else None


def _named(agent: SessionOwner, name: str, stored: Sequence[SessionLog], environment: Mapping[str, str]) -> SessionLog:
    matching = [log for log in stored if log.session_id.startswith(name) or is_log_of(agent.sessions, log, name)]
    exact = [log for log in matching if is_log_of(agent.sessions, log, name)]
    if exact or len(matching) == 1:
        return (exact or matching)[0]  # of several logs of one session the newest
    if matching:
        ids = ", ".join(log.session_id for log in matching[:5])
        raise InputError(f"'{name}' begins the ids of {len(matching)} {agent.name} sessions: {ids}…; give more of it")
    hint = did_you_mean(name, [log.session_id for log in stored])
    where = f"among {len(stored)} in {_folder(agent, environment)}"
    raise InputError(f"no {agent.name} session '{name}' {where}, and no such file{hint}")


def _folder(agent: SessionOwner, environment: Mapping[str, str]) -> str:
    return show_path(agent.sessions.folder(Path.home(), environment))


def _is_below(agent: SessionOwner, log: SessionLog, folder: Path) -> bool:
    try:
        cwd = read_folder(agent, log)
    except OSError:
        return False
    return cwd is not None and Path(cwd).resolve().is_relative_to(folder)


def _list(agent: SessionOwner, logs: Sequence[SessionLog]) -> None:
    console = table_console()
    rows = list(_rows(agent, logs[:_LISTED]))
    print_rows(console, ("session", "last active (UTC)", "folder", "first words"), rows, Layout(prose=True))
    if len(logs) > _LISTED:
        older = len(logs) - _LISTED
        print_line(console, f"… and {older} older ones (--since, --cwd and --last narrow them down)", style="dim")


def _rows(agent: SessionOwner, logs: Sequence[SessionLog]) -> Iterator[tuple[object, ...]]:
    for log in logs:
        changed = f"{log.changed_at:%Y-%m-%d %H:%M}"
        try:
            head = read_head(agent, log)
        except OSError as error:
            yield log.session_id, changed, None, f"cannot be read: {error.strerror}"
            continue
        words = " ".join((head.prompt or "").split())
        yield head.session_id, changed, head.cwd, words[:_SHOWN_PROMPT] or None


# Reading sessions


def _read(agent: SessionOwner, logs: Sequence[SessionLog], console: Console) -> list[Session]:
    """Return the sessions of the logs; a session that cannot be imported is reported and left out."""
    sessions: dict[str, Session] = {}
    with click.progressbar(logs, file=sys.stderr, hidden=not sys.stderr.isatty(), label="reading") as progress:
        for log in progress:
            session = _session(agent, log, console)
            if session is not None and session.session_id in sessions:
                _skip(console, log, f"holds session {session.session_id} again")
            elif session is not None:
                sessions[session.session_id] = session
    return list(sessions.values())


def _session(agent: SessionOwner, log: SessionLog, console: Console) -> Session | None:
    try:
        session = read_session(agent, log)
    except OSError as error:
        _skip(console, log, f"cannot be read: {error.strerror}")
        return None
    report = session.report
    if session.prompt is None:
        _skip(console, log, _why_nothing(agent, log, session))
        return None
    if report.unparsed_lines:
        left_out = f"{_unparsed(report.unparsed_lines)} and {'was' if report.unparsed_lines == 1 else 'were'} left out"
        print_line(console, f"{show_path(log.path)}: {left_out}", style="yellow")
    if report.error is not None:
        why = " ".join(report.error.split())[:_SHOWN_ERROR]
        print_line(console, f"{session.session_id}: {report.failure_class}: {why}", style="dim")
    return session


def _why_nothing(agent: SessionOwner, log: SessionLog, session: Session) -> str:
    if session.report.failure_class == NORMALIZATION.id:
        return f"cannot be understood: {session.report.error}"
    if agent.name in SESSION_FORMATS:  # the ids of a trajectory look like those of any CLI
        return "holds no words of a user"
    owners = agents_of(agent, log)
    if owners and agent.name not in owners:
        return f"is a log of {owners[0]}: eval-pipeline import {owners[0]} reads it"
    unread = f" ({_unparsed(session.report.unparsed_lines)})" if session.report.unparsed_lines else ""
    return f"holds no words of a user: not a {agent.name} session, or an empty one{unread}"


def _unparsed(lines: int) -> str:
    return counted(lines, "line is no JSON", "lines are no JSON")


def _skip(console: Console, log: SessionLog, why: str) -> None:
    print_line(console, f"{show_path(log.path)} {why}", mark="not imported:", style="yellow")


# Writing files


def _name(agent: SessionOwner, logs: Sequence[SessionLog]) -> str:
    """Return a name for the transcript file: the agent's, with the session's id for a single session."""
    return f"{agent.name}-{logs[0].session_id[:8] if len(logs) == 1 else 'sessions'}"


def _target(output: str | None, name: str, root: Path) -> Path | None:
    """Return the path of the transcript; None for stdout."""
    if output == "-":
        return None
    return Path(output).absolute() if output is not None else root / _DEFAULT_FOLDER / f"{name}.jsonl"


def _check_free(target: Path | None, files: SuiteFiles | None, force: bool) -> None:
    """Raise InputError before any log is read when a file would be overwritten."""
    if not force and target is not None and target.exists():
        raise InputError(f"{show_path(target)} exists; --force overwrites it, --output names another")
    if files is not None:
        check_suite_files(files, force=force)


def _warn_of_placeholders(sessions: list[Session], console: Console) -> None:
    """Warn of `${{ NAME }}` in prompts, which a suite would replace."""
    for session in sessions:
        names = names_in(session.prompt)
        if names:
            warning = f"{session.session_id}: the suite fills in ${{{{ {names[0]} }}}} in the words of its user"
            print_line(console, warning, style="yellow")


def _write(sessions: list[Session], target: Path | None, files: SuiteFiles | None, console: Console) -> None:
    transcript = jsonl_text(map(TRANSCRIPTS.get(REPLAYABLE), sessions))
    if target is None:
        for line in transcript:
            echo_file(line)
    else:
        write_files([FileText(target, transcript)])
        print_line(console, f"{counted(len(sessions), 'session')} → {show_path(target)}")
    if files is not None:
        _warn_of_placeholders(sessions, console)
        written = files.texts(sessions)
        write_files(written)
        for file in written:
            print_line(console, f"{file.what} → {show_path(file.path)}")
        print_line(console, files.next_step(), style="dim")
