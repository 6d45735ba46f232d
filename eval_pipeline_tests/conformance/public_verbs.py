"""How conformance rows reach the pipeline: the command line, and whole sweeps of a project on disk.

Nothing here calls an evaluator, a reducer or a comparison itself. A row becomes files; what is compared with the row is
what a command prints, or what the published tables hold after a sweep.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from eval_pipeline import InputError, run_sweep
from eval_pipeline.cli.main import main

Made = TypeVar("Made")
Json = Mapping[str, Any]
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def command(*arguments: object) -> CommandResult:
    """Run `eval-pipeline` with these arguments in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return CommandResult(code, out.getvalue(), err.getvalue())


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="conformance-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that makes a value at its first call; later calls return it, or raise what that call raised."""
    kept: list[Made | BaseException] = []

    def get() -> Made:
        if not kept:
            try:
                kept.append(make())
            except BaseException as error:  # noqa: BLE001 — raised again, for every row that depends on it
                kept.append(error)
        if isinstance(kept[0], BaseException):
            raise kept[0]
        return kept[0]

    return get


def new_folder() -> Path:
    """Return an empty folder that is removed when the process ends."""
    folder = _scratch() / str(next(_NUMBERS))
    folder.mkdir()
    return folder


def result_row(case_id: str, score: float | None, **fields: Any) -> dict[str, Any]:
    """Return a row of a results file; without a score it is an ungraded one."""
    status = "error" if score is None else "passed" if score >= 0.8 - 1e-9 else "failed"
    return {"suite": "suite", "runner": "runner", "case_id": case_id, "status": status, "score": score, **fields}


def write_results(folder: Path, name: str, rows: Iterable[Json]) -> Path:
    """Write a results file that `compare` and `trend` read."""
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRows:
    """What the published tables hold of one case: a verdict and its scores per repetition, sub-scores, the result."""

    verdicts: Sequence[Json]
    scores: Sequence[Json]
    members: Sequence[Json]
    report: Json

    @property
    def verdict(self) -> Json:
        (verdict,) = self.verdicts
        return verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOutcome:
    """What became of a suite file in a sweep: the errors that refused it or its cases, and the rows of its cases."""

    errors: tuple[InputError, ...] = ()
    cases: Mapping[str, CaseRows] = field(default_factory=dict)

    @property
    def case(self) -> CaseRows:
        assert not self.errors, [str(error) for error in self.errors]
        (case,) = self.cases.values()
        return case


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A finished sweep: its project's folder, and what became of each suite file by name."""

    root: Path
    suites: Mapping[str, SuiteOutcome]

    def export(self, format_: str, suite: str) -> str:
        """Return what `eval-pipeline export` prints of one suite."""
        result = command("export", "--project", self.root, "--format", format_, "--suite", suite, "-o", "-")
        assert result.code == 0, result.err
        return result.out


@dataclass(frozen=True, slots=True)
class ProjectOnDisk:
    """A project under construction. Each suite has its own runner, which replays the recorded answers of its cases."""

    root: Path = field(default_factory=new_folder)
    runners: list[Json] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)

    def add_suite(self, name: str, document: Json, answers: Iterable[Json], *, grader: str | None = None) -> Path:
        """Write a suite file and the answers that its runner replays; return the suite's folder."""
        folder = self.root / "suites" / name
        folder.mkdir(parents=True)
        execution = {**(document.get("execution") or {}), "targets": [name]}
        text = json.dumps({**document, "name": name, "execution": execution})
        (folder / f"{name}.eval.json").write_text(text, "utf-8")
        (self.root / f"{name}.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers), "utf-8")
        entry = {"name": name, "adapter": "replay", "recording": f"{name}.jsonl"}
        self.runners.append({**entry, "grader": grader} if grader is not None else entry)
        return folder

    def replace_runner(self, name: str, **entry: Any) -> None:
        """Give a suite's runner other settings; it keeps its name and its grader."""
        at = next(at for at, runner in enumerate(self.runners) if runner["name"] == name)
        kept = {key: value for key, value in self.runners[at].items() if key in ("name", "grader")}
        self.runners[at] = {**kept, **entry}

    def change_runner(self, name: str, **settings: Any) -> None:
        """Change settings of a suite's runner."""
        at = next(at for at, runner in enumerate(self.runners) if runner["name"] == name)
        self.runners[at] = {**self.runners[at], **settings}

    def add_model(self, name: str, url: str) -> None:
        """Add a chat model behind a server, which can grade."""
        self.runners.append({"name": name, "adapter": "chat", "base_url": url, "model": name})

    def run(self, **options: Any) -> Sweep:
        """Carry out every suite with its runner."""
        (self.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "defaults": self.defaults}))
        (self.root / "runners.yaml").write_text(json.dumps({"runners": self.runners}), "utf-8")
        result = run_sweep(self.root, **options)
        assert result.problem is None
        with result.open_results() as connection:
            tables = {name: _rows(connection, query) for name, query in _QUERIES.items()}
        names = sorted(path.name for path in (self.root / "suites").iterdir())
        return Sweep(root=self.root, suites={name: _outcome(name, result.invalid, tables) for name in names})


_QUERIES = {
    "verdicts": "SELECT * FROM current_verdicts ORDER BY suite, case_id, repetition",
    "scores": """SELECT s.* FROM current_scores s JOIN current_verdicts v USING (execution_id)
                 ORDER BY s.suite, s.case_id, s.repetition, list_position(v.score_keys, s.spec_key)""",
    "members": """SELECT m.*, s.case_id FROM member_scores m JOIN current_scores s USING (execution_id, spec_key)
                  ORDER BY suite, s.case_id, position""",
    "reports": "SELECT * FROM session_reports ORDER BY suite, case_id",
}


def _rows(connection: Any, query: str) -> list[dict[str, Any]]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _outcome(name: str, invalid: Iterable[InputError], tables: Mapping[str, Sequence[Json]]) -> SuiteOutcome:
    file = f"{name}.eval.json"
    errors = tuple(error for error in invalid if (error.place.file or "").endswith(file))
    rows = {table: [row for row in listed if row["suite"] == name] for table, listed in tables.items()}
    cases = dict.fromkeys(row["case_id"] for row in rows["verdicts"])
    return SuiteOutcome(errors=errors, cases={case: _case_rows(case, rows) for case in cases})


def _case_rows(case: str, rows: Mapping[str, Sequence[Json]]) -> CaseRows:
    of_case = {table: [row for row in listed if row["case_id"] == case] for table, listed in rows.items()}
    return CaseRows(
        verdicts=of_case["verdicts"],
        scores=of_case["scores"],
        members=of_case["members"],
        report=of_case["reports"][0] if of_case["reports"] else {},
    )
