"""What every input has to survive: `validate`, and the plan of a run. Both say what is wrong; neither raises."""

from __future__ import annotations

import random
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.cli.checks import check_files
from eval_pipeline.cli.options import select_in
from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline_tests.fuzzing.generate import random_files

PLAIN = {
    "eval-pipeline.yaml": "suites: [suites]\n",
    "runners.yaml": "runners: [{name: echo, adapter: mock, response: x, model: m}]\n",
    "suites/fuzz.yaml": "tests: [{id: a, input: x, assertions: [{type: contains, value: x}]}]\n",
    "suites/notes.md": "notes",
    "suites/cases.csv": "id,input,assert\nd,i,is-json\n",
    "suites/checks.py": "def check(output):\n    return True\n",
}
SLOW_S = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """An input that ends in a stack trace, or takes too long."""

    seed: str
    files: Mapping[str, str]
    problem: str

    def __str__(self) -> str:
        files = "\n".join(f"--- {name}\n{text}" for name, text in self.files.items())
        return f"seed {self.seed}\n{files}\n{self.problem}"


def fuzz(folder: Path, seed: str, seconds: float, examples: int | None = None) -> Iterator[Found | None]:
    """Yield what is found for each input, None for a good one, until the time is over. The first input has the seed
    itself, so that the seed of a finding makes it again at once."""
    end = time.monotonic() + seconds
    number = 0
    while (examples is None or number < examples) and (number == 0 or time.monotonic() < end):
        yield check(folder, seed if number == 0 else f"{seed}/{number}")
        number += 1


def check(folder: Path, seed: str) -> Found | None:
    """Return what is wrong with the input of a seed."""
    files = random_files(random.Random(seed))
    problem = check_project(folder, files)
    return None if problem is None else Found(seed, files, problem)


def check_project(folder: Path, files: Mapping[str, str]) -> str | None:
    """Write a project of these files, validate and plan it; return a stack trace, or that it took too long."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in {**PLAIN, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    started = time.monotonic()
    try:
        with chdir(folder):
            _carry_out(folder)
    except Exception:  # noqa: BLE001 — what this is about
        return traceback.format_exc()
    taken = time.monotonic() - started
    return f"took {taken:.1f} s" if taken > SLOW_S else None


def _carry_out(folder: Path) -> None:
    for verb in (_validate, _plan):
        try:
            verb(folder)
        except EvalPipelineError as error:
            assert str(error).strip(), "an error without a message"


def _validate(folder: Path) -> None:
    checked = check_files(ProjectSession(load_project(folder)), (), folder)
    for finding in checked.findings:
        assert finding.message.strip(), "a finding without a message"
    to_json([finding.as_json() for finding in checked.findings])


def _plan(folder: Path) -> None:
    selection = select_in(ProjectSession(load_project(folder)))
    list(plan_sweep(selection.session, selection.pairs, selection.options))
