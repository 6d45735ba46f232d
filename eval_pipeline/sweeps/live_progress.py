"""The progress of a running sweep in a file of the data folder, for the page that shows it: pairs, rate, time left,
money, and what failed last. It is replaced at most once a second, and removed at the end of the sweep."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.executions.model import Execution, Plan
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.redaction import redact_line
from eval_pipeline.processes import this_process
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepObserver
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.progress import PairProgress, ProgressCounter, tokens_of
from eval_pipeline.warehouse.journal import PairKey

EVERY_S = 1.0
MOST_FAILURES = 20
MOST_PAIRS = 200
"""Pairs in the file, those that are under way first."""
_LONGEST = 300


class LiveProgress(ProgressCounter):
    """Counts a sweep's plans, and writes the counts to a file; a disk that is full stops the file, not the sweep."""

    def __init__(
        self, path: Path, sweep_id: str, total_pairs: int, onward: SweepObserver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(onward, clock)
        self._path = path
        self._about = {
            "sweep_id": sweep_id,
            "process": str(this_process()),
            "started_at": _now(),
            "pairs_in_all": total_pairs,
        }
        self._failures: deque[dict[str, Any]] = deque(maxlen=MOST_FAILURES)
        self._written_at = clock() - EVERY_S

    def plan_started(self, plan: Plan) -> None:
        super().plan_started(plan)
        self._write_in_time()

    def plan_finished(self, pair: Pair, status: Status | None, report: SessionReport | None) -> None:
        super().plan_finished(pair, status, report)
        self._write_in_time()

    def plan_ended(self, plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None) -> None:
        if status is None or not status.as_expected:
            self._failures.append(_failure(plan, execution, report, status))
        super().plan_ended(plan, execution, report, status)

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        super().pairs_finished(outcomes)
        self.write()

    def waiting(self, text: str) -> None:
        self._onward.waiting(text)

    def _write_in_time(self) -> None:
        if self._clock() - self._written_at >= EVERY_S:
            self.write()

    def write(self) -> None:
        """Replace the file."""
        self._written_at = self._clock()
        rows = sorted(self.rows.items(), key=lambda item: item[1].finished)
        pairs = [self._pair(name, row) for name, row in rows if row.total][:MOST_PAIRS]
        document = {
            **self._about,
            "updated_at": _now(),
            "pairs_finished": sum(row.finished for row in list(self.rows.values())),
            "overall": asdict(self.overall()),
            "pairs": pairs,
            "failures": list(reversed(self._failures)),
        }
        beside = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(redact_line(to_json(document)))
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)

    def _pair(self, name: PairKey, row: PairProgress) -> dict[str, Any]:
        counts = row.counts
        return {
            "suite": name.suite, "runner": name.runner, "total": row.total, "done": row.done, "reused": row.reused,
            "running": row.running, "finished": row.finished, "passed": counts.passed, "failed": counts.failed,
            "errored": counts.errored, "per_second": self.rate(row), "seconds_left": self.seconds_left(row),
            "tokens": tokens_of(counts), "cost_usd": counts.cost_usd, "talking": row.talking,
        }  # fmt: skip


def _failure(plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None) -> dict[str, Any]:
    answer = report.final_output if report is not None else None
    reason = execution.error or (report.error if report is not None else None) or answer or ""
    return {
        "suite": plan.suite, "case_id": plan.case.id, "runner": plan.runner.name, "repetition": plan.repetition,
        "status": status.value if status is not None else None, "failure_class": execution.failure_class,
        "reason": reason[:_LONGEST], "at": _now(),
    }  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def live_progress(path: Path, sweep_id: str, total_pairs: int, onward: SweepObserver) -> Iterator[LiveProgress]:
    """Yield an observer that keeps the file of a running sweep; it is removed at the end, however that comes."""
    observer = LiveProgress(path, sweep_id, total_pairs, onward)
    observer.write()
    try:
        yield observer
    finally:
        path.unlink(missing_ok=True)
