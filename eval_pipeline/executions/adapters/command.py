"""`command`: a local program that receives the prompt as an argument, a file or standard input."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call, Start
from eval_pipeline.executions.batch import batch_answers, cases_file
from eval_pipeline.executions.command_line import CommandLine, read_command_line
from eval_pipeline.executions.healthcheck import HEALTHCHECK, read_healthcheck
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.output_guard import OutputLimitExceeded
from eval_pipeline.executions.process import CompletedProcess, ProgramStopped, Watch, run_program
from eval_pipeline.executions.program_versions import absence_of, program_versions
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.workspaces.hooks import environment
from eval_pipeline.failures import OUTPUT_LIMIT, OUTPUT_MISSING, TARGET_CRASH, TIMEOUT, FailureClass
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.imports import import_fingerprints
from eval_pipeline.parsing.interpolation import written_environment
from eval_pipeline.parsing.tables import (
    FLAG,
    TEXT,
    TEXT_LIST,
    TEXT_MAPPING,
    WHOLE,
    Field,
    FieldTable,
    either,
    list_of,
    mapping_of,
    one_of,
)

PROMPT_MODES = ("argument", "stdin", "file")
_STDERR_TAIL = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One run of the program: the values of its placeholders and its working directory. `home` is the directory of a
    run without a workspace, where the paths of the command begin."""

    folder: Path
    cwd: Path
    home: Path
    timeout_s: float | None
    prompt: str
    values: Mapping[str, str]
    files: Sequence[str] = ()
    texts: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=lambda: os.environ)
    start: Start | None = None
    watch: Watch | None = None


