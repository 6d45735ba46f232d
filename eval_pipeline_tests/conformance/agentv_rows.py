"""AgentV's rows carried out by us: a test in its YAML, an answer and measures → our errors, scores and verdict."""

from __future__ import annotations

import asyncio
import json
import operator
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.failures import TARGET_ERROR
from eval_pipeline.plugins import canonical_name
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, ToolCallEvent
from eval_pipeline.reports.normalizers.answer import answer_report
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.evaluate import BoundEvaluator, EvaluatorSet, evaluate_with
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.model import Score, Status, Subject, Verdict
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.conformance.recorded_facts import Row

TEXT_KINDS = frozenset({
    "contains", "contains-any", "contains-all", "icontains", "icontains-any", "icontains-all", "starts-with",
    "ends-with", "equals", "regex", "is-json",
})  # fmt: skip
MEASURE_KINDS = frozenset({"latency", "cost", "token-usage"})
SESSION_KINDS = frozenset({"execution-metrics", "tool-trajectory", "skill-trigger"})
# Rows about one evaluator: those that test_agentv.py carries out; those of agentv_graders.py and agentv_programs.py.
KINDS_HERE = TEXT_KINDS | MEASURE_KINDS | SESSION_KINDS | {"field-accuracy"}
KINDS_ELSEWHERE = frozenset({
    "rubrics", "llm-grader", "llm-rubric", "agent-rubric", "code-grader", "script", "javascript", "python", "webhook",
    "similar", "composite", "assert-set", "skill-used", "not-skill-used", "inline-assert", "code-judge", "llm-judge",
    "trajectory:tool-used", "trajectory:tool-args-match", "trajectory:tool-sequence", "trajectory:step-count",
    "trajectory:goal-success",
})  # fmt: skip
STATUSES = {Status.PASSED: "ok", Status.FAILED: "quality_failure", Status.ERROR: "execution_error"}
PASS_MARK = 0.8
PROVIDER_ERROR = "provider_error"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the recorded target answered, and what is told of the session: its messages, else a count of its calls.

    `failure` is why it did not get that far.
    """

    output: str
    duration_ms: float | None = None
    cost_usd: float | None = None
    token_usage: Mapping[str, int] | None = None
    failure: str | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    trace: Mapping[str, Any] | None = None

    def report(self) -> SessionReport:
        said = {"output": self.output, "cost_usd": self.cost_usd, "token_usage": self.token_usage,
                "output_messages": self.messages}  # fmt: skip
        report = answer_report({name: value for name, value in said.items() if value is not None}, "execution")
        failure_class = TARGET_ERROR.id if self.failure is not None else None
        return replace(
            report,
            events=report.events if self.trace is None or self.messages is not None else tuple(_traced(self.trace)),
            model_calls=self._model_calls(),
            duration_ms=self.duration_ms,
            failure_class=failure_class,
            error=self.failure,
        )

    def _model_calls(self) -> int | None:
        """AgentV counts one call of the model for each message of the assistant."""
        if self.messages is not None:
            return [message["role"] for message in self.messages].count("assistant")
        calls: int | None = (self.trace or {}).get("llm_call_count")
        return calls


def _traced(trace: Mapping[str, Any]) -> Iterator[Event]:
    """The events that a summary of a session stands for: what was asked, and that many calls."""
    yield MessageEvent(role="user", text="as recorded")
    for tool, count in trace["tool_calls"].items():
        yield from (ToolCallEvent(tool=tool) for _ in range(count))


@dataclass(frozen=True, slots=True)
class Carried:
    """What became of a test with us: the errors that refused it, or its scores and verdict."""

    errors: tuple[InputError, ...] = ()
    scores: tuple[Score, ...] = ()
    verdict: Verdict | None = None

    @property
    def status(self) -> str | None:
        return STATUSES.get(self.verdict.status) if self.verdict is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What there is around a test: fields of its suite, files beside it, and what its graders' models say.

    `replies` are those to each evaluator of the test, in order; one that is told none gets none.
    """

    suite: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    replies: Sequence[Sequence[str]] = ()


ALONE = Around()


