"""AgentV's rows about graders that ask a model: the recorded replies are played back, ours has to read them alike."""

from __future__ import annotations

import asyncio
import copy
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import EvaluatorSet, evaluate_with
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.conformance.agentv_rows import PASS_MARK, agrees, answer_of, asked_test, verdict_of
from eval_pipeline_tests.conformance.old_differences import Difference
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.local_server import Received, Reply, json_reply, serve

GRADER_KINDS = frozenset({
    "llm-grader", "llm-rubric", "agent-rubric", "rubrics", "trajectory:goal-success", "similar",
})  # fmt: skip
Record = Callable[[str, object], None]


@dataclass(slots=True)
class PlayedBack(FakeGraderClient):
    """A desk whose last reply is given again and again: a row records as many as the reference asked for."""

    last: list[str] = field(default_factory=list)

    async def complete(self, *args: Any, **named: Any) -> Any:
        self.last = self.replies[:1] or self.last
        self.replies = self.replies or list(self.last)
        return await FakeGraderClient.complete(self, *args, **named)


def check_grader(row: Row, record: Record) -> None:
    """Whether we say of a row what AgentV says; where we deliberately do not, our own answer is checked."""
    if row.kind == "similar":
        _similar(row)
        return
    _skip_what_is_not_recorded(row)
    difference = next((one for one in GRADER_DIFFERENCES if one.concerns(row)), None)
    if difference is not None:
        record("difference", difference.name)
        difference.check(row)
        return
    _same(graded(row), row)


def _similar(row: Row) -> None:
    """Equal texts have equal embeddings, whoever makes them; of others the row does not say what theirs were."""
    if row.data["config"].get("value") != row.data.get("output"):
        pytest.skip("the row does not hold the embeddings that its score comes from")
    with serve(_equal_embeddings) as server:
        test = copy.deepcopy(_test(row))
        test["assertions"][0]["config"]["embedding_provider"]["base_url"] = server.url
        _same(graded(row, test), row)


def _equal_embeddings(request: Received) -> Reply:
    texts = request.json["input"]
    return json_reply({"data": [{"index": at, "embedding": [len(text), 1.0]} for at, text in enumerate(texts)]})


def graded(row: Row, test: Mapping[str, Any] | None = None) -> Score:
    """The score of the only evaluator of a row's test, loaded by the public loader, its replies played back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.eval.json"
        path.write_text(json.dumps({"tests": [test or _test(row)]}), "utf-8")
        suite = load_suite(path, LoadOptions({}))
        panel = EvaluatorSet(suite)
        errors = [*suite.errors, *panel.check().values()]
        if errors:
            raise errors[0]
        (case,) = suite.cases
        subject = Subject(case, answer_of(row).report(), Path(folder))
        (score,) = asyncio.run(evaluate_with(PlayedBack(replies=_replies(row)), subject, panel.of(case)))
    return score


def _same(score: Score, row: Row) -> None:
    asserted = row.data["asserted"]
    assert agrees(score.value, row) or not {"score", "score_bounds"} & set(asserted), score.reason
    said = {True: "pass", False: "fail", None: "skip"}[score.passed(PASS_MARK)]
    assert said == row.data.get("verdict") or "verdict" not in asserted, score.reason
    observed = row.data.get("observed_passed")
    if score.findings and observed:
        assert [finding.passed for finding in score.findings] == observed


def _test(row: Row) -> dict[str, Any]:
    """The row's test; criteria are recorded beside it."""
    return {**asked_test(row), "criteria": row.data.get("criteria") or "as recorded"}


def _replies(row: Row) -> list[str]:
    return [reply for turn in row.data.get("grader_responses") or () for reply in turn]


def _skip_what_is_not_recorded(row: Row) -> None:
    """Rows that leave out what their number comes from cannot be carried out by anybody."""
    if not row.data.get("grader_responses"):
        pytest.skip("the row does not hold the grader's reply")
    said = [_object(reply) for reply in _replies(row)]
    if row.data.get("workspace_path") and not any(said):
        pytest.skip("the row does not hold the file that the grader wrote its verdict to")
    if row.data.get("verdict") == "fail" and any(one.get("pass") is True for one in said):
        pytest.skip("the row does not hold the threshold that its verdict comes from")


def _object(reply: str) -> Mapping[str, Any]:
    try:
        document = json.loads(reply)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _ranges_with_a_gap(row: Row) -> bool:
    """Whether the bands of a criterion leave out scores: AgentV's loader refuses that, its evaluator takes it."""
    rubrics = row.data["config"].get("rubrics") or row.data["config"].get("criteria") or ()
    return any(
        sum(high - low + 1 for low, high in (band["score_range"] for band in one["score_ranges"])) != 11
        for one in rubrics
        if isinstance(one, dict) and isinstance(one.get("score_ranges"), list)
    )


def _refused(row: Row) -> None:
    with pytest.raises(InputError, match=r"score_ranges: they (leave a gap|overlap|end)"):
        graded(row)


def _unscored(row: Row) -> None:
    score = graded(row)

    assert (score.value, verdict_of(score.value)) == (None, "skip")
    assert "could not be read" in score.reason
    assert score.details["reply"] == _replies(row)[-1]


GRADER_DIFFERENCES = (
    Difference(
        "score-ranges-with-a-gap",
        "agentv",
        _ranges_with_a_gap,
        "AgentV's loader refuses bands that leave out scores, its evaluator takes them when it is called directly; "
        "with us a suite cannot get past the check.",
        _refused,
    ),
    Difference(
        "unreadable-is-unscored",
        "agentv",
        lambda row: row.data.get("verdict") == "skip",
        "A reply that stays unreadable is 0 with the verdict skip in AgentV; unknown is not zero here.",
        _unscored,
    ),
)
