"""A plan with all its stored values, as exports write it. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Score, Status, Verdict

JsonMap = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One plan of a sweep, of a board or of the current results: its case, execution, report, scores and verdict.

    `report` is None when the target never ran. `input` and `expected_output` are messages
    as the suite specifies them; `hooks` is the output of the workspace's hooks, by name; `workspace_path` is the
    folder of its workspace if that still exists. `retry_of` is the first answer to the plan where that did not pass and
    the target was called again; `counted` is then what rates count, status and score of the first graded answer.
    `weight` is how much the case counts in rates and means; None: as much as every other.
    `strategy` is how the case's repetitions become one result. Times are UTC; unknown is None.
    """

    suite: str
    case_id: str
    runner: str
    repetition: int
    execution_id: str
    verdict: Verdict
    suite_path: str | None = None
    suite_revision: str | None = None
    category: str | None = None
    runner_revision: str | None = None
    adapter: str | None = None
    runner_settings: JsonMap = field(default_factory=dict)
    sweep_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    decided_at: datetime | None = None
    error: str | None = None
    attempts: int | None = None
    answered_by: str | None = None
    retry_of: str | None = None
    counted: tuple[Status, float | None] | None = None
    input: Sequence[JsonMap] = ()
    expected_output: Sequence[JsonMap] = ()
    criteria: str | None = None
    tags: tuple[str, ...] = ()
    metadata: JsonMap = field(default_factory=dict)
    conversation_id: str | None = None
    group: str | None = None
    weight: float | None = None
    strategy: str | None = None
    report: SessionReport | None = None
    hooks: JsonMap = field(default_factory=dict)
    workspace_path: str | None = None
    scores: tuple[Score, ...] = ()

    @property
    def model(self) -> str | None:
        """The model that answered, else the requested one."""
        requested = self.runner_settings.get("model")
        answered = self.report.model if self.report is not None else None
        return answered or (requested if isinstance(requested, str) else None)

    @property
    def duration_ms(self) -> float | None:
        """The time the target took."""
        return self.report.duration_ms if self.report is not None else None

    @property
    def output(self) -> str | None:
        """The target's last message, None without one."""
        return self.report.final_output if self.report is not None else None
