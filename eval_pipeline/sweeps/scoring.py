"""Execution → report → scores → verdict, each stored as it is made."""

from __future__ import annotations

import asyncio
import logging
import tarfile
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from eval_pipeline.errors import InputError
from eval_pipeline.executions.agent_setup import agent_setup
from eval_pipeline.executions.model import Execution, Runner
from eval_pipeline.executions.workspaces.archive import restore
from eval_pipeline.executions.workspaces.template_copy import Base
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize, repriced
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.evaluate import (
    BoundEvaluator,
    evaluate,
    evaluate_with,
    requires_client,
    sees_workspace,
    suite_folder,
)
from eval_pipeline.scores.model import Score, Status, Subject, Verdict
from eval_pipeline.suites.incomplete import LIMITS
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.budget import NO_SPENDING, Spending
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.decisions import PairRules
from eval_pipeline.sweeps.recording import PairRecorder, template_of
from eval_pipeline.warehouse.stored_pairs import StoredExecution

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringInput:
    """What a verdict is decided from: `scores` are those that still hold, by spec_key; `sweep_id` is the sweep that
    executed it."""

    case: Case
    execution: Execution
    report: SessionReport
    sweep_id: str
    scores: Mapping[str, Score] = field(default_factory=dict)


class PairScorer:
    """Scores the executions of one pair."""

    def __init__(self, rules: PairRules, recorder: PairRecorder, context: SweepContext) -> None:
        self._rules = rules
        self._recorder = recorder
        self._context = context
        self._suite_folder = suite_folder(rules.pair.ready.suite)

    def normalize(self, execution: Execution, case: Case) -> SessionReport:
        """Return the session report of an execution, priced for the runner that answered."""
        return normalize(execution, case, self._answering(execution), self._prices_of)

    def _prices_of(self, name: str) -> Mapping[str, float] | None:
        """Return the prices of the pair's own runner, or of a fallback; None where there is none of the name."""
        runner = self._rules.pair.runner
        if name == runner.name:
            return runner.prices
        try:
            return self._context.runner_named(name, runner.place).prices
        except InputError:
            return None

    def _answering(self, execution: Execution) -> Runner:
        """The runner that answered: the pair's own, or a fallback."""
        if execution.answered_by is None:
            return self._rules.pair.runner
        return self._context.runner_named(execution.answered_by, self._rules.pair.runner.place)

    def report(self, execution: Execution, case: Case) -> SessionReport:
        """Normalize an execution, and store its report."""
        report = self.normalize(execution, case)
        self._recorder.record_report(report, execution, self._rules.prices_of(execution.answered_by))
        return report

    def has_other_prices(self, stored: StoredExecution) -> bool:
        """Return whether the stored cost was computed with other prices than those of today."""
        return self._rules.has_other_prices(stored)

    def reads_output(self, stored: StoredExecution, case: Case) -> bool:
        """Return whether scoring a stored report may need the raw output, too: to normalize it anew, to price it, or
        for evaluators that need more than their specs."""
        is_current = stored.report_normalizer == self._rules.normalizer_of(stored.format or "")
        by_report = is_current and case.workspace is None and self._rules.evaluators.is_decided_by_specs(case)
        return not by_report or self.has_other_prices(stored)

    def reprice(self, report: SessionReport, execution: Execution) -> SessionReport:
        """Store a stored report again with its cost by today's prices."""
        report = repriced(report, execution, self._answering(execution), self._prices_of)
        self._recorder.record_report(report, execution, self._rules.prices_of(execution.answered_by))
        return report

    def unpriced(self, case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
        """Return the scores that a new price leaves as they are: those of models, which are not called for it, and
        those that need a workspace, which may be gone."""
        kept = {bound.key for bound in self._rules.evaluators.of(case) if _ignores_cost(bound, case)}
        return {key: score for key, score in scores.items() if key in kept}

    def requires_client(self, case: Case) -> bool:
        """Return whether any evaluator of a case needs a grader client."""
        return self._rules.evaluators.requires_client(case)

    async def score(self, item: ScoringInput) -> tuple[Status, Spending]:
        """Decide and store the verdict; return its status and what graders cost."""
        kept = self._kept(item)
        missing = self._missing(item, kept)
        if not any(bound.is_awaited for bound in missing):
            return self.score_offline(item), NO_SPENDING
        client = self._context.graders.client(self._rules.pair.runner)
        workspace = nullcontext() if item.case.workspace is None else _in_thread(self._workspace(item))
        async with workspace as folder:
            setup = agent_setup(item.execution.raw, self._answering(item.execution), self._context.secrets)
            subject = replace(self._subject(item, folder), setup=setup)
            scores = await evaluate_with(client, subject, missing)
        return self._decide(item, [*kept, *(self._recorder.redacted(score) for score in scores)]), client.spent

    def score_offline(self, item: ScoringInput) -> Status:
        """Decide and store the verdict where no evaluator needs a grader client."""
        kept = self._kept(item)
        missing = self._missing(item, kept)
        looks = item.case.workspace is not None and any(sees_workspace(bound.evaluator) for bound in missing)
        with self._workspace(item) if looks else nullcontext() as folder:
            subject = self._subject(item, folder)
            return self._decide(item, [*kept, *evaluate(subject, missing)])

    def _subject(self, item: ScoringInput, workspace: Path | None) -> Subject:
        isolation = self._context.options.defaults.isolation
        return Subject(item.case, item.report, self._suite_folder, workspace, self._rules.threshold, isolation)

    def _workspace(self, item: ScoringInput) -> AbstractContextManager[Path | None]:
        left = item.execution.workspace
        live = left.path if left is not None else None
        return unpacked(live, self._recorder.archive_of(item.execution, item.sweep_id), template_of(item.case))

    def _kept(self, item: ScoringInput) -> list[Score]:
        """The scores that hold under another name, weight or gate than they were stored with."""
        by_value = {score.score_key: score for score in item.scores.values() if score.value is not None}
        by_value.pop(None, None)
        if not by_value or not self._gradable(item):
            return []
        renamed = [bound for bound in self._rules.evaluators.of(item.case) if bound.key not in item.scores]
        return [_as_now(by_value[key], bound) for bound in renamed if (key := bound.score_key) in by_value]

    def _missing(self, item: ScoringInput, kept: Sequence[Score]) -> list[BoundEvaluator]:
        """The evaluators that have not scored the report yet, and those whose grader gave no score; none for a session
        that is not graded."""
        if not self._gradable(item):
            return []
        scores = {**item.scores, **{score.spec_key: score for score in kept}}
        return [bound for bound in self._rules.evaluators.of(item.case) if _is_missing(bound, scores)]

    def _gradable(self, item: ScoringInput) -> bool:
        """Return whether evaluators score a session: it completed, or what it left at its limit is to be graded."""
        ending = item.report.failure_class
        return ending is None or (ending in LIMITS and self._rules.incomplete_of(item.case) == "grade")

    def _decide(self, item: ScoringInput, scores: Sequence[Score]) -> Status:
        """Store the new scores and the verdict that all scores give."""
        case, report = item.case, item.report
        by_key = {**item.scores, **{score.spec_key: score for score in scores}}
        evaluators = self._rules.evaluators.of(case)
        keys = [bound.key for bound in evaluators]
        used = _in_order(keys, by_key) if self._gradable(item) else []
        decided = decide(case, report, used, self._rules.threshold, self._rules.incomplete_of(case))
        verdict = self._reclassified(item, decided, evaluators)
        self._recorder.record_specs(evaluators)
        self._recorder.record_scores(scores, item.execution)
        self._recorder.record_verdict(verdict, case, item.execution, report, evaluators, used, self._rules.threshold)
        return verdict.status

    def _reclassified(self, item: ScoringInput, verdict: Verdict, evaluators: Sequence[BoundEvaluator]) -> Verdict:
        """Return the verdict of a session that is not graded with the class that the suite's author gives it."""
        if self._gradable(item):
            return verdict
        for bound in evaluators:
            reclassify = getattr(bound.evaluator, "reclassify", None)
            if reclassify is not None:
                verdict = reclassify(self._subject(item, None), verdict)
        return verdict


def _ignores_cost(bound: BoundEvaluator, case: Case) -> bool:
    evaluator = bound.evaluator
    if requires_client(evaluator):
        return bool(evaluator.graders) or case.workspace is not None
    return case.workspace is not None and sees_workspace(evaluator)


def _as_now(score: Score, bound: BoundEvaluator) -> Score:
    """Return a stored score as the evaluator is named, weighted and gated now."""
    spec = bound.spec
    return score._replace(
        spec_key=bound.key, evaluator=spec.name, weight=spec.weight, minimum=spec.minimum,
        failure_class=spec.failure_class if score.failure_label is None else score.failure_class,
    )  # fmt: skip


def _is_missing(bound: BoundEvaluator, scores: Mapping[str, Score]) -> bool:
    return bound.key not in scores or (bound.requires_client and scores[bound.key].value is None)


def _in_order(keys: Iterable[str], scores: Mapping[str, Score]) -> list[Score]:
    return [scores[key] for key in keys]


@contextmanager
def unpacked(live: Path | None, archive: Path, template: Base | None) -> Iterator[Path | None]:
    """The workspace as the target left it: as long as it is there, else unpacked; None when it was not kept."""
    if live is not None or not archive.is_file():
        yield live
        return
    with TemporaryDirectory(prefix="eval-pipeline-workspace-") as folder:
        try:
            restore(archive, Path(folder), template)
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            _LOG.warning("%s cannot be unpacked: %s", archive, error)
            yield None
            return
        yield Path(folder)


@asynccontextmanager
async def _in_thread(workspace: AbstractContextManager[Path | None]) -> AsyncIterator[Path | None]:
    """Enter and leave a context in a thread: packed workspaces take time."""
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, workspace)
