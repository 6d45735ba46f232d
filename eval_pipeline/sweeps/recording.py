"""Making what happens in one pair durable: rows in its journal, raw artifacts and packed workspaces as files. Nothing
is stored with a secret in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from eval_pipeline.executions.identity import PlanIdentity, runner_revision
from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.executions.workspaces.archive import TooLarge, save
from eval_pipeline.executions.workspaces.template_copy import Base
from eval_pipeline.parsing.redaction import redact
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalizer_version
from eval_pipeline.scores.evaluate import BoundEvaluator
from eval_pipeline.scores.model import Finding, Score, Verdict
from eval_pipeline.suites.incomplete import incomplete_of
from eval_pipeline.suites.model import Case
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.decisions import decision_key, scores_key
from eval_pipeline.sweeps.evaluator_specs import spec_row
from eval_pipeline.sweeps.pairs import Pair, simulator_identity
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.journal import Journal, journal_folder, keep_artifacts

_LOG = logging.getLogger(__name__)
ARCHIVE = "workspace.tar.gz"
"""A packed workspace among an execution's files."""


class PairRecorder:
    """Writes the rows and files of one pair in one sweep. `first_answers` are the first answers of plans that are
    executed because these did not pass, by plan key."""

    def __init__(self, pair: Pair, context: SweepContext) -> None:
        self._pair = pair
        self._context = context
        self._plans = PlanIdentity(pair.name.suite, pair.runner_identity, pair.content_of)
        folder = journal_folder(context.warehouse.storage, context.sweep_id, pair.name)
        self.journal = Journal(folder, context.warehouse, pair.name)
        self.first_answers: dict[str, str] = {}
        self._specs: set[str] = set()

    def folder_of(self, plan: Plan) -> Path:
        """Return the folder that an execution of a plan may keep files in."""
        return self._folder(plan.key, self._context.sweep_id)

    async def record(self, plan: Plan, execution: Execution) -> Execution:
        """Store an execution, its artifacts and its workspace; return it without secrets."""
        folder = partial(self.folder_of, plan)
        execution = without_secrets(execution, self._context.secrets, folder)
        artifacts, inline = keep_artifacts(execution, self._context.artifacts, folder)
        sweep_id, identity = self._context.sweep_id, self._identity(plan, execution)
        retry_of = self.first_answers.get(plan.key)
        row = rows.execution_row(execution, artifacts, inline, sweep_id, self._pair.revision, identity, retry_of)
        row["selected_at"] = self._context.clock.of(execution.finished_at)
        self.journal.append("target_executions", row)  # before anything that takes time: it has cost money
        await self._archive(plan.case, execution, folder() / ARCHIVE)
        return execution

    def parts(self, plan: Plan) -> dict[str, str]:
        """Return the fingerprint of each part of a plan's content."""
        return self._plans.parts(plan.case)

    def _identity(self, plan: Plan, execution: Execution) -> dict[str, str]:
        """What an execution depends on: the parts of its plan, and the fallback that answered."""
        parts = self.parts(plan)
        if execution.answered_by is not None:
            parts["fallback"] = runner_revision(self._context.runner_named(execution.answered_by, plan.runner.place))
        return parts

    def record_report(self, report: SessionReport, execution: Execution, prices: str | None) -> None:
        """Store a session report and its events; `prices` is the identity of the prices in force."""
        normalizer = normalizer_of(execution)
        self.journal.append(
            "session_reports", rows.report_row(report, execution, normalizer, self._context.clock.now(), prices)
        )
        for row in rows.event_rows(report, execution):
            self.journal.append("session_events", row)

    def record_specs(self, evaluators: Iterable[BoundEvaluator]) -> None:
        """Store what evaluators are, each once."""
        for bound in evaluators:
            if bound.key not in self._specs:
                self._specs.add(bound.key)
                self.journal.append("evaluator_specs", spec_row(bound, self._pair, self._context))

    def record_scores(self, scores: Iterable[Score], execution: Execution) -> None:
        """Store scores and their sub-scores."""
        now, sweep_id = self._context.clock.now(), self._context.sweep_id
        for score in scores:
            self.journal.append("evaluator_scores", rows.score_row(score, execution, sweep_id, now))
            for row in rows.member_rows(score, execution, sweep_id, now):
                self.journal.append("member_scores", row)

    def record_verdict(
        self, verdict: Verdict, case: Case, execution: Execution, report: SessionReport,
        evaluators: Sequence[BoundEvaluator], scores: Sequence[Score], threshold: float,
    ) -> None:  # fmt: skip
        """Store a verdict. `evaluators` are all of its case, `scores` are what it was decided from."""
        row = rows.verdict_row(
            verdict,
            execution,
            report,
            suite_revision=self._pair.ready.suite.revision,
            runner_revision=self._pair.revision,
            tags=case.tags,
            decision_key=decision_key(
                case,
                [bound.key for bound in evaluators],
                threshold,
                self._played_by(case),
                incomplete=incomplete_of(self._pair.ready.suite, case),
            ),
            scores_key=scores_key(bound.score_key for bound in evaluators),
            normalizer=normalizer_of(execution),
            scores=scores,
            sweep_id=self._context.sweep_id,
            now=self._context.clock.now(),
        )
        self.journal.append("verdicts", row)

    def _played_by(self, case: Case) -> object:
        """Return the identity of the simulator of a case's user; None for a case without one."""
        return None if case.user is None else simulator_identity(self._pair, self._context.options, case.user)

    def redacted(self, score: Score) -> Score:
        """Return a score of an evaluator that ran programs or called models, without secrets in its texts."""
        return score_without_secrets(score, self._context.secrets)

    def archive_of(self, execution: Execution, sweep_id: str) -> Path:
        """Return where the workspace of an execution was packed by `sweep_id`, the sweep that executed it."""
        return self._folder(execution.key, sweep_id) / ARCHIVE

    def _folder(self, key: str, sweep_id: str) -> Path:
        return files_of(self._context.artifacts, self._pair, key, sweep_id)

    async def _archive(self, case: Case, execution: Execution, archive: Path) -> None:
        """Pack the workspace for evaluators that are added later."""
        trace = execution.workspace
        left = trace.path if trace is not None else None
        most_bytes = int(self._context.options.defaults.workspace_archive_mb * 1_000_000)
        if trace is None or left is None or not most_bytes:
            return
        base, secrets = template_of(case, trace.filled_ns), self._context.secrets
        try:
            await asyncio.to_thread(save, left, archive, most_bytes=most_bytes, secrets=secrets, base=base)
        except (TooLarge, OSError) as error:
            _LOG.warning("workspace of case '%s' is not kept: %s", execution.case_id, error)


