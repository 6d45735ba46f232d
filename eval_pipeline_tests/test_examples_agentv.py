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
from eval_pipeline_tests.cli.sample_project import Answer, CliProject

EXAMPLE = Path(__file__).parent.parent / "examples" / "agentv"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
HERE = ("--project", "examples/agentv")
SERVICES = "examples/agentv/evals-with-services"
NEED_A_SERVICE = {"webhook", "similar", "javascript"}
OF_SIMULATED_USERS = {"judge", "expected-calls", "tool-state"}
OF_AGENTS = {"tests", "file-changes"}  # examples/agents
OF_SKILLS = {"skills", "commands", "file-reads", "tool-calls", "output", "python-check"}  # examples/skills
PASSED, FAILED, EXPECTED = "passed", "failed", "expected-failed"

VERDICTS: dict[str, dict[str, float | tuple[str, float]]] = {
    # suite × runner: each case with its verdict and its score, before the grader of the README is made stricter
    "answer-texts × canned": {"opening-hours": 1.0, "silent-about": 1.0, "shop-status": 1.0},
    "coder × coder": {
        "fix-add": 1.0,
        "leaves-tests-alone": 1.0,
        "other-ticket": 1.0,
        "own-files": 1.0,
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


def known(pair: str, case: str) -> tuple[str, float]:
    """The verdict that a case is known to have, and its score."""
    verdict = VERDICTS[pair][case]
    return verdict if isinstance(verdict, tuple) else (PASSED, verdict)


AGE = re.compile(r" answered(?= )| \d{4}-\d\d-\d\d(?: \d\d:\d\d)?(?: to [\d:-]+)?(?= )")
"""The column that a board has where its answers are of different minutes: a time, or from when to when."""


def tour() -> Iterator[tuple[str, list[str]]]:
    """Each command of the README with the lines that it is said to answer."""
    for block in re.findall(r"^```console\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.splitlines()
            yield command, [" ".join(line.split()) for line in lines]


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliProject]:
    """A repository with the example in it; `python3` is this one."""
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(EXAMPLE, root / "examples" / "agentv")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA", "SERVICES_URL", "SERVICES_KEY"):
            patch.delenv(name, raising=False)
        yield CliProject(root)


@pytest.fixture(scope="module")
def answers(cli_project: CliProject) -> list[Answer]:
    """What the commands of the README say, in order."""
    return [carry_out(cli_project, command) for command, _ in tour()]


def carry_out(cli_project: CliProject, command: str) -> Answer:
    """A command of the README; ours in this process, others by the shell."""
    words = subprocess.check_output(["sh", "-c", f'printf "%s\\0" {command}'], text=True, cwd=cli_project.root)
    program, *arguments = words.split("\0")[:-1]
    if program == "eval-pipeline":
        return cli_project(*arguments)
    finished = subprocess.run([program, *arguments], cwd=cli_project.root, capture_output=True, text=True, check=False)
    return Answer(finished.returncode, finished.stdout, finished.stderr)


def ask(cli_project: CliProject, query: str, *options: str) -> list[Any]:
    """The rows that a question in SQL is answered with."""
    return [json.loads(line) for line in cli_project("sql", *HERE, *options, "--json", query).out.splitlines()]


@pytest.mark.parametrize("number", range(len(list(tour()))), ids=[command for command, _ in tour()])
def test_a_command_of_the_readme_answers_as_it_shows(answers: list[Answer], number: int) -> None:
    _, shown = list(tour())[number]

    lines = iter([" ".join(AGE.sub(" ", line).split()) for line in answers[number].text.splitlines()])

    assert answers[number].code == 0
    assert [line for line in shown if line not in lines] == []


@pytest.mark.parametrize("age", ["2026-01-15 00:49", "2026-01-15 00:49 to 00:50", "2026-01-15 to 2026-01-16"])
def test_the_age_of_answers_is_no_part_of_what_is_compared(age: str) -> None:
    assert AGE.sub("", f"coder 12,480 $0.1300 {age} 4") == "coder 12,480 $0.1300 4"


def test_the_readme_names_every_suite() -> None:
    suites = [path for path in (EXAMPLE / "evals").iterdir() if path.is_file()]

    assert [path.name for path in suites if f"`evals/{path.stem}" not in README] == []


def test_every_evaluator_that_needs_no_service_scored_a_case(cli_project: CliProject, answers: list[Answer]) -> None:
    rows = ask(cli_project, "SELECT DISTINCT type FROM current_scores WHERE value IS NOT NULL")

    others = NEED_A_SERVICE | OF_SIMULATED_USERS | OF_AGENTS | OF_SKILLS | {"recorded-score"}  # of imported results
    assert {row["type"] for row in rows} == set(EVALUATORS.names()) - others


@pytest.mark.parametrize("pair", VERDICTS)
def test_every_case_has_the_verdict_that_is_known(cli_project: CliProject, answers: list[Answer], pair: str) -> None:
    suite, runner = pair.split(" × ")
    rows = ask(
        cli_project,
        f"""SELECT case_id, status, round(score, 3) AS score FROM verdicts
            WHERE suite = '{suite}' AND runner = '{runner}' AND sweep_id = (SELECT min(sweep_id) FROM sweeps)""",
    )

    actual = {(row["case_id"], row["status"], row["score"]) for row in rows}

    assert actual == {(case, *known(pair, case)) for case in VERDICTS[pair]}


def test_no_other_suite_met_a_runner(cli_project: CliProject, answers: list[Answer]) -> None:
    rows = ask(cli_project, "SELECT DISTINCT suite, runner FROM verdicts")

    assert {f"{row['suite']} × {row['runner']}" for row in rows} == set(VERDICTS)


def test_a_run_after_that_would_execute_nothing(cli_project: CliProject, answers: list[Answer]) -> None:
    plans = cli_project("plan", *HERE, "--json").document
    one_answer_is_enough = "support-desk"  # of its two repetitions the first settles a case

    planned = {(row["suite"], row["reused"] - row["planned"], row["to_rescore"]) for row in plans}

    assert {row for row in planned if row[0] != one_answer_is_enough} == {
        (pair.split(" × ")[0], 0, 0) for pair in VERDICTS if not pair.startswith(one_answer_is_enough)
    }


def test_a_stricter_grader_scores_again_only_what_it_looks_at(cli_project: CliProject, answers: list[Answer]) -> None:
    rows = ask(
        cli_project,
        """SELECT case_id, evaluator FROM evaluator_scores
           GROUP BY suite, runner, case_id, repetition, evaluator HAVING count(*) > 1""",
    )

    assert rows == [{"case_id": "own-programs", "evaluator": "brief"}]


def test_trials_become_one_answer_by_the_strategy_of_their_suite(
    cli_project: CliProject, answers: list[Answer]
) -> None:
    rows = ask(cli_project, "SELECT suite, strategy, max(repetitions) AS trials FROM case_results GROUP BY ALL")

    actual = {row["suite"]: (row["strategy"], row["trials"]) for row in rows if row["strategy"] != "mean"}

    assert actual == {
        "answer-texts": ("confidence_interval", 2),
        "receipts": ("pass_all", 2),
        "support-desk": ("pass_at_k", 1),  # the first was good enough
    }


def test_a_target_that_fails_is_tried_again_and_then_stood_in_for(
    cli_project: CliProject, answers: list[Answer]
) -> None:
    (row,) = ask(cli_project, "SELECT answered_by, attempt_count FROM target_executions WHERE runner = 'night-shift'")

    assert row == {"answered_by": "support-bot", "attempt_count": 4}


def test_only_the_workspace_of_a_failure_is_kept(cli_project: CliProject, answers: list[Answer]) -> None:
    rows = ask(cli_project, "SELECT case_id, workspace->>'path' AS path FROM target_executions WHERE suite = 'coder'")

    kept = {row["case_id"]: Path(row["path"]) for row in rows if Path(row["path"]).is_dir()}

    assert list(kept) == ["cannot-translate"]
    assert (kept["cannot-translate"] / "TICKET.md").read_text() == (
        "# no ticket (cannot-translate)\n\nTranslate notes.py to Rust.\n"
    )


def test_what_hooks_print_is_kept_and_what_they_write_is_no_change(
    cli_project: CliProject, answers: list[Answer]
) -> None:
    (row,) = ask(
        cli_project,
        """SELECT workspace->>'$.hooks.before_each' AS printed, workspace->>'changes' AS changes
           FROM target_executions WHERE case_id = 'fix-add'""",
    )

    assert row["printed"] == "wrote the ticket\n"
    assert re.findall(r"^\+\+\+ b/(.+)$", row["changes"], flags=re.MULTILINE) == ["notes.py"]


def test_the_folders_of_the_example_stay_as_they_were(cli_project: CliProject, answers: list[Answer]) -> None:
    copy = cli_project.root / "examples" / "agentv"
    changed_by_the_readme = {"graders/length.py"}

    assert content(copy, except_for=changed_by_the_readme) == content(EXAMPLE, except_for=changed_by_the_readme)


def content(folder: Path, except_for: set[str]) -> dict[str, bytes]:
    """The files below a folder, without what Python leaves there."""
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if ".pyc" not in name and name not in except_for}


def test_the_exported_run_folder_has_a_row_for_every_test_and_runner(
    cli_project: CliProject, answers: list[Answer]
) -> None:
    lines = (cli_project.root / "data" / "agentv" / "run" / "index.jsonl").read_text(encoding="utf-8").splitlines()

    statuses = Counter(json.loads(line)["execution_status"] for line in lines)

    assert statuses == {"ok": 44, "quality_failure": 2}


def test_the_exported_junit_file_has_the_failures(cli_project: CliProject, answers: list[Answer]) -> None:
    suites = ElementTree.parse(cli_project.root / "data" / "agentv" / "junit.xml").getroot()

    assert len(suites.findall(".//testcase")) == 56
    assert len(suites.findall(".//testcase[failure]")) == 2
    assert suites.findall(".//error") == []


@pytest.mark.parametrize(("file", "root"), [("traces.json", "invoke_agent "), ("agentv-traces.json", "agentv.eval")])
def test_the_exported_traces_have_the_tools_that_were_called(
    cli_project: CliProject, answers: list[Answer], file: str, root: str
) -> None:
    traces = json.loads((cli_project.root / "data" / "agentv" / file).read_bytes())

    spans = [span for scope in traces["resourceSpans"][0]["scopeSpans"] for span in scope["spans"]]
    roots = [span["name"] for span in spans if "parentSpanId" not in span]
    assert len(roots) == 56
    assert [name for name in roots if not name.startswith(root)] == []
    assert sum(span["name"] == "execute_tool open_refund" for span in spans) == 7


def test_suites_that_need_services_say_which_variables_are_missing(cli_project: CliProject) -> None:
    answer = cli_project("validate", *HERE, SERVICES)

    assert answer.code != 0
    assert re.findall(r"(\w+) is not set in the environment", answer.text) == ["SERVICES_URL", "SERVICES_KEY"]


@pytest.fixture(scope="module")
def services(cli_project: CliProject) -> Iterator[str]:
    """The address of the example's services while they run."""
    command = [sys.executable, str(cli_project.root / "examples" / "agentv" / "programs" / "services.py"), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def with_services(cli_project: CliProject, services: str) -> Answer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SERVICES_URL", services)
        patch.setenv("SERVICES_KEY", "a-key-of-nobody")
        return cli_project("run", *HERE, "--data", "services", "--quiet", SERVICES)


def test_evaluators_that_ask_a_service_score_when_it_is_there(cli_project: CliProject, with_services: Answer) -> None:
    query = "SELECT evaluator, round(value, 2) AS value FROM current_scores WHERE suite = 'services'"
    rows = ask(cli_project, query, "--data", "services")

    assert {row["evaluator"]: row["value"] for row in rows} == {
        "by-a-model": 1.0,
        "checked": 1.0,
        "near-the-reference": 0.94,
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_scores_where_there_is_node(cli_project: CliProject, with_services: Answer) -> None:
    rows = ask(cli_project, "SELECT evaluator, value FROM current_scores WHERE suite = 'node'", "--data", "services")

    assert {row["evaluator"]: row["value"] for row in rows} == {"expression": 1.0, "function": 1.0}


def test_a_key_of_a_service_is_written_nowhere(cli_project: CliProject, with_services: Answer) -> None:
    files = [path for path in (cli_project.root / "services").rglob("*") if path.is_file()]

    assert files
    assert [path.name for path in files if b"a-key-of-nobody" in path.read_bytes()] == []
