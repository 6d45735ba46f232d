"""The examples: valid, small, without network or key, and ranking as they always did.

The agents' sessions and the solvers' answers are recordings, the programs compute; so every standing is known.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

STANDINGS = {
    # suite, runner: (rank; None: too little graded or other cases, passed, graded, planned)
    ("coding-agents", "codex-gpt55"): (None, 4, 4, 4),
    ("coding-agents", "claude-code"): (None, 8, 8, 10),
    ("coding-agents", "codex"): (1, 9, 9, 10),
    ("gsm8k", "solver-175b-verification"): (1, 35, 60, 60),
    ("gsm8k", "solver-6b-verification"): (2, 20, 60, 60),
    ("gsm8k", "solver-175b-finetuning"): (3, 18, 60, 60),
    ("gsm8k", "solver-6b-finetuning"): (4, 11, 60, 60),
    ("log-triage", "assistant-v2"): (1, 6, 6, 6),
    ("log-triage", "estimator"): (None, 3, 5, 6),
    ("log-triage", "assistant-v1"): (2, 0, 6, 6),
    ("unit-conversion", "assistant-v2"): (1, 20, 22, 22),
    ("unit-conversion", "assistant-v1"): (2, 12, 20, 22),
    ("unit-conversion", "estimator"): (3, 5, 22, 22),
}


@pytest.fixture(scope="module")
def cli_project(swept_examples: tuple[CliProject, Answer], tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    root = tmp_path_factory.mktemp("repository") / "root"
    shutil.copytree(swept_examples[0].root, root)
    return CliProject(root / "examples")


@pytest.fixture(scope="module")
def run(cli_project: CliProject) -> Answer:
    """What a run of the examples answers that finds everything executed."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
            patch.delenv(name, raising=False)
        return cli_project("run", "--json")


def ask(cli_project: CliProject, query: str) -> list[tuple[Any, ...]]:
    """What the results say; the examples keep their data beside them."""
    return CliProject(cli_project.root.parent).ask(query)


def test_every_suite_and_runner_is_valid(cli_project: CliProject) -> None:
    answer = cli_project("validate", "--max-warnings", "0", "--json")

    assert answer.code == 0
    assert answer.document == []


def test_they_stay_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) < 1_500_000


def test_the_data_they_take_from_others_comes_with_its_licence() -> None:
    assert "MIT License" in (EXAMPLES / "recordings" / "gsm8k" / "LICENSE").read_text(encoding="utf-8")


def test_every_runner_ranks_as_it_should(run: Answer) -> None:
    board = run.document["leaderboard"]

    standings = {
        (row["suite"], row["runner"]): (row["rank"], row["passed"], row["graded"], row["planned"])
        for row in board
        if row["scope"] == "suite"
    }

    assert standings == STANDINGS


def test_the_run_reaches_the_pass_rate_that_the_project_asks_for(run: Answer) -> None:
    assert run.code == 0


def test_only_the_runners_that_a_suite_asks_for_carry_it_out(run: Answer) -> None:
    carried_out = {(pair["suite"], pair["runner"]) for pair in run.document["pairs"] if pair["planned"]}

    assert carried_out == set(STANDINGS)


def test_what_could_not_be_graded_says_whose_fault_it_was(cli_project: CliProject, run: Answer) -> None:
    rows = ask(cli_project, "SELECT DISTINCT failure_class, origin FROM failure_classes WHERE origin <> 'quality'")

    assert set(rows) == {
        ("target-crash", "target"),
        ("timeout", "target"),
        ("max-steps", "target"),
        ("rate-limited", "infrastructure"),
    }


def test_cost_is_computed_where_there_are_prices_and_unknown_elsewhere(cli_project: CliProject, run: Answer) -> None:
    rows = dict(ask(cli_project, "SELECT runner, cost_known > 0 FROM cost_by_runner"))

    assert {runner for runner, known in rows.items() if known} == {
        "assistant-v2",
        "claude-code",
        "codex",
        "codex-gpt55",
    }
    assert len(rows) == 10


def test_a_known_weakness_counts_as_passed(cli_project: CliProject, run: Answer) -> None:
    rows = ask(
        cli_project, "SELECT DISTINCT case_id FROM current_verdicts WHERE status = 'expected-failed' ORDER BY case_id"
    )

    assert rows == [("edit-without-permission",), ("root-cause",), ("words",)]


def test_a_sampled_runner_passes_a_case_only_sometimes(cli_project: CliProject, run: Answer) -> None:
    assert ask(cli_project, "SELECT runner, case_id, passed, failed FROM flaky_cases") == [("estimator", "flour", 1, 1)]


def test_an_agent_session_tells_commands_files_and_skills(cli_project: CliProject, run: Answer) -> None:
    events = ask(
        cli_project,
        """SELECT runner, list(DISTINCT kind ORDER BY kind) FROM session_events WHERE suite = 'coding-agents'
           AND kind IN ('command', 'file_read', 'skill') GROUP BY runner ORDER BY runner""",
    )

    assert events == [(runner, ["command", "file_read", "skill"]) for runner in ("claude-code", "codex", "codex-gpt55")]
