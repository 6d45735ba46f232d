"""Which of the requested pairs a sweep can carry out, and why not the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.errors import InputError
from eval_pipeline.executions.planning import check_case_ids
from eval_pipeline.sweeps.named_sweeps import NamedSweep, named_sweep, runners_in
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.pairs import Pair, count_plans
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


@dataclass(frozen=True, slots=True)
class SelectedPairs:
    """The usable ones of some pairs, the reason of each unusable one, and warnings about money."""

    pairs: list[Pair]
    unusable: dict[PairKey, str]
    warnings: Sequence[str] = ()


def select_pairs(session: ProjectSession, names: Sequence[PairKey], options: SweepOptions) -> SelectedPairs:
    """Return the pairs that can be carried out and graded; unusable ones do not stop the others.

    Raises InputError for a case id that no suite has, and when ids and tags select nothing.
    """
    pairs, unusable = session.usable_pairs(names)
    checked = preflight(session, pairs, options)
    usable = checked.usable(pairs)
    if usable:
        check_cases(usable, options)
    refused = {name: str(error) for name, error in checked.errors.items()}
    return SelectedPairs(usable, unusable | refused, checked.warnings)


def pairs_of_sweep(session: ProjectSession, names: Sequence[PairKey], name: str | None) -> list[PairKey]:
    """Return those of some pairs that belong to the sweep of the project file with this name; None: to one without a
    name, which has no runners of a matrix. A pair whose suite cannot be read stays: whoever carries it out says why.

    Raises UnknownName for a sweep, and for a suite of it that is not there.
    """
    sweep = named_sweep(session.project, name) if name is not None else NamedSweep()
    root = session.project.root
    session.load_suites()
    sweep.check_names((ready.suite for ready in session.suites.values()), root, session.broken)
    return [pair for pair in names if _is_in(pair, name, sweep, session)]


def _is_in(pair: PairKey, name: str | None, sweep: NamedSweep, session: ProjectSession) -> bool:
    ready = session.suites.get(pair.suite)
    if ready is None:
        return True
    runner = session.runners_of(ready.suite).get(pair.runner)
    takes_part = runner is None or bool(runners_in(session.project, name, [runner]))
    return takes_part and sweep.covers_suite(ready.suite, session.project.root)


def check_cases(pairs: Sequence[Pair], options: SweepOptions) -> None:
    """Raise InputError for a case id that no suite has, and when ids and tags select nothing."""
    check_case_ids([pair.ready.suite for pair in pairs], options.cases.ids)
    if options.cases and not any(count_plans(pair, options, options.cases) for pair in pairs):
        raise InputError("no case matches the selection")
