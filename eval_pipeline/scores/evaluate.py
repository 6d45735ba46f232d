"""(Case, SessionReport) → Scores: the public verb of this room. The evaluators are in `evaluators/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Protocol

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypeIs

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.failures import failure_class
from eval_pipeline.fingerprints import canonical_json
from eval_pipeline.plugins import Registry
from eval_pipeline.scores.argument_errors import argument_error
from eval_pipeline.scores.boundary import failed_outcome, negate_outcome, validated_outcome
from eval_pipeline.scores.concurrently import concurrently
from eval_pipeline.scores.error_places import ErrorPlaces
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure, MeteredClient
from eval_pipeline.scores.model import DEFAULT_THRESHOLD, NOTHING, Outcome, Score, Subject
from eval_pipeline.scores.programs.payload import with_payload
from eval_pipeline.scores.redacted_arguments import comparable
from eval_pipeline.scores.score_identity import fields_read, score_key, spec_key
from eval_pipeline.suites.case_list import evaluators_of
from eval_pipeline.suites.model import Case, EvaluatorSpec, Suite


class Evaluator(Protocol):
    """Scores one subject. A registered evaluator is a dataclass whose fields are its arguments in a suite.

    `version` is part of a score's identity: increment it when the same arguments score differently. `reads` names the
    fields of the case, beyond the arguments, that a score depends on. An evaluator that runs the user's files has a
    method `content` (see `RunsFiles`). One that never looks into the workspace sets `sees_workspace = False`: no packed
    workspace is unpacked for it. One that waits for another process has `evaluate_apart` beside `evaluate`: the same,
    awaited.
    """

    version: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    def evaluate(self, subject: Subject) -> Outcome:
        """Return the outcome. An exception leaves the score without a value."""


class ClientEvaluator(Protocol):
    """An evaluator that needs a client for models, programs or other evaluators. It has `grade` instead of `evaluate`.

    `graders` names the runners that it calls (None: the default grader); they are part of a score's identity. An
    evaluator that sets something of them (`model`, `temperature`, `max_steps`) has `grader_calls` as well, so that a
    grader without such a setting is refused before it is called.
    """

    version: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]

    @property
    def graders(self) -> tuple[str | None, ...]:
        """The names of its graders; empty without graders."""

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        """Return the outcome. An exception leaves the score without a value."""


class RunsFiles(Protocol):
    """An evaluator whose scores depend on files beside the suite: an edited file invalidates its scores."""

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return fingerprints of the files by name. Raises InputError for an unusable file."""


AnyEvaluator = Evaluator | ClientEvaluator


def grader_uses(evaluator: ClientEvaluator) -> Sequence[GraderUse]:
    """Return the graders that an evaluator calls."""
    uses: Sequence[GraderUse] | None = getattr(evaluator, "grader_calls", None)
    return tuple(GraderUse(name) for name in evaluator.graders) if uses is None else uses


def requires_client(evaluator: AnyEvaluator) -> TypeIs[ClientEvaluator]:
    """Return whether an evaluator needs a grader client."""
    return hasattr(evaluator, "grade")


def sees_workspace(evaluator: AnyEvaluator) -> bool:
    """Return whether an evaluator may look into the workspace: its `sees_workspace`, else whether it is a plug-in."""
    return bool(getattr(evaluator, "sees_workspace", not type(evaluator).__module__.startswith("eval_pipeline.")))


class GraderUse(NamedTuple):
    """A grader that an evaluator calls, by name (None: the default one), and what the suite sets of it.

    `member` names the evaluator of a composite that calls it.
    """

    name: str | None
    settings: Mapping[str, Any] = NOTHING
    member: str | None = None


PASS_MARK = "pass mark"
GRADER = "grader "
"""The names, in the content of an evaluator, of the threshold that it scores by and, before its name, of a grader."""
GraderRevision = Callable[[str | None, Mapping[str, Any]], str]
"""Returns the revision of a grader's runner: of this name, or the default one. Raises InputError when there is none, or
when it does not have one of these settings."""