@ADAPTERS.register("command")
class Command:
    """Run a program once per case and return its output.

    Settings: `command` (a list of arguments, or a shell line), `prompt` (`argument`, `stdin` or `file`; default: the
    placeholder that the command uses, else `stdin`), `system` (a text put before every prompt), `cwd` (a case's
    workspace takes precedence), `env`, `format` (the normalizer of the output, default `command`), `ok_exit_codes`
    (default [0]), `files_format` (the form of an attached file in {FILES}: `{path}`, `{basename}`), `healthcheck`
    (`url` or `command`, checked once before the first case), `retry_failures` (whether a failed run may be retried),
    `batch` (one run for all cases).

    Placeholders in the command: {PROMPT} {PROMPT_FILE} {CASES_FILE} {FILES} {CASE_ID} {EVAL_ID} {SUITE} {REPETITION}
    {ATTEMPT} {RETRY} {OUTPUT_FILE}; in a shell line each is one argument, with or without quotes around it. When the
    command contains {OUTPUT_FILE}, the answer is read from that file, else from standard output.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "command",
        (
            Field("command", either(TEXT, TEXT_LIST), "The program: a list of arguments, or a shell line.",
                  required=True),
            Field("prompt", one_of(*PROMPT_MODES), "How the program receives the prompt (default: by the command)."),
            Field("system", TEXT, "A text that is put before every prompt."),
            Field("cwd", TEXT, "The folder in which the program runs; a case's workspace takes precedence."),
            Field("env", TEXT_MAPPING, "Environment variables of the program."),
            Field("format", TEXT, "The normalizer that reads the program's output.", "command"),
            Field("ok_exit_codes", list_of(WHOLE), "Exit codes of a run that succeeded.", [0]),
            Field("files_format", TEXT, "How {FILES} shows an attached file.", "{path}"),
            Field("healthcheck", mapping_of(HEALTHCHECK), "A check that runs once before the first case."),
            Field("retry_failures", FLAG, "Whether a run that failed is retried.", default=False),
            Field("batch", FLAG, "Runs the program once for all cases.", default=False),
            MODEL,
        ),
        "Runs a program once per case.",
    )  # fmt: skip
    incidental: ClassVar[frozenset[str]] = frozenset({"healthcheck", "retry_failures"})
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        config = runner.settings
        line = read_command_line(config, files_format=settings.optional_text(config, "files_format") or "{path}")
        self._prompt = _prompt_mode(config, line)
        self._line = line.with_last("PROMPT") if self._prompt == "argument" and "PROMPT" not in line.names else line
        self._folder = runner.folder
        self._within = settings.optional_text(config, "cwd") or "."
        self._in_place = runner.runs_in_place
        self._cwd = self._cwd_at(runner.base)
        self._env = settings.texts(config, "env")
        self._written = written_environment(runner.place or runner.folder)
        self._system = settings.optional_text(config, "system")
        self._format = settings.optional_text(config, "format") or "command"
        self._ok = _exit_codes(config)
        self._max_bytes = runner.max_output_bytes
        self._retry = settings.flag(config, "retry_failures")
        self._healthcheck = read_healthcheck(config, runner.folder, self._cwd)
        self._health: asyncio.Future[tuple[FailureClass, str] | None] | None = None
        self.batches = settings.flag(config, "batch")
        if self.batches and self._format != "command":
            raise InputError(
                f"a batch requires the format 'command', not '{self._format}'",
                SourceLocation(field="batch"),
            )

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of the program files in the command: an edited program invalidates its answers."""
        return {word: file_fingerprint(path) for word, path in self._line.program_files(self._cwd).items()}

    def missing_program(self) -> str | None:
        """Return that the program is not on PATH here; None where it is, is a file, or is found by a shell."""
        first = self._line.command[0]
        if isinstance(self._line.command, str) or "/" in first or "{" in first:
            return None
        return absence_of(first, self._cwd, {**self._environment, **self._env})

    def dependencies(self) -> Mapping[str, str]:
        """Return fingerprints of what the program files import, and the versions of the installed programs."""
        files = self._line.program_files(self._cwd)
        started = [word for word in self._line.shell_words if word not in files]
        imported = import_fingerprints(files.values(), (self._cwd, self._folder))
        return {**imported, **program_versions(started, self._cwd, {**self._environment, **self._env})}

    def _cwd_at(self, base: Path) -> Path:
        return Path(os.path.realpath(base / self._within))

    def _cwd_of(self, call: Call) -> Path:
        """Return the folder of a call: several suites may share a runner whose programs run in the suite's folder."""
        place = call.plan.runner.place if self._in_place else None
        return self._cwd if place is None else self._cwd_at(place)

    async def execute(self, call: Call) -> RawExecution:
        await self._check_health()
        plan, folder = call.plan, call.folder
        prompt = prompt_text(plan.case, files="reference")
        prompt = prompt if self._system is None else f"{self._system}\n\n{prompt}"
        texts = {"PROMPT_FILE": prompt.encode(errors="replace")}
        if "CASES_FILE" in self._line.names:
            texts["CASES_FILE"] = cases_file([call])
        run = _Run(
            folder=folder,
            cwd=call.workspace or self._cwd_of(call),
            home=self._cwd_of(call),
            timeout_s=call.timeout_s,
            prompt=prompt,
            values=_values(call, plan.case.id, prompt, folder / "prompt.txt"),
            files=plan.case.files,
            texts=texts,
            env=environment(call.workspace) if call.workspace is not None else {},
            inherited=self._environment if call.environment is None else call.environment,
            start=call.start,
            watch=call.watch,
        )
        return await self._run_program(run)

    async def execute_batch(self, calls: Sequence[Call]) -> list[RawExecution | TargetFailure]:
        """Return the answers to calls in their order, from one program run per suite and repetition.

        The time limit of a run is the sum of its calls' limits. Raises TargetFailure when a run fails as a whole; then
        none of its cases has a result.
        """
        await self._check_health()
        runs: dict[tuple[str, int], list[int]] = {}
        for index, call in enumerate(calls):
            runs.setdefault((call.plan.suite, call.plan.repetition), []).append(index)
        answers: dict[int, RawExecution | TargetFailure] = {}
        for indexes in runs.values():
            results = await self._run_batch([calls[index] for index in indexes])
            answers.update(zip(indexes, results, strict=True))
        return [answers[index] for index in range(len(calls))]

    async def _run_batch(self, calls: Sequence[Call]) -> list[RawExecution | TargetFailure]:
        folder, cases = calls[0].files() / "batch", cases_file(calls)
        run = _Run(
            folder=folder,
            cwd=self._cwd_of(calls[0]),
            home=self._cwd_of(calls[0]),
            timeout_s=None,
            prompt=cases.decode(errors="replace") if self._prompt == "stdin" else "",
            values=_values(calls[0], "batch", "", folder / "cases.jsonl"),
            files=tuple(dict.fromkeys(file for call in calls for file in call.plan.case.files)),
            texts={"PROMPT_FILE": cases, "CASES_FILE": cases},
            inherited=self._environment,
        )
        limit_s = sum(call.timeout_s for call in calls)
        try:
            async with asyncio.timeout(limit_s):
                raw = await self._run_program(run)
        except TimeoutError:
            raise TargetFailure(TIMEOUT, f"the batch did not end within {limit_s:g} s") from None
        try:
            return batch_answers(raw.files.get("output", raw.files["stdout"]).read_bytes(), calls, self._format)
        except TargetFailure as failure:
            failure.raw = raw
            raise

    @property
    def _environment(self) -> dict[str, str]:
        """The environment of its programs: the process's, over the nearest `.env`."""
        return {**self._written, **os.environ}

    async def close(self) -> None:
        if self._health is not None and not self._health.done():
            self._health.cancel()
            await asyncio.wait([self._health])
        self._health = None

    async def _check_health(self) -> None:
        """Raise TargetFailure when the healthcheck fails. It runs only once."""
        if self._healthcheck is None:
            return
        if self._health is None:
            self._health = asyncio.ensure_future(self._healthcheck.problem({**self._environment, **self._env}))
        problem = await asyncio.shield(self._health)
        if problem is not None:
            raise TargetFailure(*problem)

    async def _run_program(self, run: _Run) -> RawExecution:
        run.folder.mkdir(parents=True, exist_ok=True)
        for name in self._line.names & run.texts.keys():
            Path(run.values[name]).write_bytes(run.texts[name])
        (run.folder / "output").unlink(missing_ok=True)  # an interrupted run may have left an old answer
        moved = self._line.program_files(run.home) if run.cwd != run.home else {}
        words, variables = self._line.words(run.values, run.files, moved)
        variables_of_program = {**run.inherited, **run.env, **self._env, **variables}
        if run.start is not None:
            words, variables_of_program = run.start(words, variables_of_program)
        try:
            completed = await run_program(
                words,
                folder=run.folder,
                cwd=run.cwd,
                env=variables_of_program,
                stdin=run.prompt.encode(errors="replace") if self._prompt == "stdin" else None,
                timeout_s=run.timeout_s,
                max_bytes=self._max_bytes,
                outputs=("output",),
                watch=run.watch,
            )
        except ProgramStopped as stop:
            raise TargetFailure(stop.failure, str(stop), raw=self._raw(run.folder, None, run.cwd)) from None
        except OutputLimitExceeded as error:
            raw = self._raw(run.folder, None, run.cwd)
            raise TargetFailure(OUTPUT_LIMIT, f"{error} (max_output_mb)", raw=raw) from None
        except TimeoutError:
            problem, raw = f"no answer within {run.timeout_s:g} s", self._raw(run.folder, None, run.cwd)
            raise TargetFailure(TIMEOUT, problem, retryable=self._retry, raw=raw) from None
        except (OSError, ValueError) as error:
            missing = self.missing_program() if isinstance(error, FileNotFoundError) else None
            if missing is not None:
                raise TargetFailure(TARGET_CRASH, f"cannot be started: {missing}", closes_runner=True) from None
            too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
            cure = "; give the prompt by stdin or file" if too_long else ""
            raise TargetFailure(TARGET_CRASH, f"cannot be started: {error}{cure}") from error
        raw = self._raw(run.folder, completed, run.cwd)
        self._check(completed, raw)
        return raw

    def _raw(self, folder: Path, completed: CompletedProcess | None, cwd: Path) -> RawExecution:
        """Return the available output. `elapsed_ms` is the process's own time, without delays of the event loop."""
        roles = ("stdout", "stderr", "output") if "OUTPUT_FILE" in self._line.names else ("stdout", "stderr")
        return RawExecution(
            format=self._format,
            payload={"cwd": str(cwd)} | ({} if completed is None else {"elapsed_ms": completed.duration_ms}),
            files={role: folder / role for role in roles if (folder / role).is_file()},
            exit_code=None if completed is None else completed.exit_code,
        )

    def _check(self, completed: CompletedProcess, raw: RawExecution) -> None:
        if completed.exit_code not in self._ok:
            tail = _tail(completed.stderr)
            ending = (
                f"exit code {completed.exit_code}" if completed.exit_code >= 0 else f"signal {-completed.exit_code}"
            )
            detail = f": {tail}" if tail else ""
            raise TargetFailure(TARGET_CRASH, f"{ending}{detail}", retryable=self._retry, raw=raw)
        if "OUTPUT_FILE" in self._line.names and "output" not in raw.files:
            problem = "the program ended without writing {OUTPUT_FILE}"
            raise TargetFailure(OUTPUT_MISSING, problem, retryable=self._retry, raw=raw)


