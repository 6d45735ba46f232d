"""The process `eval-pipeline`, from its first moment to its end."""

from __future__ import annotations

import sys
from contextlib import suppress

from eval_pipeline.cli.signals import Signals

LEAST_ADDRESS_SPACE = 2_000 * 2**20
"""Bytes. Measured with a run of 30 cases, two at a time: with 1,250 to 1,650 MB it ends with DuckDB's error; with 1,700
to 1,750 MB a library in Rust aborts the process in 8 of 17 runs; with more 23 of 23 end well. Threads need more."""


def main() -> None:
    """Run the command line with the arguments of the process, which ends here."""
    signals = Signals(_end_programs, waiting_since)
    signals.install()
    _check_memory()
    ended: list[BaseException] = []

    def command() -> None:
        from eval_pipeline.cli.main import run_in_process  # noqa: PLC0415 — signals are handled before anything is imported

        try:
            run_in_process(signals)
        except BaseException as error:  # noqa: BLE001 — raised again in the main thread
            ended.append(error)

    signals.run(command)
    _leave(ended, signals)


def _check_memory() -> None:
    """Leave with an error where a limit of the shell is so low that libraries end the process while they load."""
    with suppress(ImportError, AttributeError):  # not on every system
        import resource  # noqa: PLC0415 — see above

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
            given, least = limit // 2**20, LEAST_ADDRESS_SPACE // 2**20
            sys.exit(
                f"error: the limit of memory, {given:,} MB of addresses, is too low to start: at least {least:,} MB are"
                f" needed; raise it (ulimit -v {2 * LEAST_ADDRESS_SPACE // 2**10}) or remove it (ulimit -v unlimited)"
            )


def _leave(ended: list[BaseException], signals: Signals) -> None:
    """End the process as the command did; a signal that it ended of decides the exit code."""
    from eval_pipeline.cli.leaving import leave_at_once, quick_exit  # noqa: PLC0415 — see above

    if signals.exit_code is not None:
        leave_at_once(signals.exit_code)
    with quick_exit():
        for error in ended:
            raise error


def waiting_since() -> float | None:
    """Return when the command began to wait for a lock that another process holds; None when it does not wait."""
    with suppress(KeyError, AttributeError):  # not imported, or not yet: nothing waits
        since: float | None = sys.modules["eval_pipeline.warehouse.waiting"].waiting_since()
        return since
    return None


def _end_programs() -> None:
    """End the programs that this process started, and print what they printed."""
    with suppress(KeyError, AttributeError):  # not imported, or not yet: nothing is started
        sys.modules["eval_pipeline.executions.started_programs"].end_own()
    with suppress(KeyError, AttributeError):
        sys.modules["eval_pipeline.parsing.redacted_output"].restore_descriptors()
