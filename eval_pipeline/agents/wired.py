"""The adapter `agent` with the wire of its provider recorded (`record: wire`) or replayed (`replay: wire`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.agents.adapter import Agent
from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.wire_records import WireCall
from eval_pipeline.agents.wire_replay import Recording, read_recording
from eval_pipeline.agents.wire_server import WireServer, WireSession
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.folders import safe_name
from eval_pipeline.failures import RECORDING_MISSING
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.tables import TEXT, Field, FieldTable, one_of

ROLE = "wire"
"""The raw file with the calls of a session, one JSON object a line."""
WORKSPACE, HOME = "$WORKSPACE", "$HOME"
_OWN = ("record", "replay", "recording", "provider_url")
_SETTINGS = FieldTable(
    "agent",
    (
        *Agent.settings.fields,
        Field("record", one_of(ROLE), "With `wire` a proxy on this machine keeps every call of the model's provider."),
        Field("replay", one_of(ROLE), "With `wire` a proxy answers the agent's calls from `recording`."),
        Field(
            "recording", TEXT, "The folder of recorded calls, one file a case: written by `record`, read by `replay`."
        ),
        Field("provider_url", TEXT, "The provider's address, where it is not in the CLI's own variable."),
    ),
    Agent.settings.doc,
)


@ADAPTERS.register("agent")
class WiredAgent(Agent):
    """Runs a coding-agent CLI once per case, in the case's workspace, and keeps what it printed.

    Settings: `agent` (which CLI: `claude-code`, `codex`, `copilot`, or one that a plug-in brings), `model`, `system`
    (instructions: by the CLI's own option, else put before every prompt), `max_turns` and `max_budget_usd` (limits, for
    a CLI that has the option), `args` (further arguments of the CLI), `executable` (the program, default: the CLI's
    name, looked for on PATH), `keep_session` (whether the log that the CLI keeps of the session is stored and read as
    well; default: where standard output leaves something out). As for `command`: `cwd` (a case's workspace goes before
    it), `env`, `ok_exit_codes` (default [0]), `files_format`, `healthcheck`, `retry_failures`; in `args`, its
    placeholders are filled in.

    `record: wire` puts a proxy on this machine before the model's provider: every call is kept beside the output
    (`wire.jsonl`: request, status, usage, times, response; no headers, known secrets replaced), and in the folder
    `recording` if it is set. `replay: wire` answers from there, so the agent works without its provider. `provider_url`
    is the provider's address as the agent's configuration has it (arguments, `env`, files of the login), by default the
    value of the CLI's own variable.
    """

    settings: ClassVar[FieldTable] = _SETTINGS

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._wire = _wire_of(runner)

    @staticmethod
    def equivalent(runner: Runner) -> Runner:
        """Return the equivalent runner of the `command` adapter; a recording that answers is part of its identity."""
        equal = Agent.equivalent(runner)
        if runner.settings.get("replay") is None:
            return equal
        return replace(equal, public_settings={**equal.public_settings, "replay": _content(_recording(runner))})

    async def execute(self, call: Call) -> RawExecution:
        if self._wire is None:
            return await super().execute(call)
        async with self._wire.opened(call) as (session, started):
            try:
                raw = await super().execute(replace(call, start=started))
            except TargetFailure as failure:
                if failure.raw is not None:
                    failure.raw = await self._wire.kept(session, started, call, failure.raw)
                raise self._wire.missed(session, call, failure.raw) or failure from failure
            raw = await self._wire.kept(session, started, call, raw)
            missed = self._wire.missed(session, call, raw)
            if missed is not None:
                raise missed
            return raw

    async def close(self) -> None:
        await super().close()
        if self._wire is not None:
            await self._wire.server.close()


@dataclass(slots=True)
class RedirectedStart:
    """Starts a program so that it reaches the proxy wherever it is configured with the provider's address."""

    upstream: str
    proxy: str
    variables: Sequence[str]
    home: str | None = None

    def __call__(self, words: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        self.home = env.get("HOME")
        changed = {name: self._at_proxy(value) for name, value in env.items()}
        for name in self.variables:
            changed.setdefault(name, self.proxy)
        if self.home is not None:
            self._change_files(Path(self.home))
        return [self._at_proxy(word) for word in words], changed

    def _at_proxy(self, text: str) -> str:
        return text.replace(self.upstream, self.proxy)

    def _change_files(self, home: Path) -> None:
        """Replace linked files of the login that have the address, in a home of the session's own."""
        for path in home.glob("**/*") if home != Path.home() else ():
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if path.is_symlink() and path.is_file() and self.upstream in (text := path.read_text("utf-8")):
                    path.unlink()
                    path.write_text(self._at_proxy(text), "utf-8")


@dataclass(frozen=True, slots=True)
class _Wire:
    """How the sessions of a runner reach their provider."""

    upstream: str
    variables: Sequence[str]
    recording: Path | None
    replays: bool
    server: WireServer

    @contextlib.asynccontextmanager
    async def opened(self, call: Call) -> AsyncIterator[tuple[WireSession, RedirectedStart]]:
        """Yield a session, and how its program is started."""
        start = RedirectedStart(self.upstream, "", self.variables)
        session = WireSession(self.upstream, self._recorded(call, start) if self.replays else None)
        async with self.server.session(session) as address:
            start.proxy = address
            yield session, start

    async def kept(self, session: WireSession, start: RedirectedStart, call: Call, raw: RawExecution) -> RawExecution:
        """Return an execution with the calls of its session as a file."""
        path = await in_thread(self._write, session.calls, start, call)
        return replace(raw, files={**raw.files, ROLE: path})

    def missed(self, session: WireSession, call: Call, raw: RawExecution | None) -> TargetFailure | None:
        """Return the failure of a session whose recording had no answer for a call."""
        if not session.misses:
            return None
        where = show_path(self._file(call))
        problem = f"{where} has no further answer to {session.misses[0]}"
        return TargetFailure(RECORDING_MISSING, problem, raw=raw)

    def _recorded(self, call: Call, start: RedirectedStart) -> Recording:
        path = self._file(call)
        if not path.is_file():
            raise TargetFailure(RECORDING_MISSING, f"there is no recording {show_path(path)}")
        return Recording(read_recording(path), _Places(call, start))

    def _write(self, calls: Sequence[WireCall], start: RedirectedStart, call: Call) -> Path:
        names = {place: name for name, place in _Places(call, start).items()}
        lines = b"".join(to_json(each.redacted(names).as_json()) + b"\n" for each in calls)
        path = call.folder / "wire.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines)
        if self.recording is not None and not self.replays:
            kept = self._file(call)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(lines)
        return path

    def _file(self, call: Call) -> Path:
        """Return the file of a recording that holds the calls of a case (and repetition, and turn).

        No safe name has a `~`, so the file is of no other case.
        """
        plan, turn = call.plan, f"~turn{call.turn}" if call.turn is not None else ""
        repetition = f"~{plan.repetition}" if plan.repetition > 1 else ""
        return (self.recording or Path()) / safe_name(plan.suite) / f"{safe_name(plan.case.id)}{repetition}{turn}.jsonl"


class _Places(Mapping[str, str]):
    """The folders of a session by their names in a recording; the home is known once the program was started."""

    def __init__(self, call: Call, start: RedirectedStart) -> None:
        self._call, self._start = call, start

    def _known(self) -> dict[str, str]:
        places = {
            WORKSPACE: str(self._call.workspace) if self._call.workspace is not None else None,
            HOME: self._start.home,
        }
        return {name: place for name, place in places.items() if place}

    def __getitem__(self, name: str) -> str:
        return self._known()[name]

    def __iter__(self) -> Any:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())


