"""Conformance notices when something breaks: a view, a command, an evaluator, the check of a difference.

Each breakage is one changed line in a copy of the package; the rows that depend on it run there, in a process of their
own, and must fail. The same rows pass without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from eval_pipeline_tests.conformance.recorded_facts import conformance_folder
from eval_pipeline_tests.forks import run_python

REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not conformance_folder().is_dir(), reason="no recorded facts"),
]
PYTEST_ON_A_COPY = """
import sys

for name in [name for name in sys.modules if name.startswith("eval_pipeline")]:
    del sys.modules[name]  # all that was imported of ours is to come from the copy; Dagster and DuckDB stay

import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


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
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of its tests, with the compiled modules: those of a file that changes are not used."""
    folder = tmp_path_factory.mktemp("copy")
    skipped = shutil.ignore_patterns("browser*", "data")
    for name in ("eval_pipeline", "eval_pipeline_tests"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=skipped)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)
    return folder


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_rows_fail_when_something_is_broken(breakage: Breakage, copy: Path) -> None:
    path = copy / breakage.file
    whole = path.read_text("utf-8")
    assert breakage.text in whole, "the text that is to be broken is gone: name another"

    path.write_text(whole.replace(breakage.text, breakage.broken, 1), "utf-8")
    try:
        failed = _run(copy, breakage)
    finally:
        path.write_text(whole, "utf-8")

    assert failed.returncode == 1, failed.stdout[-2000:]
    assert " failed" in failed.stdout


@pytest.mark.parametrize("breakage", BREAKAGES[:1], ids=lambda breakage: breakage.name)
def test_the_same_rows_pass_in_an_unbroken_copy(breakage: Breakage, copy: Path) -> None:
    passed = _run(copy, breakage)

    assert passed.returncode == 0, passed.stdout[-2000:]


def _run(copy: Path, breakage: Breakage) -> subprocess.CompletedProcess[str]:
    test = copy / "eval_pipeline_tests" / "conformance" / breakage.test
    facts = _facts(copy / "facts" / breakage.name.replace(" ", "-"), breakage)
    environment = {**os.environ, "PYTHONPATH": str(copy), "EVAL_PIPELINE_CONFORMANCE": str(facts)}
    loaded = "ignore::pytest.PytestAssertRewriteWarning"  # plugins of pytest that our packages have imported
    options = ["-q", "-W", loaded, "-n", "0", "-p", "no:cacheprovider", "--tb=line", "-x", "-k", breakage.selected]
    return run_python(PYTEST_ON_A_COPY, *options, str(test), cwd=copy, env=environment)


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
