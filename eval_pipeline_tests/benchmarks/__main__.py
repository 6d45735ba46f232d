"""What a sweep costs, measured: `python -m eval_pipeline_tests.benchmarks [--only NAME …] [--quick]`.

Everything goes through the real command `eval-pipeline run`, in processes of its own, against a stub server in another
process on this machine. Figures per case are slopes between a small and a large run of the same kind, measured in
turns (small, large, small, large, …), so that start-up and a busy machine cancel out as far as they can; the median of
the slopes is printed with their range.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb

from eval_pipeline_tests.benchmarks.agents import measure_sessions
from eval_pipeline_tests.benchmarks.boards import measure_boards
from eval_pipeline_tests.benchmarks.checks import measure_checks
from eval_pipeline_tests.benchmarks.conversations import measure_conversations
from eval_pipeline_tests.benchmarks.fleet import measure_fleet
from eval_pipeline_tests.benchmarks.functions import measure_functions
from eval_pipeline_tests.benchmarks.lakes import measure_lakes
from eval_pipeline_tests.benchmarks.measures import measure_http, measure_scoring
from eval_pipeline_tests.benchmarks.outputs import measure_outputs
from eval_pipeline_tests.benchmarks.pages import measure_pages
from eval_pipeline_tests.benchmarks.pairs import measure_pairs
from eval_pipeline_tests.benchmarks.warehouse import measure_warehouse
from eval_pipeline_tests.benchmarks.wire import measure_wire
from eval_pipeline_tests.benchmarks.workers import measure_workers

SCORES: dict[str, int] = {}
RUN = [sys.executable, "-m", "eval_pipeline_tests.benchmarks.command", "run", "suites", "--quiet", "--refresh"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process took: CPU seconds (user and system), wall seconds, peak memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def timed(command: list[str], cwd: Path) -> Cost:
    """Runs a command to its end and says what it cost, children included that it waited for."""
    begun = time.perf_counter()
    with (cwd / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}: {(cwd / 'stderr.txt').read_text()[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


@contextlib.contextmanager
def stub(*options: str) -> Iterator[int]:
    """A stub server; gives its port."""
    command = [sys.executable, "-m", "eval_pipeline_tests.benchmarks.stub_server", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def project(folder: Path, cases: int, port: int, *, timeout_s: float = 30.0, suites: int = 1, runners: int = 1) -> Path:
    """A project of sums: suites of `cases` cases with one `contains` each, and chat runners on the stub."""
    (folder / "suites").mkdir(parents=True)
    for number in range(suites):
        with (folder / f"suites/load{number:03d}.jsonl").open("w") as file:
            for case in range(cases):
                row = {"id": f"c{case:06d}", "input": f"What is {case} + 3?",
                       "assertions": [{"type": "contains", "value": str(case + 3)}]}  # fmt: skip
                file.write(json.dumps(row) + "\n")
    lines = ["runners:"]
    for number in range(runners):
        lines += [f"- name: stub{number:03d}", "  adapter: chat", f"  base_url: http://127.0.0.1:{port}/v1",
                  "  model: stub", f"  timeout_s: {timeout_s}"]  # fmt: skip
    (folder / "runners.yaml").write_text("\n".join(lines) + "\n")
    return folder


def slopes(small: Callable[[], Cost], large: Callable[[], Cost], more: int, repeats: int) -> list[float]:
    """CPU milliseconds per additional case, once per pair of runs."""
    pairs = [(small(), large()) for _ in range(repeats)]
    return [(big.cpu_s - little.cpu_s) / more * 1000 for little, big in pairs]


def shown(values: list[float], unit: str, digits: int = 3) -> str:
    """Median and range of a few figures."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} {unit} ({low:.{digits}f} to {high:.{digits}f}, n={len(values)})"


def fresh(cases: int, concurrency: int, port: int, **options: int) -> Cost:
    """One first run of a new project."""
    with tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder), cases, port, **options)
        return timed([*RUN, "missing", "--concurrency", str(concurrency)], root)


def per_case(quick: bool) -> None:
    """CPU and wall per case at concurrency 10, 50 and 200, with and without latency."""
    small, large, repeats = (500, 2_500, 1) if quick else (1_000, 10_000, 3)
    for latency_ms in (0, 50):
        with stub("--latency-ms", str(latency_ms)) as port:
            for concurrency in (10, 50, 200):
                pairs = [(fresh(small, concurrency, port), fresh(large, concurrency, port)) for _ in range(repeats)]
                _show_per_case(pairs, large - small, latency_ms, concurrency)


