"""`judge`: a model judges a whole conversation by metrics and by what it was to achieve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, Strict

from eval_pipeline.executions.agent_setup import AgentSetup
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.turns import Turn
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.grading.context import GraderContext
from eval_pipeline.scores.grading.fences import fences_for
from eval_pipeline.scores.grading.grader import GraderArguments
from eval_pipeline.scores.grading.judge_form import ExpectedOutcome, JudgeForm
from eval_pipeline.scores.grading.judge_metrics import MOST_POINTS, Metric, PassWhen, resolve
from eval_pipeline.scores.grading.prompts import build_question
from eval_pipeline.scores.model import NOTHING, Outcome, Subject, SubScore, at_least

DEFAULT_PASS_THRESHOLD = 75.0
CRITERIA_METRIC = "criteria"
_TASK = """\
You judge how an agent handled a conversation with a user. Judge the agent, not the user. Score each metric on its own,
use the whole scale, cite turns by their numbers, and where the conversation does not show something, do not assume it.
Points: 5 flawless; 4 everything important right, one slip; 3 one real fault; 2 several faults; 1 mostly wrong;
0 absent or entirely wrong."""
_INDENT = "\n    "


@EVALUATORS.register("judge")
@dataclass(frozen=True, slots=True, kw_only=True)
class Judge(GraderArguments):
    """A model's judgement of a conversation: points on metrics, and a verdict on each expected outcome.

    `metrics` selects metrics by name, or with a `weight` each (default: the eight scored ones); `custom_metrics`
    declares more. `outcomes` are what the conversation is to achieve: statements, or mappings with `outcome` and
    `expected`. `criteria` replace the metrics by one whose rubric they are. `expected_calls` are shown to the judge.
    The case passes by `pass_when`: `outcomes` (all hold; the default where there are any), `score` (at least
    `pass_threshold` of 100), or `both`. The judge sees the prompt and the tools of the agent, as far as they are known.
    """

    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ("input",)
    type: ClassVar[str] = "judge"
    metrics: Annotated[tuple[Any, ...], Strict(False)] | None = None
    custom_metrics: Annotated[tuple[Any, ...], Strict(False)] = ()
    outcomes: Annotated[tuple[Any, ...], Strict(False)] = ()
    criteria: str | None = None
    expected_calls: Annotated[tuple[dict[str, Any], ...], Strict(False)] | None = None
    pass_when: PassWhen | None = None
    pass_threshold: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = DEFAULT_PASS_THRESHOLD

    def __post_init__(self) -> None:
        GraderArguments.__post_init__(self)
        self._resolved()
        self._expected()
        if self.pass_when in ("outcomes", "both") and not self._expected():
            raise ValueError(f"pass_when: '{self.pass_when}' needs outcomes")

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        turns = subject.report.turns
        if not turns:
            return Outcome(None, "there is no conversation to judge")
        texts = {"transcript": "\n".join(_lines(_opening(subject), turns)), **dict(_told(subject.setup))}
        material = GraderContext(subject, texts, fences_for(texts.values()))
        form = JudgeForm(self._resolved(), self._expected(), self._decides_by != "score")
        asked = build_question(material, form, "\n\n".join(self._sections(material)))
        return self._decided(await self.call_graders(asked, client, subject.pass_mark))

    @property
    def _decides_by(self) -> PassWhen:
        return self.pass_when or ("outcomes" if self._expected() else "score")

    def _resolved(self) -> tuple[Metric, ...]:
        if self.criteria is not None and self.metrics is None:
            return (Metric(id=CRITERIA_METRIC, rubric=self.criteria),)
        return resolve(self.metrics, self.custom_metrics)

    def _expected(self) -> tuple[ExpectedOutcome, ...]:
        return tuple(_outcome(raw) for raw in self.outcomes)

    def _sections(self, material: GraderContext) -> Iterator[str]:
        yield _TASK
        yield "The metrics:\n" + "\n".join(f"- {metric.id}: {metric.rubric}" for metric in self._resolved())
        if self.outcomes:
            numbered = (f"{number}. {each.statement}" for number, each in enumerate(self._expected(), start=1))
            yield "Expected outcomes, each judged for itself:\n" + "\n".join(numbered)
        if self.expected_calls is not None:
            calls = [to_json(call).decode() for call in self.expected_calls]
            yield "Tool calls that the agent was expected to make:\n" + ("\n".join(calls) or "None at all.")
        for name in ("instructions", "tools"):
            text = material.texts.get(name)
            shown = ":\n" + material.fences.around(name, text) if text is not None else " are not known."
            yield f"The agent's own {name}{shown}"
        transcript = material.fences.around("transcript", material.texts["transcript"])
        yield f"The conversation, turn by turn; indented lines belong to the text above them:\n{transcript}"

    def _decided(self, outcome: Outcome) -> Outcome:
        """Return the outcome with its decision, and a sub-score for each metric and expected outcome."""
        if outcome.value is None or "metrics" not in outcome.details:
            return outcome
        met = all(result["passed"] for result in outcome.details["outcomes"])
        enough = at_least(round(100 * outcome.value, 2), self.pass_threshold)
        passes = {"outcomes": met, "score": enough, "both": met and enough}[self._decides_by]
        members = (*_metric_members(outcome), *_outcome_members(outcome))
        return outcome._replace(passes=passes and outcome.passes is not False, members=members)


def _told(setup: AgentSetup) -> Iterator[tuple[str, str]]:
    """Yield the prompt and the tools of an agent as texts, those that are known."""
    if setup.prompt is not None:
        yield "instructions", setup.prompt
    if setup.tools is not None:
        yield "tools", "\n".join(to_json(tool).decode() for tool in setup.tools) or "None at all."


def _outcome(raw: Any) -> ExpectedOutcome:
    if isinstance(raw, str) and _has_words(raw):
        return ExpectedOutcome(raw)
    if isinstance(raw, Mapping) and _has_words(raw.get("outcome")) and set(raw) <= {"outcome", "expected"}:
        return ExpectedOutcome(raw["outcome"], raw.get("expected", True))
    raise ValueError(f"outcomes: expected a statement, or a mapping with outcome and expected, got {raw!r}")


def _has_words(raw: Any) -> bool:
    return isinstance(raw, str) and bool(raw.strip())


def _opening(subject: Subject) -> Iterator[str]:
    """Yield the messages of a case that is one question: no turn of its report has them."""
    if subject.case.is_conversation or subject.report.turns[0].messages:
        return
    yield from (f"Turn 1 [{message.role}]: {message.text}" for message in subject.case.input)


def _lines(opening: Iterable[str], turns: Sequence[Turn]) -> Iterator[str]:
    """Yield the conversation: its opening, and what was said in each turn, with tool calls and their results.

    Further lines of a text are indented: an answer that imitates turns stays within its own.
    """
    return (_INDENT.join(entry.splitlines()) for entry in (*opening, *_entries(turns)))


def _entries(turns: Sequence[Turn]) -> Iterator[str]:
    for turn in turns:
        for message in turn.messages:
            yield f"Turn {turn.number} [{message.role}]: {message.text}"
        for event in turn.events:
            if isinstance(event, ToolCallEvent):
                yield f"Turn {turn.number} [call] {event.tool}({to_json(event.arguments).decode()})"
            elif isinstance(event, ToolResultEvent):
                yield f"Turn {turn.number} [result{' failed' if event.is_error else ''}] {event.output}"
        yield f"Turn {turn.number} [assistant]: {turn.answer or '(no text)'}"


def _metric_members(outcome: Outcome) -> Iterator[SubScore]:
    for score in outcome.details["metrics"]:
        value = score["points"] / MOST_POINTS
        yield SubScore(
            score["metric"], "metric", value, score["justification"] or score["label"], score["weight"], None, score
        )


def _outcome_members(outcome: Outcome) -> Iterator[SubScore]:
    for result in outcome.details["outcomes"]:
        reason = result["justification"] or ("it holds" if result["passed"] else "it does not hold")
        yield SubScore(result["outcome"], "outcome", float(result["passed"]), reason, 0.0, None, NOTHING)
