"""Every question of an analyst is one SELECT: asked here of real sweeps of a small project."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject

SAYS = """\
import json, pathlib

def of(kind):
    def say(prompt):
        log = pathlib.Path(__file__).with_name(f"{kind}-{prompt.split()[0]}.count")
        times = int(log.read_text()) if log.exists() else 0
        log.write_text(str(times + 1))
        if kind == "bad" and prompt.startswith("three"):
            raise ValueError(f"no room for request {times + 17} of 'me'")
        right = {"good": True, "fair": not prompt.startswith("two") or times % 2 == 0, "bad": prompt.startswith("one")}
        usage = {"input_tokens": 100, "cached_input_tokens": 25, "output_tokens": 10}
        call = {"role": "assistant", "content": "", "tool_calls": [{"tool": "look", "input": {"at": prompt}}]}
        text = "yes" if right[kind] else "no"
        cost = {"good": 0.04, "fair": 0.01, "bad": 0.02}[kind]
        messages = [call, {"role": "assistant", "content": text}]
        return {"output": text, "messages": messages, "usage": usage, "cost_usd": cost}
    return say

good, fair, bad = of("good"), of("fair"), of("bad")
"""
RUNNERS = "runners:\n" + "".join(
    f"  - {{name: {name}, adapter: python, function: 'says:{name}', isolation: in-process}}\n"
    for name in ("good", "fair", "bad")
)
SUITE = """\
name: asked
execution: {repeat: 2}
assertions:
  - {name: right, type: equals, value: %s}
tests:
  - {id: one, input: one please, tags: [easy]}
  - {id: two, input: two please, tags: [hard]}
  - {id: three, input: three please, tags: [hard]}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """Three runners and three cases, twice each; then the suite asks for another answer."""
    project = CliProject(tmp_path_factory.mktemp("asked"))
    for name, text in {"says.py": SAYS, "runners.yaml": RUNNERS, "suites/asked.yaml": SUITE % "yes"}.items():
        project.write(name, text)
    project("run", "--json", "--concurrency", "1")  # the programs count their calls in files
    return project


