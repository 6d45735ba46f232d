"""Sweeps that are killed at named points and at random moments: the next run loses, doubles and repeats nothing, boards
and failure classes are those of what is stored, no Dagster run stays unfinished, and nothing is left lying about.

Before the kill a sweep has passed everything; then the runners get rude, so that a board of before is a wrong one.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import orjson

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline_tests.attacks.command_line import run_command, write_files
from eval_pipeline_tests.attacks.findings import Attack, Findings, carry_out
from eval_pipeline_tests.forks import run_python, start_python

KILLED = """
import os, signal, sys
from importlib import import_module

planted, point, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
module, _, name = point.partition(":")
owner = import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
original, calls = getattr(owner, last), 0

def kill(*args, **kwargs):
    global calls
    calls += 1
    if calls < count:
        return original(*args, **kwargs)
    if planted == "after":
        original(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, last, kill)
from eval_pipeline.cli.main import main
main(["run", "--quiet"])
"""
RUN = 'from eval_pipeline.cli.main import main; main(["run", "--quiet"])'
POINTS = {
    "eval_pipeline.orchestration.run:_register": ("before", "after"),
    "eval_pipeline.orchestration.reporter:PairReporter.pairs_finished": ("before", "after"),
    "eval_pipeline.orchestration.run_page:_report": ("before", "after"),
    "eval_pipeline.orchestration.sqlite_storage:_open_stamped": ("before", "after"),
    "eval_pipeline.orchestration.sqlite_storage:PooledEventLogStorage._store_newest_of_assets": ("before", "after"),
    "eval_pipeline.sweeps.recording:PairRecorder.record": ("before",),
    "eval_pipeline.sweeps.recording:PairRecorder.record_report": ("before", "after"),
    "eval_pipeline.sweeps.recording:PairRecorder.record_scores": ("before", "after"),
    "eval_pipeline.sweeps.recording:PairRecorder.record_verdict": ("before", "after"),
    "eval_pipeline.sweeps.storing:_keep_reused": ("before", "after"),
    "eval_pipeline.sweeps.storing:update_failure_classes": ("before", "after"),
    "eval_pipeline.sweeps.storing:store_pairs": ("before",),
    "eval_pipeline.sweeps.sweep_store:SweepStore.begin": ("before", "after"),
    "eval_pipeline.sweeps.sweep_store:SweepStore.end": ("before", "after"),
    "eval_pipeline.sweeps.sweep_store:SweepStore.update_leaderboards": ("before", "after"),
    "eval_pipeline.warehouse.duckdb_file:DuckDBWarehouse.ingest": ("before", "after"),
    "eval_pipeline.warehouse.table_writer:_replace": ("before", "after"),
    "eval_pipeline.warehouse.table_writer:_write_answer": ("before", "after"),
    "eval_pipeline.warehouse.duckdb_file:publish_copy": ("before", "after"),
    "eval_pipeline.warehouse.journal:Journal.append": ("before", "after"),
    "eval_pipeline.warehouse.journal:Journal.remove": ("before", "after"),
    "eval_pipeline.warehouse.publishing:_check": ("before", "after"),
    "eval_pipeline.warehouse.queries:append_standings": ("before", "after"),
    "eval_pipeline.warehouse.queries:clear_unranked": ("before", "after"),
}
"""Functions at which a sweep is killed, before they do anything or after they did all."""
MOST_CALLS = {"eval_pipeline.warehouse.journal:Journal.append": 30, "eval_pipeline.warehouse.table_writer:_replace": 5}
"""Functions that a sweep calls at least so often: the killed call is one of them, the first one of others."""
PARTS = 8
"""A run has so many parts, each with a random moment of its own."""
CASES = {"greetings": 6, "sums": 4, "works": 2}
CONCURRENCY = 2
PATIENCE_S = 120.0
SCRAPS = (
    "results.*.tmp*", "warehouse.*.compact*", "warehouse.[0-9]*.tmp*", ".*.jsonl", ".answer.*", "journals/*",
    "dagster/**/*.part",
)  # fmt: skip
"""What nobody needs after a run, in the data folder."""
UNFINISHED = ("NOT_STARTED", "QUEUED", "STARTING", "STARTED", "CANCELING")


def suite(name: str, runner: str, *more: str) -> str:
    tests = [f"  - {{id: {name}-{number}, input: {name}-{number}}}" for number in range(CASES[name])]
    assertions = "assertions: [{name: polite, type: icontains, value: hello}]"
    return "\n".join([f"name: {name}", f"execution: {{targets: [{runner}]}}", assertions, *more, "tests:", *tests, ""])


PROGRAM = """\
read -r who
echo "$who" >> "$PROJECT/calls.log"
echo note > note.txt
echo "{greeting} $who"
"""
FUNCTION = """\
import pathlib

def say(prompt):
    with (pathlib.Path(__file__).parent / "calls.log").open("a") as calls:
        calls.write(prompt + "\\n")
    return f"{greeting} {{prompt}}"
