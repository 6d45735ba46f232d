"""Several graders, several votes: one value of many, each of them kept as a member."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from eval_pipeline.scores.grader_client import FakeGraderClient, GraderFailure, GraderReply
from eval_pipeline.scores.model import Score
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report


@dataclass(slots=True)
class PanelDesk(FakeGraderClient):
    """Each grader says one score (None: it cannot be reached, a text: it says that), whichever is asked first."""

    says: dict[str, float | str | None] = field(default_factory=dict)
    samples: list[tuple[str | None, int]] = field(default_factory=list)

    async def complete(
        self, messages: Any, *, grader: Any = None, settings: Any = None, sample: int = 0
    ) -> GraderReply:
        self.samples.append((grader, sample))
        message = self.says[grader]
        if message is None:
            raise GraderFailure(f"{grader} is away", "connection")
        return GraderReply(text=message if isinstance(message, str) else f'{{"score": {message}}}', grader=grader)


def panel(says: dict[str, float | str | None], mark: float = 0.8, **config: Any) -> tuple[Score, PanelDesk]:
    client, spec = PanelDesk(says=says), an_evaluator("llm-grader", graders=list(says), **config)
    return graded(spec, a_report("four"), client=client, threshold=mark), client


PASSED = '{"pass": true, "score": 0.7}'
VOTES = [
    pytest.param("mean", {"a": 1.0, "b": 0.9, "c": 0.2}, 0.7, "mean of a 1, b 0.9, c 0.2", id="mean"),
    pytest.param("median", {"a": 1.0, "b": 0.9, "c": 0.2}, 0.9, "median of a 1, b 0.9, c 0.2", id="median"),
    pytest.param("majority", {"a": 1.0, "b": 0.9, "c": 0.2}, 0.95, "majority 2 of 3 for pass, its mean", id="pass"),
    pytest.param("majority", {"a": 0.1, "b": 0.9, "c": 0.3}, 0.2, "majority 2 of 3 for fail, its mean", id="fail"),
    pytest.param("majority", {"a": 1.0, "b": 0.2}, 0.6, "tie 1 : 1, mean of a 1, b 0.2", id="tie"),
    pytest.param("majority", {"a": PASSED, "b": 0.5, "c": 0.8}, 0.75, "majority 2 of 3 for pass", id="own-word"),
]


@pytest.mark.parametrize(("vote", "says", "value", "reason"), VOTES)
def test_several_graders_make_one_value(
    vote: str, says: dict[str, float | str | None], value: float, reason: str
) -> None:
    score, _ = panel(says, vote=vote)

    assert score.value == pytest.approx(value)
    assert score.reason.startswith(reason)
    assert score.details["vote"] == vote


def test_every_grader_is_a_member_with_its_own_words() -> None:
    score, _ = panel({"a": 1.0, "b": 0.5})

    assert [(item.name, item.grader, item.value, item.type) for item in score.members] == [
        ("a", "a", 1.0, "llm-grader"),
        ("b", "b", 0.5, "llm-grader"),
    ]
    assert [item.details["reply"] for item in score.members] == ['{"score": 1.0}', '{"score": 0.5}']
    assert score.details["prompt"][0]["role"] == "system"
    assert [(finding.text, finding.passed) for finding in score.findings] == [
        ("a scores 1", True),
        ("b scores 0.5", False),
    ]


def test_votes_of_one_grader_are_samples_of_their_own() -> None:
    score, client = panel({"a": 1.0}, votes=3)

    assert [item.name for item in score.members] == ["a", "a #2", "a #3"]
    assert sorted(client.samples) == [("a", 0), ("a", 3), ("a", 6)]


def test_votes_of_the_default_grader_are_called_by_its_name() -> None:
    score = graded(an_evaluator("llm-grader", votes=2), a_report("x"), client=FakeGraderClient(['{"score": 1}'] * 2))

    assert [(item.name, item.grader) for item in score.members] == [
        ("scripted", "scripted"),
        ("scripted #2", "scripted"),
    ]


def test_a_single_opinion_has_no_members() -> None:
    score, _ = panel({"a": 1.0})

    assert (score.value, score.members) == (1.0, ())


def test_a_grader_that_could_not_tell_is_left_out_and_that_is_said() -> None:
    score, _ = panel({"a": 1.0, "b": None, "c": "no idea", "d": 0.5})

    assert score.value == 0.75
    assert "left out: b: b is away; c: the grader's reply could not be read after 4 tries" in score.reason
    assert [item.value for item in score.members] == [1.0, None, None, 0.5]


def test_too_few_who_can_tell_leave_the_score_open() -> None:
    score, _ = panel({"a": 1.0, "b": None, "c": None})

    assert score.value is None
    assert score.reason == "1 of 3 graders returned a score; b: b is away; c: c is away"
    assert [item.value for item in score.members] == [1.0, None, None]


def test_when_no_grader_can_be_reached_the_failure_is_the_scores() -> None:
    score, _ = panel({"a": None, "b": None})

    assert (score.value, score.reason, score.details["failure_class"]) == (None, "a is away", "connection")


def test_a_gate_fails_when_most_graders_say_so() -> None:
    unmet, met = (
        f'{{"checks": [{{"id": "rubric-1", "satisfied": {message}}}, {{"id": "rubric-2", "satisfied": true}}]}}'
        for message in ("false", "true")
    )

    mostly, _ = panel({"a": unmet, "b": unmet, "c": met}, rubrics=["x", "y"])
    rarely, _ = panel({"a": unmet, "b": met, "c": met}, rubrics=["x", "y"])

    assert (mostly.passes, rarely.passes) == (False, None)


def test_a_majority_counts_the_votes_that_reach_the_threshold_of_the_suite() -> None:
    says: dict[str, float | str | None] = {"a": 0.7, "b": 0.6, "c": 0.2}

    values = [panel(says, mark, vote="majority")[0].value for mark in (0.5, 0.8)]
    own = panel(says, 0.8, vote="majority", threshold=0.5)[0].value

    assert [*values, own] == pytest.approx([0.65, 0.5, 0.65])
