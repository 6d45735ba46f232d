"""`composite` and `assert-set`: one score computed from several evaluators' scores."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError

from eval_pipeline.errors import did_you_mean
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.imports import import_roots
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.evaluate import EVALUATORS, GraderUse
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit, Text
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.grading.context import GraderContext
from eval_pipeline.scores.grading.fences import fences_for, neutralize
from eval_pipeline.scores.grading.grader import Share
from eval_pipeline.scores.grading.grader_calls import call_grader
from eval_pipeline.scores.grading.prompts import build_question
from eval_pipeline.scores.grading.templates import FILE_PREFIX, template_file, with_prompt
from eval_pipeline.scores.grading.verdicts import FreeForm
from eval_pipeline.scores.grading.votes import single_outcome
from eval_pipeline.scores.members import (
    OLDER_NAMES,
    CompositeEvaluator,
    failed_gate,
    left_out,
    member_specs,
    open_gate,
    weighted_mean,
    with_members,
)
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject, at_least
from eval_pipeline.scores.programs.command import argv_of, command_content, command_text, program_folder, run_command
from eval_pipeline.scores.programs.reply import json_object, protocol_outcome, unreadable_outcome

RESULTS = "{{EVALUATOR_RESULTS_JSON}}"
_CALL_DETAILS = frozenset({
    "grader", "model", "settings", "prompt", "reply", "replies", "tries", "usage", "cached", "duration_ms",
    "grader_calls", "command", "suite_settings", "vote",
})  # fmt: skip
"""Details of a sub-score about the grader's call, not about the result. They are not passed on."""
_TAKES_CONFIG = frozenset({"javascript", "python", "webhook", "script", "code-grader", "assert-set"})
_DEFAULT_PROMPT = (
    "Several evaluators looked at the same answer. Judge from what they found how good the answer is as a whole.\n\n"
    f"What they found, by name:\n{RESULTS}"
)


