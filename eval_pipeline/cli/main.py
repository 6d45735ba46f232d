"""The command `eval-pipeline`: one module per subcommand, imported when the subcommand runs."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from eval_pipeline.cli.importing import importing
from eval_pipeline.cli.terminal import echo, echo_json, place_of, show_warnings, visible_usage
from eval_pipeline.errors import EvalPipelineError, InputError, InputErrors
from eval_pipeline.exhaustion import exhaustion
from eval_pipeline.parsing.redacted_output import redacted_printing
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.stopping import is_interruption

if TYPE_CHECKING:
    from eval_pipeline.cli.signals import Signals

COMMANDS = {
    "init": "Write a small project that runs at once.",
    "run": "Carry out suites × runners and show the leaderboard.",
    "plan": "Show what a run would do: reused, to execute, to score again, estimated cost.",
    "prepare": "Prepare the workspace and prompt of a case for work outside of a run.",
    "grade": "Grade the work on a prepared case.",
    "validate": "Check suites and runners without carrying anything out.",
    "show": "Show a case: input, answer, tool calls, scores with reasons; or list the cases that did not pass.",
    "explain": "Ask kept sessions of coding agents why checks failed.",
    "leaderboard": "Show the newest standings, or past ones.",
    "view": "Show the results as pages in a browser.",
    "compare": "Compare runners, sweeps or results files case by case.",
    "arms": "Compare the arms of runners, and show which skills are used where they should be.",
    "baseline": "Set, show or clear the sweeps that later ones are compared with.",
    "agreement": "Show how far graders agree with people and with each other.",
    "drift": "Show whether graders still grade the same answers as they did.",
    "trend": "Fit a line through the mean scores of sweeps.",
    "gate": "Decide whether a sweep of the project file is good enough.",
    "export": "Write results for other tools: AgentV, JUnit, OpenTelemetry, JSON.",
    "sql": "Query the published results in SQL.",
    "import": "Import sessions that coding agents keep on this machine.",
    "cases": "List, show, import, export, archive and draft test cases with simulated users.",
    "convert": "Write a suite in another format: YAML, JSONL, JSON, evals.json.",
    "delete": "Delete sweeps, suites, runners or files; a dry run without --yes.",
    "warehouse": "Copy all results into another warehouse, or compact one.",
    "schema": "Print the JSON Schema of suites, runners files and project files, for editors.",
    "dev": "Open the Dagster UI on this project.",
}
MODULES = {"import": "import_sessions"}
"""The module of a command whose name is a keyword."""
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells have it."""
COLLECT_RARELY = (100_000, 50, 100)
"""Garbage collection thresholds: a run makes many small values and hardly a cycle (6 % of start-up, measured)."""


class _Lazy(click.Group):
    """Subcommands by name: `--help` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = MODULES.get(cmd_name, cmd_name)
        # Imported on use: start-up time does not pay for Dagster, Polars and DuckDB.
        with importing():
            module = importlib.import_module(f"eval_pipeline.cli.{name}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and (hint := place_of(args[0])):
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def make_context(self, info_name: str | None, args: list[str], *parent: Any, **extra: Any) -> click.Context:
        with visible_usage():
            return super().make_context(info_name, args, *parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with visible_usage():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _leave_interrupted(ctx)
        except RuntimeError as error:
            if not is_interruption(error):
                raise
            _leave_interrupted(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _leave_interrupted(ctx: click.Context) -> NoReturn:
    echo("interrupted", err=True)
    ctx.exit(EXIT_INTERRUPTED)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="eval-pipeline")
def cli() -> None:
    """Evaluate LLM applications and coding agents: suites × runners → leaderboards, in Dagster and DuckDB.

    Exit codes: 0 done and nothing failed; 1 something failed, or a threshold was missed; 2 usage or invalid input;
    3 nothing could be graded; 130 interrupted (143 by SIGTERM, 129 by SIGHUP).
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line. A user's error is one message on stderr and exit code 2.

    Without arguments those of the process are meant, and the process ends here.
    """
    if arguments is None:
        importlib.import_module("eval_pipeline.cli.entry").main()
    return _run(arguments)


def run_in_process(signals: Signals) -> Any:
    """Run the command line with the arguments of this process, whose signals a command may handle."""
    gc.set_threshold(*COLLECT_RARELY)
    show_warnings()
    return _run(None, signals)


def _run(arguments: list[str] | None, signals: Signals | None = None) -> Any:
    try:
        with redacted_printing():
            return cli.main(args=arguments, prog_name="eval-pipeline", standalone_mode=True, obj=signals)
    except EvalPipelineError as error:
        code = EXIT_USAGE if exhaustion(error) is None else EXIT_FAILED
        _print_error("\n".join(_problems(error)), arguments, code)
        sys.exit(code)
    except Exception as error:
        # One boundary for all commands: a user's path that cannot be read or written, and a disk that is full.
        text = exhaustion(error)
        if text is not None:
            kept = signals.summary().removeprefix(": ") if signals is not None else ""
            _print_error(f"{text}; {kept}" if kept else text, arguments, code=EXIT_FAILED)
            sys.exit(EXIT_FAILED)
        if not isinstance(error, OSError):
            raise
        _print_error(f"{error.filename or 'a file'}: {error.strerror or error}", arguments)
        sys.exit(EXIT_USAGE)


def _problems(error: EvalPipelineError) -> list[str]:
    """Return each single problem of an error, as `validate` lists them."""
    from eval_pipeline.parsing.diagnostics import problems_of  # noqa: PLC0415 — only where something is wrong

    errors = error.errors if isinstance(error, InputErrors) else (error,)
    return [str(one) for each in errors for one in (problems_of(each) if isinstance(each, InputError) else (each,))]


def _print_error(text: str, arguments: list[str] | None, code: int = EXIT_USAGE) -> None:
    """Print an error on stderr; with `--json` also as JSON on stdout."""
    text = redact_text(text, cut=True)
    echo(f"error: {text}", err=True)
    if "--json" in (sys.argv[1:] if arguments is None else arguments):
        echo_json({"exit_code": code, "error": text})
