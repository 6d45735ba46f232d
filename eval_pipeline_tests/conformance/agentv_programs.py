"""AgentV's rows about programs, code in suites, evaluators made of others, and live conversations.

Programs of the reference are not part of its rows: where what one checks is plain, a program of ours stands in.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent
from eval_pipeline.reports.normalizers.answer import answer_report
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.evaluate import EvaluatorSet, evaluate_with
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.model import Score, Subject, Verdict
from eval_pipeline.scores.programs.payload import grading_payload
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import EvaluatorSpec, Message
from eval_pipeline_tests.builders import a_case
from eval_pipeline_tests.conformance.agentv_rows import (
    PASS_MARK,
    STATUSES,
    agrees,
    answer_of,
    asked_test,
    kinds_of,
)
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.local_server import json_reply, serve
from eval_pipeline_tests.scores.fake_grader import MembersDesk

PROGRAM_KINDS = frozenset({
    "code-grader", "script", "composite", "assert-set", "inline-assert", "javascript", "python", "webhook",
    "skill-used", "not-skill-used", "trajectory:tool-used", "trajectory:tool-args-match", "trajectory:tool-sequence",
    "trajectory:step-count",
})  # fmt: skip
Record = Callable[[str, object], None]
_VERDICTS = {True: "pass", False: "fail", None: "skip"}

_READ = "import json, os, sys\ngiven = json.load(sys.stdin)\n"
_SAYS = "print(json.dumps({'score': float(%s), 'details': {'seen': True}}))\n"
STAND_INS: Mapping[str, str] = {
    "echo-grader": _READ + _SAYS % "bool(given.get('output_path') or given['output'])",
    "payload-shape-grader": _READ
    + _SAYS % "given['expected_output'][0]['content'] == {'answer': 'Paris'} and given['config'] == {'mode': 'strict'}",
    "test-define-grader": _READ + _SAYS % "bool(given['output'])",
    "test-grader": _READ + _SAYS % "json.loads(given['answer']) == given['expected_output'][0]['content']",
    "test-grader-error": "import sys\nsys.exit('it broke')\n",
    "test-grader-with-details": _READ + _SAYS % "0.75",
    "test-grader-workspace": _READ + _SAYS % "given['workspace_path'] == os.environ['AGENTV_WORKSPACE_PATH']",
    "test-trace-summary": _READ + _SAYS % "given['trace']['tool_calls'] == {'Read': 2, 'Edit': 1}",
}


def is_about_programs(row: Row) -> bool:
    """Whether a row is carried out here."""
    if row.kind not in ("test-aggregate", "observed-test"):
        return row.kind in PROGRAM_KINDS or row.file == "protocols/graderlog"
    return "turns" in row.data.get("config", ()) or not PROGRAM_KINDS.isdisjoint(kinds_of(row))


def check_program(row: Row, record: Record) -> None:
    """Whether we say of a row what AgentV says; where we deliberately do not, our own answer is checked."""
    if row.file == "protocols/graderlog":
        _payload(row)
        return
    if row.kind == "test-aggregate":
        if "turns" in row.data["config"]:
            _conversation(row, record)
        else:
            _whole_test(row)
        return
    if row.kind == "observed-test":
        _observed(row, record)
        return
    if row.kind in ("skill-used", "not-skill-used") and "skill_calls" not in row.data:
        pytest.skip("the row does not hold the skills that the session used")
    for difference, concerns, check in DIFFERENCES:
        if concerns(row):
            record("difference", difference)
            check(row)
            return
    _same(scored(row), row)


def scored(row: Row, **more: Any) -> Score:
    """The score of a row's only evaluator; `more` goes over its arguments."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _test(row, folder, more) as test:
            scores, _ = _carried_out(test, row, folder)
    (score,) = scores
    return score


def _carried_out(test: Mapping[str, Any], row: Row, folder: Path) -> tuple[list[Score], Verdict]:
    """A test loaded by the public loader, its answer scored and decided."""
    path = folder / "row.eval.json"
    path.write_text(json.dumps({"tests": [test]}), "utf-8")
    suite = load_suite(path, LoadOptions({}))
    panel = EvaluatorSet(suite)
    errors = [*suite.errors, *panel.check().values()]
    if errors:
        raise errors[0]
    (case,) = suite.cases
    report = _report(row)
    subject = Subject(case, report, folder, folder if row.data.get("workspace_path") else None)
    scores = asyncio.run(evaluate_with(_desk(row), subject, panel.of(case)))
    return scores, decide(case, report, scores)