def unresolved_revision(name: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
    """Return the grader's name as its revision, where no runners are known."""
    return name or "default"


EVALUATORS: Registry[type[AnyEvaluator]] = Registry(
    "evaluator",
    folder="eval_pipeline.scores.evaluators",
    entry_point_group="eval_pipeline.evaluators",
    requires=("version", "reads"),
    listed_by="eval-pipeline schema suite",
)

_adapters: dict[type[AnyEvaluator], TypeAdapter[Any]] = {}


@dataclass(frozen=True)
class BoundEvaluator:
    """An evaluator with its spec and the identity of its score.

    `content` are the fingerprints of its files, the revisions of its graders and its own pass mark, by name. A
    sub-score has no `case`.
    """

    spec: EvaluatorSpec
    evaluator: AnyEvaluator
    key: str
    case: Case | None = None
    content: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads(self) -> dict[str, object]:
        """The fields of the case that its score depends on, by name."""
        return fields_read(self.evaluator, self.case) if self.case is not None else {}

    @cached_property
    def score_key(self) -> str:
        """The identity of what the score's value depends on: `key` without name, weight, gate and failure class."""
        return score_key(self.spec, self.evaluator, self.reads, self.content)

    @property
    def requires_client(self) -> bool:
        """Whether the evaluator needs a grader client."""
        return requires_client(self.evaluator)

    @property
    def is_awaited(self) -> bool:
        """Whether the evaluator waits for something: a grader, or another process."""
        return self.requires_client or hasattr(self.evaluator, "evaluate_apart")


def bind(
    spec: EvaluatorSpec,
    case: Case,
    folder: Path,
    revision_of: GraderRevision = unresolved_revision,
    threshold: float = DEFAULT_THRESHOLD,
) -> BoundEvaluator:
    """Return the evaluator of a spec. `threshold` is the least score that passes where the case sets none. Raises
    InputError naming the invalid argument."""
    return _bound(_build_with_content(spec, folder, revision_of, {}), case, threshold)


def build(spec: EvaluatorSpec) -> AnyEvaluator:
    """Construct the evaluator of a spec and validate its arguments. Raises InputError."""
    class_ = EVALUATORS.get(spec.type, SourceLocation(field="type"))
    try:
        evaluator: AnyEvaluator = argument_adapter(class_).validate_python(comparable(spec))
    except ValidationError as error:
        raise argument_error(spec, class_, error) from None
    return evaluator


def content_of(evaluator: AnyEvaluator, folder: Path) -> Mapping[str, str]:
    """Return fingerprints of the files that an evaluator runs; empty for one without files. Raises InputError."""
    content = getattr(evaluator, "content", None)
    fingerprints: Mapping[str, str] = content(folder) if content is not None else {}
    return fingerprints


def evaluate(subject: Subject, evaluators: Iterable[BoundEvaluator]) -> list[Score]:
    """Return one score per evaluator, in order. A failing evaluator yields a score without a value."""
    return [_score(subject, evaluator) for evaluator in evaluators]


async def evaluate_with(client: GraderClient, subject: Subject, evaluators: Iterable[BoundEvaluator]) -> list[Score]:
    """Score like `evaluate`, for evaluators that may need a client; those that do run concurrently.

    Those that look into the workspace run one after another, in order: one may change what the next one finds.
    """
    return await concurrently(
        list(evaluators),
        lambda bound: _score_with(client, subject, bound),
        in_order=lambda bound: subject.workspace is not None and sees_workspace(bound.evaluator),
    )


class EvaluatorSet:
    """The evaluators of a suite's cases, constructed on demand.

    Specs that many cases share are constructed once; the cache is bounded. `payload` is the runner's (`with_payload`).
    """

    def __init__(
        self,
        suite: Suite,
        revision_of: GraderRevision = unresolved_revision,
        threshold: float = DEFAULT_THRESHOLD,
        payload: str | None = None,
    ) -> None:
        self._suite, self._threshold, self._payload = suite, threshold, payload
        self._revision_of = revision_of
        self._folder = suite_folder(suite)
        self._built: dict[int, _Built] = {}
        self._contents: dict[bytes, Mapping[str, str]] = {}
        self._last: tuple[Case | None, Sequence[BoundEvaluator]] = None, ()

    def of(self, case: Case) -> Sequence[BoundEvaluator]:
        """Return the evaluators of a case, in order. Raises InputError for an unusable spec."""
        last, bound = self._last
        if case is not last:
            bound = [self._bind(spec, case) for spec in case.evaluators]
            self._last = case, bound
        return bound

    def keys(self, case: Case) -> list[str]:
        """Return the keys of a case's evaluators, in order. Those that the spec alone decides are not constructed."""
        return [self._key(spec, case) for spec in case.evaluators]

    def score_keys(self, case: Case) -> list[str]:
        """Return the identities of what the values of a case's scores depend on, in order; constructed like `keys`."""
        return [self._score_key(spec, case) for spec in case.evaluators]

    def is_decided_by_specs(self, case: Case) -> bool:
        """Return whether a case's evaluators need nothing but their specs: no files, no graders, no programs."""
        return all(self._decided_by(spec) is not None for spec in case.evaluators)

    def requires_client(self, case: Case) -> bool:
        """Return whether any evaluator of a case needs a grader client."""
        return not self.is_decided_by_specs(case) and any(bound.requires_client for bound in self.of(case))

    def _key(self, spec: EvaluatorSpec, case: Case) -> str:
        class_ = self._decided_by(spec)
        return spec_key(spec, class_, case, _NO_CONTENT) if class_ is not None else self._bind(spec, case).key

    def _score_key(self, spec: EvaluatorSpec, case: Case) -> str:
        class_ = self._decided_by(spec)
        if class_ is None:
            return self._bind(spec, case).score_key
        return score_key(spec, class_, fields_read(class_, case), _NO_CONTENT)

    def _decided_by(self, spec: EvaluatorSpec) -> type[AnyEvaluator] | None:
        """Return the class of an evaluator that its spec alone decides, unless the evaluator is there already."""
        class_ = EVALUATORS.find(spec.type)
        return class_ if class_ is not None and is_decided_by_spec(class_) else None

    def check(self) -> dict[str, InputError]:
        """Return an error for each case with an unusable evaluator, by case id."""
        problems, places = self.problems(), ErrorPlaces(self._suite)
        cases = self._suite.cases if problems else ()
        return {case.id: places.located(case, problems[case.id]) for case in cases if case.id in problems}

    def problems(self) -> dict[str, list[tuple[EvaluatorSpec, InputError]]]:
        """Return the unusable evaluators of each case that has some, by case id, with errors that have no place yet."""
        found: dict[str, list[tuple[EvaluatorSpec, InputError]]] = {}
        for case_id, specs in evaluators_of(self._suite.cases):
            if problems := list(self._problems(specs)):
                found[case_id] = problems
        return found

    def _problems(self, specs: Iterable[EvaluatorSpec]) -> Iterator[tuple[EvaluatorSpec, InputError]]:
        for spec in specs:
            try:
                self._build_cached(spec)
            except InputError as error:
                yield spec, error

    def _bind(self, spec: EvaluatorSpec, case: Case) -> BoundEvaluator:
        return _bound(self._build_cached(spec), case, self._threshold)

    def _build_cached(self, spec: EvaluatorSpec) -> _Built:
        built = self._built.get(id(spec))
        if built is None:
            if len(self._built) >= _MAX_CACHED:
                self._built.clear()
            own = with_payload(spec, self._payload)
            built = self._built[id(spec)] = _build_with_content(own, self._folder, self._revision_of, self._contents)
        return built


@cache
def is_decided_by_spec(class_: type[AnyEvaluator]) -> bool:
    """Return whether the keys of an evaluator need nothing but its spec and its class: no files, no graders."""
    constants = isinstance(class_.version, str) and isinstance(class_.reads, tuple)
    return constants and not hasattr(class_, "content") and not hasattr(class_, "grade")


_NO_CONTENT: Mapping[str, str] = {}
_MAX_CACHED = 256
_Built = tuple[EvaluatorSpec, AnyEvaluator, Mapping[str, str]]


def _bound(built: _Built, case: Case, threshold: float) -> BoundEvaluator:
    spec, evaluator, content = built
    limit = case.threshold if case.threshold is not None else threshold
    mark: float | None = evaluator.pass_mark(limit) if hasattr(evaluator, "pass_mark") else None
    if mark is not None and mark != DEFAULT_THRESHOLD:  # scores by the usual mark keep the key that they had
        content = {**content, PASS_MARK: str(mark)}
    return BoundEvaluator(spec, evaluator, spec_key(spec, evaluator, case, content), case, content)


def _build_with_content(
    spec: EvaluatorSpec, folder: Path, revision_of: GraderRevision, contents: dict[bytes, Mapping[str, str]]
) -> _Built:
    evaluator = build(spec)
    if is_decided_by_spec(type(evaluator)):
        return spec, evaluator, _NO_CONTENT
    content = dict(_content_once(spec, evaluator, folder, contents))
    if requires_client(evaluator):
        content |= {f"{GRADER}{use.name or ''}": _revision(spec, use, revision_of) for use in grader_uses(evaluator)}
    return spec, evaluator, content


def _content_once(
    spec: EvaluatorSpec, evaluator: AnyEvaluator, folder: Path, contents: dict[bytes, Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the content of an evaluator; files that many cases name alike are looked at once for all of them."""
    if not hasattr(evaluator, "content"):
        return {}
    key = canonical_json([spec.type, spec.config])
    if key not in contents:
        if len(contents) >= _MAX_CACHED:
            contents.clear()
        contents[key] = content_of(evaluator, folder)
    return contents[key]


def _revision(spec: EvaluatorSpec, use: GraderUse, revision_of: GraderRevision) -> str:
    try:
        return revision_of(use.name, use.settings)
    except InputError as error:
        if error.place.field not in use.settings:
            raise
        if use.member is None:
            raise error.at(SourceLocation(field=f"{spec.type} {error.place.field}")) from None
        problem = f"member '{use.member}', {error.place.field}: {error.problem}"
        raise InputError(problem, SourceLocation(field=spec.type)) from None


def _score(subject: Subject, bound: BoundEvaluator) -> Score:
    started = perf_counter()
    try:
        if requires_client(bound.evaluator):
            raise TypeError("evaluator needs a grader client; none was configured")
        outcome = validated_outcome(bound.evaluator.evaluate(subject))
    except BaseException as error:  # noqa: BLE001 — the one boundary to evaluators: whatever one raises leaves no value
        outcome = failed_outcome(error)
    return _to_score(subject, bound, outcome, started)


async def _score_with(client: GraderClient, subject: Subject, bound: BoundEvaluator) -> Score:
    if not bound.is_awaited:
        return _score(subject, bound)
    started, metered = perf_counter(), MeteredClient(client)
    try:
        outcome = validated_outcome(await _awaited(metered, subject, bound.evaluator))
    except GraderFailure as failure:
        outcome = Outcome(None, str(failure), details={"failure_class": failure.failure_class})
    except BaseException as error:  # noqa: BLE001 — the same boundary, for evaluators with a client
        outcome = failed_outcome(error)
    return _to_score(subject, bound, outcome, started, metered.usd)


def _awaited(client: GraderClient, subject: Subject, evaluator: AnyEvaluator) -> Awaitable[Outcome]:
    if requires_client(evaluator):
        return evaluator.grade(subject, client)
    apart: Awaitable[Outcome] = evaluator.evaluate_apart(subject)  # type: ignore[attr-defined]
    return apart


def _to_score(
    subject: Subject, bound: BoundEvaluator, outcome: Outcome, started: float, grading_cost_usd: float | None = 0.0
) -> Score:
    spec = bound.spec
    if spec.negate:
        outcome = negate_outcome(outcome)
    return Score(
        execution_id=subject.report.execution_id,
        spec_key=bound.key,
        evaluator=spec.name,
        type=spec.type,
        value=outcome.value,
        reason=outcome.reason,
        weight=spec.weight,
        minimum=spec.minimum,
        failure_class=outcome.failure_class or spec.failure_class,
        findings=outcome.findings,
        details=outcome.details,
        duration_ms=(perf_counter() - started) * 1000,
        members=outcome.members,
        passes=outcome.passes,
        score_key=bound.score_key if bound.case is not None else None,
        grading_cost_usd=grading_cost_usd,
        failure_label=_label(outcome),
    )


def _label(outcome: Outcome) -> str | None:
    """Return the label of the class that an outcome has."""
    if outcome.failure_class is None:
        return None
    return outcome.failure_label or failure_class(outcome.failure_class).label


def argument_adapter(class_: type[AnyEvaluator]) -> TypeAdapter[Any]:
    """Return what validates the arguments of an evaluator.

    An evaluator without a configuration of its own, as plug-ins are, refuses unknown arguments like ours.
    """
    adapter = _adapters.get(class_)
    if adapter is None:
        if not hasattr(class_, "__pydantic_config__") and not hasattr(class_, "model_config"):
            class_.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=True)  # type: ignore[union-attr]
        adapter = _adapters[class_] = TypeAdapter(class_)
    return adapter


def suite_folder(suite: Suite) -> Path:
    """Return the folder against which a suite's relative names are resolved."""
    return suite.path.parent