class Aggregator(Protocol):
    """Combines sub-scores into one outcome. All scores have values."""

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        """Return the outcome. Raises GraderFailure when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedAverage:
    """Σ weight·value / Σ weight. A weight in `weights`, by evaluator name, overrides the evaluator's own."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    weights: dict[str, Limit] = field(default_factory=dict)

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        value = weighted_mean(scores, {score.evaluator: self.weight_of(score) for score in scores})
        parts = ", ".join(f"{score.evaluator} {score.value:g}" for score in scores)
        return Outcome(value, f"weighted mean of {parts}")

    def weight_of(self, score: Score) -> float:
        """Return the weight of a sub-score in this aggregator."""
        return self.weights.get(score.evaluator, score.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The share of evaluators that pass; the outcome passes from `threshold` on."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    threshold: Share

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        passed = sum(score.passed(subject.pass_mark) is True for score in scores)
        value = passed / len(scores)
        passes = at_least(value, self.threshold)
        reason = f"{passed} of {len(scores)} members pass; {self.threshold:g} required"
        return Outcome(value, reason, (Finding(reason, passes),), passes=passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAggregator:
    """The result of a program with the input `{"results": {evaluator: …}}`: `score`, `verdict`, `assertions`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    path: Any
    cwd: Text | None = None
    timeout_s: Limit | None = None

    def __post_init__(self) -> None:
        argv_of(self.path)

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the files that the command names."""
        return command_content(argv_of(self.path), program_folder(self.cwd, folder), import_roots(folder))

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        argv = argv_of(self.path)
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-grader-", ignore_cleanup_errors=True) as scratch:
            result = await run_command(
                argv,
                cwd=program_folder(self.cwd, subject.folder),
                scratch=Path(scratch),
                stdin=to_json({"results": member_results(scores, subject.pass_mark)}),
                env={},
                timeout_s=self.timeout_s or client.timeout_s,
            )
        if result.exit_code != 0:
            problem = result.stderr.strip() or result.stdout.strip()
            raise GraderFailure(f"{command_text(argv)} ended with {result.exit_code}: {problem}")
        reply = json_object(result.stdout)
        if reply is None:
            return unreadable_outcome(result.stdout)
        outcome = protocol_outcome(reply)
        passes = {"pass": True, "fail": False}.get(str(reply.get("verdict")), outcome.passes)
        return outcome._replace(passes=passes)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderAggregator:
    """The result of a model; `{{EVALUATOR_RESULTS_JSON}}` in `prompt` is replaced by the sub-scores."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    prompt: Text = _DEFAULT_PROMPT
    target: Text | None = None
    model: Text | None = None

    @property
    def graders(self) -> tuple[str | None, ...]:
        return (self.target,)

    @property
    def grader_call(self) -> GraderUse:
        """The grader that the aggregator calls."""
        return GraderUse(self.target, self._settings(), "aggregator")

    def _settings(self) -> Mapping[str, Any]:
        return {} if self.model is None else {"model": self.model}

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return the fingerprint of the prompt's file."""
        if not self.prompt.startswith(FILE_PREFIX):
            return {}
        return {self.prompt: file_fingerprint(template_file(self.prompt, folder))}

    async def combine(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        results = to_json(_neutralized(member_results(scores, subject.pass_mark))).decode()
        fences = fences_for([results])
        scored = self._template(subject.folder).replace(RESULTS, fences.between("results", results))
        material = GraderContext(subject, {"results": results}, fences)
        question = build_question(material, FreeForm(), scored)
        call = await call_grader(client, question, grader=self.target, settings=self._settings())
        return single_outcome(call, {})

    def _template(self, folder: Path) -> str:
        if not self.prompt.startswith(FILE_PREFIX):
            return self.prompt
        return template_file(self.prompt, folder).read_text("utf-8")


AGGREGATORS: Mapping[str, type[Aggregator]] = {
    "weighted-average": WeightedAverage,
    "threshold": Threshold,
    "code-grader": ProgramAggregator,
    "llm-grader": GraderAggregator,
}


def _with_old_name(schema: dict[str, Any]) -> None:
    """Adds the older names of `assertions` to what editors accept."""
    schema["required"] = ["aggregator"]
    schema["properties"] |= {name: {"type": "array", "deprecated": True} for name in OLDER_NAMES}


@EVALUATORS.register("composite")
@dataclass(frozen=True, kw_only=True)
class Composite(CompositeEvaluator):
    """One score of the evaluators in `assertions` (or `evaluators`), computed by the `aggregator`.

    Its `type` is `weighted_average` (with `weights` by evaluator name), `threshold` (the share of evaluators that
    pass), `code-grader` (a program, `path`) or `llm-grader` (a model, `prompt`). An evaluator may be negated and
    weighted; a failed `required` one makes the total 0. Evaluators without a score are left out, and the reason names
    them.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(**ARGUMENTS, json_schema_extra=_with_old_name)
    aggregator: dict[str, Any]

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
        """The aggregator with validated arguments. Raises ValueError."""
        return _aggregator(self.aggregator)

    @property
    def graders(self) -> tuple[str | None, ...]:
        extra: tuple[str | None, ...] = getattr(self.combining, "graders", ())
        return tuple(dict.fromkeys((*super().graders, *extra)))

    @property
    def grader_calls(self) -> Sequence[GraderUse]:
        aggregator = self.combining
        extra = (aggregator.grader_call,) if isinstance(aggregator, GraderAggregator) else ()
        return (*super().grader_calls, *extra)

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the files of the evaluators and of the aggregator."""
        aggregator = self.combining
        extra = aggregator.content(folder) if isinstance(aggregator, (ProgramAggregator, GraderAggregator)) else {}
        return {**super().content(folder), **{f"aggregator: {name}": value for name, value in extra.items()}}

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        scores = await self.member_scores(subject, client)
        weights = {score.evaluator: _weight(self.combining, score) for score in scores}
        return with_members(await self._combined(scores, subject, client), scores, weights, subject.pass_mark)

    async def _combined(self, scores: Sequence[Score], subject: Subject, client: GraderClient) -> Outcome:
        outcome = _early_outcome(scores)
        if outcome is not None:
            return outcome
        scored = [score for score in scores if score.value is not None]
        try:
            outcome = await self.combining.combine(scored, subject, client)
        except GraderFailure as failure:
            return Outcome(None, f"the sub-scores could not be combined: {failure}")
        return apply_gate(outcome._replace(reason=outcome.reason + left_out(scores)), scores)


@EVALUATORS.register("assert-set")
@dataclass(frozen=True, kw_only=True)
class AssertSet(CompositeEvaluator):
    """The weighted mean of the evaluators in `assertions`.

    With a `threshold` it passes from there on; without one, when every weighted evaluator passes. `config` is passed to
    evaluators that accept one. A failed `required` evaluator makes the total 0.
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
        outcome = _early_outcome(scores) or self._mean(scores, weights, subject.pass_mark)
        return with_members(outcome, scores, weights, subject.pass_mark)

    def _mean(self, scores: Sequence[Score], weights: Mapping[str, float], mark: float) -> Outcome:
        scored = [score for score in scores if score.value is not None]
        value = weighted_mean(scored, weights)
        failing = [score.evaluator for score in scored if score.weight and score.passed(mark) is False]
        if self.threshold is not None:
            passes, result = at_least(value, self.threshold), f"{value:g} of the required {self.threshold:g}"
        else:
            passes, result = not failing, f"{', '.join(failing)} did not pass" if failing else "every member passes"
        return apply_gate(Outcome(value, f"weighted mean: {result}{left_out(scores)}", passes=passes), scores)


def apply_gate(outcome: Outcome, scores: Sequence[Score]) -> Outcome:
    """Apply the required evaluators to an outcome: a failed one makes the value 0, as in a verdict."""
    gate = failed_gate(scores)
    if gate is None or outcome.value is None:
        return outcome
    reason = f"required {gate.evaluator} failed with {gate.value:g}: {gate.reason}; without it {outcome.value:g}"
    details = {**outcome.details, "ungated": outcome.value}
    return outcome._replace(value=0.0, reason=reason, details=details, passes=False)


def member_results(scores: Sequence[Score], mark: float) -> dict[str, dict[str, Any]]:
    """Return the scores by evaluator name, in AgentV's form; a member passes from `mark` on."""
    return {score.evaluator: _result(score, mark) for score in scores}


def _result(score: Score, mark: float) -> dict[str, Any]:
    return {
        "name": score.evaluator,
        "type": score.type,
        "score": score.value,
        "weight": score.weight,
        "verdict": "pass" if score.passed(mark) else "fail",
        "assertions": [
            {"text": finding.text, "passed": finding.passed, "evidence": finding.evidence} for finding in score.findings
        ],
        "reason": score.reason,
        "details": {name: value for name, value in score.details.items() if name not in _CALL_DETAILS},
    }


def _neutralized(results: Any) -> Any:
    """Neutralize the texts of results, so that the model cannot take them for instructions or verdicts."""
    if isinstance(results, str):
        return neutralize(results)
    if isinstance(results, Mapping):
        return {name: _neutralized(value) for name, value in results.items()}
    return [_neutralized(value) for value in results] if isinstance(results, (list, tuple)) else results


def _early_outcome(scores: Sequence[Score]) -> Outcome | None:
    """Return an outcome without a value if no score or a required score is missing; else None."""
    open_score = open_gate(scores)
    if open_score is not None and failed_gate(scores) is None:
        return Outcome(None, f"required {open_score.evaluator} has no score: {open_score.reason}")
    if all(score.value is None for score in scores):
        return Outcome(None, f"no sub-score available{left_out(scores)}")
    return None


def _aggregator(raw: Mapping[str, Any]) -> Aggregator:
    kind = canonical_name(str(raw.get("type")))
    class_ = AGGREGATORS.get(kind)
    if class_ is None:
        hint = did_you_mean(kind, AGGREGATORS)
        raise ValueError(f"aggregator type: no '{raw.get('type')}'; there are: {', '.join(AGGREGATORS)}{hint}")
    arguments = {name: value for name, value in raw.items() if name != "type"}
    if class_ is GraderAggregator:
        arguments = with_prompt(arguments)
    try:
        aggregator: Aggregator = _adapter(class_).validate_python(arguments)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        steps = ".".join(map(str, first["loc"]))
        problem = _PROBLEMS.get(first["type"], first["msg"].removeprefix("Value error, "))
        if first["type"] == "unexpected_keyword_argument":
            problem += did_you_mean(steps, class_.__annotations__)
        raise ValueError(f"aggregator {steps}: {problem}".replace(" :", ":")) from None
    return aggregator


@cache
def _adapter(class_: type[Aggregator]) -> TypeAdapter[Any]:
    return TypeAdapter(class_)


_PROBLEMS = {
    "missing": "required",
    "unexpected_keyword_argument": "unknown argument of this aggregator",
}


def _weight(aggregator: Aggregator, score: Score) -> float:
    return aggregator.weight_of(score) if isinstance(aggregator, WeightedAverage) else score.weight


def _configured(spec: Any, config: Mapping[str, Any]) -> Any:
    """Return the spec with the set's configuration merged below its own."""
    if not config or spec.type not in _TAKES_CONFIG:
        return spec
    extra = spec.config.get("config") or {}
    if not isinstance(extra, Mapping):
        return spec
    return replace(spec, config={**spec.config, "config": {**config, **extra}})
