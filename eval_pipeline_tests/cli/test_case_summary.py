"""`run --report summary`: cases with time and tokens, failures by class, and questions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eval_pipeline.cli.case_summary import label
from eval_pipeline.warehouse.case_usage import CaseUsage
from eval_pipeline_tests.conformance.public_verbs import CommandResult, command

EXAMPLE = Path(__file__).parents[2] / "examples" / "skills"


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> CommandResult:
    folder = tmp_path_factory.mktemp("summary") / "skills"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data"))
    options = ("--project", folder, "--runner", "agent-without", "--quiet", "--report", "github,summary")
    return command("run", folder / "cases.py", *options)


def test_each_case_has_its_status_class_and_tokens(ended: CommandResult) -> None:
    rows = {words[0]: words[1:] for line in ended.out.splitlines() if (words := line.split())}

    assert rows["always-passes"] == ["✓", "–", "100", "40", "–", "0", "140"]
    assert rows["install-skill"] == ["✗", "[wrong-package-manager]", "–", "950", "40", "–", "0", "990"]
    assert rows["known-gap"][:3] == ["✓", "expected", "failure"]
    assert rows["stale-expectation"][:3] == ["✗", "unexpected", "pass"]


def test_failures_are_grouped_by_class_with_reason_and_the_command_that_shows_more(ended: CommandResult) -> None:
    first, _, rest = ended.out.partition("Installs with npm [wrong-package-manager] (1)")

    assert "Assertion failure [assertion] (1)\n  cases/find-skill × agent-without\n" in first
    assert "    1. Expected the agent to not run a command matching" in rest
    assert "    eval-pipeline show cases/install-skill --runner agent-without" in rest


def test_the_end_counts_cases_tokens_and_says_how_to_ask_the_agents(ended: CommandResult) -> None:
    assert "5 cases, 5 pairs of case and runner: 1 expected failure, 2 failed, 1 passed, 1 unexpected pass" in ended.out
    assert "cases × agent-without: 710 billed tokens a case (most: find-skill, 2,140)" in ended.out
    assert "eval-pipeline explain" in ended.out


def test_other_reports_are_written_beside_it(ended: CommandResult) -> None:
    assert "::error title=find-skill > agent-without" in ended.out


@pytest.mark.parametrize(
    ("answers", "good", "status", "last", "class_", "strategy", "shown"),
    [
        (1, 1, "passed", "passed", None, None, "✓"),
        (3, 1, "failed", "passed", "assertion", "on_failure", "✓ 2 retries"),
        (2, 1, "failed", "passed", "assertion", "on_failure", "✓ 1 retry"),
        (2, 1, "failed", "expected-failed", "assertion", "on_failure", "✓ expected failure 1 retry"),
        (3, 2, "failed", "failed", "assertion", None, "✗ 2/3 answers as expected [assertion]"),
        (1, 0, "error", "error", "timeout", None, "! not graded [timeout]"),
        (1, 0, "failed", "failed", "snapshot", "on_failure", "✗ [snapshot]"),
    ],
)
def test_a_label_says_what_became_of_a_case(
    answers: int, good: int, status: str, last: str, class_: str | None, strategy: str | None, shown: str
) -> None:
    case = CaseUsage("c", answers, good, status, last, class_, None, None, None, None, None, None, False)

    assert label(case, strategy) == shown
