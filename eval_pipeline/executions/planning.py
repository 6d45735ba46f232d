"""Suite × Runners → Plans: the cells of a sweep and their identity."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from eval_pipeline.errors import UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.model import Plan, Runner
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
    """The identity of a runner: adapter and its version, settings without secrets, files its answers depend on."""
    factory = ADAPTERS.get(runner.adapter)
    return fingerprint([runner.adapter, factory.version, runner.public_settings, factory(runner).content()])


def plan_cell(
    suite: Suite,
    runner: Runner,
    revision: str,
    *,
    repetitions: int = 1,
    wanted: CaseFilter | None = None,
    any_runner: bool = False,
) -> Iterator[Plan]:
    """The plans of one suite × runner, case by case, repetitions (from 1) of a case together.

    `revision` is `runner_revision(runner)`. A plan's key is the SHA-256 of: runner revision, suite name, case id,
    what the target can see of the case, repetition.
    """
    prefix = hashlib.sha256(canonical_json([revision, suite.name]))
    for case in cell_cases(suite, runner, wanted, any_runner=any_runner):
        case_hash = prefix.copy()
        case_hash.update(canonical_json([case.id, case.visible()]))
        for repetition in range(1, repetitions + 1):
            cell = case_hash.copy()
            cell.update(b"%d" % repetition)
            yield Plan(suite=suite.name, case=case, runner=runner, repetition=repetition, key=cell.hexdigest())


def cell_cases(
    suite: Suite, runner: Runner, wanted: CaseFilter | None = None, *, any_runner: bool = False
) -> Iterator[Case]:
    """The cases of a suite that a runner is to carry out.

    A case runs on the runners it names, else on those its suite names, else on all; `any_runner` sets that aside
    (someone chose the runner by name).
    """
    for case in suite.cases:
        named = case.runners or suite.settings.runners
        if (any_runner or not named or runner.name in named) and (wanted is None or wanted(case)):
            yield case


def check_case_ids(suites: Sequence[Suite], ids: Iterable[str]) -> None:
    """Raises UnknownName for a case id that no suite has."""
    known = {case.id for suite in suites for case in suite.cases}
    for id_ in ids:
        if id_ not in known:
            raise UnknownName("case", id_, known)
