"""Peers' rows about judges: replies that end in a grade, and answers that imitate delimiters.

A scripted model on 127.0.0.1 gives the recorded reply of each case, or receives the prompt that holds its answer.
"""

from __future__ import annotations

import json
import re
from typing import Any

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, Sweep, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, serve

WORTH = {"C": 1.0, "P": 0.5, "I": 0.0}
SUITE = "judged"
_NEUTRAL = "judge_delimiter_neutralization"
KINDS = frozenset({("judge_verdicts", "extract"), ("judge_verdicts", "score"), (_NEUTRAL, "row")})


def observe(row: Row) -> Observations:
    """Return the score that became of a recorded reply, or the prompt that holds a recorded answer."""
    sweep, prompts = _judged()
    if row.file == _NEUTRAL:
        return {AS_WRITTEN: Observation(values={"prompt": prompts[_name(row)][0]})}
    (score,) = sweep.suites[SUITE].cases[_name(row)].scores
    details = json.loads(score["details"] or "{}")
    values = {"value": score["value"], "grade": details.get("grade"), "reason": score["reason"]}
    return {AS_WRITTEN: Observation(values=values)}


def check(row: Row, seen: Observation) -> None:
    """Assert that the reply is read, and the answer quoted, as the peer does."""
    if row.file == _NEUTRAL:
        assert row.data["expect"] in seen.values["prompt"]
        assert row.data["raw"] not in seen.values["prompt"]
        return
    expected = row.data["expect"]
    grade = expected.get("grade", expected.get("value"))
    if grade is None:
        assert (seen.values["value"], seen.values["grade"]) == (None, None)
        assert "could not be read" in seen.values["reason"]
        return
    assert (seen.values["grade"], seen.values["value"]) == (grade.upper(), WORTH[grade.upper()])


def _offered(row: Row) -> dict[str, float]:
    """The grades that a judge may give: those that its author's own words name, else the usual ones."""
    words = row.data.get("grade_pattern") or row.data.get("instructions")
    if words:
        names = "".join(re.findall(r"\b[CPI]+\b", words))
    else:
        names = "CPI" if row.data.get("partial_credit") or row.kind == "extract" else "CI"
    return {grade: value for grade, value in WORTH.items() if grade in names}


def _name(row: Row) -> str:
    return f"row-{row.number}-of-{row.file.replace('_', '-')}"


def _test(row: Row) -> dict[str, Any]:
    grader = {"type": "llm-grader", "name": "judge"}
    if row.file == "judge_verdicts":
        grader["grades"] = _offered(row)  # type: ignore[assignment]
    return {"id": _name(row), "input": f"question of {_name(row)}.", "criteria": "correct", "assertions": [grader]}


@once
def _judged() -> tuple[Sweep, dict[str, list[str]]]:
    """All rows as cases of one suite; what the model was asked about each."""
    rows = [row for row in rows_of("peers") if (row.file, row.kind) in KINDS]
    replies = {_name(row): row.data.get("judge_output", '{"score": 1}') for row in rows}
    prompts: dict[str, list[str]] = {}

    def answer(request: Received) -> Reply:
        prompt = "\n".join(str(message["content"]) for message in request.json["messages"])
        match = re.search(r"question of (\S+)\.", prompt)
        assert match is not None, prompt
        prompts.setdefault(match[1], []).append(prompt)
        return chat_reply(replies[match[1]])

    answers = [{"case": _name(row), "output": row.data.get("raw", "the answer")} for row in rows]
    project = ProjectOnDisk()
    with serve(answer) as server:
        project.add_model("judge", f"{server.url}/v1")
        project.add_suite(SUITE, {"tests": [_test(row) for row in rows]}, answers, grader="judge")
        return project.run(), prompts
