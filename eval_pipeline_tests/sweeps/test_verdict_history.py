"""Why verdicts become others, what does not score anew, and what graders cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.sweep import run_recorded
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.carried_out_once import carried_out_once
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project

Change = Callable[[ProjectFolder], object]
JUDGE = """
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def judge(prompt, value=0.9):
    with (HERE / "judged.txt").open("a") as log:
        log.write("asked\\n")
    key = prompt.split('"key": "')[1].split('"')[0]
    reply = {"output": json.dumps({"key": key, "score": value, "reason": "so"})}
    return reply if "free" in prompt else {**reply, "cost_usd": 0.5}
"""
GRADED = {"type": "llm-grader", "name": "judge"}
LOW = {"threshold": 0.5}
TWO = contains("2", name="two")
HALF = (TWO, contains("9", name="nine"))
CAUSES = "SELECT cause, evaluators, from_status, to_status FROM verdict_causes"


def judge_entry(value: float = 0.9) -> dict[str, Any]:
    function = {"function": "judge:judge", "arguments": {"value": value}, "isolation": "in-process"}
    return {"name": "judge", "adapter": "python", **function, "model": f"model-{value}", "retries": 0}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    (made.root / "judge.py").write_text(JUDGE)
    made.write_runners(a_runner_entry(), judge_entry())
    made.write_suite(a_test("a", *HALF), execution=LOW)
    return made


def graded(folder: ProjectFolder, **fields: Any) -> None:
    folder.write_suite(a_test("a", TWO, GRADED | fields))


def sweep(folder: ProjectFolder, **options: Any) -> tuple[int, int, int]:
    """Executed, rescored and updated plans of the runner."""
    counts = folder.sweep(grader="judge", **options)
    return counts.executed, counts.rescored, counts.updated


def begin(folder: ProjectFolder) -> None:
    """The first sweep of a test, which is about a later one."""
    folder.sweep_once(grader="judge")


def judged(folder: ProjectFolder) -> int:
    log = folder.root / "judged.txt"
    return len(log.read_text().split()) if log.exists() else 0


EDITS: dict[str, tuple[Change, dict[str, Any], tuple[str, str | None]]] = {
    "case": (lambda folder: folder.write_suite(a_test("a", *HALF, text="no"), execution=LOW), {},
             ("case", None)),
    "runner": (lambda folder: folder.write_runners(a_runner_entry(model="m"), judge_entry()), {}, ("runner", None)),
    "answer": (lambda folder: None, {"refresh": "all"}, ("new answer", None)),
    "evaluator": (
        lambda folder: folder.write_suite(a_test("a", contains("8", name="two"), HALF[1]), execution=LOW),
        {}, ("evaluator", "two"),
    ),
    "the-only-evaluator-without-a-name": (
        lambda folder: folder.write_suite(a_test("a", {"type": "contains", "value": "8"}), execution=LOW),
        {"begun_with": ({"type": "contains", "value": "2"},)}, ("evaluator", "contains-2, contains-8"),
    ),
    "weight": (
        lambda folder: folder.write_suite(a_test("a", HALF[0], HALF[1] | {"weight": 3}), execution=LOW),
        {}, ("evaluator", "nine"),
    ),
    "threshold": (lambda folder: folder.write_suite(a_test("a", *HALF), execution={"threshold": 0.9}), {},
                  ("threshold", None)),
    "threshold-and-evaluator": (
        lambda folder: folder.write_suite(a_test("a", HALF[0], contains("8", name="x")), execution={"threshold": 0.9}),
        {}, ("evaluator, threshold", "nine, x"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "options", "expected"), EDITS.values(), ids=EDITS)
def test_a_changed_verdict_names_its_cause(
    folder: ProjectFolder, edit: Change, options: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    folder.write_suite(a_test("a", *options.get("begun_with", HALF)), execution=LOW)
    begin(folder)
    edit(folder)
    folder.write_answers(a="no")

    sweep(folder, **{name: value for name, value in options.items() if name != "begun_with"})

    ((cause, evaluators, *statuses),) = folder.ask(CAUSES)
    assert (cause, ", ".join(sorted((evaluators or "").split(", "))) or None) == expected
    assert statuses == ["passed", "failed"]


def test_another_model_of_a_grader_is_the_cause_of_another_verdict(folder: ProjectFolder) -> None:
    graded(folder)
    begin(folder)
    folder.write_runners(a_runner_entry(), judge_entry(0.1))

    assert sweep(folder) == (0, 1, 0)

    assert folder.ask(CAUSES) == [("grader", "judge", "passed", "failed")]
    models = folder.ask("SELECT graders->>'$[0].model' FROM evaluator_specs WHERE type = 'llm-grader' ORDER BY used_at")
    assert models == [("model-0.9",), ("model-0.1",)]


def test_a_verdict_that_stays_the_same_is_no_change(folder: ProjectFolder) -> None:
    begin(folder)
    sweep(folder)
    sweep(folder, refresh="all")

    assert folder.ask("SELECT * FROM verdict_changes") == []


RELABELED: dict[str, Callable[[ProjectFolder], None]] = {
    "weight": lambda folder: graded(folder, weight=3),
    "name": lambda folder: graded(folder, name="another"),
    "gate": lambda folder: graded(folder, required=0.2),
    "order": lambda folder: folder.write_suite(a_test("a", GRADED, TWO)),
    "threshold-of-the-suite": lambda folder: folder.write_suite(a_test("a", TWO, GRADED), execution=LOW),
}


@pytest.mark.parametrize("edit", RELABELED.values(), ids=RELABELED)
def test_names_weights_gates_and_thresholds_score_nothing_anew(
    folder: ProjectFolder, edit: Callable[[ProjectFolder], None]
) -> None:
    graded(folder)
    begin(folder)
    edit(folder)

    assert sweep(folder) == (0, 0, 1)

    assert judged(folder) == 1
    assert sweep(folder) == (0, 0, 0)


def test_a_new_weight_is_in_the_verdict_and_its_score(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", *HALF), execution=LOW)
    begin(folder)
    folder.write_suite(a_test("a", HALF[0], HALF[1] | {"weight": 3}), execution=LOW)

    sweep(folder)

    assert folder.ask("SELECT score FROM current_verdicts") == [(0.25,)]
    assert folder.ask("SELECT evaluator, weight FROM current_scores ORDER BY 1") == [("nine", 3.0), ("two", 1.0)]


@pytest.mark.parametrize(
    ("text", "evaluator", "cost"),
    [("2 apples", GRADED, 0.5), ("2 free apples", GRADED, None), ("2 apples", contains("2"), 0.0)],
    ids=["known", "unknown", "no-grader"],
)
def test_what_graders_cost_has_a_column_of_its_own(
    folder: ProjectFolder, text: str, evaluator: dict[str, Any], cost: float | None
) -> None:
    folder.write_suite(a_test("a", evaluator, text=text))
    sweep(folder)
    folder.session().store.update_leaderboards()

    tables = ("current_scores", "current_verdicts", "pair_statistics", "leaderboard", "leaderboard_overall")
    costs = {table: folder.ask(f"SELECT grading_cost_usd FROM {table}") for table in tables}
    assert costs == {table: [(cost,)] for table in tables}
    assert folder.ask("SELECT cost_usd, grading_cost_usd FROM cost_by_runner") == [(None, cost)]


def test_a_stored_reply_costs_nothing_again(folder: ProjectFolder) -> None:
    graded(folder)
    sweep(folder)
    graded(folder, weight=2)
    sweep(folder)

    assert folder.ask("SELECT grading_cost_usd FROM cost_by_runner") == [(0.5,)]
    assert folder.ask("SELECT grading_cost_usd FROM current_verdicts") == [(0.5,)]


PLANNED: dict[str, tuple[Change, dict[str, int], dict[str, int]]] = {
    "argument": (
        lambda folder: folder.write_suite(a_test("a", contains("3", name="two"), GRADED)),
        {"changed evaluator 'two' (arguments)": 1}, {},
    ),
    "grader": (
        lambda folder: folder.write_runners(a_runner_entry(), judge_entry(0.1)),
        {"changed evaluator 'judge' (grader)": 1}, {},
    ),
    "criteria": (
        lambda folder: folder.write_suite(a_test("a", TWO, GRADED, criteria="Be kind")),
        {"changed evaluator 'judge' (fields of the case that it reads)": 1}, {},
    ),
    "added-and-left-out": (
        lambda folder: folder.write_suite(a_test("a", GRADED, {"type": "equals", "name": "same", "value": "2"})),
        {"new evaluator 'same', evaluator 'two' left out": 1}, {},
    ),
    "weight": (lambda folder: graded(folder, weight=3), {}, {"changed evaluator 'judge' (weight)": 1}),
    "name": (lambda folder: graded(folder, name="jury"), {}, {"changed evaluator 'jury' (name)": 1}),
    "threshold": (
        lambda folder: folder.write_suite(a_test("a", TWO, GRADED), execution=LOW),
        {}, {"changed threshold": 1},
    ),
    "tags": (
        lambda folder: folder.write_suite(a_test("a", TWO, GRADED, tags=["t"])),
        {}, {"changed tags": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "again", "updated"), PLANNED.values(), ids=PLANNED)
def test_a_plan_says_why_answers_are_scored_again_and_why_verdicts_are_updated(
    folder: ProjectFolder, edit: Change, again: dict[str, int], updated: dict[str, int]
) -> None:
    graded(folder)
    begin(folder)
    edit(folder)

    (plan,) = plan_sweep(folder.session(), [PairKey("sums", "echo")], SweepOptions(grader="judge"))

    assert (plan.rescore_reasons, plan.update_reasons) == (again, updated)


# What is older than what is stored, or incomplete


def test_pairs_are_listed_with_why_they_are_stale(folder: ProjectFolder) -> None:
    def stale() -> list[tuple[Any, ...]]:
        return folder.ask("SELECT suite, runner, reason, plans FROM stale_pairs")

    folder.write_suite(a_test("a"), a_test("b"))
    folder.write_answers(a="crash")
    folder.sweep_once(budget_calls=1)
    assert sorted(stale()) == [("sums", "echo", "did not complete", 1), ("sums", "echo", "not carried out", 1)]

    folder.write_answers()
    folder.sweep()
    assert stale() == []

    folder.write_suite(a_test("a"), a_test("b"), a_test("c"))
    folder.session().store.store_suites(folder.session().load_suites())
    assert stale() == [("sums", "echo", "suite", 2)]

    folder.sweep()
    folder.write_suite(a_test("a"), name="more")
    folder.write_runners(a_runner_entry(model="other"), judge_entry())
    session = folder.session()
    run_recorded(session, session.pairs([PairKey("more", "echo")]), SweepOptions(), None, SweepObserver())
    assert stale() == [("sums", "echo", "runner", 3)]


MEMBER = {"type": "composite", "name": "all", "assertions": [TWO], "aggregator": {"type": "weighted_average"}}
SCORED: tuple[tuple[dict[str, Any], ...], ...] = ((TWO, GRADED), (TWO, MEMBER), (TWO,))
"""The evaluators of the suite: with a grader, with a composite of none, and plain ones."""
BY_GRADER, BY_MEMBERS, PLAIN = SCORED
TEXTS: dict[str, Any] = {"criteria": "short", "expected_output": "2", "metadata": {"level": "low"}}
NEEDS: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], dict[str, Any], str | None]] = {
    "criteria": (BY_GRADER, {}, {"tests": [a_test("a", *BY_GRADER, **TEXTS | {"criteria": "long"})]}, "graders"),
    "reference": (BY_GRADER, {}, {"tests": [a_test("a", *BY_GRADER, **TEXTS | {"expected_output": "3"})]}, "graders"),
    "metadata": (
        BY_GRADER, {}, {"tests": [a_test("a", *BY_GRADER, **TEXTS | {"metadata": {"level": "high"}})]}, "graders",
    ),
    "text-beside-a-grader": (
        BY_GRADER, {}, {"tests": [a_test("a", contains("3", name="two"), GRADED, **TEXTS)]}, "nothing",
    ),
    "criteria-of-no-grader": (PLAIN, {}, {"tests": [a_test("a", *PLAIN, **TEXTS | {"criteria": "long"})]}, "nothing"),
    "grader-in-a-composite": (
        BY_MEMBERS, {},
        {"tests": [a_test("a", TWO, MEMBER | {"assertions": [TWO, GRADED]}, **TEXTS)]}, None,
    ),
    "text-in-a-composite": (
        BY_MEMBERS, {},
        {"tests": [a_test("a", TWO, MEMBER | {"assertions": [contains("3")]}, **TEXTS)]}, "nothing",
    ),
    "criterion-in-a-composite": (
        BY_MEMBERS, {}, {"tests": [a_test("a", TWO, MEMBER | {"assertions": [TWO, "Is it so?"]}, **TEXTS)]}, None,
    ),
    "max-steps": (PLAIN, {}, {"tests": [a_test("a", *PLAIN, **TEXTS, max_steps=3)]}, "executions"),
    "more-repetitions": (
        PLAIN, {"execution": {"trials": 2}},
        {"tests": [a_test("a", *PLAIN, **TEXTS)], "execution": {"trials": 3}}, "executions",
    ),
    "more-repetitions-than-the-usual": (
        PLAIN, {}, {"tests": [a_test("a", *PLAIN, **TEXTS)], "execution": {"trials": 2}}, "executions",
    ),
    "fewer-repetitions": (
        PLAIN, {"execution": {"trials": 3}},
        {"tests": [a_test("a", *PLAIN, **TEXTS)], "execution": {"trials": 2}}, "nothing",
    ),
}  # fmt: skip


def load(folder: ProjectFolder) -> None:
    """Read the suites, as a command does."""
    session = folder.session()
    session.store.store_suites(session.load_suites())


def load_and_sweep(folder: ProjectFolder) -> None:
    load(folder)
    sweep(folder)


@pytest.mark.parametrize(("scored", "settings", "edited", "needs"), NEEDS.values(), ids=NEEDS)
def test_stale_pairs_need_what_their_edit_costs(
    folder: ProjectFolder,
    scored: tuple[dict[str, Any], ...],
    settings: dict[str, Any],
    edited: dict[str, Any],
    needs: str | None,
) -> None:
    folder.write_suite(a_test("a", *scored, **TEXTS), **settings)
    carried_out_once(folder.root, "load and sweep", lambda: load_and_sweep(folder))

    folder.write_suite(*edited["tests"], **{name: value for name, value in edited.items() if name != "tests"})
    load(folder)

    assert folder.ask("SELECT reason, needs FROM stale_pairs") == [("suite", needs)]


def test_a_field_that_moves_into_the_place_of_another_is_an_edit(folder: ProjectFolder) -> None:
    load(folder)
    folder.sweep()
    folder.write_suite(a_test("a", *HALF), execution=LOW, description="edited")
    load(folder)
    before = folder.ask("SELECT needs FROM stale_pairs")
    with folder.session().warehouse.transaction() as connection:
        newest = "(SELECT arg_max(suite_revision, loaded_at) FROM suites)"
        of_old, of_new = f"suite_revision <> {newest}", f"suite_revision = {newest}"
        connection.execute(f"UPDATE cases SET conversation = '[]', workspace = NULL WHERE {of_old}")
        connection.execute(f"UPDATE cases SET conversation = NULL, workspace = '[]' WHERE {of_new}")

    assert before == [("nothing",)]
    assert folder.ask("SELECT needs FROM stale_pairs") == [("executions",)]


def test_an_estimate_without_the_cost_of_gradings_is_unknown(folder: ProjectFolder) -> None:
    def cost(**options: Any) -> float | None:
        (plan,) = plan_sweep(folder.session(), [PairKey("sums", "echo")], SweepOptions(grader="judge", **options))
        return plan.estimate.cost_usd

    answer = {"output": "2", "cost_usd": 0.2}
    folder.write_answers(a=answer, b=answer, c=answer)
    folder.write_suite(a_test("a", TWO))
    folder.sweep(grader="judge")
    folder.write_suite(a_test("a", TWO), a_test("b", TWO, GRADED))
    never_graded = cost()
    folder.sweep(grader="judge")
    folder.write_suite(a_test("a", TWO, GRADED), a_test("b", TWO, GRADED), a_test("c", TWO))

    assert never_graded is None
    assert cost() is None  # one is executed, and another one graded
    folder.sweep(grader="judge")
    assert cost(refresh="all") is not None
