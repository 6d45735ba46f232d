"""Ticks that an earlier start of `eval-pipeline dev` stored are in the UI's list of schedules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus
from dagster_graphql.implementation.loader import RepositoryScopedBatchLoader

from eval_pipeline.orchestration.tick_history import show_earlier_ticks

NIGHTLY = SimpleNamespace(selector_id="nightly", get_remote_origin_id=lambda: "origin with today's socket")
SENSOR = SimpleNamespace(selector_id="suites", get_remote_origin_id=lambda: "sensor with today's socket")
REPOSITORY: Any = SimpleNamespace(get_schedules=lambda: [NIGHTLY], get_sensors=lambda: [SENSOR])


@pytest.mark.parametrize(
    ("method", "kind", "selector"),
    [
        ("get_schedule_ticks", InstigatorType.SCHEDULE, "nightly"),
        ("get_sensor_ticks", InstigatorType.SENSOR, "suites"),
    ],
)
def test_ticks_of_an_earlier_start_are_found(
    method: str, kind: InstigatorType, selector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("get_schedule_ticks", "get_sensor_ticks"):
        monkeypatch.setattr(RepositoryScopedBatchLoader, name, getattr(RepositoryScopedBatchLoader, name))
    show_earlier_ticks()
    stored = TickData("origin of yesterday", selector, kind, TickStatus.STARTED, 1_700_000_000.0, selector_id=selector)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.create_tick(stored)
        found = getattr(RepositoryScopedBatchLoader(instance, REPOSITORY), method)("origin of yesterday", selector, 5)

    assert [tick.timestamp for tick in found] == [1_700_000_000.0]
