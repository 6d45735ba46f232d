"""The command line in this process, for attacks: its exit code and all that it prints, within a limit of time."""

from __future__ import annotations

import contextlib
import io
import resource
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.cli.main import main
from eval_pipeline_tests.attacks.patience import patience

PATIENCE_S = 120.0
MOST_CPU_S = 30.0
MOST_MEMORY_MB = 700


@dataclass(frozen=True, slots=True)
class Printed:
    """Exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def run_command(folder: Path, *arguments: str) -> Printed:
    """Run `eval-pipeline` in a folder; an error that no command reports is raised."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    printing = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(folder), printing[0], printing[1], patience(PATIENCE_S):
        try:
            main(list(arguments))
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    return Printed(code, out.getvalue(), err.getvalue())


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the files of a project, with their folders."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))


def peak_mb() -> float:
    """Return the highest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000


@contextlib.contextmanager
def within_limits(problems: list[str]) -> Iterator[None]:
    """Add a problem if the block raises the peak memory of this process by more than 700 MB, or takes 30 s of CPU."""
    before, begun = peak_mb(), time.process_time()
    yield
    if (taken := time.process_time() - begun) > MOST_CPU_S:
        problems.append(f"takes {taken:.0f} s of CPU")
    if peak_mb() - before > MOST_MEMORY_MB:
        problems.append(f"peak memory {peak_mb() - before:+.0f} MB")
