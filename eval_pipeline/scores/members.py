"""Nested evaluators: raw entries → specs, validated when the outer evaluator is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, model_validator

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import Source
from eval_pipeline.scores.concurrently import concurrently
from eval_pipeline.scores.evaluate import (
    AnyEvaluator,
    GraderUse,
    build,
    content_of,
    grader_uses,
    requires_client,
    sees_workspace,
)
from eval_pipeline.scores.evaluators import ARGUMENTS
from eval_pipeline.scores.grader_client import GraderClient
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, Finding, Outcome, Score, Subject, SubScore
from eval_pipeline.suites.evaluator_lists import EvaluatorReader
from eval_pipeline.suites.model import EvaluatorSpec

OLDER_NAMES = ("assert", "evaluators")
"""Older names of `assertions`, read where that is absent."""
_NOWHERE = Path("suite.yaml")
_ENTRY = frozenset(field.name for field in fields_of(EvaluatorSpec))


@dataclass(frozen=True, kw_only=True)
class CompositeEvaluator:
    """Base of evaluators with sub-scores: `assertions`, each validated when the evaluator is built."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ("input", "expected_output", "criteria", "metadata", "tags", "conversation")
    assertions: Any

    @model_validator(mode="before")
    @classmethod
    def _rename_evaluators(cls, arguments: Any) -> Any:
        if not isinstance(arguments, Mapping) or "assertions" in arguments:
            return arguments
        old = next((name for name in OLDER_NAMES if name in arguments), None)
        return {"assertions" if name == old else name: value for name, value in arguments.items()}

    def __post_init__(self) -> None:
        _ = self.parts

    @cached_property
    def members(self) -> tuple[EvaluatorSpec, ...]:
        """The specs of the members, with distinct names."""
        return member_specs(self.assertions)

    @cached_property
    def parts(self) -> tuple[tuple[EvaluatorSpec, AnyEvaluator], ...]:
        """Each member with its evaluator. Raises ValueError naming an invalid member."""
        return tuple((spec, _built(spec)) for spec in self.members)

    def pass_mark(self, limit: float) -> float | None:
        """Return the least value with which a member passes, where the case passes from `limit` on."""
        return limit

    @property
    def graders(self) -> tuple[str | None, ...]:
        names = (name for _, part in self.parts if requires_client(part) for name in part.graders)
        return tuple(dict.fromkeys(names))

    @property
    def grader_calls(self) -> Sequence[GraderUse]:
        """The graders that the members call."""
        return tuple(
            use._replace(member=spec.name)
            for spec, part in self.parts
            if requires_client(part)
            for use in grader_uses(part)
        )

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return the inputs of the members' scores besides their arguments: versions and the files that they run."""
        return dict(self._contents(folder))

    def _contents(self, folder: Path) -> Iterator[tuple[str, str]]:
        for spec, part in self.parts:
            yield f"{spec.name}: version", part.version
            try:
                content = content_of(part, folder)
            except InputError as error:
                raise InputError(
                    error.problem, SourceLocation(field=f"member '{spec.name}' {error.place.field or ''}")
                ) from None
            yield from ((f"{spec.name}: {name}", value) for name, value in content.items())

    async def member_scores(self, subject: Subject, client: GraderClient) -> list[Score]:
        """Return the members' scores in order, computed concurrently except for those that look into the workspace."""
        return await concurrently(
            self.parts,
            lambda part: client.score(part[0], subject),
            in_order=lambda part: subject.workspace is not None and sees_workspace(part[1]),
        )

    @property
    def sees_workspace(self) -> bool:
        """Whether a member looks into the workspace."""
        return any(sees_workspace(part) for _, part in self.parts)


