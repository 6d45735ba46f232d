"""Conformance notices when something breaks: a view, a command, an evaluator, the check of a difference.

Each breakage is one changed line in a copy of the package; the rows that depend on it run there, in a process of their
own, and must fail. The same rows pass without it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance.recorded_facts import conformance_folder
from eval_pipeline_tests.forks import run_python

REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not conformance_folder().is_dir(), reason="no recorded facts"),
]
PYTEST_ON_A_COPY = """
import json
import os
import sys
from pathlib import Path

import hypothesis  # once for all runs, as pytest
import pytest

blank = list(sys.modules["eval_pipeline_tests.new_data"]._FOLDER)
for name in [name for name in sys.modules if name.startswith("eval_pipeline")]:
    del sys.modules[name]  # all that was imported of ours is to come from the copy; Dagster and DuckDB stay


def run_rows(run):
    to = os.open(run["printed"], os.O_WRONLY | os.O_CREAT)
    os.dup2(to, 1)
    os.dup2(to, 2)
    os.environ["EVAL_PIPELINE_CONFORMANCE"] = run["facts"]
    if not run["makes_databases"]:
        from eval_pipeline_tests import new_data

        new_data._FOLDER[:] = blank
    sys.exit(pytest.main(run["options"]))


codes = {}
for name, run in json.loads(Path(sys.argv[1]).read_text("utf-8")).items():
    path = Path(run["file"])
    whole = path.read_text("utf-8")
    path.write_text(run["text"], "utf-8")
    if (child := os.fork()) == 0:
        run_rows(run)
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    path.write_text(whole, "utf-8")
print(json.dumps(codes))
"""
UNBROKEN = "nothing"
Ended = Mapping[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Breakage:
    """One changed text of a file, and the rows that must notice: their facts and kinds, and the test that runs them."""

    name: str
    file: str
    text: str
    broken: str
    test: str
    facts: str
    kinds: tuple[str, ...]
    selected: str = ""


BREAKAGES = (
    Breakage(
        "a view",
        "eval_pipeline/warehouse/views.py",
        "WHEN 'confidence_interval' THEN interval_low ELSE mean_score END AS score",
        "WHEN 'confidence_interval' THEN mean_score ELSE mean_score END AS score",
        "test_agentv_outputs.py",
        "agentv/evaluators_later.jsonl",
        ("trials",),
    ),
    Breakage(
        "the view of current verdicts",
        "eval_pipeline/warehouse/views.py",
        "SELECT v.* EXCLUDE (newest) FROM (",
        "SELECT v.* EXCLUDE (newest) REPLACE ('passed' AS status) FROM (",
        "test_agentv_outputs.py",
        "agentv/functions.jsonl",
        ("scoreToVerdict",),
    ),
    Breakage(
        "the verdict of compare",
        "eval_pipeline/leaderboards/comparisons.py",
        'pl.when(delta <= -threshold).then(pl.lit("loss"))',
        'pl.when(delta <= -threshold).then(pl.lit("tie"))',
        "test_agentv_outputs.py",
        "agentv/functions.jsonl",
        ("classifyOutcome", "compareResults"),
    ),
    Breakage(
        "the exit code of compare",
        "eval_pipeline/cli/compare.py",
        "    sys.exit(code)",
        "    sys.exit(0)",
        "test_peers.py",
        "peers/stats_cases.jsonl",
        ("gate",),
    ),
    Breakage(
        "an evaluator",
        "eval_pipeline/scores/evaluators/contains.py",
        "_found(self.value in subject.output",
        "_found(self.value not in subject.output",
        "test_agentv.py",
        "agentv/evaluators.jsonl",
        ("contains",),
    ),
    Breakage(
        "the check of a difference",
        "eval_pipeline_tests/conformance/differences/model.py",
        " and re.search(pattern, error.text)",
        "",
        "test_differences.py",
        "agentv/functions.jsonl",
        ("extractTotalBudgetUsd",),
        "accepts_nothing_else and setting",
    ),
)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The exit code of the rows' tests and what they printed, by what was broken.

    Each runs in a fork of one process, with a copy of the package and of its tests and with the compiled modules: those
    of a file that changes are not used.
    """
    folder = tmp_path_factory.mktemp("copy")
    skipped = shutil.ignore_patterns("browser*", "data")
    for name in ("eval_pipeline", "eval_pipeline_tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=skipped)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    runs = {breakage.name: _run(folder, breakage) for breakage in BREAKAGES}
    runs[UNBROKEN] = _run(folder, replace(BREAKAGES[0], name=UNBROKEN, broken=BREAKAGES[0].text))
    (folder / "runs.json").write_text(json.dumps(runs), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = run_python(PYTEST_ON_A_COPY, str(folder / "runs.json"), cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    codes = json.loads(done.stdout.splitlines()[-1])
    return {name: (code, Path(runs[name]["printed"]).read_text("utf-8")) for name, code in codes.items()}


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_rows_fail_when_something_is_broken(breakage: Breakage, ended: Ended) -> None:
    code, printed = ended[breakage.name]

    assert code == 1, printed[-2000:]
    assert " failed" in printed


def test_the_same_rows_pass_in_an_unbroken_copy(ended: Ended) -> None:
    code, printed = ended[UNBROKEN]

    assert code == 0, printed[-2000:]


def _run(folder: Path, breakage: Breakage) -> dict[str, Any]:
    """What the program is told: the file and its broken text, the rows, and the options of pytest."""
    path = folder / breakage.file
    whole = path.read_text("utf-8")
    assert breakage.text in whole, f"{breakage.name}: the text that is to be broken is gone: name another"
    test = folder / "eval_pipeline_tests" / "conformance" / breakage.test
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # plugins of pytest that our packages have imported
    options = ["-q", "-W", loaded, "-n", "0", "-p", "no:cacheprovider", "--tb=line", "-x", "-k", breakage.selected]
    name = breakage.name.replace(" ", "-")
    return {
        "file": str(path),
        "text": whole.replace(breakage.text, breakage.broken, 1),
        "facts": str(_facts(folder / "facts" / name, breakage)),
        "makes_databases": breakage.file.startswith("eval_pipeline/warehouse/"),
        "printed": str(folder / f"{name}.txt"),
        "options": [*options, str(test)],
    }


def _facts(folder: Path, breakage: Breakage) -> Path:
    """A folder with only the rows of these kinds, so that little has to be carried out."""
    path = folder / breakage.facts
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (conformance_folder() / breakage.facts).read_text("utf-8").splitlines(keepends=True)
    kinds = set(breakage.kinds)
    path.write_text("".join(line for line in lines if kinds & _kinds(json.loads(line))), "utf-8")
    return folder


def _kinds(row: dict[str, object]) -> set[str]:
    return {str(row.get(name)) for name in ("fn", "evaluator", "kind")}