@pytest.fixture(scope="module")
def revised(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """The same; then the suite asks for another answer."""
    project = CliProject(tmp_path_factory.mktemp("revised"))
    for name, text in {"says.py": SAYS, "runners.yaml": RUNNERS, "suites/asked.yaml": SUITE % "yes"}.items():
        project.write(name, text)
    project("run", "--runner", "good", "--json", "--concurrency", "1")
    project.write("suites/asked.yaml", SUITE % "no")
    project("run", "--runner", "good", "--json", "--concurrency", "1")
    return project


def test_the_cases_that_tell_runners_apart_come_first(swept: CliProject) -> None:
    rows = swept.ask("SELECT case_id, runners, pass_rate, spread, discrimination FROM discriminating_cases")

    assert [row[:4] for row in rows] == [("two", 3, 0.5, 1.0), ("one", 3, 1.0, 0.0), ("three", 2, 1.0, 0.0)]
    assert [row[4] for row in rows] == [None, None, None]  # on their other cases the runners are alike


def test_the_front_has_who_nobody_beats_in_quality_and_cost(swept: CliProject) -> None:
    rows = swept.ask("SELECT runner, cost_per_plan_usd, on_cost_front, on_latency_front IS NOT NULL FROM pareto_front")

    assert rows == [("good", 0.04, True, True), ("fair", 0.01, True, True), ("bad", None, None, True)]


def test_a_solved_case_has_its_cost_and_an_unknown_one_is_unknown(swept: CliProject) -> None:
    rows = swept.ask(
        "SELECT runner, plans, solved, solved_cases, cost_per_solved_usd, cost_per_solved_case_usd FROM solved_costs"
    )

    assert [row[:4] for row in rows] == [("fair", 6, 5, 3), ("good", 6, 6, 3), ("bad", 6, 2, 1)]
    assert [row[4] for row in rows] == [pytest.approx(0.06 / 5), pytest.approx(0.04), None]
    assert rows[1][5] == pytest.approx(0.08)


def test_times_have_their_quantiles(swept: CliProject) -> None:
    rows = swept.ask(
        "SELECT runner, latency_p50_ms <= latency_p95_ms, latency_p95_ms <= latency_max_ms FROM latency_by_runner"
    )

    assert {row for row in rows if row[0] != "bad"} == {("good", True, True), ("fair", True, True)}
    same = "l.latency_p50_ms = b.latency_p50_ms"
    answers = swept.ask(f"SELECT l.answers, {same} FROM latency_by_runner l JOIN leaderboard b USING (suite, runner)")
    assert sorted(answers) == [(4, True), (6, True), (6, True)]  # two are errors: boards leave their time out, too


def test_tokens_are_told_apart_by_cache(swept: CliProject) -> None:
    columns = "runner, reports, input_tokens, cached_input_tokens, uncached_input_tokens, cached_share, output_tokens"

    assert swept.ask(f"SELECT {columns} FROM tokens_by_cache WHERE runner = 'good'") == [
        ("good", 6, 600, 150, 450, 0.25, 60)
    ]


def test_failures_that_differ_in_numbers_only_are_one(swept: CliProject) -> None:
    rows = swept.ask("SELECT stage, owner, retryable, signature, plans FROM failure_taxonomy WHERE stage <> 'answer'")

    ((stage, owner, retryable, signature, plans),) = rows
    assert (stage, owner, retryable, plans) == ("execution", "target", False, 2)
    assert "no room for request # of …" in signature
    trends = swept.ask("SELECT owner, verdicts, cases, decided FROM failure_trends ORDER BY owner")
    assert trends == [("quality", 3, 1, 3), ("target", 2, 1, 2)]


def test_failures_of_reused_executions_stay_in_the_trend(revised: CliProject) -> None:
    revised("run", "--runner", "good", "--json", "--concurrency", "1")

    assert revised.ask("SELECT cause, verdicts, decided FROM failure_trends") == [
        ("assertion", 6, 6), ("assertion", 6, 0)
    ]  # fmt: skip


def test_cases_that_passed_and_failed_are_flaky(swept: CliProject) -> None:
    assert swept.ask("SELECT runner, case_id, passed, failed FROM flaky_cases") == [("fair", "two", 1, 1)]


def test_a_board_by_tag(swept: CliProject) -> None:
    rows = swept.ask("SELECT tag, pass_rate FROM results_by_tag WHERE runner = 'fair'")

    assert rows == [("easy", 1.0), ("hard", 0.75)]


def test_coverage_stands_on_the_board(swept: CliProject) -> None:
    rows = swept.ask("SELECT runner, graded, planned, coverage FROM leaderboard ORDER BY runner")

    assert rows == [("bad", 4, 6, pytest.approx(4 / 6)), ("fair", 6, 6, 1.0), ("good", 6, 6, 1.0)]


def test_variance_is_told_apart_by_cases_and_repetitions(swept: CliProject) -> None:
    rows = swept.ask("SELECT runner, cases, answers, case_variance, repetition_variance FROM variance_components")

    # fair: means 1, 0.5, 1; within cases 0.5 over 3 degrees of freedom; between (2 · ((1/6)² · 2 + (1/3)²)) / 2
    assert rows == [
        ("bad", 2, 4, 0.5, 0.0), ("fair", 3, 6, 0.0, pytest.approx(1 / 6)), ("good", 3, 6, 0.0, 0.0),
    ]  # fmt: skip


def test_the_smallest_difference_that_results_show_is_that_of_their_plan(swept: CliProject) -> None:
    rows = swept.ask("SELECT runner, cases, repetitions, assumed FROM detectable_differences")
    shown = dict(swept.ask("SELECT runner, detectable_difference FROM detectable_differences"))
    planned = {row["runner"]: row["detectable_difference"] for row in json.loads(swept("plan", "--json").out)}

    assert rows == [("bad", 2, 2, False), ("fair", 3, 2, False), ("good", 3, 2, False)]
    assert shown["good"] == pytest.approx(planned["good"]) and shown["fair"] == pytest.approx(planned["fair"])
    assert shown["bad"] == pytest.approx(min(1.0, planned["good"] * (3 / 2) ** 0.5))


def test_the_smallest_difference_of_one_runner_is_that_of_independent_answers(revised: CliProject) -> None:
    ((cases, difference, assumed),) = revised.ask(
        "SELECT cases, detectable_difference, assumed FROM detectable_differences"
    )

    assert (cases, difference, assumed) == (3, pytest.approx(2.8016 * (0.375 / 3) ** 0.5, abs=1e-3), True)


def test_agreement_shows_the_variance_where_there_are_no_grades_to_compare(swept: CliProject) -> None:
    shown, document = swept("agreement"), swept("agreement", "--json").document

    assert shown.code == 3
    assert "no grades to compare yet" in shown.err
    assert "variance of scores: between cases" in shown.out
    assert [(row["runner"], row["case_variance"]) for row in document["variance_components"]] == [
        ("bad", 0.5), ("fair", 0.0), ("good", 0.0),
    ]  # fmt: skip


def test_from_a_number_to_everything_it_was_made_of(swept: CliProject) -> None:
    query = "SELECT * FROM result_trail WHERE runner = 'good' AND case_id = 'one' AND repetition = 1"
    (found,) = [json.loads(line) for line in swept("sql", "--json", query).out.splitlines()]

    assert (found["status"], found["score"], found["final_output"]) == ("passed", 1.0, "yes")
    assert json.loads(found["input"])[0]["content"] == "one please"
    assert [(call["tool"], json.loads(call["arguments"])) for call in found["tool_calls"]] == [
        ("look", {"at": "one please"})
    ]
    assert len(json.loads(found["attempts"])) == 1
    assert [(score["evaluator"], score["value"]) for score in found["scores"]] == [("right", 1.0)]


def test_revisions_of_a_suite_are_rows_of_their_own(revised: CliProject) -> None:
    rows = revised.ask("SELECT runner, cases, pass_rate FROM suite_revisions")

    assert rows == [("good", 3, 1.0), ("good", 3, 0.0)]


def test_a_case_has_its_history(revised: CliProject) -> None:
    rows = revised.ask("SELECT repetition, status FROM case_history('asked', 'one')")

    assert rows == [(1, "passed"), (2, "passed"), (1, "failed"), (2, "failed")]


def test_a_board_of_a_date_has_why_each_pair_changed_since(revised: CliProject) -> None:
    first = revised.ask("SELECT min(computed_at) FROM leaderboards")[0][0]

    rows = revised.ask(
        "SELECT runner, pass_rate_before, pass_rate, difference, other_suite, changes, causes "
        f"FROM changes_since('{first}'::TIMESTAMPTZ)"
    )

    assert rows == [("good", 1.0, 0.0, -1.0, True, 6, ["evaluator"])]


def test_regressions_between_two_sweeps(revised: CliProject) -> None:
    before, after, *_ = (row[0] for row in revised.ask("SELECT sweep_id FROM sweeps ORDER BY started_at"))

    rows: list[tuple[Any, ...]] = revised.ask(f"SELECT case_id, repetition FROM regressions('{before}', '{after}')")

    assert len(rows) == 6
    unknown = revised("sql", f"FROM regressions('{before}', 'no-such')")
    assert (unknown.code, "no sweep no-such; the table sweeps has their ids" in unknown.err) == (2, True)


def test_board_and_export_as_of_a_time(revised: CliProject) -> None:
    (first, second) = (row[0] for row in revised.ask("SELECT DISTINCT computed_at FROM leaderboards ORDER BY 1"))

    def rates(moment: str) -> list[float]:
        board = revised("leaderboard", "--json", "--as-of", moment).document
        return [row["pass_rate"] for row in board if row["scope"] == "suite"]

    assert (rates(first.isoformat()), rates(second.isoformat())) == ([1.0], [0.0])
    rows = revised("export", "-f", "jsonl", "--as-of", first.isoformat()).out.splitlines()
    assert {json.loads(row)["status"] for row in rows} == {"passed"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["leaderboard", "--as-of", "2020-01-01"], "--as-of: no board at 20"),
        (["leaderboard", "--as-of", "1h", "--board", "x"], "--as-of: name a board or a time, not both"),
        (
            ["export", "-f", "json", "--as-of", "soon"],
            "expected a date, a time or an age such as 7d or 12h, got 'soon'",
        ),
    ],
)
def test_a_time_without_a_board_is_reported(revised: CliProject, arguments: list[str], message: str) -> None:
    answer = revised(*arguments)

    assert answer.code == 2
    assert message in answer.err