def _show_per_case(pairs: list[tuple[Cost, Cost]], more: int, latency_ms: int, concurrency: int) -> None:
    cpu = [(big.cpu_s - little.cpu_s) / more * 1000 for little, big in pairs]
    wall_s = statistics.median(big.wall_s - little.wall_s for little, big in pairs)
    ideal_s = more * latency_ms / 1000 / concurrency
    ratio = f", {wall_s / ideal_s:.2f} × cases·latency/concurrency" if ideal_s else ""
    print(
        f"latency {latency_ms} ms, concurrency {concurrency}: CPU {shown(cpu, 'ms/case')}; "
        f"wall {wall_s / more * 1000:.3f} ms/case{ratio}",
        flush=True,
    )


def nothing_changed(quick: bool) -> None:
    """A second run: no call to the target, CPU per case."""
    small, large, repeats = (500, 5_000, 2) if quick else (1_000, 20_000, 5)
    with stub() as port, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        roots = [project(Path(one), small, port), project(Path(two), large, port)]
        for root in roots:
            timed([*RUN, "missing", "--concurrency", "50"], root)
        again = [partial(timed, [*RUN, "missing", "--concurrency", "50"], root) for root in roots]
        cpu = slopes(again[0], again[1], large - small, repeats)
        print(f"second run, nothing changed: CPU {shown(cpu, 'ms/case')}", flush=True)


def rescored(quick: bool) -> None:
    """A run after the one `contains` of each case was edited: every stored report is scored again, none executed."""
    cases = 10_000 if quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        with stub() as port:
            root = project(Path(folder), cases, port)
            timed([*RUN, "missing", "--concurrency", "50"], root)
        suite = root / "suites/load000.jsonl"  # the stub is gone: a call to the target would fail
        suite.write_text(suite.read_text().replace('"contains", "value": "', '"contains", "value": " '))
        cost = timed([*RUN, "missing"], root)
        with duckdb.connect(str(root / "data/results.duckdb"), read_only=True) as connection:
            row = connection.execute(
                """SELECT count(*), (SELECT count(*) FROM target_executions), (SELECT count(*) FROM evaluator_scores)
                   FROM current_verdicts WHERE status <> 'error'"""
            ).fetchone()
    assert row == (cases, cases, 2 * cases), row
    print(f"{cases:>7} stored reports scored again: CPU {cost.cpu_s:.1f} s, wall {cost.wall_s:.1f} s, "
          f"peak {cost.peak_mb:.0f} MB", flush=True)  # fmt: skip


def memory(quick: bool) -> None:
    """Peak memory against the number of cases."""
    with stub() as port:
        for cases in (1_000, 10_000) if quick else (1_000, 10_000, 100_000):
            cost = fresh(cases, 50, port)
            print(f"{cases:>7} cases: peak {cost.peak_mb:.0f} MB, wall {cost.wall_s:.1f} s", flush=True)


def faults(quick: bool) -> None:
    """5 % of 429, 2 % of 500, 1 % of hanging requests: is any case lost?"""
    cases = 1_000 if quick else 10_000
    options = ("--rate-limited", "0.05", "--server-error", "0.02", "--hang", "0.01", "--latency-ms", "5")
    with stub(*options) as port, tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder), cases, port, timeout_s=2.0)
        cost = timed([*RUN, "missing", "--concurrency", "50"], root)
        with duckdb.connect(str(root / "data/results.duckdb"), read_only=True) as connection:
            row = connection.execute(
                "SELECT count(*), count(*) FILTER (status = 'passed') FROM current_verdicts"
            ).fetchone()
            attempts = connection.execute("SELECT sum(attempt_count) FROM current_executions").fetchone()
    assert row is not None and attempts is not None
    print(f"faults: {row[0]} of {cases} cases have a verdict, {row[1]} passed, {attempts[0]} attempts, "
          f"wall {cost.wall_s:.1f} s", flush=True)  # fmt: skip


