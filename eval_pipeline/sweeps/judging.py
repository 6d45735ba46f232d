"""Anchors: stored answers that the graders of a sweep grade again and again, so that a judge that drifts shows.

The answers are chosen once, from what is current when the sweep first ends with `anchors`, and stay the same. Each is
graded several times at first; those grades are the base that later ones are compared with (view `judge_drift`). No
target is called, and no stored reply of a grader is used.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from eval_pipeline.errors import EvalPipelineError, error_text
from eval_pipeline.executions.model import Execution
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import (
    EVALUATORS,
    GRADER,
    BoundEvaluator,
    evaluate_with,
    requires_client,
    suite_folder,
)
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.case_list import evaluators_of
from eval_pipeline.suites.model import Case, EvaluatorSpec
from eval_pipeline.sweeps.anchor_rules import Anchors
from eval_pipeline.sweeps.budget import NO_SPENDING, Budget, Spending
from eval_pipeline.sweeps.costs import limits_of
from eval_pipeline.sweeps.decisions import PairRules, pair_rules
from eval_pipeline.sweeps.evaluator_specs import graders_of
from eval_pipeline.sweeps.grading import Graders, SweepGraderClient
from eval_pipeline.sweeps.month_budgets import month_budget
from eval_pipeline.sweeps.named_sweeps import named_sweep, with_named
from eval_pipeline.sweeps.options import LaunchOptions, SweepOptions
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.recording import ARCHIVE, files_of, normalizer_of, score_without_secrets, template_of
from eval_pipeline.sweeps.rescoring import GRADED_AT_ONCE
from eval_pipeline.sweeps.scoring import unpacked
from eval_pipeline.sweeps.selection import pairs_of_sweep
from eval_pipeline.sweeps.sweep import make_graders
from eval_pipeline.sweeps.sweep_store import new_id
from eval_pipeline.warehouse.anchors import (
    Anchor,
    base_grades,
    candidates,
    frozen_anchors,
    pairs_beside,
    reports_of,
    store_anchor_scores,
)
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.spending import Spent


@dataclass(frozen=True, slots=True)
class Judging:
    """A grading of all anchors of a sweep: `grades` that graders gave, `base` of them first ones; `gone` is why anchors
    are not graded, each reason with their number."""

    grades: int = 0
    base: int = 0
    gone: Mapping[str, int] | None = None


def judge_anchors(
    session: ProjectSession, name: str, *, choose_anew: bool = False, spent: Spent | None = None
) -> Judging | None:
    """Grade the anchors of a sweep of the project file again, and store the grades; None where it has none.

    Anchors are chosen for each suite that has none yet, or for all to `choose_anew`. The budgets of the sweep, of which
    `spent` is used up, and of its month hold: what is left over is not graded. Raises UnknownName for the sweep.
    """
    rules = named_sweep(session.project, name).anchors
    if rules is None or not session.warehouse.exists():
        return None
    session.clock.follow(session.warehouse)
    now = session.clock.now()
    options = with_named(session.project, LaunchOptions(sweep=name)).resolve(session.project.defaults)
    graders = make_graders(options, session.warehouse, session.runner)
    graders.always_new = True
    before = NO_SPENDING if spent is None else Spending(spent.usd, spent.attempts, spent.tokens)
    budget = Budget(limits_of(options), month=month_budget(session.project, session.warehouse, name), before=before)
    anchor_graders = _AnchorGraders(session, options, graders, rules, budget)
    known = [] if choose_anew else frozen_anchors(session.warehouse, name)
    anchors = [*known, *_chosen(session, name, anchor_graders, now, {anchor.pair.suite for anchor in known})]
    identity = {"judging_id": new_id(now), "sweep_name": name, "judged_at": now}
    grading = _Grading(anchor_graders, base_grades(session.warehouse, name), identity)
    try:
        asyncio.run(grading.run(list(anchor_graders.questions(anchors))))
    finally:
        if grading.stored:
            session.warehouse.publish()
    return Judging(grading.grades, grading.base, {reason: len(ids) for reason, ids in anchor_graders.gone.items()})


@dataclass(frozen=True, slots=True)
class _Question:
    """One evaluator with graders, and an answer that it grades."""

    anchor: Anchor
    rules: PairRules
    case: Case
    execution: Execution
    report: SessionReport
    bound: BoundEvaluator

    @property
    def key(self) -> str:
        """The identity of the grading, whoever grades: arguments, fields of the case, files, the answer."""
        spec, content = self.bound.spec, self.bound.content
        arguments = {name: value for name, value in content.items() if not name.startswith(GRADER)}
        parts = [spec.type, spec.negate, spec.config, self.bound.evaluator.version, self.bound.reads, arguments]
        answer = [self.report.final_output, normalizer_of(self.execution)]
        return fingerprint([*parts, *answer])[:32]


@dataclass(frozen=True, slots=True)
class _PairCases:
    """The rules of a pair, where each case of its suite is, and which of them may call a grader."""

    rules: PairRules
    positions: Mapping[str, int]
    graded: Set[str]

    def find(self, case_id: str) -> Case | None:
        """Return a case by its id; None when the suite has none."""
        position = self.positions.get(case_id)
        return self.rules.pair.ready.suite.cases[position] if position is not None else None


class _AnchorGraders:
    """The evaluators with graders of the pairs that anchors are of, as the project is now."""

    def __init__(
        self, session: ProjectSession, options: SweepOptions, graders: Graders, rules: Anchors, budget: Budget
    ) -> None:
        self.session, self.options, self.graders, self.anchors = session, options, graders, rules
        self.budget = budget
        self.gone: defaultdict[str, set[str]] = defaultdict(set)
        self._pairs: dict[PairKey, _PairCases | str] = {}

    def pair(self, name: PairKey) -> _PairCases | str:
        """Return the rules and cases of a pair, or why it cannot be graded."""
        if name not in self._pairs:
            self._pairs[name] = self._load(name)
        return self._pairs[name]

    def _load(self, name: PairKey) -> _PairCases | str:
        try:
            (pair,) = self.session.pairs([name])
            self.graders.secrets.update(pair.runner.secrets)
            rules = pair_rules(pair, self.options, self.graders)
        except EvalPipelineError as error:
            return str(error)
        positions: dict[str, int] = {}
        graded: set[str] = set()
        for position, (case_id, specs) in enumerate(evaluators_of(pair.ready.suite.cases)):
            positions[case_id] = position
            if any(self._may_grade(spec) for spec in specs):
                graded.add(case_id)
        return _PairCases(rules, positions, graded)

    def _may_grade(self, spec: EvaluatorSpec) -> bool:
        """Return whether an evaluator is one of the selected, and of a type that may call a grader."""
        selected = self.anchors.evaluators
        return hasattr(EVALUATORS.find(spec.type), "grade") and (not selected or spec.name in selected)

    def may_grade(self, name: PairKey, case_id: str | None = None) -> bool:
        """Return whether a case of a pair (None: any) may have a selected evaluator that calls a grader."""
        cases = self.pair(name)
        return not isinstance(cases, str) and (bool(cases.graded) if case_id is None else case_id in cases.graded)

    def graded_by(self, anchor: Anchor) -> tuple[PairRules, Case, list[BoundEvaluator]] | str:
        """Return the case of an anchor and its evaluators that call a grader, or why there are none."""
        cases = self.pair(anchor.pair)
        if isinstance(cases, str):
            return cases
        case, rules = cases.find(anchor.case_id), cases.rules
        if case is None:
            return f"{anchor.pair.suite} has no case '{anchor.case_id}' any more"
        selected = self.anchors.evaluators
        try:
            evaluators = rules.evaluators.of(case)
        except EvalPipelineError as error:  # the case changed after the anchor was chosen
            return f"case '{case.id}' of {anchor.pair.suite} cannot be graded: {error}"
        bound = [
            each
            for each in evaluators
            if requires_client(each.evaluator)
            and each.evaluator.graders
            and (not selected or each.spec.name in selected)
        ]
        return (rules, case, bound) if bound else f"no evaluator of {anchor.pair.suite} calls a grader"

    def questions(self, anchors: Sequence[Anchor]) -> Iterator[_Question]:
        """Yield the gradings that anchors need; `gone` has why others are not graded."""
        stored = reports_of(self.session.warehouse, anchors)
        for anchor in anchors:
            graded, answer = self.graded_by(anchor), stored.get(anchor.execution_id)
            if isinstance(graded, str) or answer is None:
                reason = graded if isinstance(graded, str) else "the stored answer was deleted"
                self.gone[reason].add(anchor.execution_id)
                continue
            rules, case, evaluators = graded
            yield from (_Question(anchor, rules, case, *answer, bound) for bound in evaluators)

    async def score(self, question: _Question) -> Score:
        """Return a new grade of an answer: one without a value where a stop was requested, a budget is spent, or
        grading raised."""
        suite, key = question.anchor.pair.suite, uuid4().hex
        while (turn := self.budget.hold_grading(suite, key)) is not None:
            await turn
        stopped = "a stop was requested" if self.session.stop.requested else None
        refusal = stopped or self.budget.grading_refusal(suite)
        client = self.graders.client(question.rules.pair.runner)
        try:
            if refusal is not None:
                return self._not_graded(question, refusal, cost_usd=0.0)
            return await self._grade(question, client)
        except Exception as error:  # noqa: BLE001 — the other answers are graded
            return self._not_graded(question, error_text(error))
        finally:
            self.budget.settle_grading(suite, key, client.spent)

    def _not_graded(self, question: _Question, reason: str, cost_usd: float | None = None) -> Score:
        spec, bound, execution_id = question.bound.spec, question.bound, question.anchor.execution_id
        score = Score(execution_id, bound.key, spec.name, spec.type, None, reason, grading_cost_usd=cost_usd)
        score = score_without_secrets(score, tuple(self.graders.secrets))
        self.gone[score.reason].add(question.anchor.execution_id)
        return score

    async def _grade(self, question: _Question, client: SweepGraderClient) -> Score:
        rules, case = question.rules, question.case
        folder = suite_folder(rules.pair.ready.suite)
        async with self._workspace(question) as workspace:
            isolation = self.options.defaults.isolation
            subject = Subject(case, question.report, folder, workspace, rules.threshold, isolation)
            (score,) = await evaluate_with(client, subject, [question.bound])
        return score_without_secrets(score, tuple(self.graders.secrets))

    @asynccontextmanager
    async def _workspace(self, question: _Question) -> AsyncIterator[Path | None]:
        """The workspace as the target left it; None where it is not kept, or the case has none."""
        left, anchor = question.execution.workspace, question.anchor
        if question.case.workspace is None:
            yield None
            return
        files = files_of(
            self.session.warehouse.storage.artifacts, question.rules.pair, question.execution.key, anchor.sweep_id
        )
        live = left.path if left is not None else None
        with unpacked(live, files / ARCHIVE, template_of(question.case)) as folder:
            yield folder


def _chosen(
    session: ProjectSession, name: str, anchor_graders: _AnchorGraders, now: datetime, frozen: set[str]
) -> Iterator[Anchor]:
    """Yield new anchors of the suites of a sweep that have none: as many answers of each as its rules say.

    Only answers of pairs that a grader may grade are read.
    """
    stored = pairs_beside(session.warehouse, frozen)
    pairs = [pair for pair in pairs_of_sweep(session, stored, name) if anchor_graders.may_grade(pair)] if stored else []
    missing = Counter({pair.suite: anchor_graders.anchors.size for pair in pairs})
    for anchor in candidates(session.warehouse, pairs, anchor_graders.anchors.cases, now) if pairs else ():
        suite = anchor.pair.suite
        if not missing[suite] or not anchor_graders.may_grade(anchor.pair, anchor.case_id):
            continue
        if not isinstance(anchor_graders.graded_by(anchor), str):
            missing[suite] -= 1
            yield anchor
            if not missing.total():
                return


@dataclass(slots=True)
class _Grading:
    """The grades of one judging, stored in batches as they are made: each is paid for. `bases` are the numbers of base
    grades that are stored; `identity` are the columns that all rows share."""

    anchor_graders: _AnchorGraders
    bases: Mapping[tuple[Any, ...], int]
    identity: Row
    grades: int = 0
    base: int = 0
    stored: int = 0
    _unstored: list[Row] = field(default_factory=list)

    async def run(self, questions: Sequence[_Question]) -> None:
        """Make the missing base grades of each answer, else one grade. First grades come first, so that an end in
        between leaves every chosen anchor with one."""
        places = asyncio.Semaphore(GRADED_AT_ONCE)
        missing = [self._missing(question) for question in questions]
        takes = [
            (take, question, number > 0)
            for question, number in zip(questions, missing, strict=True)
            for take in range(1, (number or 1) + 1)
        ]
        takes.sort(key=lambda each: each[0])
        tasks = [asyncio.create_task(self._grade(places, *each)) for each in takes]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            try:
                await self.anchor_graders.graders.close()
            finally:
                self._store()

    def _missing(self, question: _Question) -> int:
        anchor = question.anchor
        key = (anchor.execution_id, question.bound.spec.name, question.key, anchor.frozen_at)
        return max(0, self.anchor_graders.anchors.base - self.bases.get(key, 0))

    async def _grade(self, places: asyncio.Semaphore, take: int, question: _Question, base: bool) -> None:
        async with places:
            score = await self.anchor_graders.score(question)
        self._unstored.append({**self.identity, **_row(question, score, self.anchor_graders, base, take)})
        if score.value is not None:
            self.grades += 1
            self.base += base
        if len(self._unstored) >= GRADED_AT_ONCE:
            self._store()

    def _store(self) -> None:
        if self._unstored:
            store_anchor_scores(self.anchor_graders.session.warehouse, self._unstored)
            self.stored += len(self._unstored)
            self._unstored = []


def _row(question: _Question, score: Score, anchor_graders: _AnchorGraders, base: bool, take: int) -> Row:
    anchor, pair = question.anchor, question.rules.pair
    mark = score.minimum if score.minimum is not None else question.rules.threshold
    by = graders_of(question.bound, pair, anchor_graders.graders) or []
    return {
        "suite": anchor.pair.suite, "runner": anchor.pair.runner, "case_id": anchor.case_id,
        "repetition": anchor.repetition, "execution_id": anchor.execution_id, "evaluator": score.evaluator,
        "question_key": question.key, "base": base, "take": take, "value": score.value, "passed": score.passed(mark),
        "reason": score.reason, "cost_usd": score.grading_cost_usd, "frozen_at": anchor.frozen_at,
        "grader": _joined(by, "runner"), "model": _joined(by, "model"), "grader_revision": _joined(by, "revision"),
    }  # fmt: skip


def _joined(graders: Sequence[Row], name: str) -> str | None:
    return ", ".join(str(each[name]) for each in graders if each[name] is not None) or None
