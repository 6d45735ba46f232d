"""Anchors: stored answers that graders grade again on the schedule of a sweep; a judge that drifts is shown."""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.leaderboards.show import UNKNOWN
from eval_pipeline.scores.model import Score
from eval_pipeline.sweeps import judging
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.anchors import candidates
from eval_pipeline_tests.cli.sample_project import CliProject

JUDGE = """\
import json, pathlib

HERE = pathlib.Path(__file__).parent

def judge(prompt):
    key = prompt.split('"key": "')[1].split('"')[0]
    log = HERE / "judged.log"
    with log.open("a") as out:
        out.write("x")
    if (HERE / "down").exists():
        raise RuntimeError("no line")
    noise = (len(log.read_text()) % 5 - 2) / 100
    mood = float((HERE / "mood").read_text()) if (HERE / "mood").exists() else 0.8
    return {"output": json.dumps({"key": key, "score": mood + noise, "reason": "read"}), "cost_usd": 0.01}
"""
SAYS = """\
import pathlib

def say(prompt):
    with (pathlib.Path(__file__).parent / "said.log").open("a") as out:
        out.write("x")
    return f"as {prompt} has it"
"""
RUNNERS = """\
runners:
  - {name: agent, adapter: python, function: "says:say", isolation: in-process}
  - {name: judge, adapter: python, function: "judge:judge", isolation: in-process, retries: 0, concurrency: 1}
"""
PROJECT = """\
suites: [suites]
defaults: {grader: judge}
sweeps:
  nightly: {suites: [asked], runners: [agent], anchors: {size: 6, base: 3}}
  plain: {suites: [asked], runners: [agent]}
"""
TESTS = "".join(f"  - {{id: c{number}, input: question {number}}}\n" for number in range(8))
SUITE = (
    "name: asked\nexecution: {targets: [agent]}\n"
    "assertions:\n  - {name: fair, type: llm-grader, prompt: 'Is it fair?'}\n"
    "  - {name: says, type: contains, value: has}\ntests:\n" + TESTS
)


