"""Secrets planted at many places of a project; after a sweep, its commands, its exports and a Dagster run every byte
that was written or printed is searched for each of them, in each form."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb

from eval_pipeline_tests.attacks.byte_search import contents
from eval_pipeline_tests.attacks.findings import Findings
from eval_pipeline_tests.attacks.planted_secrets import PLACES, Planted, plant, write_project
from eval_pipeline_tests.forks import run_python
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve

SHORT_S = 10.0
"""Below this time a round has few commands."""
COMMANDS = (
    ["run"],
    ["run", "--json"],
    ["plan"],
    ["plan", "--json"],
    ["validate", "--json"],
    ["show", "planted"],
    ["show", "--failed"],
    *(["show", f"planted/{case}"] for case in ("answer", "fail", "work")),
    ["leaderboard", "--json"],
    ["sql", "SELECT * FROM target_executions"],
)
EXPORTS = {"html": "report.html", "json": "report.json", "jsonl": "report.jsonl", "junit": "report.xml",
           "otel": "report.otlp", "agentv": "agentv"}  # fmt: skip
READABLE = ("gpt-4o-mini-2024-07-18", "de-CH", "planted", "answer", "page=2")
"""What is no secret and must stay readable."""
_MANY = """
import json, sys
from eval_pipeline.cli.main import main
for arguments in json.loads(sys.argv[1]):
    print("$", *arguments, flush=True)
    try:
        main(arguments)
    except SystemExit as end:
        print("exit", end.code, flush=True)
"""


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Plant secrets in one project after the other until the time is over, at least in one."""
    findings, ends, searched, rounds = Findings(), time.monotonic() + seconds, 0, 0
    while not rounds or time.monotonic() < ends:
        found, bytes_ = _round(f"{seed}/{rounds}", folder / f"round-{rounds}", short=seconds < SHORT_S)
        for place in PLACES.values():
            findings.tried(place)
        findings.findings.extend(found)
        searched += bytes_
        rounds += 1
    findings.measured["searched"] = f"{searched / 1e6:.0f} MB"
    return findings


def _round(seed: str, folder: Path, *, short: bool) -> tuple[list[str], int]:
    planted, root = plant(seed), folder / "project"
    root.mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "printed").mkdir()
    with serve(_answer) as server:
        write_project(root, server.url)
        environment = _environment(folder, planted)
        exports = [
            ["export", "--format", name, "--output", str(folder / "exports" / to)] for name, to in EXPORTS.items()
        ]
        commands = [*COMMANDS[:1], *COMMANDS[5:6], *exports[1:2]] if short else [*COMMANDS, *exports]
        _carry_out(folder, "commands", environment, commands)
        _run_dagster(folder, environment)
        executed = _executions(root)
        rotated = plant(f"{seed}/rotated")
        _carry_out(folder, "rotated", _environment(folder, rotated), [["run"]])
        again = _executions(root) - executed
    pieces = [(name, part) for name, part in contents(folder) if not _is_source(name)]
    found = [*_leaks(pieces, planted), *_leaks(pieces, rotated), *_missing(pieces), *_open_files(root / "data")]
    if not executed:
        found.append("nothing was executed: see the folder printed/")
    if again:
        found.append(f"rotated keys executed {again} plans anew")
    return list(dict.fromkeys(found)), sum(len(part) for _, part in pieces)


def _dagster_run() -> list[str]:
    return ["-m", "dagster", "asset", "materialize", "--select", "target_executions,session_reports,evaluator_scores",
            "--partition", "planted@function", "-m", "eval_pipeline.orchestration.definitions",
            "--config-json", '{"ops": {"evaluate": {"config": {"refresh": "all"}}}}']  # fmt: skip


def _environment(folder: Path, planted: Planted) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
    kept["DAGSTER_HOME"] = str(folder / "home")
    return {**kept, **planted.values, "TMPDIR": str(folder), "COLUMNS": "100", "NO_COLOR": "1"}


def _carry_out(folder: Path, name: str, environment: Mapping[str, str], commands: list[list[str]]) -> None:
    """Run commands in the project, in a process of their own; the exit code does not matter."""
    ended = run_python(_MANY, json.dumps(commands), cwd=folder / "project", env=environment)
    _keep_printed(folder, name, ended)


def _run_dagster(folder: Path, environment: Mapping[str, str]) -> None:
    command, project = [sys.executable, *_dagster_run()], folder / "project"
    ended = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    _keep_printed(folder, "dagster", ended)


def _keep_printed(folder: Path, name: str, ended: subprocess.CompletedProcess[str]) -> None:
    (folder / "printed" / f"{name}.out").write_text(ended.stdout, encoding="utf-8")
    (folder / "printed" / f"{name}.err").write_text(ended.stderr, encoding="utf-8")


def _answer(request: Received) -> Reply:
    """Repeat headers, address and body: in the answer, or in an error for the case `fail`."""
    text = json.dumps({"headers": dict(request.headers), "path": request.path, "body": request.body.decode()})
    if b"grading_untrusted" in request.body or b"score" in request.body:
        return chat_reply(json.dumps({"score": 1, "reasoning": text, "assertions": []}))
    if b'"fail"' in request.body:
        return json_reply({"error": {"message": f"bad key: {text}"}}, status=401)
    return chat_reply(text)


def _executions(root: Path) -> int:
    """How many executions succeeded: failed ones are repeated by every run."""
    results = root / "data" / "results.duckdb"
    if not results.exists():
        return 0
    with duckdb.connect(str(results), read_only=True) as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM target_executions WHERE failure_class IS NULL"
        ).fetchone() or (0,)
        return int(count)


def _is_source(name: str) -> bool:
    """What the author wrote, not the pipeline: files of the project beside its data folder."""
    return name.startswith("project/") and not name.startswith("project/data/")


def _leaks(pieces: list[tuple[str, bytes]], planted: Planted) -> Iterator[str]:
    for name, form, needle in planted.needles():
        for place in dict.fromkeys(place for place, part in pieces if needle in part):
            yield f"{name} ({PLACES[name]}) is {form} in {place}"


def _missing(pieces: list[tuple[str, bytes]]) -> Iterator[str]:
    for text in READABLE:
        if not any(text.encode() in part for place, part in pieces if "runners" in place or "executions" in place):
            yield f"'{text}' is not readable any more"


def _open_files(data: Path) -> Iterator[str]:
    """Files and folders below the data folder that others may read; workspaces keep the rights of what they copy."""
    for path in sorted([data, *data.rglob("*")]):
        if path.is_symlink() or "workspaces" in path.relative_to(data).parts:
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            yield f"{path.relative_to(data.parent)} has the rights {mode:04o}"
