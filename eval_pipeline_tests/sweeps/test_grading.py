"""Which runner grades, how often it is asked, and what becomes of a grader that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.model import RetryPolicy, Runner
from eval_pipeline.scores.grader_client import GraderFailure, GraderReply
from eval_pipeline.suites.model import EvaluatorSpec, Message, Suite
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair, validate_suite
from eval_pipeline.sweeps.preflight import graders_of
from eval_pipeline.warehouse.replies import Replies
from eval_pipeline_tests.builders import a_case, a_runner, a_suite

JUDGE = """
from pathlib import Path

def answer(prompt, temperature=None):
    with Path(__file__).with_name("asked.log").open("a") as log:
        log.write(prompt + "\\n")
    if "break" in prompt:
        raise RuntimeError("no opinion")
    return "" if "mute" in prompt else f"heard {prompt}"
"""


@pytest.fixture
def judge(tmp_path: Path) -> Runner:
    (tmp_path / "judge.py").write_text(JUDGE)
    return a_runner(
        "judge",
        "python",
        settings={"function": "judge:answer"},
        folder=tmp_path,
        retries=RetryPolicy(max_retries=0),
    )


def graders(folder: Path, *runners: Runner, forced: str | None = None, default: str | None = None) -> Graders:
    by_name = {runner.name: runner for runner in runners}

    def named(name: str, place: Path | None) -> Runner:
        if name not in by_name:
            raise UnknownName("runner", name, by_name)
        return by_name[name]

    return Graders(named=named, replies=Replies(folder), folder=folder / "files", forced=forced, default=default)


def replies(at_work: Graders, runner: Runner, questions: Sequence[str], sample: int = 0) -> list[GraderReply]:
    """The replies to questions asked all at once."""

    async def main() -> list[GraderReply]:
        client = at_work.client(runner)
        completions = (client.complete([Message(role="user", content=text)], sample=sample) for text in questions)
        try:
            return list(await asyncio.gather(*completions))
        finally:
            await at_work.close()

    return asyncio.run(main())


def requests_of(judge: Runner) -> list[str]:
    return (judge.folder / "asked.log").read_text().splitlines()


@pytest.mark.parametrize(
    ("own", "said", "forced", "default", "chosen"),
    [
        pytest.param(None, None, None, "c", "c", id="the project's"),
        pytest.param("b", None, None, "c", "b", id="the runner's own"),
        pytest.param("b", "a", None, "c", "a", id="the evaluator's"),
        pytest.param("b", "a", "d", "c", "d", id="the command line's"),
    ],
)
def test_the_grader_is_the_one_named_nearest(
    tmp_path: Path, own: str | None, said: str | None, forced: str | None, default: str | None, chosen: str
) -> None:
    at_work = graders(tmp_path, *map(a_runner, "abcd"), forced=forced, default=default)

    assert at_work.choose(a_runner("target", "command", grader=own), said).name == chosen


def test_a_model_grades_itself_where_nobody_is_named_and_an_agent_does_not(tmp_path: Path) -> None:
    at_work = graders(tmp_path)

    assert at_work.choose(a_runner("model", "chat"), None).name == "model"
    with pytest.raises(InputError, match="needs a grader for the answers of 'agent'"):
        at_work.choose(a_runner("agent", "command"), None)


def a_pair(suite: Suite, adapter: str) -> Pair:
    return Pair(ready=validate_suite(suite), runner=a_runner("model", adapter), revision="r")


def test_a_suite_that_nobody_can_grade_is_found_before_it_runs(tmp_path: Path) -> None:
    suite = a_suite(a_case(evaluators=(EvaluatorSpec(type="llm-grader", name="g", config={"target": "nobody"}),)))

    _, errors = graders_of(a_pair(suite, "chat"), graders(tmp_path, a_runner("judge")), SweepOptions())

    assert "no runner 'nobody'; there are: judge" in str(errors["c1"])
    assert graders_of(a_pair(a_suite(), "command"), graders(tmp_path), SweepOptions()) == ([], {})


def test_equal_questions_are_asked_once_and_kept(tmp_path: Path, judge: Runner) -> None:
    first = replies(graders(tmp_path, judge, default="judge"), judge, ["x", "x", "y"])
    later = replies(graders(tmp_path, judge, default="judge"), judge, ["x"])

    assert [reply.text for reply in (*first, *later)] == ["heard x", "heard x", "heard y", "heard x"]
    assert sorted(requests_of(judge)) == ["x", "y"]
    assert [reply.cached for reply in (*first, *later)] == [False, True, False, True]


def test_another_sample_is_asked_anew(tmp_path: Path, judge: Runner) -> None:
    at_work = graders(tmp_path, judge, default="judge")
    replies(at_work, judge, ["x"])
    replies(at_work, judge, ["x"], sample=1)

    assert requests_of(judge) == ["x", "x"]


def test_an_edited_grader_is_asked_anew(tmp_path: Path, judge: Runner) -> None:
    replies(graders(tmp_path, judge, default="judge"), judge, ["x"])
    edited = replace(judge, settings={**judge.settings, "model": "2"}, public_settings={**judge.settings, "model": "2"})
    replies(graders(tmp_path, edited, default="judge"), edited, ["x"])

    assert requests_of(judge) == ["x", "x"]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        pytest.param("break", "grader 'judge' failed: RuntimeError: no opinion", id="it fails"),
    ],
)
def test_a_grader_that_brings_nothing_is_a_failure_with_its_reason(
    tmp_path: Path, judge: Runner, question: str, said: str
) -> None:
    at_work = graders(tmp_path, judge, default="judge")

    with pytest.raises(GraderFailure, match=said):
        replies(at_work, judge, [question])
    with pytest.raises(GraderFailure, match=said):
        replies(at_work, judge, [question])
    assert requests_of(judge) == [question, question]  # what failed is not kept