"""


def runners(folder: Path) -> str:
    return "\n".join([
        "runners:",
        f"  - {{name: greeter, adapter: command, command: [sh, greet.sh], concurrency: {CONCURRENCY},",
        f"     env: {{PROJECT: {orjson.dumps(str(folder)).decode()}}}}}",
        f"  - {{name: parrot, adapter: python, function: 'parrot:say', concurrency: {CONCURRENCY}}}",
        "",
    ])  # fmt: skip


def behave(folder: Path, greeting: str) -> None:
    """Make both runners greet so; nothing that they executed before is valid any more."""
    write_files(folder, {
        "greet.sh": PROGRAM.format(greeting=greeting),
        "parrot.py": FUNCTION.format(greeting=greeting),
        "runners.yaml": runners(folder) + f"# {greeting}\n",
    })  # fmt: skip


def make_swept(folder: Path) -> None:
    """A project whose board says that everything passed."""
    write_files(folder, {
        "eval-pipeline.yaml": "suites: [suites]\n",
        "suites/greetings.yaml": suite("greetings", "greeter"),
        "suites/sums.yaml": suite("sums", "parrot"),
        "suites/works.yaml": suite("works", "greeter", "workspace: {template: ../template}"),
        "template/readme.txt": "to work in\n",
    })  # fmt: skip
    behave(folder, "hello")
    ended = run_command(folder, "run", "--quiet")
    assert ended.code == 0, ended.text


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Kill sweeps for about this long, and check what the next run makes of it."""
    swept = folder / "swept"
    make_swept(swept)
    begun = time.monotonic()
    rude = _rude_copy(swept, folder / "timed")
    run_python(RUN, cwd=rude)
    return carry_out(attacks(swept, time.monotonic() - begun), seconds, seed, folder / "killed")


def attacks(swept: Path, takes_s: float) -> dict[str, Attack]:
    """Every point, and a random moment of each part of a run that takes so long."""
    named = {
        f"{planted} {point.rpartition('.')[2]}": partial(_at_point, swept, planted, point)
        for point, both in POINTS.items()
        for planted in both
    }
    moments = {
        f"at a random moment of part {part + 1} of {PARTS}": partial(_at_moment, swept, takes_s / PARTS, part)
        for part in range(PARTS)
    }
    survivors = {f"the {name} of two runs at once": partial(_one_of_two, swept, takes_s, number)
                 for number, name in enumerate(("first", "second"))}  # fmt: skip
    return {**named, **moments, **survivors}


def _rude_copy(swept: Path, folder: Path) -> Path:
    shutil.copytree(swept, folder)
    (folder / "calls.log").unlink()
    behave(folder, "go away")
    return folder


def _at_point(swept: Path, planted: str, point: str, folder: Path, rng: random.Random) -> str | None:
    project = _rude_copy(swept, folder / "project")
    count = rng.randint(1, MOST_CALLS.get(point, 1))
    ended = run_python(KILLED, planted, point, str(count), cwd=project)
    if ended.returncode != -signal.SIGKILL:
        return f"the point is not reached, exit code {ended.returncode}: {ended.stderr[-2_000:]}"
    return check_next_run(project, kills=1)


def _at_moment(swept: Path, part_s: float, part: int, folder: Path, rng: random.Random) -> str | None:
    project = _rude_copy(swept, folder / "project")
    kills = rng.choice((1, 1, 2))
    for _ in range(kills):
        with start_python(RUN, cwd=project):  # which kills it
            time.sleep(part_s * (part + rng.random()))
    return check_next_run(project, kills)


def _one_of_two(swept: Path, takes_s: float, killed: int, folder: Path, rng: random.Random) -> str | None:
    """Kill one of two runs of a data folder, of which the second waits for the first; the other one must succeed."""
    project = _rude_copy(swept, folder / "project")
    command = [sys.executable, "-c", RUN]
    both = []
    for name in ("first", "second"):
        with (folder / f"{name}.txt").open("wb") as printed:
            both.append(subprocess.Popen(command, cwd=project, stdout=printed, stderr=subprocess.STDOUT))
        time.sleep(rng.random() * takes_s / 2)
    time.sleep(rng.random() * takes_s)
    both[killed].kill()
    codes = [process.wait(PATIENCE_S) for process in both]
    printed_by_survivor = (folder / ("second.txt", "first.txt")[killed]).read_text("utf-8", "replace")
    if codes[1 - killed] != 1 or "Traceback" in printed_by_survivor:
        return f"the other run ends with exit code {codes[1 - killed]}: {printed_by_survivor[-2_000:]}"
    return check_next_run(project, kills=1)


@dataclass(frozen=True, slots=True)
class Durable:
    """Executions on disk: the cases of those of rude runners, and the ids of all."""

    ids: frozenset[str]
    cases: frozenset[str]


def check_next_run(project: Path, kills: int) -> str | None:
    """Return what does not hold after the next two runs of a project whose sweep was killed so often; None if all."""
    durable = stored(project)
    before = called(project)
    first = run_command(project, "run", "--quiet")
    second = run_command(project, "run", "--json")
    problems = [
        *_of_commands(first.code, first.text, second.code, second.text),
        *_of_calls(durable, before, called(project), kills),
        *_of_tables(project, durable),
        *_left_over(project),
    ]
    return "; ".join(problems) or None


