"""Suite × Runners → Plans: the cells of a sweep and their identity."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Plan, Runner
from eval_pipeline.executions.runners import UnusableRunner
from eval_pipeline.fingerprints import canonical_json, fingerprint
from eval_pipeline.suites.model import Case, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """Which cases of a suite are meant: any of the ids and any of the tags (both empty: all)."""

    ids: frozenset[str] = field(default_factory=frozenset)
    tags: frozenset[str] = field(default_factory=frozenset)

    def __call__(self, case: Case) -> bool:
        return (not self.ids or case.id in self.ids) and (not self.tags or not self.tags.isdisjoint(case.tags))


def runner_revision(runner: Runner) -> str:
    """The identity of a runner: adapter and its version, settings without secrets, files its answers depend on.

    An adapter that makes its runner into one of another adapter (`equivalent`) has the identity of that one.

    Raises InputError for a runner that cannot be used.
    """
    if isinstance(runner, UnusableRunner):
        raise runner.problem
    factory = ADAPTERS.get(runner.adapter)
    equivalent = getattr(factory, "equivalent", None)
    if equivalent is not None:
        return runner_revision(equivalent(runner))
    return fingerprint([runner.adapter, factory.version, runner.public_settings, factory(runner).content()])


def plan_pair(
    suite: Suite,
    runner: Runner,
    revision: str,
    *,
    repetitions: Callable[[Case], int] = lambda case: 1,
    wanted: CaseFilter | None = None,
    any_runner: bool = False,
) -> Iterator[Plan]:
    """The plans of one suite × runner, case by case, `repetitions(case)` (from 1) of a case together.

    `revision` is `runner_revision(runner)`. A plan's key is the SHA-256 of: runner revision, suite name, case id,
    what the target can see of the case, repetition.
    """
    prefix = hashlib.sha256(canonical_json([revision, suite.name]))
    first = _first_cases(suite, runner, wanted, any_runner)
    for case in pair_cases(suite, runner, wanted, any_runner=any_runner):
        own = _case_hash(prefix, case)
        before = [first[id_] for id_ in case.depends_on if id_ in first]
        others = [(_case_hash(prefix, other), repetitions(other)) for other in before]
        for repetition in range(1, repetitions(case) + 1):
            yield Plan(
                suite=suite.name,
                case=case,
                runner=runner,
                repetition=repetition,
                key=_key(own, repetition),
                after=tuple(_key(other, min(repetition, most)) for other, most in others),
            )


def _first_cases(suite: Suite, runner: Runner, wanted: CaseFilter | None, any_runner: bool) -> dict[str, Case]:
    """The cases that others depend on and that are planned themselves, by id."""
    named = {id_ for case in suite.cases for id_ in case.depends_on}
    if not named:
        return {}
    return {case.id: case for case in pair_cases(suite, runner, wanted, any_runner=any_runner) if case.id in named}


def _case_hash(prefix: hashlib._Hash, case: Case) -> hashlib._Hash:
    case_hash = prefix.copy()
    case_hash.update(canonical_json([case.id, case.fingerprint_fields()]))
    return case_hash


def _key(case_hash: hashlib._Hash, repetition: int) -> str:
    cell = case_hash.copy()
    cell.update(b"%d" % repetition)
    return cell.hexdigest()


def pair_cases(
    suite: Suite, runner: Runner, wanted: CaseFilter | None = None, *, any_runner: bool = False
) -> Iterator[Case]:
    """The cases of a suite that a runner is to carry out.

    A case runs on the runners it names, else on those its suite names, else on all; `any_runner` sets the suite's
    choice aside (someone chose the runner by name), never a case's own.
    """
    of_suite = () if any_runner else suite.settings.runners
    for case in suite.cases:
        named = case.runners or of_suite
        if (not named or runner.name in named) and (wanted is None or wanted(case)):
            yield case


def check_case_ids(suites: Sequence[Suite], ids: Iterable[str]) -> None:
    """Raises UnknownName for a case id that no suite has."""
    known = {case.id for suite in suites for case in suite.cases}
    for id_ in ids:
        if id_ not in known:
            raise UnknownName("case", id_, known)
