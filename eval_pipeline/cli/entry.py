"""The process `eval-pipeline`, from its first moment to its end."""

from __future__ import annotations

import sys
from contextlib import suppress

from eval_pipeline.cli.signals import Signals


def main() -> None:
    """Run the command line with the arguments of the process, which ends here."""
    signals = Signals(end_programs=_end_programs)
    signals.install()
    ended: list[BaseException] = []

    def command() -> None:
        from eval_pipeline.cli.main import run_in_process  # noqa: PLC0415 — signals are handled before anything is imported

        try:
            run_in_process(signals)
        except BaseException as error:  # noqa: BLE001 — raised again in the main thread
            ended.append(error)

    signals.run(command)
    _leave(ended, signals)


def _leave(ended: list[BaseException], signals: Signals) -> None:
    """End the process as the command did; a signal that it ended of decides the exit code."""
    from eval_pipeline.cli.leaving import leave_at_once, quick_exit  # noqa: PLC0415 — see above

    if signals.exit_code is not None:
        leave_at_once(signals.exit_code)
    with quick_exit():
        for error in ended:
            raise error


def _end_programs() -> None:
    """End the programs that this process started, and print what they printed."""
    with suppress(KeyError, AttributeError):  # not imported, or not yet: nothing is started
        sys.modules["eval_pipeline.executions.started_programs"].end_own()
    with suppress(KeyError, AttributeError):
        sys.modules["eval_pipeline.parsing.redacted_output"].restore_descriptors()