def carry_out(test: Mapping[str, Any], answer: Answer, around: Around = ALONE) -> Carried:
    """A test loaded as a suite of its own by the public loader, and the answer scored and decided."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in {"row.eval.json": json.dumps({**around.suite, "tests": [test]}), **around.files}.items():
            (folder / file).write_text(text, "utf-8")
        suite = load_suite(folder / "row.eval.json", LoadOptions({}))
        panel = EvaluatorSet(suite)
        errors = panel.check()
        if suite.errors or errors:
            return Carried(errors=(*suite.errors, *errors.values()))
        (case,) = suite.cases
        report = answer.report()
        scores = asyncio.run(_scored(Subject(case, report, folder), panel.of(case), around.replies))
    return Carried(scores=tuple(scores), verdict=decide(case, report, scores))


async def _scored(subject: Subject, asked: Sequence[BoundEvaluator], replies: Sequence[Sequence[str]]) -> list[Score]:
    """Each evaluator at a desk of its own, so that none is given another's reply."""
    silent: list[Sequence[str]] = [()] * (len(asked) - len(replies))
    scores: list[Score] = []
    for one, said in zip(asked, [*replies, *silent], strict=True):
        scores += await evaluate_with(FakeGraderClient(replies=list(said)), subject, [one])
    return scores


def asked_test(row: Row) -> dict[str, Any]:
    """The test that a row is about; rows of one evaluator become a test with only that one."""
    if "test" in row.data:
        return dict(row.data["test"])
    common = {"id": "row", "criteria": "as recorded", "input": row.data.get("question") or "as recorded"}
    if row.kind in ("test-aggregate", "negate"):
        return {**common, "assertions": row.data["config"].get("assertions") or []}
    expected = {"expected_output": row.data["expected_output"]} if "expected_output" in row.data else {}
    return {**common, **expected, "assertions": [{"type": row.kind, **row.data["config"]}]}


def answer_of(row: Row) -> Answer:
    data = row.data
    failed = stop_of(row) == PROVIDER_ERROR
    observed = "observed" in data
    return Answer(
        output=_output(data),
        duration_ms=1.0 if observed else data.get("duration_ms"),
        cost_usd=data.get("cost_usd"),
        token_usage=data.get("token_usage"),
        failure=_output(data) if failed else None,
        messages=data["output_messages"] if isinstance(data.get("output_messages"), list) else None,
        trace=data.get("trace"),
    )


def stop_of(row: Row) -> str | None:
    """AgentV's code for what kept a whole test from a score; what has none is the target's."""
    if row.data.get("execution_status") != "execution_error":
        return None
    return str(row.data.get("failure_reason_code") or PROVIDER_ERROR)


def _output(data: Mapping[str, Any]) -> str:
    if isinstance(data.get("output"), str):
        return str(data["output"])
    messages = data.get("output_messages")
    return messages if isinstance(messages, str) else ""


def assertions_key(test: Mapping[str, Any]) -> str:
    """The spelling under which a test lists its evaluators."""
    return next((key for key in ("assertions", "assert", "evaluators") if test.get(key) is not None), "assertions")


def asked_list(row: Row) -> list[Any]:
    """The evaluators that a row's test lists, texts among them."""
    test = asked_test(row)
    listed = test.get(assertions_key(test)) or (test.get("execution") or {}).get("evaluators") or []
    return [*listed, *(["rubrics"] if test.get("rubrics") else [])]


def kinds_of(row: Row) -> list[str]:
    """The kinds of evaluators that a row asks for; a text in the list is a rubric."""
    return [kind_of(item) if isinstance(item, Mapping) else "rubrics" for item in asked_list(row)]


def kind_of(item: Mapping[str, Any]) -> str:
    return canonical_name(str(item.get("type")))


def assertions_of(row: Row) -> Sequence[Mapping[str, Any]]:
    """The evaluators that a row spells out."""
    return [item for item in asked_list(row) if isinstance(item, Mapping)]


def verdict_of(value: float | None) -> str:
    """AgentV's word for one evaluator's score."""
    if value is None:
        return "skip"
    return "pass" if value >= PASS_MARK - 1e-9 else "fail"


def agrees(value: float | None, row: Row) -> bool:
    """Whether a number is what the row pins: a value with its tolerance, or bounds."""
    bounds = row.data.get("score_bounds")
    if value is None:
        return False
    if bounds:
        return all(_BOUNDS[bound["op"]](value, bound["args"][0]) for bound in bounds)
    match = re.search(r"\+-([\d.e-]+)", str(row.data.get("match")))
    tolerance = float(match[1]) if match is not None else 1e-12
    return abs(value - float(row.data["score"])) <= tolerance


_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "toBeGreaterThanOrEqual": operator.ge,
    "toBeGreaterThan": operator.gt,
    "toBeLessThan": operator.lt,
    "toBeLessThanOrEqual": operator.le,
}
