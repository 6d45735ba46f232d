"""The lists of schedules and sensors in the UI show ticks of earlier starts of `eval-pipeline dev`, too.

Dagster finds the ticks of these lists by an id that has the address of the code server in it, and `dagster dev` starts
that server at another address each time. What stays is the selector: code location, repository and name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagster._core.scheduler.instigation import InstigatorTick
from dagster_graphql.implementation.loader import RepositoryScopedBatchLoader


def show_earlier_ticks() -> None:
    """Let this process, a web server of Dagster, find ticks by what a schedule or sensor is called from now on."""
    RepositoryScopedBatchLoader.get_schedule_ticks = _by_selector(  # type: ignore[method-assign]
        RepositoryScopedBatchLoader.get_schedule_ticks, "get_schedules"
    )
    RepositoryScopedBatchLoader.get_sensor_ticks = _by_selector(  # type: ignore[method-assign]
        RepositoryScopedBatchLoader.get_sensor_ticks, "get_sensors"
    )


def _by_selector(ticks: Any, listed: str) -> Any:
    """A method of Dagster's loader with the present id of what the selector names in place of a stored one."""

    def ticks_by_selector(loader: Any, origin_id: str, selector_id: str, limit: int) -> Sequence[InstigatorTick]:
        present = {each.selector_id: each.get_remote_origin_id() for each in getattr(loader._repository, listed)()}
        found: Sequence[InstigatorTick] = ticks(loader, present.get(selector_id, origin_id), selector_id, limit)
        return found

    return ticks_by_selector