def _desk(row: Row) -> FakeGraderClient:
    """Members score as recorded where a row says what they scored, else by their own evaluators."""
    if "turns" in row.data.get("config", ()):
        observed = {one["name"]: one["score"] for one in row.data["evaluator_scores_observed"]}
        return FakeGraderClient(scores=lambda spec, subject: _recorded(spec, observed[_turn_of(subject)]))
    if row.kind != "composite":
        return MembersDesk()
    members = {one["name"]: None if one["verdict"] == "skip" else one["score"] for one in row.data["member_results"]}
    return FakeGraderClient(scores=lambda spec, subject: _recorded(spec, members[spec.name]))


def _recorded(spec: EvaluatorSpec, value: float | None) -> Score:
    return Score("e", "key", spec.name, spec.type, value, "as recorded", weight=spec.weight)


@contextlib.contextmanager
def _test(row: Row, folder: Path, more: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The row's test with everything that it needs beside it, for as long as it runs."""
    test = asked_test(row)
    item = test["assertions"][0]
    if row.kind == "javascript" or "javascript" in json.dumps(item):
        _need("node")
    if row.kind in ("code-grader", "script"):
        item["command"] = _command(item["command"], folder)
    if item.pop("inverse", False):
        item["type"] = f"not-{item['type']}"
    if row.kind == "inline-assert":
        item = _inline(item, folder)
    item = {**item, **more}
    if row.kind != "webhook":
        yield {**test, "assertions": [item]}
        return
    with serve(json_reply({"score": row.data["score"]})) as server:
        yield {**test, "assertions": [{**item, "value": server.url}]}


def _command(command: list[str], folder: Path) -> list[str]:
    """A command that can be run here: as it is, or a program of ours in the place of the reference's."""
    script = next((word for word in command if word.startswith("<")), None)
    if script is None:
        _need(command[0])
        return command
    program = STAND_INS.get(PurePosixPath(script).stem)
    if program is None:
        pytest.skip("the row does not hold the program that its score comes from")
    path = folder / "stand_in.py"
    path.write_text(program, "utf-8")
    return [sys.executable, str(path)]


def _inline(item: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A function of the author's that returns what the row's returned."""
    start = "async def" if item["async"] else "def"
    (folder / "inline.py").write_text(f"{start} check():\n    return {item['returns']!r}\n", "utf-8")
    return {"type": "python", "name": "inline", "function": "inline:check"}


def _need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def _report(row: Row) -> SessionReport:
    if "turns" in row.data.get("config", ()):
        return _talk(row)
    answer = answer_of(row)
    trace = row.data.get("trace") or {}
    if isinstance(answer.messages, list):
        answer = replace(answer, messages=[_expanded(message) for message in answer.messages])
    report = answer.report()
    return replace(report, events=tuple(_traced(trace["events"]))) if trace.get("events") else report


def _traced(events: list[Mapping[str, Any]]) -> Iterator[Event]:
    for event in events:
        if event["type"] == "tool_call":
            yield ToolCallEvent(tool=event["tool"]["name"], arguments=event["tool"].get("input"))
        elif "message" in event:
            message = event["message"]
            yield MessageEvent(role=message["role"], text=str(message.get("content")), phase="commentary")


def _expanded(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose content is told as a text that is repeated."""
    content = message.get("content")
    if isinstance(content, Mapping) and "__repeat__" in content:
        return {**message, "content": content["__repeat__"] * content["count"]}
    return message


def _same(score: Score, row: Row) -> None:
    asserted = row.data["asserted"]
    if row.data.get("verdict") == "skip":
        assert score.value is None, score.reason
        return
    assert agrees(score.value, row) or not {"score", "score_bounds"} & set(asserted), score.reason
    assert _VERDICTS[score.passed(PASS_MARK)] == row.data.get("verdict") or "verdict" not in asserted, score.reason


def _whole_test(row: Row) -> None:
    if any(row.data.get(name) is None for name in ("duration_ms", "cost_usd")) and "latency" in json.dumps(row.data):
        pytest.skip("the row does not hold the measures that its score comes from")
    with tempfile.TemporaryDirectory() as folder:
        scores, verdict = _carried_out(asked_test(row), row, Path(folder))

    assert agrees(verdict.score, row)
    observed = [(one["name"], one["type"], one["score"]) for one in row.data["evaluator_scores_observed"]]
    assert [(score.evaluator, score.type, score.value) for score in scores] == observed


def _observed(row: Row, record: Record) -> None:
    """A test that AgentV was seen to carry out; what it left out for wrong arguments, we refuse."""
    test, observed = dict(row.data["test"]), row.data["observed"]
    with tempfile.TemporaryDirectory() as folder:
        if len(observed["evaluators"]) < len(test["assertions"]):
            record("difference", "wrong arguments")
            with pytest.raises(InputError, match="required"):
                _carried_out(test, row, Path(folder))
            return
        scores, verdict = _carried_out(test, row, Path(folder))

    assert [_as_observed(score) for score in scores] == observed["evaluators"]
    assert (verdict.score, STATUSES[verdict.status]) == (observed["score"], observed["execution_status"])


def _as_observed(score: Score) -> dict[str, Any]:
    return {
        "name": score.evaluator,
        "type": score.type,
        "score": score.value,
        "weight": score.weight,
        "verdict": _VERDICTS[score.passed(PASS_MARK)],
    }


# What programs are given.


def _payload(row: Row) -> None:
    """The payload that a program of AgentV's was really given: ours says the same under every key of it."""
    recorded = row.data["payload"]
    case = a_case(
        input=tuple(Message(**message) for message in recorded["input"]),
        expected_output=tuple(Message(**message) for message in recorded["expected_output"]),
        criteria=recorded["criteria"],
    )
    report = replace(
        answer_report({"output": recorded["output"]}, "execution"),
        duration_ms=recorded["duration_ms"],
        file_changes=recorded["file_changes"],
    )
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(case, report, workspace=Path(recorded["workspace_path"]))
        ours = grading_payload(subject, recorded["config"], "messages", Path(folder))

    assert {name: ours.get(name) for name in recorded} == recorded


# Conversations.


def _conversation(row: Row, record: Record) -> None:
    """Each turn's evaluators score what the row observed of the turn; what is made of them is ours.

    AgentV passes over arguments of a grader that it does not know; we say that they mean nothing.
    """
    config, data = row.data["config"], row.data
    with tempfile.TemporaryDirectory() as folder:
        try:
            scores, verdict = _carried_out({"id": "row", "input": data["question"], **config}, row, Path(folder))
        except InputError as error:
            record("difference", "unknown argument")
            assert "unknown argument" in error.problem
            return

    assert agrees(verdict.score, row)
    assert STATUSES[verdict.status] == data.get("execution_status") or "execution_status" not in data["asserted"]
    told = {one.evaluator: one.value for one in scores}
    if config.get("aggregation") in ("min", "max"):
        told = {member.name: member.value for member in scores[0].members}
    assert told == {one["name"]: one["score"] for one in data["evaluator_scores_observed"]}


def _turn_of(subject: Subject) -> str:
    return f"turn-{subject.output.removeprefix('answer ')}"


def _talk(row: Row) -> SessionReport:
    """The conversation of a row, each turn answered by its number."""
    said = [turn["input"] for turn in row.data["config"]["turns"]]
    events = [event for number, text in enumerate(said, start=1) for event in _exchange(number, text)]
    return SessionReport(execution_id="e", final_output=f"answer {len(said)}", events=tuple(events), duration_ms=1.0)


def _exchange(number: int, text: str) -> Iterator[Event]:
    yield MessageEvent(role="user", text=text)
    yield MessageEvent(role="assistant", text=f"answer {number}", phase="final")


# Deliberate differences: a name, which rows, what is checked instead.


def _breaks(row: Row) -> bool:
    """Programs and code that bring no answer."""
    may_break = row.kind in ("code-grader", "script", "javascript", "python", "webhook")
    return may_break and row.data.get("verdict") != "skip" and scored(row).value is None


def _unscored_unless_asked(row: Row) -> None:
    """What broke could not tell (design, promise 3); `on_error: fail` gives AgentV's number."""
    assert scored(row).value is None
    _same(scored(row, on_error="fail"), row)


def _shows_no_session(row: Row) -> bool:
    return row.kind.startswith("trajectory:") and not row.data.get("trace")


def _unmeasured_unless_asked(row: Row) -> None:
    """A session that was not recorded is unknown, not without steps; `on_missing: fail` gives AgentV's number."""
    assert scored(row).value is None
    _same(scored(row, on_missing="fail"), row)


DIFFERENCES: tuple[tuple[str, Callable[[Row], bool], Callable[[Row], None]], ...] = (
    ("a broken grader is unscored", _breaks, _unscored_unless_asked),
    ("measure missing", _shows_no_session, _unmeasured_unless_asked),
)
