"""`composite` and `assert-set`: one score made of several evaluators' scores."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError, model_validator

from eval_pipeline.errors import did_you_mean
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.context import GraderContext
from eval_pipeline.scores.grading.fences import fences_for, neutralize
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.grading.grader_calls import call_grader
from eval_pipeline.scores.grading.prompts import build_question
from eval_pipeline.scores.grading.templates import FILE_PREFIX, template_file
from eval_pipeline.scores.grading.verdicts import FreeForm
from eval_pipeline.scores.grading.votes import single_outcome
from eval_pipeline.scores.members import (
    PASS_MARK,
    CompositeEvaluator,
    failed_gate,
    left_out,
    member_specs,
    open_gate,
    weighted_mean,
    with_members,
)
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject, at_least
from eval_pipeline.scores.programs.command import argv_of, command_content, program_folder, run_command, shown
from eval_pipeline.scores.programs.reply import json_object, not_understood, protocol_outcome

RESULTS = "{{EVALUATOR_RESULTS_JSON}}"
_OF_THE_GRADER = frozenset({
    "grader", "model", "settings", "prompt", "reply", "replies", "tries", "usage", "cached", "duration_ms",
    "grader_calls", "command", "suite_settings", "vote",
})  # fmt: skip
"""What a member's details tell of how it was asked, rather than of what it found."""
_TAKES_CONFIG = frozenset({"javascript", "python", "webhook", "script", "code-grader", "assert-set"})
_DEFAULT_PROMPT = (
    "Several evaluators looked at the same answer. Judge from what they found how good the answer is as a whole.\n\n"
    f"What they found, by name:\n{RESULTS}"
)


