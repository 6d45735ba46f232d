"""`dagster dev`, `dagster-webserver` with the request guard in front of the UI, and the daemon; a program of its own.

Dagster offers no place for a layer of ours, so names in its modules are replaced: the one by which `dagster dev` starts
the web server and the daemon, the one by which the web server makes its application, those by which it finds ticks,
and the one by which the daemon begins a queued run. Both of them store what runs plan in few transactions.

    python -m eval_pipeline.cli.dev_services dagster dev …
    python -m eval_pipeline.cli.dev_services webserver …       (started by the first)
    python -m eval_pipeline.cli.dev_services daemon run …      (started by the first)
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from eval_pipeline.cli.run_queue import heed_closing
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.dagster_files import SETTINGS_FILE

HOST_VARIABLE = "EVAL_PIPELINE_UI_HOST"
"""The address that the UI listens on."""

ALLOWED_HOSTS_VARIABLE = "EVAL_PIPELINE_UI_ALLOWED_HOSTS"
"""Hosts that the user allows, separated by commas."""

MODULE = "eval_pipeline.cli.dev_services"
_WAITED = re.compile(r"Timed out waiting for gRPC server to start after (\d+)s")
PROGRAMS = {"dagster_webserver": "webserver", "dagster._daemon": "daemon"}
"""What `dagster dev` starts as a module, by our name of it."""


def run_dagster(arguments: Sequence[str]) -> None:
    """Run a command of `dagster`; the web server that it starts is the guarded one, and the daemon ours."""
    dagster: Any = import_module("dagster._cli")
    dev: Any = import_module("dagster._cli.dev")
    start = dev.open_ipc_subprocess
    dev.open_ipc_subprocess = lambda command, **options: start(guarded_command(command), **options)
    errors: Any = import_module("dagster._core.errors")
    try:
        dagster.cli(list(arguments), prog_name="dagster", auto_envvar_prefix="DAGSTER_CLI")
    except errors.DagsterUserCodeProcessError as error:
        sys.exit(startup_problem(str(error)))


def startup_problem(text: str) -> str:
    """Return why the code location of a project did not start, and what to do, from the text of Dagster's error."""
    waited = _WAITED.search(text)
    if waited is None:
        return f"error: the code location of the project did not start: {text.splitlines()[0] if text else 'no reason'}"
    settings = Path(os.environ.get("DAGSTER_HOME", "")) / SETTINGS_FILE
    return (
        f"error: the code location of the project did not answer within {waited[1]} s (a busy machine, or suites that "
        "take long to load: eval-pipeline validate); start again, or give it more time in "
        f"{show_path(settings)}: code_servers: {{local_startup_timeout: SECONDS}}"
    )


def guarded_command(command: Sequence[str]) -> list[str]:
    """Return the command of a process, that of the web server and that of the daemon replaced."""
    program, *rest = command
    if rest[:1] != ["-m"] or rest[1] not in PROGRAMS:
        return list(command)
    return [program, "-m", MODULE, PROGRAMS[rest[1]], *rest[2:]]


def run_webserver(arguments: Sequence[str]) -> None:
    """Run `dagster-webserver` with the request guard in front."""
    from eval_pipeline.orchestration.tick_history import show_earlier_ticks  # noqa: PLC0415 — imports Dagster

    _store_plans_together()
    show_earlier_ticks()
    cli: Any = import_module("dagster_webserver.cli")
    cli.create_app_from_workspace_process_context = _guarded(cli.create_app_from_workspace_process_context)
    sys.argv[1:] = list(arguments)
    cli.main()


def run_daemon(arguments: Sequence[str]) -> None:
    """Run `dagster-daemon`."""
    _store_plans_together()
    heed_closing()
    cli: Any = import_module("dagster._daemon.cli")
    sys.argv[1:] = list(arguments)
    cli.main()


def _store_plans_together() -> None:
    from eval_pipeline.orchestration.event_batches import store_plans_together  # noqa: PLC0415 — imports Dagster

    store_plans_together()


def _guarded(create: Callable[..., Any]) -> Callable[..., Any]:
    from eval_pipeline.cli.request_guard import guarded  # noqa: PLC0415 — imports graphql

    named = [name for name in os.environ.get(ALLOWED_HOSTS_VARIABLE, "").split(",") if name]
    listening = os.environ.get(HOST_VARIABLE, "127.0.0.1")
    return lambda *args, **options: guarded(create(*args, **options), listening, named)


def main() -> None:
    """Run the program that the first argument names."""
    programs = {"dagster": run_dagster, "webserver": run_webserver, "daemon": run_daemon}
    programs[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