def files_of(artifacts: Path, pair: Pair, key: str, sweep_id: str) -> Path:
    """Return the folder of the files of an execution: that of a plan's key, by the sweep that executed it."""
    return artifacts / pair.runner.name / pair.name.suite / key[:24] / sweep_id


def template_of(case: Case, copied_ns: int | None = None) -> Base | None:
    """Return the template of a case's workspace, of which the copy was complete then; None without one."""
    spec = case.workspace
    return Base(spec.template, spec.content, copied_ns) if spec is not None and spec.template is not None else None


def normalizer_of(execution: Execution) -> str:
    """Return the version of the normalizer that reads an execution today."""
    return normalizer_version(execution.raw.format if execution.raw is not None else "")


def score_without_secrets(score: Score, secrets: Sequence[str]) -> Score:
    """Return a score whose texts have no secret in them."""
    findings = redact([[finding.text, finding.passed, finding.evidence] for finding in score.findings], secrets)
    members = [
        member._replace(reason=redact(member.reason, secrets), details=redact(dict(member.details), secrets))
        for member in score.members
    ]
    return score._replace(
        reason=redact(score.reason, secrets),
        details=redact(dict(score.details), secrets),
        findings=tuple(Finding(*finding) for finding in findings),
        members=tuple(members),
    )
