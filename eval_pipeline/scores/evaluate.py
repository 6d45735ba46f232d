"""(Case, SessionReport) → Scores: the room's verb. What an evaluator looks for is in `evaluators/`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import TypeAdapter, ValidationError

from eval_pipeline.errors import InputError, Place, did_you_mean
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.plugins import Registry
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite
from eval_pipeline.suites.source import show_path


class Evaluator(Protocol):
    """Scores one subject. A registered evaluator is a dataclass whose fields are its arguments in a suite.

    `version` is part of a score's identity: raise it when the same arguments come to score differently. `reads` names
    the fields of the case, beyond its arguments, that a score depends on.
    """

    version: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    def evaluate(self, subject: Subject) -> Outcome:
        """What it found; raising means that it could not tell."""


EVALUATORS: Registry[type[Evaluator]] = Registry(
    "evaluator", folder="eval_pipeline.scores.evaluators", entry_point_group="eval_pipeline.evaluators"
)

_adapters: dict[type[Evaluator], TypeAdapter[Any]] = {}


@dataclass(frozen=True, slots=True)
class Asked:
    """An evaluator ready to be used: the spec, the part it names, and the identity of its score."""

    spec: EvaluatorSpec
    evaluator: Evaluator
    key: str


def ask(spec: EvaluatorSpec, case: Case) -> Asked:
    """The evaluator that a spec asks for. Raises InputError naming the argument that is wrong."""
    evaluator = build(spec)
    return Asked(spec, evaluator, spec_key(spec, evaluator, case))


def build(spec: EvaluatorSpec) -> Evaluator:
    """The evaluator of a spec, its arguments checked. Raises InputError."""
    part = EVALUATORS.get(spec.type, Place(field="type"))
    try:
        evaluator: Evaluator = _adapter(part).validate_python(spec.config)
    except ValidationError as error:
        raise _argument_error(spec, part, error) from None
    return evaluator


def spec_key(spec: EvaluatorSpec, evaluator: Evaluator, case: Case) -> str:
    """A score's identity beside its execution: the spec, the evaluator's version and what it reads of the case."""
    read = [getattr(case, name) for name in evaluator.reads]
    return fingerprint([
        spec.type, spec.name, spec.weight, spec.minimum, spec.negate, spec.failure_class, spec.config,
        evaluator.version, read,
    ])[:32]  # fmt: skip


def evaluate(subject: Subject, asked: Iterable[Asked]) -> list[Score]:
    """One score per evaluator, in order. An evaluator that breaks gives a score without a value."""
    return [_score(subject, one) for one in asked]


def check_suite(suite: Suite) -> tuple[dict[str, tuple[Asked, ...]], list[InputError]]:
    """The evaluators of every case, by case id, and an error for each case that asks for something unusable."""
    usable: dict[str, tuple[Asked, ...]] = {}
    errors: list[InputError] = []
    shared: dict[int, Evaluator] = {}
    for case in suite.cases:
        try:
            usable[case.id] = tuple(_ask_shared(spec, case, shared) for spec in case.evaluators)
        except InputError as error:
            errors.append(error.at(_place(suite, case, error)))
    return usable, errors


def _ask_shared(spec: EvaluatorSpec, case: Case, shared: dict[int, Evaluator]) -> Asked:
    """Like `ask`, but a spec that many cases inherit is built once."""
    evaluator = shared.get(id(spec))
    if evaluator is None:
        evaluator = shared[id(spec)] = build(spec)
    return Asked(spec, evaluator, spec_key(spec, evaluator, case))


def _place(suite: Suite, case: Case, error: InputError) -> Place:
    field = f"case '{case.id}'" + (f" {error.place.field}" if error.place.field else "")
    return Place(show_path(suite.path), case.line, field)


def _score(subject: Subject, asked: Asked) -> Score:
    spec = asked.spec
    begun = time.perf_counter()
    try:
        outcome = asked.evaluator.evaluate(subject)
    except Exception as error:  # noqa: BLE001 — the one boundary to evaluators: one that breaks could not tell
        outcome = Outcome(None, f"evaluator broke: {type(error).__name__}: {error}")
    if spec.negate:
        outcome = negated(outcome)
    return Score(
        execution_id=subject.report.execution_id,
        spec_key=asked.key,
        evaluator=spec.name,
        type=spec.type,
        value=outcome.value if outcome.value is None else min(1.0, max(0.0, outcome.value)),
        reason=outcome.reason,
        weight=spec.weight,
        minimum=spec.minimum,
        failure_class=spec.failure_class,
        findings=outcome.findings,
        details=outcome.details,
        duration_ms=(time.perf_counter() - begun) * 1000,
    )


def negated(outcome: Outcome) -> Outcome:
    """The opposite outcome; one that could not tell stays so."""
    if outcome.value is None:
        return outcome
    findings = tuple(Finding(finding.text, not finding.passed, finding.evidence) for finding in outcome.findings)
    return Outcome(1.0 - outcome.value, f"not: {outcome.reason}", findings, outcome.details)


def _adapter(part: type[Evaluator]) -> TypeAdapter[Any]:
    adapter = _adapters.get(part)
    if adapter is None:
        adapter = _adapters[part] = TypeAdapter(part)
    return adapter


_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a mapping",
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than_equal": "a number of at most {le:g}",
    "finite_number": "a finite number",
    "literal_error": "one of {expected}",
}


def _argument_error(spec: EvaluatorSpec, part: type[Evaluator], error: ValidationError) -> InputError:
    """pydantic's finding in our words: which argument, what was expected. An unknown argument is said first."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "unexpected_keyword_argument"), found[0])
    name = ".".join(str(step) for step in first["loc"])
    place = Place(field=f"{spec.type} {name}".strip())
    if first["type"] == "unexpected_keyword_argument":
        arguments = [field.name for field in fields(part)]  # type: ignore[arg-type]
        listing = f"there are: {', '.join(arguments)}" if arguments else "it takes none"
        return InputError(f"unknown argument; {listing}{did_you_mean(name, arguments)}", place)
    if first["type"] == "missing":
        return InputError("is needed and missing", place)
    if first["type"] == "value_error":
        return InputError(first["msg"].removeprefix("Value error, "), place)
    expected = _EXPECTED.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    got = first["input"]
    shown = repr(got) if isinstance(got, (str, int, float, bool, type(None))) else type(got).__name__
    return InputError(f"expected {expected}, got {shown}", place)


def suite_folder(suite: Suite) -> Path:
    """Where relative names in a suite begin."""
    return suite.path.parent