def start_up(quick: bool) -> None:
    """What a run costs before and beside the cases: a first run, an unchanged one, and each suite × runner."""
    repeats = 2 if quick else 7
    count = 10 if quick else 50
    with stub() as port:
        _start_up_of_one_case(port, repeats)
        per_pair = slopes(
            lambda: fresh(1, 10, port, suites=2, runners=1), lambda: fresh(1, 10, port, suites=2, runners=count // 2),
            count - 2, repeats,
        )  # fmt: skip
        print(f"per suite × runner (4 materializations, 2 checks): CPU {shown(per_pair, 'ms', 0)}", flush=True)


def _start_up_of_one_case(port: int, repeats: int) -> None:
    """One case run for the first time, the same run again, and beside them what Dagster's import alone takes."""
    first, again, dagster = list[Cost](), list[Cost](), list[Cost]()
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            root = project(Path(folder), 1, port)
            first.append(timed([*RUN, "missing"], root))
            again.append(timed([*RUN, "missing"], root))
            dagster.append(timed([RUN[0], "-c", "import dagster"], root))
    for name, costs in {"first run": first, "unchanged run": again, "`import dagster` alone": dagster}.items():
        print(f"start-up, one case, {name}: CPU {shown([cost.cpu_s for cost in costs], 's', 2)}, "
              f"wall {shown([cost.wall_s for cost in costs], 's', 2)}", flush=True)  # fmt: skip


def pairs(quick: bool) -> None:
    """What a pair costs, and what it costs when nothing or only its evaluators changed."""
    measure_pairs(lambda folder: timed([*RUN, "missing"], folder), quick)


def outputs(quick: bool) -> None:
    """Peak memory against answers and outputs above the limit."""
    measure_outputs(lambda command, folder: timed(command, folder).peak_mb, RUN, quick)


def sessions(quick: bool) -> None:
    """CPU and memory of sessions of agents: large outputs, many lines, many at once, a large template."""
    measure_sessions(lambda folder: timed([*RUN, "missing"], folder), quick)


def warehouse(quick: bool) -> None:
    """A board, lookups, publishing, an export and an unchanged run beside many generated rows."""
    measure_warehouse(timed, RUN[0], quick)


def boards(quick: bool) -> None:
    """Boards of 1 M and 10 M scores: every suite new, nothing changed, one pair changed."""
    measure_boards(RUN[0], quick, SCORES.get("scores"))


def pages(quick: bool) -> None:
    """The page of `view` beside 100,000 executions (--quick: 10,000): time, bytes, and what Chromium takes."""
    measure_pages(sys.executable, quick)


def conversations(quick: bool) -> None:
    """CPU per call of an agent that talks, with a script and with a simulator; long conversations; memory."""
    measure_conversations(timed, stub, RUN, quick)


def checks(quick: bool) -> None:
    """Python suites: loading 1,000 cases, checks per second, imports of an unchanged run."""
    measure_checks(timed, RUN, quick)


def fleet(quick: bool) -> None:
    """Workers that share a provider's rate limit: eight real ones, the same simulated, and 1,000 simulated."""
    measure_fleet(stub, RUN, project, quick)


def workers(quick: bool) -> None:
    """Eight workers on one lake in PostgreSQL, beside one worker."""
    measure_workers(stub, RUN, project, quick)


MEASURES: dict[str, Callable[[bool], None]] = {
    "start-up": start_up,
    "pairs": pairs,
    "per-case": per_case,
    "nothing-changed": nothing_changed,
    "rescored": rescored,
    "memory": memory,
    "faults": faults,
    "conversations": conversations,
    "outputs": outputs,
    "sessions": sessions,
    "warehouse": warehouse,
    "boards": boards,
    "pages": pages,
    "scoring": measure_scoring,
    "functions": measure_functions,
    "checks": checks,
    "fleet": fleet,
    "workers": workers,
    "lakes": measure_lakes,
    "http": measure_http,
    "wire": measure_wire,
}


def main(arguments: list[str]) -> None:
    """Runs the measures asked for, one after another."""
    parser = argparse.ArgumentParser(prog="python -m eval_pipeline_tests.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=list(MEASURES), action="append", help="only this measure (repeatable)")
    parser.add_argument("--quick", action="store_true", help="smaller runs: for a first look, not for quoting")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with another checkout, to compare")
    parser.add_argument("--scores", type=int, help="the number of scores of `boards`, instead of 1 M and 10 M")
    given = parser.parse_args(arguments)
    RUN[0] = given.python
    SCORES.update({} if given.scores is None else {"scores": given.scores})
    for name in given.only or MEASURES:
        print(f"— {name}", flush=True)
        MEASURES[name](given.quick)


if __name__ == "__main__":
    main(sys.argv[1:])
