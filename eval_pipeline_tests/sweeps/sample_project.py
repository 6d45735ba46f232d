"""A small project in a folder: suites, runners and a target that does as it is told and remembers what it was asked.

The target is a Python function; what it answers is read from `answers.json` at every call, so a test can change its
mind without changing the runner. Nothing of Dagster here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepCounts
from eval_pipeline.sweeps.pairs import ValidatedSuite, requested_pairs
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import carry_out
from eval_pipeline.sweeps.sweep_store import SweepStore, new_id
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.store import kept_open
from eval_pipeline_tests.carried_out_once import carried_out_once

TARGET = """
import json
import pathlib
import time

HERE = pathlib.Path(__file__).parent


def answer(prompt, case, runner="echo"):
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(f"{runner}/{case.id}\\n")
    said = json.loads((HERE / "answers.json").read_text()).get(case.id, prompt)
    if said == "crash":
        raise RuntimeError("told to crash")
    if said == "hang":
        time.sleep(600)
    return said
"""


def contains(text: str, **fields: Any) -> dict[str, Any]:
    """An evaluator as a suite asks for it."""
    return {"type": "contains", "value": text, **fields}


def a_test(id_: str, *evaluators: Mapping[str, Any], text: str = "2 apples", **fields: Any) -> dict[str, Any]:
    """A case as a suite's file says it; without evaluators it asks for a `2` in the answer."""
    return {"id": id_, "input": text, "assertions": list(evaluators) or [contains("2")], **fields}


def a_runner_entry(name: str = "echo", **fields: Any) -> dict[str, Any]:
    """An entry of the runners file that calls the target above, which is trusted."""
    target = {"function": "target:answer", "arguments": {"runner": name}, "isolation": "in-process"}
    return {"name": name, "adapter": "python", **target, **fields}


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """The folder, what can be written into it, and what came of it."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    def write_suite(self, *tests: Mapping[str, Any], name: str = "sums", **fields: Any) -> None:
        document = {"name": name, **fields, "tests": list(tests)}
        (self.root / "suites" / f"{name}.yaml").write_text(json.dumps(document))

    def write_runners(self, *entries: Mapping[str, Any]) -> None:
        (self.root / "runners.yaml").write_text(json.dumps({"runners": list(entries)}))

    def write_answers(self, **answers: Any) -> None:
        """What the target answers, by case id; it repeats the prompt to the others, and `crash` and `hang` it does."""
        (self.root / "answers.json").write_text(json.dumps(answers))

    def take_calls(self) -> list[str]:
        """`runner/case` of each call of the target since the last time this was asked, sorted."""
        file = self.root / "calls.txt"
        calls = sorted(file.read_text().split()) if file.exists() else []
        file.unlink(missing_ok=True)
        return calls

    def session(self, data: Path | None = None) -> ProjectSession:
        """A workbench as a new process would open it."""
        project = load_project(self.root)
        return ProjectSession(replace(project, data=data) if data is not None else project)

    def sweep_cells(
        self, pairs: Sequence[PairKey], sweep_id: str | None = None, **options: Any
    ) -> tuple[str, list[PairOutcome]]:
        """Carries out cells as a new process would; returns the sweep's id and what became of them."""
        session = self.session()
        sweep_id = sweep_id or new_id(datetime.now(UTC))
        outcomes = carry_out(
            session.pairs(pairs),
            SweepOptions(**options),
            warehouse=session.warehouse,
            sweep_id=sweep_id,
            runner_named=session.runner,
        )
        return sweep_id, outcomes

    def sweep(self, suite: str = "sums", runner: str = "echo", **options: Any) -> SweepCounts:
        """Carries out one suite × runner."""
        _, (outcome,) = self.sweep_cells([PairKey(suite, runner)], **options)
        assert outcome.error is None
        return outcome.counts

    def sweep_once(self, suite: str = "sums", runner: str = "echo", **options: Any) -> SweepCounts:
        """What a test begins with: a sweep that is carried out for the first folder with these files, else copied."""
        name = f"sweep {suite} {runner} {sorted(options.items())}"
        counts: SweepCounts = carried_out_once(self.root, name, lambda: self.sweep(suite, runner, **options))
        return counts

    def begin_sweep(self, *pairs: PairKey, **options: Any) -> None:
        """Records a sweep and its runners, as a command does before it carries them out."""
        session = self.session()
        session.load_suites()
        SweepStore(session.warehouse).begin(session.pairs(pairs), SweepOptions(**options), None)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows that the warehouse answers."""
        return self.session().warehouse.frame(query).rows()

    def ask_all(self, *queries: str) -> list[list[tuple[Any, ...]]]:
        """The same for several queries: the file is opened once, which takes longer than most answers."""
        warehouse = self.session().warehouse
        with kept_open(warehouse):
            return [warehouse.frame(query).rows() for query in queries]

    def all_bytes(self) -> bytes:
        """Everything in the data folder, one file after the other."""
        return b"\n".join(path.read_bytes() for path in sorted(self.data.rglob("*")) if path.is_file())


def make_project(root: Path, **project: Any) -> ProjectFolder:
    """A project with one suite `sums` of two cases, `a` and `b`, and one runner `echo`."""
    folder = ProjectFolder(root)
    (root / "suites").mkdir(parents=True)
    (root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], **project}))
    (root / "target.py").write_text(TARGET)
    folder.write_answers()
    folder.write_suite(a_test("a"), a_test("b"))
    folder.write_runners(a_runner_entry())
    return folder


def every_cell(session: ProjectSession, *runners: str) -> tuple[list[ValidatedSuite], list[PairKey]]:
    """All suites of a project, and all of them with each of these runners."""
    suites = session.load_suites()
    return suites, [PairKey(ready.suite.name, runner) for ready in suites for runner in runners]


def requested_cells(session: ProjectSession) -> tuple[list[ValidatedSuite], list[PairKey]]:
    """All suites of a project, and the pairs that they request."""
    suites, runners = session.load_suites(), session.load_runners()
    return suites, [pair for ready in suites for pair in requested_pairs(ready, runners)]


COMPARED = {
    "suites": "suite, suite_revision, case_count, invalid_cases",
    "target_executions": "key, suite, runner, case_id, repetition, completed, failure_class, error, format, raw",
    "session_reports": "suite, runner, case_id, repetition, normalizer, final_output, failure_class, error",
    "session_events": "suite, runner, case_id, position, kind, text",
    "evaluator_scores": "suite, runner, case_id, repetition, spec_key, evaluator, value, reason, weight, minimum",
    "verdicts": "suite, runner, case_id, repetition, suite_revision, runner_revision, key, status, score, threshold,"
    " failure_class, reason, tags, decision_key, normalizer, score_keys",
    "sweep_pairs": "suite, runner, suite_revision, runner_revision, planned, executed, passed, failed, errored",
    "failure_classes": "suite, runner, failure_class, count, share, examples",
    "leaderboards": "scope, suite, runner, rank, planned, graded, passed, failed, errored, pass_rate, mean_score",
}


def published(data: Path, runner: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """What analysts find in a data folder (of one runner, if named), by table: all but ids and times, which no two
    sweeps share, and the rank of one runner, which the others decide."""
    by_name: dict[str, list[tuple[Any, ...]]] = {}
    with open_results(data) as connection:
        for table, columns in COMPARED.items():
            if runner is not None and table == "leaderboards":
                continue
            where = f"runner = '{runner}'" if runner is not None and "runner" in columns else "true"
            by_name[table] = connection.execute(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY ALL").fetchall()
    return by_name