def _wire_of(runner: Runner) -> _Wire | None:
    """Return how a runner's sessions reach their provider; None for one that neither records nor replays."""
    given = runner.settings
    records, replays = (settings.choice(given, name, (ROLE,), "") == ROLE for name in ("record", "replay"))
    if not records and not replays:
        return None
    if records and replays:
        raise InputError("expected record or replay, not both", SourceLocation(field="replay"))
    recording = _recording(runner) if replays or given.get("recording") is not None else None
    if replays and recording is not None and not recording.is_dir():
        raise InputError(f"no folder {show_path(recording)} of recorded calls", SourceLocation(field="recording"))
    cli = AGENTS.get(settings.text(given, "agent"), SourceLocation(field="agent"))
    upstream = settings.optional_text(given, "provider_url") or _configured(cli.addresses, settings.texts(given, "env"))
    if upstream is None:
        problem = f"expected the address of {cli.name}'s provider, as its configuration has it"
        raise InputError(problem, SourceLocation(field="provider_url"))
    return _Wire(upstream, tuple(cli.addresses), recording, replays, WireServer())


def _configured(addresses: Mapping[str, str], env: Mapping[str, str]) -> str | None:
    """Return the address in the CLI's own variable, else the usual one of its provider."""
    values = [env.get(name) or os.environ.get(name) or usual for name, usual in addresses.items()]
    return next((value.rstrip("/") for value in values if value), None)


def _recording(runner: Runner) -> Path:
    if runner.settings.get("recording") is None:
        raise InputError("expected the folder of the recorded calls", SourceLocation(field="recording"))
    return runner.folder / settings.text(runner.settings, "recording")


def _content(folder: Path) -> dict[str, str]:
    """Return the fingerprints of the files of a recording."""
    files = sorted(path for path in folder.rglob("*.jsonl") if path.is_file()) if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): file_fingerprint(path) for path in files}
