"""AgentV's rows about whole tests: a test with its evaluators, and an answer → scores, the test's score and status.

What a grader's model said is not in these rows, only the score that was made of it: graders are given a reply that says
so. What kept a test from a score is in `agentv_stops.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from eval_pipeline.scores.model import Score
from eval_pipeline_tests.conformance.agentv_rows import (
    Around,
    Carried,
    agrees,
    answer_of,
    asked_list,
    asked_test,
    assertions_key,
    assertions_of,
    carry_out,
    kind_of,
    verdict_of,
)
from eval_pipeline_tests.conformance.recorded_facts import Row

DEFAULT_GRADER = "llm-grader"
_GRADERS = frozenset({"llm-grader", "llm-rubric", "agent-rubric", "rubrics"})
_RESOLVED = frozenset({"resolvedPromptScript", "resolvedPromptPath", "prompt_path"})
_TOLD_BY_FILE = "by the words of a file"
_TOLD_BY_PROGRAM = "by the words of a program"
_FILES = {
    "prompt.txt": f"Judge {_TOLD_BY_FILE}: {{{{ output }}}}",
    "prompt.py": f"import json, sys\nprint('Judge {_TOLD_BY_PROGRAM}:', json.load(sys.stdin)['output'])\n",
}


def check_whole_test(row: Row) -> None:
    """Whether a test that AgentV's own tests carried out is scored by us as they say."""
    carried = carry_out_whole(row)

    asserted = row.data["asserted"]
    assert carried.verdict is not None, carried.errors
    assert agrees(carried.verdict.score, row) or not {"score", "score_bounds"} & set(asserted)
    assert carried.status == row.data.get("execution_status") or "execution_status" not in asserted
    assert as_scored(carried) == recorded(row)
    assert all(map(_is_told, asked_list(row), carried.scores))


def check_observed_test(row: Row) -> None:
    """Whether a test that AgentV was seen to carry out is scored by us alike."""
    carried = carry_out_whole(row)

    observed = row.data["observed"]
    weights = [one["weight"] for one in _evaluators(row)]
    assert carried.verdict is not None, carried.errors
    assert as_scored(carried) == recorded(row)
    assert [score.weight for score in carried.scores] == weights or not asked_list(row)
    assert carried.verdict.score == pytest.approx(observed["score"], abs=1e-12)
    assert carried.status == observed["execution_status"]


def carry_out_whole(row: Row) -> Carried:
    """The test of a row as its author would write it, carried out with graders that reply as recorded."""
    grader = row.data.get("config", {}).get("evaluator")
    suite = {"evaluator": grader} if grader is not None else {}
    return carry_out(as_written(row), answer_of(row), Around(suite=suite, files=_FILES, replies=_replies(row)))


def as_written(row: Row) -> dict[str, Any]:
    """The test of a row with prompts as a suite names them; theirs are recorded as AgentV resolved them."""
    test = asked_test(row)
    key = assertions_key(test)
    if not test.get(key):
        return test
    return {**test, key: [_item_as_written(item) if isinstance(item, Mapping) else item for item in test[key]]}


def as_scored(carried: Carried) -> list[tuple[str, str, float | None, str]]:
    """What our evaluators scored: name, type, value (to nine digits) and AgentV's word for it."""
    return [(one.evaluator, one.type, _rounded(one.value), verdict_of(one.value)) for one in carried.scores]


def recorded(row: Row) -> list[tuple[str, str, float | None, str]]:
    """The same as AgentV recorded it. Of a test without evaluators it records the score alone, as that of its grader.

    One that AgentV skipped has no value with us.
    """
    actual = _evaluators(row)
    if not actual and not asked_list(row):
        grader = row.data.get("config", {}).get("evaluator") or DEFAULT_GRADER
        score = _test_score(row)
        return [(grader, grader, score, verdict_of(score))]
    return [(one["name"], one["type"], _value(one), one["verdict"]) for one in actual]


def lacks_its_replies(row: Row) -> bool:
    """Whether a score was made of several judgements that the row does not tell: of some criteria met, some not."""
    several = any(_criteria(item) for item in asked_list(row))
    return several and any(one["type"] in _GRADERS and one["score"] not in (0, 1) for one in _evaluators(row))


def _evaluators(row: Row) -> Sequence[Mapping[str, Any]]:
    observed = row.data.get("observed")
    actual = observed["evaluators"] if observed is not None else row.data.get("evaluator_scores_observed")
    return actual or ()


def _test_score(row: Row) -> float:
    return float(row.data.get("observed", row.data)["score"])


def _value(one: Mapping[str, Any]) -> float | None:
    return None if one["verdict"] == "skip" else _rounded(one["score"])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def _item_as_written(item: Mapping[str, Any]) -> Mapping[str, Any]:
    own = {name: value for name, value in item.items() if name not in _RESOLVED}
    if "resolvedPromptScript" in item:
        return {**own, "prompt": {"command": [sys.executable, "prompt.py"]}}
    return {**own, "prompt": "file://prompt.txt"} if _RESOLVED & item.keys() else own


def _is_told(item: Any, score: Score) -> bool:
    """Whether a grader was asked in the words that the test names."""
    if not isinstance(item, Mapping) or not _RESOLVED & item.keys():
        return True
    words = _TOLD_BY_PROGRAM if "resolvedPromptScript" in item else _TOLD_BY_FILE
    return words in json.dumps(score.details["prompt"])


def _replies(row: Row) -> list[list[str]]:
    """What the model says to each evaluator, in order; nothing to one that AgentV skipped."""
    opposite = {item.get("name") for item in assertions_of(row) if item.get("negate")}
    said = [(value, name in opposite) for name, _, value, _ in recorded(row)]
    return [[] if value is None else [_reply(1 - value if turned else value, row)] for value, turned in said]


def _reply(score: float, row: Row) -> str:
    """A reply that says a score in every form that a grader can be asked for; it has an answer to every criterion."""
    criteria = [one for item in asked_list(row) for one in _criteria(item)]
    names = [f"rubric-{number}" for number in range(1, len(criteria) + 1)]
    names += [one["id"] for one in criteria if isinstance(one, Mapping) and "id" in one]
    checks = [{"id": name, "satisfied": score == 1, "score": round(10 * score)} for name in names]
    return json.dumps({"score": score, "reason": "as recorded", "checks": checks})


def _criteria(item: Any) -> Sequence[Any]:
    """The criteria that a grader judges one by one; a text in the list of evaluators is one."""
    if isinstance(item, str):
        return [item]
    given = item.get("rubrics") or item.get("criteria") or item.get("value")
    return given if isinstance(given, list) and kind_of(item) in _GRADERS else ()