def member_specs(raw: Any) -> tuple[EvaluatorSpec, ...]:
    """Return the specs of a list of members: entries of a suite, or fields of a spec. Raises ValueError."""
    if not isinstance(raw, (list, tuple)):
        raise ValueError(f"assertions: expected a list of evaluators, got {type(raw).__name__}")
    if all(isinstance(entry, Mapping) and set(entry) == _ENTRY for entry in raw):
        return _each_name_once([EvaluatorSpec(**entry) for entry in raw])
    nowhere = FieldCursor(Source(_NOWHERE, "", lambda path: None), ("assertions",))
    try:
        return _each_name_once(EvaluatorReader().read_list(list(raw), nowhere))
    except InputError as error:
        raise ValueError(str(error)) from None


def _each_name_once(specs: Sequence[EvaluatorSpec]) -> tuple[EvaluatorSpec, ...]:
    """Return the specs with distinct names: repeated names are numbered."""
    names: dict[str, None] = {}
    for spec in specs:
        tries = (spec.name if number == 1 else f"{spec.name}-{number}" for number in range(1, len(specs) + 1))
        names[next(name for name in tries if name not in names)] = None
    return tuple(replace(spec, name=name) for spec, name in zip(specs, names, strict=True))


def _built(spec: EvaluatorSpec) -> AnyEvaluator:
    try:
        return build(spec)
    except InputError as error:
        raise ValueError(f"member '{spec.name}': {error}") from None
    except RecursionError:
        raise ValueError(f"member '{spec.name}': evaluators inside each other, too deep") from None


def weighted_mean(scores: Sequence[Score], weights: Mapping[str, float]) -> float:
    """Return Σ weight·value / Σ weight of scores with values; 0 when all weights are 0 (AgentV)."""
    total = sum(weights[score.evaluator] for score in scores)
    return sum(weights[score.evaluator] * (score.value or 0.0) for score in scores) / total if total else 0.0


def failed_gate(scores: Sequence[Score]) -> Score | None:
    """Return the first required member below its minimum, or failing its own gate."""
    return next((score for score in scores if score.minimum is not None and _misses(score)), None)


def open_gate(scores: Sequence[Score]) -> Score | None:
    """Return the first required member without a value: the state of its gate is unknown."""
    return next((score for score in scores if score.minimum is not None and score.value is None), None)


def _misses(score: Score) -> bool:
    return score.passes_gate is False or (score.value is not None and score.passes is False)


def left_out(scores: Sequence[Score]) -> str:
    """Return a note on the sub-scores without a value; empty when there are none."""
    silent = "; ".join(f"{score.evaluator} has no score: {score.reason}" for score in scores if score.value is None)
    return f"; left out: {silent}" if silent else ""


def with_members(
    outcome: Outcome, scores: Sequence[Score], weights: Mapping[str, float], mark: float = DEFAULT_THRESHOLD
) -> Outcome:
    """Return an outcome with its members' findings and rows added after its own; a member passes from `mark` on."""
    findings = (finding for score in scores for finding in findings_of(score, mark))
    members = tuple(as_member(score, weights.get(score.evaluator, score.weight)) for score in scores)
    return outcome._replace(findings=(*outcome.findings, *findings), members=(*outcome.members, *members))


def findings_of(score: Score, mark: float) -> Iterator[Finding]:
    """Yield a member's findings under its name; without findings, its reason as one."""
    for finding in score.findings:
        yield Finding(f"[{score.evaluator}] {finding.text}", finding.passed, finding.evidence)
    if not score.findings and score.value is not None:
        yield Finding(f"[{score.evaluator}] {score.reason}", score.passed(mark) is True)


def as_member(score: Score, weight: float) -> SubScore:
    """Return a member's score as a sub-score row; nested members are stored in its details."""
    members = [dict(zip(SubScore._fields, member, strict=True)) for member in score.members]
    facts = {"passes": score.passes, "minimum": score.minimum, "members": members or None}
    details = {**score.details, **{name: value for name, value in facts.items() if value is not None}}
    return SubScore(score.evaluator, score.type, score.value, score.reason, weight, details=details)
