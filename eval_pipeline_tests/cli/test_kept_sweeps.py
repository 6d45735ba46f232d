"""What a sweep of the project file keeps of its runs, what it may spend in a month, and what its gate says of pairs
that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import RUNNERS, CliProject, make_cli_project

PROJECT = """\
suites: [suites]
sweeps:
  nightly: {suites: [greetings], runners: [greeter], refresh: all, keep: {sweeps: 2, artifacts_days: 0}}
  frugal: {suites: [greetings], runners: [greeter], refresh: all, month_budget_usd: 0.5, keep: {sweeps: 1}}
  both: {suites: [greetings, more/*], refresh: all, gate: {min_coverage: 0.5}}
  lenient: {suites: [greetings, more/*], gate: {min_pass_rate: 0.01}}
retention: {sweeps: {keep_last: 0}}
"""


@pytest.fixture
def project(tmp_path: Path) -> CliProject:
    project = make_cli_project(tmp_path)
    project.write("eval-pipeline.yaml", PROJECT)
    return project


def nightly(project: CliProject) -> str:
    return project("run", "--sweep", "nightly", "--quiet").err


def test_only_the_newest_runs_of_a_sweep_stay(project: CliProject) -> None:
    project("run", "--quiet", "--runner", "parrot")
    said = [nightly(project) for _ in range(3)]

    assert ["earlier sweep" in text for text in said] == [False, False, True]
    assert project.ask("SELECT coalesce(name, '-'), count(*) FROM sweeps GROUP BY 1 ORDER BY 1") == [
        ("-", 1),
        ("nightly", 2),
    ]
    assert "nightly" in project("compare", "nightly@previous", "nightly@latest").text


def test_raw_output_of_the_newest_run_is_forgotten_and_its_rows_stay(project: CliProject) -> None:
    project.edit("greet.sh", 'echo "hello $who"', 'echo "hello $who"; head -c 200000 /dev/zero | tr "\\0" x')

    said = nightly(project)

    assert "files of" in said
    assert project.ask("SELECT count(*) FROM session_reports") == [(3,)]
    assert not [path for path in (project.root / "data" / "artifacts").rglob("*") if path.is_file()]


def test_runs_of_one_month_spend_no_more_than_its_budget_together(project: CliProject) -> None:
    project.write("runners.yaml", RUNNERS.replace("tags: [local, slow]", "tags: [local], prices: {per_call: 0.1}"))

    first = project("run", "--sweep", "frugal", "--quiet", "--json")
    second = project("run", "--sweep", "frugal", "--quiet", "--json")
    other = project("run", "--sweep", "nightly", "--quiet", "--json")

    assert first.counts["executed"] == 3
    assert second.counts["executed"] == 2
    third = project("run", "--sweep", "frugal", "--quiet", "--json")
    assert third.counts["executed"] == 0, "what the first spent still counts, although only one run is to be kept"
    deleted = project("delete", "--retention", "--yes")
    fourth = project("run", "--sweep", "frugal", "--quiet", "--json")
    assert "deleted sweep" in deleted.out
    assert fourth.counts["executed"] == 0, "nor is it deleted by age"
    assert project.ask("SELECT DISTINCT error FROM current_verdicts v JOIN target_executions USING (execution_id)")
    assert "this month of sweep 'frugal' is spent (0.5 USD)" in second.out
    assert other.counts["executed"] == 3


def test_the_budget_of_a_month_needs_a_known_cost(project: CliProject) -> None:
    first, second = (project("run", "--sweep", "frugal", "--quiet") for _ in range(2))

    assert "1 executed" in first.err, "a program may report its cost: its first answer shows that it does not"
    assert second.code == 2
    assert "the budget of each month of sweep 'frugal' (0.5 USD) cannot hold" in second.err
    assert "run --sweep frugal refuses it" in project("validate").text


def test_a_gate_counts_what_a_sweep_was_to_cover_and_did_not(project: CliProject) -> None:
    (project.root / "suites" / "more" / "sums.jsonl").unlink()
    project.write("suites/more/other.yaml", "name: other\ntests: [")

    strict, lenient = (project("run", "--sweep", name, "--quiet") for name in ("both", "lenient"))
    alone = project("gate", "both")

    assert (strict.code, alone.code) == (2, 1), "what cannot be read is bad input of the run"
    assert "NO-GO gate of sweep both" in strict.err
    assert "NO-GO" in alone.out
    assert "other.yaml: cannot be read" in alone.out
    assert "INCONCLUSIVE" in lenient.err


def test_a_gate_names_a_pair_of_which_nothing_is_stored(project: CliProject) -> None:
    project("run", "--sweep", "both", "--quiet")
    project.edit("suites/greetings.yaml", "[greeter, parrot]", "[greeter, parrot, broken]")

    answer = project("gate", "both")

    assert answer.code == 1
    assert "greetings × broken: nothing of it is stored" in answer.out


@pytest.mark.parametrize(
    ("keep", "problem"),
    [("{}", "expected sweeps or artifacts_days"), ("{sweep: 3}", "did you mean 'sweeps'"), ("{sweeps: 0}", "sweeps")],
)
def test_a_rule_that_keeps_nothing_is_refused(project: CliProject, keep: str, problem: str) -> None:
    project.write("eval-pipeline.yaml", f"sweeps: {{nightly: {{keep: {keep}}}}}\n")

    answer = project("plan", "--sweep", "nightly")

    assert answer.code == 2
    assert "sweeps.nightly.keep" in answer.err
    assert problem in answer.err
