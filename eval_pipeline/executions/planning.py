"""Suite × Runners → Plans: the plans of a sweep and their identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.identity import ContentOf, PlanIdentity, PlayedBy, RunnerIdentity
from eval_pipeline.executions.model import Plan, Runner
from eval_pipeline.executions.sampling import CaseSample, difficulty_of
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.suites.workspace import Hook

ACTIVE = frozenset({"active"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """Selects cases of a suite: of these statuses, any of the ids, any of the tags, all of `all_tags`, any of the
    difficulties and names (empty: all). A name is a part of a case's id or name, in any case. `sample` draws from what
    the rest selects: `on` returns the filter of a suite, which names the drawn ids."""

    ids: frozenset[str] = field(default_factory=frozenset)
    tags: frozenset[str] = field(default_factory=frozenset)
    difficulties: frozenset[str] = field(default_factory=frozenset)
    statuses: frozenset[str] = ACTIVE
    all_tags: frozenset[str] = field(default_factory=frozenset)
    names: frozenset[str] = field(default_factory=frozenset)
    sample: CaseSample | None = None

    def __bool__(self) -> bool:
        """Whether it selects anything but all active cases."""
        narrowing = (self.ids, self.tags, self.all_tags, self.difficulties, self.names, self.sample)
        return any(narrowing) or self.statuses != ACTIVE

    def __call__(self, case: Case) -> bool:
        return (
            case.status in self.statuses
            and (not self.ids or case.id in self.ids)
            and (not self.tags or not self.tags.isdisjoint(case.tags))
            and self.all_tags <= set(case.tags)
            and (not self.difficulties or difficulty_of(case) in self.difficulties)
            and (not self.names or _is_named(case, self.names))
        )

    def on(self, suite: Suite) -> CaseFilter:
        """Return the filter of the cases of a suite: with the ids that the sample draws. Raises InputError when a suite
        has too few cases of a share."""
        if self.sample is None:
            return self
        drawn = self.sample.drawn(suite.name, (case for case in suite.cases if self(case)))
        return replace(self, ids=frozenset(drawn) or frozenset({""}), sample=None)

    @property
    def whole(self) -> CaseFilter:
        """The filter of all cases that this one narrows down: those of its statuses."""
        return CaseFilter(statuses=self.statuses)


def _is_named(case: Case, names: frozenset[str]) -> bool:
    text = f"{case.id}\n{case.metadata.get('name') or ''}".casefold()
    return any(name.casefold() in text for name in names)


ALL_ACTIVE = CaseFilter()


def plan_pair(
    suite: Suite,
    runner: Runner,
    identity: RunnerIdentity,
    *,
    repetitions: Callable[[Case], int] = lambda case: 1,
    case_filter: CaseFilter | None = None,
    any_runner: bool = False,
    content_of: ContentOf | None = None,
    played_by: PlayedBy | None = None,
) -> Iterator[Plan]:
    """Yield the plans of one pair, case by case; the `repetitions(case)` plans of a case (from 1) are adjacent.

    `identity` is that of the runner, `content_of` returns what workspaces depend on beside their specs,
    `played_by` the identity of the simulator of a user.
    """
    plans = PlanIdentity(suite.name, identity, content_of, played_by)
    first = _first_cases(suite, runner, case_filter, any_runner)
    for case in pair_cases(suite, runner, case_filter, any_runner=any_runner):
        keys = plans.keys(case)
        dependency_cases = [first[id_] for id_ in case.depends_on if id_ in first] if first else ()
        dependencies = [(plans.keys(other), repetitions(other)) for other in dependency_cases]
        for repetition in range(1, repetitions(case) + 1):
            yield Plan(
                suite=suite.name,
                case=case,
                runner=runner,
                repetition=repetition,
                key=keys.key(repetition),
                earlier_key=keys.earlier_key(repetition),
                after=tuple(other.key(min(repetition, most)) for other, most in dependencies),
            )


def _first_cases(suite: Suite, runner: Runner, case_filter: CaseFilter | None, any_runner: bool) -> dict[str, Case]:
    """Return the planned cases that others depend on, by id."""
    if not traits_of(suite.cases).has_dependencies:
        return {}
    named = {id_ for case in suite.cases for id_ in case.depends_on}
    return {case.id: case for case in pair_cases(suite, runner, case_filter, any_runner=any_runner) if case.id in named}


def pair_cases(
    suite: Suite, runner: Runner, case_filter: CaseFilter | None = None, *, any_runner: bool = False
) -> Iterator[Case]:
    """Yield the cases of a suite that a runner executes.

    A case runs on the runners it names, else on those its suite names, else on all. `any_runner` ignores the suite's
    selection (the user chose the runner by name), but never a case's own. Without a filter only active cases count.
    """
    selects = case_filter.on(suite) if case_filter else ALL_ACTIVE if traits_of(suite.cases).has_inactive else None
    of_suite = () if any_runner else suite.settings.runners
    name = runner.stands_for or runner.name
    hooks = suite.settings.runner_hooks.get(name)
    for case in suite.cases:
        named = case.runners or of_suite
        if (not named or name in named) and (selects is None or selects(case)):
            yield case if hooks is None or case.workspace is None else _with_hooks(case, hooks)


def _with_hooks(case: Case, hooks: Mapping[str, Hook]) -> Case:
    assert case.workspace is not None
    return replace(case, workspace=case.workspace.for_runner(hooks))


def check_case_ids(suites: Sequence[Suite], ids: Iterable[str]) -> None:
    """Raise UnknownName for a case id that no suite has."""
    requested = list(ids)
    known = {case.id for suite in suites for case in suite.cases} if requested else set()
    for id_ in requested:
        if id_ not in known:
            raise UnknownName("case", id_, known)


def check_tags(suites: Iterable[Suite], tags: Iterable[str]) -> None:
    """Raise InputError for a tag that no case has."""
    requested = sorted(tags)
    known = {tag for suite in suites for case in suite.cases for tag in case.tags} if requested else set()
    for tag in requested:
        if tag not in known:
            raise InputError(f"no case matches the selection: {UnknownName('tag', tag, known)}")