def _values(call: Call, id_: str, prompt: str, prompt_file: Path) -> dict[str, str]:
    """Return the values of the placeholders."""
    folder = prompt_file.parent
    return {
        "PROMPT": prompt,
        "PROMPT_FILE": str(prompt_file),
        "CASES_FILE": str(folder / "cases.jsonl"),
        "EVAL_ID": id_,
        "CASE_ID": id_,
        "SUITE": call.plan.suite,
        "REPETITION": str(call.plan.repetition),
        "ATTEMPT": str(call.attempt),
        "RETRY": str(call.attempt - 1),
        "OUTPUT_FILE": str(folder / "output"),
    }


def _prompt_mode(config: Mapping[str, Any], line: CommandLine) -> str:
    in_file = not line.names.isdisjoint(("PROMPT_FILE", "CASES_FILE"))
    implied = "argument" if "PROMPT" in line.names else "file" if in_file else "stdin"
    mode = settings.choice(config, "prompt", PROMPT_MODES, implied)
    if mode == "file" and not in_file:
        raise InputError("the command does not contain {PROMPT_FILE}", SourceLocation(field="prompt"))
    return mode


def _tail(path: Path) -> str:
    """Return the end of a file as text. Reads only the tail of a large file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _STDERR_TAIL))
        return file.read().decode(errors="replace").strip()


def _exit_codes(config: Mapping[str, Any]) -> frozenset[int]:
    codes = config.get("ok_exit_codes", [0])
    if not isinstance(codes, list) or not all(isinstance(code, int) for code in codes):
        raise InputError("expected a list of exit codes", SourceLocation(field="ok_exit_codes"))
    return frozenset(codes)