class Aggregator(Protocol):
    """A way to make one outcome of members' scores, all of which have values."""

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        """The outcome. Raises GraderFailure when it cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedAverage:
    """Σ weight·value / Σ weight. A weight of `weights`, by member's name, goes before the member's own."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    weights: dict[str, Limit] = field(default_factory=dict)

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        value = weighted_mean(scores, {score.evaluator: self.weight_of(score) for score in scores})
        parts = ", ".join(f"{score.evaluator} {score.value:g}" for score in scores)
        return Outcome(value, f"weighted mean of {parts}")

    def weight_of(self, score: Score) -> float:
        """The weight that a member has here."""
        return self.weights.get(score.evaluator, score.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The share of members that pass; it passes from `threshold` on."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    threshold: Share

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        passed = sum(score.passed(PASS_MARK) is True for score in scores)
        value = passed / len(scores)
        passes = at_least(value, self.threshold)
        reason = f"{passed} of {len(scores)} members pass; {self.threshold:g} of them have to"
        return Outcome(value, reason, (Finding(reason, passes),), passes=passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByProgram:
    """What a program says that is given `{"results": {member: …}}`: `score`, `verdict`, `assertions`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    path: Any
    cwd: Text | None = None
    timeout_s: Limit | None = None

    def __post_init__(self) -> None:
        argv_of(self.path)

    def content(self, folder: Path) -> Mapping[str, str]:
        """The fingerprints of the files that the command names."""
        return command_content(argv_of(self.path), program_folder(self.cwd, folder))

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        argv = argv_of(self.path)
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-grader-", ignore_cleanup_errors=True) as scratch:
            ran = await run_command(
                argv,
                cwd=program_folder(self.cwd, subject.folder),
                scratch=Path(scratch),
                stdin=to_json({"results": results_of(scores)}),
                env={},
                timeout_s=self.timeout_s or client.timeout_s,
            )
        if ran.exit_code != 0:
            raise GraderFailure(f"{shown(argv)} ended with {ran.exit_code}: {ran.stderr.strip() or ran.stdout.strip()}")
        said = json_object(ran.stdout)
        if said is None:
            return not_understood(ran.stdout)
        outcome = protocol_outcome(said)
        passes = {"pass": True, "fail": False}.get(str(said.get("verdict")), outcome.passes)
        return outcome._replace(passes=passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByGrader:
    """What a model says that is shown the members' results where `prompt` has `{{EVALUATOR_RESULTS_JSON}}`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    prompt: Text = _DEFAULT_PROMPT
    target: Text | None = None
    model: Text | None = None

    @property
    def graders(self) -> tuple[str | None, ...]:
        return (self.target,)

    def content(self, folder: Path) -> Mapping[str, str]:
        """The fingerprint of the prompt's file."""
        if not self.prompt.startswith(FILE_PREFIX):
            return {}
        return {self.prompt: file_fingerprint(template_file(self.prompt, folder))}

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        results = to_json(_neutral(results_of(scores))).decode()
        fences = fences_for([results])
        told = self._template(subject.folder).replace(RESULTS, fences.between("results", results))
        material = GraderContext(subject, {"results": results}, fences)
        opinion = await call_grader(client, build_question(material, FreeForm(), told), grader=self.target, settings={})
        return single_outcome(opinion, {})

    def _template(self, folder: Path) -> str:
        if not self.prompt.startswith(FILE_PREFIX):
            return self.prompt
        return template_file(self.prompt, folder).read_text("utf-8")


AGGREGATORS: Mapping[str, type[Aggregator]] = {
    "weighted-average": WeightedAverage,
    "threshold": Threshold,
    "code-grader": ByProgram,
    "llm-grader": ByGrader,
}


@EVALUATORS.register("composite")
@dataclass(frozen=True, kw_only=True)
class Composite(CompositeEvaluator):
    """One score of the members in `assertions` (or `evaluators`), made by the `aggregator`.

    Its `type` is `weighted_average` (with `weights` by member), `threshold` (the share of members that pass),
    `code-grader` (a program, `path`) or `llm-grader` (a model, `prompt`). A member may be negated and weighted; one
    that is `required` and fails makes the whole 0. Members that could not tell are left out, and that is said.
    """

    aggregator: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _by_its_old_name(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and "evaluators" in given and "assertions" not in given:
            return {"assertions" if name == "evaluators" else name: value for name, value in given.items()}
        return given

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise ValueError("assertions: expected at least one member")
        named = self.combining.weights if isinstance(self.combining, WeightedAverage) else {}
        names = [spec.name for spec in self.members]
        for name in named:
            if name not in names:
                raise ValueError(
                    f"aggregator weights: no member '{name}'; there are: {', '.join(names)}{did_you_mean(name, names)}"
                )

    @cached_property
    def combining(self) -> Aggregator:
        """The aggregator, its arguments checked. Raises ValueError."""
        return _aggregator(self.aggregator)

    @property
    def graders(self) -> tuple[str | None, ...]:
        own: tuple[str | None, ...] = getattr(self.combining, "graders", ())
        return tuple(dict.fromkeys((*super().graders, *own)))

    def content(self, folder: Path) -> Mapping[str, str]:
        """The files of the members, and those of the aggregator."""
        own = self.combining.content(folder) if isinstance(self.combining, (ByProgram, ByGrader)) else {}
        return {**super().content(folder), **{f"aggregator: {name}": value for name, value in own.items()}}

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        scores = await self.member_scores(subject, client)
        weights = {score.evaluator: _weight(self.combining, score) for score in scores}
        return with_members(await self._combined(scores, subject, client), scores, weights)

    async def _combined(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        outcome = _before_combining(scores)
        if outcome is not None:
            return outcome
        told = [score for score in scores if score.value is not None]
        try:
            outcome = await self.combining.combine(told, subject, client)
        except GraderFailure as failure:
            return Outcome(None, f"the members' scores could not be put together: {failure}")
        return gated(outcome._replace(reason=outcome.reason + left_out(scores)), scores)


@EVALUATORS.register("assert-set")
@dataclass(frozen=True, kw_only=True)
class AssertSet(CompositeEvaluator):
    """The weighted mean of the members in `assertions`.

    With a `threshold` it passes from there on, else when every member with a weight passes. `config` is given to
    members that take one. A member that is `required` and fails makes the whole 0.
    """

    threshold: Share | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.members:
            raise ValueError("assertions: expected at least one member")

    @cached_property
    def members(self) -> tuple[Any, ...]:
        specs = member_specs(self.assertions)
        return tuple(_configured(spec, self.config) for spec in specs)

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        scores = await self.member_scores(subject, client)
        weights = {score.evaluator: score.weight for score in scores}
        return with_members(_before_combining(scores) or self._mean(scores, weights), scores, weights)

    def _mean(self, scores: Sequence[Score], weights: Mapping[str, float]) -> Outcome:
        told = [score for score in scores if score.value is not None]
        value = weighted_mean(told, weights)
        failing = [score.evaluator for score in told if score.weight and score.passed(PASS_MARK) is False]
        if self.threshold is not None:
            passes, how = at_least(value, self.threshold), f"{value:g} of the {self.threshold:g} that it takes"
        else:
            passes, how = not failing, f"{', '.join(failing)} did not pass" if failing else "every member passes"
        return gated(Outcome(value, f"weighted mean: {how}{left_out(scores)}", passes=passes), scores)


def gated(outcome: Outcome, scores: Sequence[Score]) -> Outcome:
    """An outcome after its required members: 0 when one failed, as a test is when a required evaluator fails."""
    gate = failed_gate(scores)
    if gate is None or outcome.value is None:
        return outcome
    reason = f"required {gate.evaluator} failed with {gate.value:g}: {gate.reason}; without it {outcome.value:g}"
    details = {**outcome.details, "ungated": outcome.value}
    return outcome._replace(value=0.0, reason=reason, details=details, passes=False)


def results_of(scores: Sequence[Score]) -> dict[str, dict[str, Any]]:
    """Members' scores as AgentV tells them, by name."""
    return {score.evaluator: _result(score) for score in scores}


def _result(score: Score) -> dict[str, Any]:
    return {
        "name": score.evaluator,
        "type": score.type,
        "score": score.value,
        "weight": score.weight,
        "verdict": "pass" if score.passed(PASS_MARK) else "fail",
        "assertions": [
            {"text": finding.text, "passed": finding.passed, "evidence": finding.evidence} for finding in score.findings
        ],
        "reason": score.reason,
        "details": {name: value for name, value in score.details.items() if name not in _OF_THE_GRADER},
    }


def _neutral(results: Any) -> Any:
    """Results whose texts can pose as nothing to the model that is shown them."""
    if isinstance(results, str):
        return neutralize(results)
    if isinstance(results, Mapping):
        return {name: _neutral(value) for name, value in results.items()}
    return [_neutral(value) for value in results] if isinstance(results, (list, tuple)) else results


def _before_combining(scores: Sequence[Score]) -> Outcome | None:
    """What is clear before members are put together: nothing can be told without any, or with a gate left open."""
    waiting = open_gate(scores)
    if waiting is not None and failed_gate(scores) is None:
        return Outcome(None, f"required {waiting.evaluator} could not tell: {waiting.reason}")
    if all(score.value is None for score in scores):
        return Outcome(None, f"no member could tell{left_out(scores)}")
    return None


def _aggregator(raw: Mapping[str, Any]) -> Aggregator:
    kind = canonical_name(str(raw.get("type")))
    part = AGGREGATORS.get(kind)
    if part is None:
        hint = did_you_mean(kind, AGGREGATORS)
        raise ValueError(f"aggregator type: no '{raw.get('type')}'; there are: {', '.join(AGGREGATORS)}{hint}")
    given = {name: value for name, value in raw.items() if name != "type"}
    try:
        aggregator: Aggregator = _adapter(part).validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = ".".join(map(str, first["loc"]))
        problem = _WRONG.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise ValueError(f"aggregator {steps}: {problem}".replace(" :", ":")) from None
    return aggregator


@cache
def _adapter(part: type[Aggregator]) -> TypeAdapter[Any]:
    return TypeAdapter(part)


_WRONG = {
    "missing": "required",
    "unexpected_keyword_argument": "this aggregator knows no such argument",
}


def _weight(aggregator: Aggregator, score: Score) -> float:
    return aggregator.weight_of(score) if isinstance(aggregator, WeightedAverage) else score.weight


def _configured(spec: Any, config: Mapping[str, Any]) -> Any:
    """A member with the set's configuration below its own."""
    if not config or spec.type not in _TAKES_CONFIG:
        return spec
    own = spec.config.get("config") or {}
    if not isinstance(own, Mapping):
        return spec
    return replace(spec, config={**spec.config, "config": {**config, **own}})