def times(project: CliProject, log: str) -> int:
    path = project.root / f"{log}.log"
    return len(path.read_text()) if path.exists() else 0


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A night after which anchors were chosen, and graded three times."""
    project = CliProject(tmp_path_factory.mktemp("drift"))
    files = {"says.py": SAYS, "judge.py": JUDGE, "runners.yaml": RUNNERS, "eval-pipeline.yaml": PROJECT}
    for name, text in (files | {"suites/asked.yaml": SUITE}).items():
        project.write(name, text)
    project("run", "--sweep", "nightly", "--quiet")
    return project


@pytest.fixture
def project(first_night: CliProject, tmp_path: Path) -> CliProject:
    """A copy of it."""
    return CliProject(Path(shutil.copytree(first_night.root, tmp_path / "drift")))


def test_anchors_are_graded_anew_without_a_call_of_the_target_or_the_cache(project: CliProject) -> None:
    assert (times(project, "said"), times(project, "judged")) == (8, 8 + 6 * 3)
    assert project.ask("SELECT DISTINCT evaluator, base FROM anchor_scores") == [("fair", True)]
    assert project("drift").code == 3  # first grades only

    again = project("run", "--sweep", "nightly")

    assert (times(project, "said"), times(project, "judged")) == (8, 8 + 6 * 3 + 6)
    assert "anchors: 6 grades" in again.err
    ((anchors, left_out, beyond, cost),) = project.ask("SELECT anchors, left_out, beyond, cost_usd FROM judge_drift")
    assert (anchors, left_out, beyond, cost) == (6, 0, False, pytest.approx(0.06))
    assert project("drift", "nightly").code == 0
    assert project.ask("SELECT count(*) FROM evaluator_scores") == [(16,)]  # what is decided by is as it was


def test_a_judge_that_became_milder_is_beyond_its_limits_and_the_board_says_so(project: CliProject) -> None:
    frozen = project.ask("SELECT DISTINCT execution_id FROM anchor_scores ORDER BY ALL")
    project.write("mood", "0.9")

    ran = project("run", "--sweep", "nightly")

    rows = project.ask("SELECT mean_score, center, low, high, beyond, newest FROM judge_drift")
    ((mean, center, low, high, beyond, newest),) = rows
    assert (mean, center) == (pytest.approx(0.9, abs=0.01), pytest.approx(0.8, abs=0.01))
    assert (beyond, newest) == (True, True)
    bases = project.ask("SELECT list(value) FROM anchor_scores WHERE base GROUP BY execution_id")
    variance = statistics.mean(statistics.variance(values) for (values,) in bases)
    # Student's t of 6 · (3 - 1) degrees of freedom at 99.73 %
    assert high - center == pytest.approx(3.764 * (variance * (1 + 1 / 3) / 6) ** 0.5, rel=2e-3)
    assert center - low == pytest.approx(high - center)
    line = f"asked, fair by judge: the mean grade of 6 anchors is {mean:.3f}, expected"
    for shown in (ran.text, project("leaderboard").out, project("drift").text):
        assert line in " ".join(shown.split())
    assert project("drift").code == 1
    assert project.ask("SELECT DISTINCT execution_id FROM anchor_scores ORDER BY ALL") == frozen
    project.write("mood", "0.8")
    assert project("drift", "nightly", "--judge").code == 0
    assert "judge drift" not in project("leaderboard").text


def test_another_question_has_base_grades_of_its_own_and_another_grader_has_not(project: CliProject) -> None:
    project.edit("runners.yaml", 'function: "judge:judge",', 'function: "judge:judge", model: newer,')
    project("drift", "nightly", "--judge")
    project.edit("suites/asked.yaml", "Is it fair?", "Is it very fair?")

    project("drift", "nightly", "--judge")

    query = "SELECT judging_id, any_value(model), bool_and(base), count(*) FROM anchor_scores GROUP BY 1 ORDER BY 1"
    assert [row[1:] for row in project.ask(query)] == [(None, True, 18), ("newer", False, 6), ("newer", True, 18)]


def test_a_judge_that_is_down_has_no_grade_and_no_limit(project: CliProject) -> None:
    project.write("down", "")

    answer = project("drift", "nightly", "--judge", "--json")

    (row,) = answer.document
    assert (answer.code, row["anchors"], row["left_out"], row["mean_score"], row["beyond"]) == (3, 0, 6, None, None)
    assert (row["low"], row["high"]) == (None, None)
    line = "judge drift: asked, fair by judge: not measured, 0 of 6 anchors graded and with base grades"
    for shown in (answer.err, project("drift", "nightly").err, project("leaderboard").out):
        assert line in " ".join(shown.split())
    assert project("drift", "nightly").code == 3


def test_a_sweep_whose_judge_is_down_sends_that_it_was_not_measured(project: CliProject) -> None:
    with_notice(project)
    project.write("down", "")

    project("run", "--sweep", "nightly", "--quiet")

    (line,) = json.loads((project.root / "told.json").read_text())["judge_drift"]
    assert "fair by judge: not measured" in line


def test_one_anchor_has_a_mean_and_no_limits(project: CliProject) -> None:
    ((case,),) = project.ask("SELECT min(case_id) FROM anchor_scores")
    others = [line for line in TESTS.splitlines(keepends=True) if f"id: {case}," not in line]
    for line in others:
        project.edit("suites/asked.yaml", line, "")

    assert project("drift", "nightly", "--judge").code == 3

    ((anchors, center, low, high, beyond),) = project.ask("SELECT anchors, center, low, high, beyond FROM judge_drift")
    assert (anchors, center, low, high, beyond) == (1, pytest.approx(0.8, abs=0.03), None, None, None)
    (line,) = (each for each in project("drift").out.splitlines() if "asked" in each)
    assert " to " not in line
    assert UNKNOWN in line


def test_chosen_anew_anchors_begin_with_base_grades(project: CliProject) -> None:
    project("drift", "nightly", "--judge", "--choose-anew")

    bases = project.ask("SELECT count(DISTINCT frozen_at), bool_and(base), count(*) FROM anchor_scores")
    assert bases == [(2, True, 36)]


def test_answers_that_are_anchors_outlive_their_sweep(project: CliProject) -> None:
    project("run", "--sweep", "nightly", "--refresh", "all", "--quiet")
    ((oldest,),) = project.ask("SELECT min(sweep_id) FROM sweeps")

    project("delete", "sweeps", oldest, "--yes")
    answer = project("drift", "nightly", "--judge", "--json")

    assert [row["anchors"] for row in answer.document] == [6, 6]
    assert project.ask(f"SELECT count(*) FROM target_executions WHERE sweep_id = '{oldest}'") == [(6,)]


def with_free_agent(project: CliProject, setting: str) -> None:
    project.edit("eval-pipeline.yaml", "nightly: {", f"nightly: {{{setting}, ")
    runners = project.root / "runners.yaml"
    runners.write_text(runners.read_text().replace("{name: agent,", "{name: agent, prices: {per_call: 0},"))


def test_grades_of_anchors_count_in_the_budget_of_the_month(project: CliProject) -> None:
    """The first night spent 8 + 18 grades of 0.01 USD."""
    with_free_agent(project, "month_budget_usd: 0.295")

    ran = project("run", "--sweep", "nightly", "--refresh", "all")

    spent = "the budget of this month of sweep 'nightly' is spent (0.295 USD)"
    assert f"2 anchors are not graded: {spent}" in " ".join(ran.text.split())
    assert (times(project, "said"), times(project, "judged")) == (16, 26 + 4)
    again = project("run", "--sweep", "nightly", "--refresh", "all")
    assert spent in " ".join(again.text.split())
    assert (times(project, "said"), times(project, "judged")) == (16, 26 + 4)


def test_anchors_are_graded_within_what_the_run_left_of_its_budget(project: CliProject) -> None:
    with_free_agent(project, "budget_usd: 0.025")
    project.edit("suites/asked.yaml", "Is it fair?", "Is it as fair?")

    ran = project("run", "--sweep", "nightly", "--refresh", "all")

    judged = times(project, "judged") - 26
    assert judged == 3
    assert "not graded: the budget of the run is spent (0.025 USD)" in " ".join(ran.text.split())
    query = "SELECT count(*), sum(cost_usd) FROM anchor_scores WHERE value IS NULL"
    assert project.ask(query) == [(18, 0)]


def test_a_plan_has_what_the_anchors_cost(project: CliProject) -> None:
    assert (
        "anchors, after the sweep: 6 grades, cost $0.0600, as last time" in project("plan", "--sweep", "nightly").text
    )
    assert "anchors" not in project("plan", "--sweep", "plain").text
    project.edit("eval-pipeline.yaml", "plain: {", "other: {suites: [asked], anchors: {size: 4}}\n  plain: {")
    expected = "to be chosen: up to 4 of each suite, each graded 3 times by each grader"
    assert expected in " ".join(project("plan", "--sweep", "other").text.split())


def with_notice(project: CliProject) -> None:
    ends = ", gate: {min_pass_rate: 0.01}, notify: {on: [always], command: [sh, -c, 'cat > told.json']}}\n"
    project.edit("eval-pipeline.yaml", "base: 3}}\n", "base: 3}" + ends)


def test_an_anchor_whose_case_no_grader_can_grade_any_more_is_reported_and_the_sweep_ends(project: CliProject) -> None:
    ((case,),) = project.ask("SELECT min(case_id) FROM anchor_scores")
    strict = "assertions: [{name: strict, type: llm-grader, prompt: 'Is it fair?', temperature: 0.2}]"
    project.edit("suites/asked.yaml", f"input: question {case[1:]}}}", f"input: question {case[1:]}, {strict}}}")
    with_notice(project)

    ran = project("run", "--sweep", "nightly")

    text = " ".join(ran.text.split())
    assert f"1 anchor is not graded: case '{case}' of asked cannot be graded: " in text
    assert "anchors: 5 grades" in text
    assert "GO gate of sweep nightly" in text
    assert json.loads((project.root / "told.json").read_text())["decision"] == "GO"


def test_a_sweep_ends_though_grades_of_its_anchors_cannot_be_stored(
    project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise WarehouseError("no room")

    with_notice(project)
    monkeypatch.setattr("eval_pipeline.sweeps.judging.store_anchor_scores", refuse)

    ran = project("run", "--sweep", "nightly")

    assert "anchors are not graded: no room" in ran.err
    notice = json.loads((project.root / "told.json").read_text())
    assert (notice["decision"], notice["judge_drift"]) == ("GO", ["anchors are not graded: no room"])


def test_names_of_anchors_that_no_suite_has_are_warned_of(project: CliProject) -> None:
    project.edit("eval-pipeline.yaml", "base: 3}", "base: 3, cases: [c1, case2], evaluators: [fairr, says]}")

    text = " ".join(project("plan", "--sweep", "nightly").text.split())

    assert "sweeps.nightly.anchors.cases: no suite of the sweep has the case 'case2'" in text
    assert "anchors.evaluators: no suite of the sweep has the evaluator 'fairr'; did you mean 'fair'?" in text
    assert "'c1'" not in text
    assert "'says'" not in text


UNGRADED = "name: plain\nassertions:\n  - {type: contains, value: has}\ntests:\n" + TESTS


def test_answers_are_read_only_of_suites_that_need_anchors(
    project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []

    def read_candidates(warehouse: Any, pairs: Any, *rest: Any) -> Any:
        read.append([pair.suite for pair in pairs])
        return candidates(warehouse, pairs, *rest)

    monkeypatch.setattr(judging, "candidates", read_candidates)
    project.write("suites/plain.yaml", UNGRADED)
    project.write("suites/later.yaml", SUITE.replace("name: asked", "name: later"))
    project.edit("eval-pipeline.yaml", "nightly: {suites: [asked]", "nightly: {suites: [asked, plain, later]")

    project("run", "--sweep", "nightly", "--quiet")
    project("run", "--sweep", "nightly", "--quiet")

    assert read == [["later"]]
    frozen = project.ask("SELECT suite, count(DISTINCT execution_id) FROM anchor_scores GROUP BY suite ORDER BY suite")
    assert frozen == [("asked", 6), ("later", 6)]


class Killed(BaseException):
    """Ends a judging."""


Grading = Callable[..., Awaitable[Score]]


def graded_with(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], object]) -> None:
    """Call `before` with the number of the grade, from 1, before each; two at once."""
    numbers = itertools.count(1)
    real: Grading = judging._AnchorGraders._grade

    async def grade(graders: Any, *arguments: Any) -> Score:
        before(next(numbers))
        return await real(graders, *arguments)

    monkeypatch.setattr(judging._AnchorGraders, "_grade", grade)
    monkeypatch.setattr(judging, "GRADED_AT_ONCE", 2)


GRADED = "SELECT count(*), count(value), count(DISTINCT judging_id) FROM anchor_scores WHERE NOT base"


def test_grades_are_stored_while_others_are_made(project: CliProject, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ProjectSession(load_project(project.root))
    stored: list[int] = []

    def look(number: int) -> None:
        stored.append(session.warehouse.frame(GRADED).row(0)[0])
        if number == 6:
            raise Killed

    graded_with(monkeypatch, look)

    with pytest.raises(Killed):
        judging.judge_anchors(session, "nightly")

    assert stored[0] == 0
    assert stored[-1] >= 2
    ((rows, values, ids),) = project.ask(GRADED)
    assert (rows, ids) == (values, 1)
    assert rows >= 4


def test_an_answer_whose_grading_raises_has_no_grade_and_the_others_have(
    project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        if number == 2:
            raise OSError("no space")

    graded_with(monkeypatch, fail)

    judged = judging.judge_anchors(ProjectSession(load_project(project.root)), "nightly")

    assert judged == judging.Judging(grades=5, base=0, gone={"OSError: no space": 1})
    assert project.ask(GRADED) == [(6, 5, 1)]
    assert project.ask("SELECT anchors, left_out FROM judge_drift") == [(5, 1)]


def test_a_requested_stop_ends_a_judging_and_keeps_its_grades(
    project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ProjectSession(load_project(project.root))
    graded_with(monkeypatch, lambda number: session.stop.request() if number == 2 else None)

    judged = judging.judge_anchors(session, "nightly", choose_anew=True)

    assert judged == judging.Judging(grades=2, base=2, gone={"a stop was requested": 6})
    again = judging.judge_anchors(ProjectSession(load_project(project.root)), "nightly")
    assert again == judging.Judging(grades=16, base=16, gone={})  # the same anchors get what is missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("drift", "nightli"), "no sweep 'nightli'; there are: nightly, plain"),
        (("drift", "--judge"), "--judge needs the name of a sweep"),
        (("drift", "plain", "--judge"), "the sweep 'plain' has no anchors"),
    ],
)
def test_a_sweep_without_anchors_is_said(project: CliProject, arguments: tuple[str, ...], message: str) -> None:
    answer = project(*arguments)

    assert answer.code == 2
    assert message in answer.err
