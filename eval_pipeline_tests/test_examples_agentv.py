"""examples/agentv: a folder of AgentV evals with every evaluator and every workspace feature, carried out offline.

The commands of its README are run in order on a copy, once; everything else looks at what they left. The targets and
judges are programs and recordings, so every verdict is known.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline_tests.cli.desk import Answer, Desk

EXAMPLE = Path(__file__).parent.parent / "examples" / "agentv"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
HERE = ("--project", "examples/agentv")
SERVICES = "examples/agentv/evals-with-services"
NEED_A_SERVICE = {"webhook", "similar", "javascript"}
PASSED, FAILED, EXPECTED = "passed", "failed", "expected-failed"

VERDICTS = {
    # suite × runner: each case with its verdict and its score, before the grader of the README is made stricter
    "answer-texts × canned": {"opening-hours": 1.0, "silent-about": 1.0, "shop-status": 1.0},
    "coder × coder": {
        "fix-add": 1.0,
        "leaves-tests-alone": 1.0,
        "other-ticket": 1.0,
        "cannot-translate": (FAILED, 0.0),
    },
    "conversation × support-bot": {
        "refund-then-thanks": 1.0,
        "stops-when-lost": (EXPECTED, 0.0),
        "as-good-as-the-best": 1.0,
    },
    "from-elsewhere × support-bot": dict.fromkeys(
        ("where", "letter", "broken-cup", "gift-card", "late-parcel", "csv-gift", "csv-late", "templated"), 1.0
    ),
    "gift-cards × support-bot": {"1": 1.0},
    "judges × shop-agent": {
        "gift-card": 0.845,
        "in-own-words": 0.85,
        "panel-of-judges": 1.0,
        "panel-split": 1.0,
        "put-together": 0.684,
        "own-programs": 0.925,
    },
    "receipts × canned": {"receipt-total": 1.0, "receipt-json": 1.0},
    "receipts × support-bot": {"receipt-total": 1.0, "receipt-json": 1.0},
    "repository × coder": dict.fromkeys(
        ("fix-discount", "starts-anew", "log-is-still-there", "from-the-pool", "before-the-mistake"), 1.0
    ),
    "shared-workspace × coder": {"first": 1.0, "second": 1.0},
    "static-workspace × coder": {"look-around": 1.0},
    "steps × shop-agent": {"refund": 1.0, "by-the-book": 1.0, "just-a-word": 1.0},
    "support-desk × canned": {"receipt": 1.0},
    "support-desk × night-shift": {"refund": 1.0},
    "support-desk × support-bot": {"refund": 1.0, "late-parcel": 0.71, "unknown": (EXPECTED, 0.667)},
}


def known(cell: str, case: str) -> tuple[str, float]:
    """The verdict that a case is known to have, and its score."""
    said: Any = VERDICTS[cell][case]  # type: ignore[index]
    return said if isinstance(said, tuple) else (PASSED, said)


def tour() -> Iterator[tuple[str, list[str]]]:
    """Each command of the README with the lines that it is said to answer."""
    for block in re.findall(r"^```console\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, [" ".join(line.split()) for line in lines]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A repository with the example in it; `python3` is this one."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(EXAMPLE, root / "examples" / "agentv")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA", "SERVICES_URL", "SERVICES_KEY"):
            patch.delenv(name, raising=False)
        yield Desk(root)


@pytest.fixture(scope="module")
def told(desk: Desk) -> list[Answer]:
    """What the commands of the README say, in order."""
    return [carry_out(desk, command) for command, _ in tour()]


def carry_out(desk: Desk, command: str) -> Answer:
    """A command of the README; ours in this process, others by the shell."""
    words = subprocess.check_output(["sh", "-c", f'printf "%s\\0" {command}'], text=True, cwd=desk.root)
    program, *arguments = words.split("\0")[:-1]
    if program == "eval-pipeline":
        return desk(*arguments)
    finished = subprocess.run([program, *arguments], cwd=desk.root, capture_output=True, text=True, check=False)
    return Answer(finished.returncode, finished.stdout, finished.stderr)


def ask(desk: Desk, query: str) -> list[Any]:
    """The rows that a question in SQL is answered with."""
    return [json.loads(line) for line in desk("sql", *HERE, "--json", query).out.splitlines()]


@pytest.mark.parametrize("number", range(len(list(tour()))), ids=[command for command, _ in tour()])
def test_a_command_of_the_readme_answers_as_it_shows(told: list[Answer], number: int) -> None:
    _, shown = list(tour())[number]

    said = iter([" ".join(line.split()) for line in told[number].said.splitlines()])

    assert told[number].code == 0
    assert [line for line in shown if line not in said] == []


def test_the_readme_names_every_suite() -> None:
    suites = [path for path in (EXAMPLE / "evals").iterdir() if path.is_file()]

    assert [path.name for path in suites if f"`evals/{path.stem}" not in README] == []


def test_every_evaluator_is_shown() -> None:
    files = [path for path in EXAMPLE.glob("evals*/**/*") if path.suffix in (".yaml", ".jsonl", ".json", ".csv")]
    written = "\n".join(path.read_text(encoding="utf-8") for path in files)
    by_turns = {"turn", "conversation"}  # what `turns` of a test become

    shown = {name for name in EVALUATORS.names() if re.search(rf'type"?: "?{re.escape(name)}[",}}\s]', written)}

    assert set(EVALUATORS.names()) - by_turns - shown == set()


def test_every_evaluator_that_needs_no_service_scored_a_case(desk: Desk, told: list[Answer]) -> None:
    rows = ask(desk, "SELECT DISTINCT type FROM current_scores WHERE value IS NOT NULL")

    assert {row["type"] for row in rows} == set(EVALUATORS.names()) - NEED_A_SERVICE


@pytest.mark.parametrize("cell", VERDICTS)
def test_every_case_has_the_verdict_that_is_known(desk: Desk, told: list[Answer], cell: str) -> None:
    suite, runner = cell.split(" × ")
    rows = ask(
        desk,
        f"""SELECT case_id, status, round(score, 3) AS score FROM verdicts v
            WHERE suite = '{suite}' AND runner = '{runner}' AND sweep_id = (SELECT min(sweep_id) FROM sweeps)""",
    )

    found = {row["case_id"]: (row["status"], row["score"]) for row in rows}

    assert found == {case: known(cell, case) for case in VERDICTS[cell]}
