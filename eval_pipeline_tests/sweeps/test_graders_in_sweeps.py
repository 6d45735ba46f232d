"""Graders through whole sweeps: one that was down is asked again and the target is not, what they cost counts, and no
runner's secret is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

JUDGE = """
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def judge(prompt):
    with (HERE / "judged.txt").open("a") as log:
        log.write("asked\\n")
    if (HERE / "down").exists():
        raise RuntimeError("no line")
    if (HERE / "confused").exists():
        return "very good"
    key = prompt.split('"key": "')[1].split('"')[0]
    return {"output": json.dumps({"key": key, "score": 0.9, "reason": "good"}), "cost_usd": 0.6}
"""
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project", defaults={"grader": "judge"})
    (made.root / "judge.py").write_text(JUDGE)
    judge = {"name": "judge", "adapter": "python", "function": "judge:judge", "retries": 0}
    made.write_runners(a_runner_entry(concurrency=1), judge)
    return made


def graded(folder: ProjectFolder, *ids: str) -> None:
    folder.write_suite(*(a_test(id_, {"type": "llm-grader", "name": "judge"}) for id_ in ids))


def judged(folder: ProjectFolder) -> int:
    """How often the judge was asked since the last time this was asked."""
    log = folder.root / "judged.txt"
    count = len(log.read_text().split()) if log.exists() else 0
    log.unlink(missing_ok=True)
    return count


@pytest.mark.parametrize("refresh", ["missing", "failed"])
def test_a_grader_that_was_down_is_asked_again_and_the_target_is_not(folder: ProjectFolder, refresh: str) -> None:
    graded(folder, "a")
    defaults = folder.session().project.defaults
    (folder.root / "down").touch()
    assert folder.sweep(defaults=defaults).errored == 1
    folder.take_calls()
    (folder.root / "down").unlink()

    counts = folder.sweep(defaults=defaults, refresh=refresh)

    assert (counts.executed, counts.rescored, counts.passed) == (0, 1, 1)
    assert folder.take_calls() == []
    assert folder.ask("SELECT value FROM current_scores") == [(0.9,)]


def test_a_grader_whose_replies_could_not_be_read_is_asked_again_by_each_run(folder: ProjectFolder) -> None:
    graded(folder, "a")
    defaults = folder.session().project.defaults
    (folder.root / "confused").touch()
    asked = []
    for _ in range(2):
        folder.sweep(defaults=defaults)
        asked.append(judged(folder))
    (folder.root / "confused").unlink()

    counts = folder.sweep(defaults=defaults)

    assert (asked, judged(folder)) == ([4, 4], 1)
    assert (counts.executed, counts.rescored, counts.passed) == (0, 1, 1)


def test_what_was_graded_is_not_asked_again(folder: ProjectFolder) -> None:
    graded(folder, "a")
    defaults = folder.session().project.defaults
    folder.sweep_once(defaults=defaults)
    assert judged(folder) == 1

    assert folder.sweep(defaults=defaults).reused == 1
    assert judged(folder) == 0


def test_what_graders_cost_is_part_of_the_budget(folder: ProjectFolder) -> None:
    ids = [f"c{number}" for number in range(60)]
    graded(folder, *ids)
    folder.write_answers(**{id_: f"answer {id_}" for id_ in ids})

    folder.sweep_once(defaults=folder.session().project.defaults, budget_usd=1.0)

    assert len(folder.take_calls()) < 60  # what was begun is brought to its end
    ((left_out,),) = folder.ask("SELECT count(*) FROM current_verdicts WHERE failure_class = 'budget-exceeded'")
    assert left_out > 0


def test_a_cases_limit_counts_what_its_repetitions_have_cost_before(folder: ProjectFolder) -> None:
    folder.write_answers(a={"output": "2", "cost_usd": 0.4})
    folder.write_suite(a_test("a"), execution={"trials": {"count": 5, "cost_limit_usd": 0.8}})
    assert folder.sweep().executed == 2

    assert folder.sweep().executed == 0


def test_the_secret_of_a_fallback_is_not_stored(folder: ProjectFolder) -> None:
    leaks = "import os\n\n\ndef answer(prompt, api_key=None):\n    return f'2 with {api_key}'\n"
    (folder.root / "leaky.py").write_text(leaks)
    (folder.root / "broken.py").write_text("def answer(prompt, runner=None):\n    raise OSError('no line')\n")
    spare = {"name": "spare", "adapter": "python", "function": "leaky:answer", "arguments": {"api_key": KEY}}
    folder.write_runners(a_runner_entry() | {"function": "broken:answer", "fallbacks": ["spare"]}, spare)

    assert folder.sweep().passed == 2
    assert KEY.encode() not in folder.all_bytes()


def test_an_evaluator_that_cannot_be_used_in_mid_conversation_is_the_fault_of_its_cell_only(
    folder: ProjectFolder,
) -> None:
    turns = [
        {"input": "2", "assertions": [{"type": "code-grader", "command": ["python3", "gone.py"]}]},
        {"input": "3", "assertions": [{"type": "contains", "value": "3"}]},
    ]
    (folder.root / "suites" / "gone.py").write_text("print('{}')")
    folder.write_suite({"id": "talk", "mode": "conversation", "on_turn_failure": "stop", "input": "1", "turns": turns})

    assert folder.sweep(defaults=folder.session().project.defaults).planned == 1
