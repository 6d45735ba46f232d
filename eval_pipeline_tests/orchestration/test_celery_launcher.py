"""When a run on a worker of Celery is taken for lost: what the worker answers is given, not asked of a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

pytest.importorskip("dagster_celery", reason="the extra `celery` is not installed")

from dagster_celery.tags import DAGSTER_CELERY_TASK_ID_TAG

from eval_pipeline.orchestration.celery_launcher import WatchedCeleryRunLauncher

RUN = dg.DagsterRun(job_name="sweep", tags={DAGSTER_CELERY_TASK_ID_TAG: "task"})


class Worker:
    """A worker that began the task, and gives these answers, one a look; None is no answer."""

    def __init__(self, *answers: list[str] | None) -> None:
        self._answers = iter(answers)
        self.control = self

    def AsyncResult(self, _: str) -> Any:
        return SimpleNamespace(id="task", state="STARTED", info={"hostname": "one@here"})

    def inspect(self, **_: object) -> Any:
        tasks = next(self._answers)
        answer = None if tasks is None else {"one@here": [{"id": task} for task in tasks]}
        return SimpleNamespace(active=lambda: answer)


@pytest.mark.parametrize(
    ("answers", "seen"),
    [
        pytest.param([["task"], ["task"]], ["RUNNING", "RUNNING"], id="carries it out"),
        pytest.param([["another"]], ["FAILED"], id="has it no more"),
        pytest.param([None, None], ["RUNNING", "FAILED"], id="gone"),
        pytest.param([None, ["task"], None, None], ["RUNNING", "RUNNING", "RUNNING", "FAILED"], id="was busy"),
    ],
)
def test_a_worker_that_is_silent_twice_in_a_row_is_gone(answers: list[list[str] | None], seen: list[str]) -> None:
    launcher = WatchedCeleryRunLauncher("dagster", broker="memory://", backend="cache+memory://")
    launcher.celery = Worker(*answers)

    assert [launcher.check_run_worker_health(RUN).status.name for _ in answers] == seen
