"""What a sweep of the project file is to cover, as the project is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.case_list import evaluators_of, traits_of
from eval_pipeline.suites.names import default_name
from eval_pipeline.sweeps.named_sweeps import file_of, named_sweep, runners_in, with_named
from eval_pipeline.sweeps.options import LaunchOptions
from eval_pipeline.sweeps.pairs import Pair, requested_pairs
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey


def expected_pairs(session: ProjectSession, name: str) -> Iterator[PairKey]:
    """Yield the pairs of a sweep with a case to carry out; the suites of the session are loaded."""
    sweep, root = named_sweep(session.project, name), session.project.root
    selected = with_named(session.project, LaunchOptions(sweep=name)).case_filter
    for ready in session.suites.values():
        if sweep.covers_suite(ready.suite, root):
            chosen = runners_in(session.project, name, session.runners_of(ready.suite).values())
            yield from requested_pairs(ready, chosen, selected)


def unlimited_sweeps(session: ProjectSession, pairs: Sequence[Pair]) -> Iterator[tuple[str, InputError]]:
    """Yield the sweeps whose budget cannot hold for one of these pairs, with the reason: the cost stays unknown."""
    project = session.project
    for name, sweep in project.sweeps.items():
        taking_part = runners_in(project, name, {pair.runner.name: pair.runner for pair in pairs}.values())
        names = {runner.name for runner in taking_part}
        covered = [
            pair for pair in pairs if pair.runner.name in names and sweep.covers_suite(pair.ready.suite, project.root)
        ]
        options = with_named(project, LaunchOptions(sweep=name)).resolve(project.defaults)
        checked = preflight(session, covered, options)
        yield from ((name, checked.errors[pair]) for pair in list(checked.unlimited)[:1])


def unknown_anchor_names(session: ProjectSession, name: str) -> Iterator[str]:
    """Yield a warning for each case and evaluator that `anchors` of a sweep names and none of its suites has, and where
    nothing of these asks a grader; all suites of the project are loaded in the session."""
    sweep, root = named_sweep(session.project, name), session.project.root
    anchors = sweep.anchors
    if anchors is None:
        return
    covered = [ready.suite for ready in session.suites.values() if sweep.covers_suite(ready.suite, root)]
    types = {each for suite in covered for each in traits_of(suite.cases).evaluator_types}
    if types and not any(hasattr(EVALUATORS.find(each), "grade") for each in types):
        problem = "no suite of the sweep has an evaluator that asks a grader; nothing is graded again"
        yield f"sweeps.{name}.anchors: {problem}"
    if not (anchors.cases or anchors.evaluators):
        return
    cases: set[str] = set()
    evaluators: set[str] = set()
    for suite in covered:
        for case_id, specs in evaluators_of(suite.cases):
            cases.add(case_id)
            evaluators.update(spec.name for spec in specs)
    place = f"sweeps.{name}.anchors"
    for kind, names, known in (("case", anchors.cases, cases), ("evaluator", anchors.evaluators, evaluators)):
        for unknown in (each for each in names if each not in known):
            yield f"{place}.{kind}s: no suite of the sweep has the {kind} '{unknown}'{did_you_mean(unknown, known)}"


def unreadable_suites(session: ProjectSession, name: str) -> Iterator[InputError]:
    """Yield why files of a sweep are no suites."""
    sweep, root = named_sweep(session.project, name), session.project.root
    for error in session.broken:
        path = file_of(error)
        if path is None or sweep.covers_file(path, default_name(path), root):
            yield error
