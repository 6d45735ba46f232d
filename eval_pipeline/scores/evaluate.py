"""(Case, SessionReport) → Scores: the room's verb. What an evaluator looks for is in `evaluators/`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Protocol, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeIs

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.parsing.source import show_path
from eval_pipeline.plugins import Registry
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject
from eval_pipeline.suites.model import Case, Conversation, EvaluatorSpec, Message, Suite


class Evaluator(Protocol):
    """Scores one subject. A registered evaluator is a dataclass whose fields are its arguments in a suite.

    `version` is part of a score's identity: raise it when the same arguments come to score differently. `reads` names
    the fields of the case, beyond its arguments, that a score depends on. One that runs a file of the user's says so
    by a method `content` (see `RunsFiles`).
    """

    version: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    def evaluate(self, subject: Subject) -> Outcome:
        """What it found; raising means that it could not tell."""


class Asking(Protocol):
    """An evaluator that needs the outside: a model, a program, other evaluators. It has `grade` for `evaluate`.

    `graders` names the runners that it asks (None in it: the default one); they are part of a score's identity.
    """

    version: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    @property
    def graders(self) -> tuple[str | None, ...]:
        """The names of the graders it asks; empty when it asks none."""

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        """What it found; raising means that it could not tell."""


class RunsFiles(Protocol):
    """An evaluator whose scores depend on files beside the suite: editing one makes its scores new."""

    def content(self, folder: Path) -> Mapping[str, str]:
        """Fingerprints of the files, by name. Raises InputError when one cannot be used."""


AnyEvaluator = Evaluator | Asking


def asks(evaluator: AnyEvaluator) -> TypeIs[Asking]:
    """Whether an evaluator needs the outside."""
    return hasattr(evaluator, "grade")


GraderRevision = Callable[[str | None], str]
"""The revision of the runner that grades: of this name, or the default one. Raises InputError when there is none."""


def no_graders(name: str | None) -> str:
    """Where no runners are known, a grader is known by its name."""
    return name or "default"


EVALUATORS: Registry[type[AnyEvaluator]] = Registry(
    "evaluator", folder="eval_pipeline.scores.evaluators", entry_point_group="eval_pipeline.evaluators"
)

_adapters: dict[type[AnyEvaluator], TypeAdapter[Any]] = {}


@dataclass(frozen=True, slots=True)
class BoundEvaluator:
    """An evaluator ready to be used: the spec, the part it names, and the identity of its score."""

    spec: EvaluatorSpec
    evaluator: AnyEvaluator
    key: str

    @property
    def requires_client(self) -> bool:
        """Whether it asks anything of the outside."""
        return asks(self.evaluator)


def bind(spec: EvaluatorSpec, case: Case, folder: Path, revision_of: GraderRevision = no_graders) -> BoundEvaluator:
    """The evaluator that a spec asks for. Raises InputError naming the argument that is wrong."""
    built = _build_with_content(spec, folder, revision_of)
    return BoundEvaluator(spec, built[1], spec_key(spec, built[1], case, built[2]))


def build(spec: EvaluatorSpec) -> AnyEvaluator:
    """The evaluator of a spec, its arguments checked. Raises InputError."""
    part = EVALUATORS.get(spec.type, SourceLocation(field="type"))
    try:
        evaluator: AnyEvaluator = _adapter(part).validate_python(spec.config)
    except ValidationError as error:
        raise _argument_error(spec, part, error) from None
    return evaluator


def content_of(evaluator: AnyEvaluator, folder: Path) -> Mapping[str, str]:
    """Fingerprints of the files that an evaluator runs; empty for one that runs none. Raises InputError."""
    content = getattr(evaluator, "content", None)
    found: Mapping[str, str] = content(folder) if content is not None else {}
    return found


def spec_key(spec: EvaluatorSpec, evaluator: AnyEvaluator, case: Case, content: Mapping[str, str]) -> str:
    """A score's identity beside its execution: the spec, the evaluator's version, what it reads of the case, and the
    content of the files it runs and the graders it asks."""
    read = [_as_seen(getattr(case, name)) for name in evaluator.reads]
    return fingerprint([
        spec.type, spec.name, spec.weight, spec.minimum, spec.negate, spec.failure_class, spec.config,
        evaluator.version, read, content,
    ])[:32]  # fmt: skip


def _as_seen(value: object) -> object:
    """A field of a case without where its attached files lie: another checkout of a suite has the same scores."""
    if isinstance(value, Message | Conversation):
        return value.fingerprint_fields()
    return [_as_seen(item) for item in value] if isinstance(value, tuple) else value


def evaluate(subject: Subject, asked: Iterable[BoundEvaluator]) -> list[Score]:
    """One score per evaluator, in order. An evaluator that breaks gives a score without a value."""
    return [_score(subject, one) for one in asked]


async def evaluate_with(client: GraderClient, subject: Subject, asked: Iterable[BoundEvaluator]) -> list[Score]:
    """The same for evaluators that may need the outside; those that do run side by side."""
    return list(await asyncio.gather(*(_score_with(client, subject, one) for one in asked)))


class EvaluatorSet:
    """The evaluators of a suite's cases, built when they are asked for.

    Only the latest few are kept: those that many cases inherit are built once, and a suite of any size stays small.
    """

    def __init__(self, suite: Suite, revision_of: GraderRevision = no_graders) -> None:
        self._suite = suite
        self._revision_of = revision_of
        self._folder = suite_folder(suite)
        self._built: dict[int, _Built] = {}

    def of(self, case: Case) -> list[BoundEvaluator]:
        """The evaluators of a case, in order. Raises InputError for a spec that cannot be used."""
        return [self._ask(spec, case) for spec in case.evaluators]

    def check(self) -> dict[str, InputError]:
        """An error for each case that asks for an unusable evaluator, by case id."""
        errors: dict[str, InputError] = {}
        for case in self._suite.cases:
            try:
                for spec in case.evaluators:
                    self._find(spec)
            except InputError as error:
                errors[case.id] = error.at(_place(self._suite, case, error))
        return errors

    def _ask(self, spec: EvaluatorSpec, case: Case) -> BoundEvaluator:
        _, evaluator, content = self._find(spec)
        return BoundEvaluator(spec, evaluator, spec_key(spec, evaluator, case, content))

    def _find(self, spec: EvaluatorSpec) -> _Built:
        built = self._built.get(id(spec))
        if built is None:
            if len(self._built) >= _KEPT:
                self._built.clear()
            built = self._built[id(spec)] = _build_with_content(spec, self._folder, self._revision_of)
        return built


_KEPT = 256
_Built = tuple[EvaluatorSpec, AnyEvaluator, Mapping[str, str]]


def _build_with_content(spec: EvaluatorSpec, folder: Path, revision_of: GraderRevision) -> _Built:
    evaluator = build(spec)
    content = dict(content_of(evaluator, folder))
    if asks(evaluator):
        content |= {f"grader {name or ''}": revision_of(name) for name in evaluator.graders}
    return spec, evaluator, content


def _place(suite: Suite, case: Case, error: InputError) -> SourceLocation:
    field = f"case '{case.id}'" + (f" {error.place.field}" if error.place.field else "")
    return SourceLocation(show_path(case.origin or suite.path), case.line, field)


def _score(subject: Subject, asked: BoundEvaluator) -> Score:
    begun = perf_counter()
    try:
        if asks(asked.evaluator):
            raise TypeError("it asks the outside, which is not to be had here")
        outcome = _usable(asked.evaluator.evaluate(subject))
    except Exception as error:  # noqa: BLE001 — the one boundary to evaluators: one that breaks could not tell
        outcome = _broken(error)
    return _as_score(subject, asked, outcome, begun)


async def _score_with(client: GraderClient, subject: Subject, asked: BoundEvaluator) -> Score:
    if not asks(asked.evaluator):
        return _score(subject, asked)
    begun = perf_counter()
    try:
        outcome = _usable(await asked.evaluator.grade(subject, client))
    except GraderFailure as failure:
        outcome = Outcome(None, str(failure), details={"failure_class": failure.failure_class})
    except Exception as error:  # noqa: BLE001 — the same boundary, for evaluators that ask the outside
        outcome = _broken(error)
    return _as_score(subject, asked, outcome, begun)


def _broken(error: Exception) -> Outcome:
    return Outcome(None, f"evaluator broke: {type(error).__name__}: {error}")


def _as_score(subject: Subject, asked: BoundEvaluator, outcome: Outcome, begun: float) -> Score:
    spec = asked.spec
    if spec.negate:
        outcome = negated(outcome)
    return Score(
        execution_id=subject.report.execution_id,
        spec_key=asked.key,
        evaluator=spec.name,
        type=spec.type,
        value=outcome.value,
        reason=outcome.reason,
        weight=spec.weight,
        minimum=spec.minimum,
        failure_class=spec.failure_class,
        findings=outcome.findings,
        details=outcome.details,
        duration_ms=(perf_counter() - begun) * 1000,
        members=outcome.members,
        passes=outcome.passes,
    )


def _usable(outcome: Outcome) -> Outcome:
    """The outcome with its value in [0, 1]. Raises for what is no outcome, or no number: both say nothing."""
    value = outcome.value
    if value is None or 0.0 <= value <= 1.0:
        return outcome
    if math.isnan(value):
        raise ValueError("its value is not a number")
    return outcome._replace(value=min(1.0, max(0.0, value)))


def negated(outcome: Outcome) -> Outcome:
    """The opposite outcome; one that could not tell stays so."""
    if outcome.value is None:
        return outcome
    findings = tuple(Finding(finding.text, not finding.passed, finding.evidence) for finding in outcome.findings)
    passes = None if outcome.passes is None else not outcome.passes
    return Outcome(1.0 - outcome.value, f"not: {outcome.reason}", findings, outcome.details, outcome.members, passes)


def _adapter(part: type[AnyEvaluator]) -> TypeAdapter[Any]:
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
    "dataclass_type": "a mapping",
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than_equal": "a number of at most {le:g}",
    "finite_number": "a finite number",
    "literal_error": "one of {expected}",
}


def _argument_error(spec: EvaluatorSpec, part: type[AnyEvaluator], error: ValidationError) -> InputError:
    """pydantic's finding in our words: which argument, what was expected. An unknown argument is said first."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "unexpected_keyword_argument"), found[0])
    name = ".".join(str(step) for step in first["loc"])
    place = SourceLocation(field=f"{spec.type} {name}".strip())
    if first["type"] == "unexpected_keyword_argument":
        arguments = [field.name for field in fields(_holder(part, first["loc"][:-1]))]
        listing = f"there are: {', '.join(arguments)}" if arguments else "it takes none"
        return InputError(f"unknown argument; {listing}{did_you_mean(str(first['loc'][-1]), arguments)}", place)
    if first["type"] == "missing":
        return InputError("is needed and missing", place)
    if first["type"] == "value_error":
        return InputError(first["msg"].removeprefix("Value error, "), place)
    expected = _EXPECTED.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    got = first["input"]
    shown = repr(got) if isinstance(got, (str, int, float, bool, type(None))) else type(got).__name__
    return InputError(f"expected {expected}, got {shown}", place)


def _holder(part: Any, steps: Iterable[int | str]) -> Any:
    """The dataclass that an argument stands in: the evaluator, or what one of its arguments is made of."""
    for step in steps:
        if isinstance(step, str):
            part = next(_dataclasses_in(get_type_hints(part)[step]))
    return part


def _dataclasses_in(type_: Any) -> Iterator[Any]:
    if is_dataclass(type_):
        yield type_
    for inner in get_args(type_):
        yield from _dataclasses_in(inner)


def suite_folder(suite: Suite) -> Path:
    """Where relative names in a suite begin."""
    return suite.path.parent