def stored(project: Path) -> Durable:
    """Return what the killed sweep had executed: in the warehouse and in whole lines of journals."""
    data = project / "data"
    with duckdb.connect(str(data / "warehouse.duckdb")) as connection:
        rows = connection.execute("SELECT execution_id, case_id, sweep_id FROM target_executions").fetchall()
    for journal in data.glob("journals/*/*/*/target_executions.jsonl"):
        lines = journal.read_bytes().split(b"\n")[:-1]
        rows += [tuple(orjson.loads(line)[name] for name in ("execution_id", "case_id", "sweep_id")) for line in lines]
    first = min(sweep for _, _, sweep in rows)
    return Durable(frozenset(id_ for id_, _, _ in rows), frozenset(case for _, case, sweep in rows if sweep != first))


def called(project: Path) -> Counter[str]:
    log = project / "calls.log"
    return Counter(log.read_text("utf-8").split()) if log.exists() else Counter()


def _of_commands(code: int, text: str, again: int, printed: str) -> Iterator[str]:
    if (code, again) != (1, 1):
        yield f"exit codes {code}, {again}"
    if "Traceback" in text + printed:
        yield f"a stack trace: {text} {printed}"
    elif code in (0, 1) and again in (0, 1):
        pairs = orjson.loads(printed[: printed.rindex("}") + 1])["pairs"]
        if executed := sum(pair["executed"] + pair["recovered"] for pair in pairs):
            yield f"the second run has {executed} left to do"


def _of_calls(durable: Durable, before: Counter[str], after: Counter[str], kills: int) -> Iterator[str]:
    names = {f"{name}-{number}" for name, count in CASES.items() for number in range(count)}
    repeated = {case for case in durable.cases if after[case] != before[case]}
    if repeated:
        yield f"called again although stored: {sorted(repeated)}"
    if set(after) != names:
        yield f"not called: {sorted(names - set(after))}"
    if after.total() > len(names) + kills * len(CASES) * CONCURRENCY:
        yield f"{after.total()} calls of {len(names)} cases: more repeated than were under way"


def _of_tables(project: Path, durable: Durable) -> Iterator[str]:
    cases = sum(CASES.values())
    with duckdb.connect(str(project / "data" / "results.duckdb"), read_only=True) as connection:
        ids = {id_ for (id_,) in connection.execute("SELECT execution_id FROM target_executions").fetchall()}
        answers = {query: connection.execute(query).fetchall() for query in _expected(cases)}
    if lost := durable.ids - ids:
        yield f"{len(lost)} executions are lost"
    for query, expected in _expected(cases).items():
        if answers[query] != expected:
            yield f"{query} answers {answers[query]}, expected {expected}"


def _expected(cases: int) -> dict[str, list[tuple[object, ...]]]:
    """Queries on the published results, and what they answer once everything rude is executed, scored and ranked."""
    per_suite = sorted(CASES.items())
    return {
        "SELECT count(*), count(DISTINCT key), count(DISTINCT execution_id) FROM target_executions": [(2 * cases,) * 3],
        "SELECT count(*), count(DISTINCT execution_id) FROM session_reports": [(2 * cases,) * 2],
        "SELECT count(*), count(DISTINCT execution_id) FROM evaluator_scores": [(2 * cases,) * 2],
        "SELECT count(*), count(DISTINCT execution_id) FROM verdicts": [(2 * cases,) * 2],
        "SELECT count(*) FILTER (status = 'failed'), count(*) FROM current_verdicts": [(cases, cases)],
        "SELECT suite, passed, failed FROM leaderboard ORDER BY 1": [(name, 0, count) for name, count in per_suite],
        "SELECT suite, count FROM failure_classes ORDER BY 1": [(name, count) for name, count in per_suite],
        "SELECT count(*) FROM unranked_pairs": [(0,)],
        "SELECT count(*) FROM sweeps WHERE status = 'running'": [(0,)],
    }


def _left_over(project: Path) -> Iterator[str]:
    data = project / "data"
    with open_instance(data, project) as instance:
        statuses = Counter(run.status.value for run in instance.get_runs())
    if unfinished := {status: statuses[status] for status in UNFINISHED if statuses[status]}:
        yield f"Dagster runs are unfinished: {unfinished}"
    scraps = [str(path.relative_to(data)) for pattern in SCRAPS for path in data.glob(pattern)]
    if scraps:
        yield f"left lying about: {scraps}"
    with duckdb.connect(str(data / "results.duckdb"), read_only=True) as connection:
        sweeps = connection.execute("SELECT DISTINCT sweep_id FROM target_executions").fetchall()
    if others := {path.name for path in data.glob("workspaces/2*")} - {sweep for (sweep,) in sweeps}:
        yield f"workspaces of killed sweeps: {sorted(others)}"
