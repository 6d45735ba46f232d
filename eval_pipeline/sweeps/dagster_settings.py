"""How Dagster spreads a sweep of many pairs: the executor, and how much a process takes at once. No Dagster here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_CHUNK_SECONDS = 600.0
DEFAULT_CHUNK_PAIRS = 50


class DagsterSettings(BaseModel):
    """The field `dagster` of the project file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    executor: Literal["in_process", "multiprocess", "celery", "k8s"] = Field(
        default="in_process",
        description="Who carries out the pairs of a run that Dagster starts: the process of the run, processes beside"
        " it, Celery workers, or pods of Kubernetes",
    )
    executor_config: dict[str, Any] = Field(
        default={}, description="The executor's own settings, as Dagster documents them: `max_concurrent`, `broker`, …"
    )
    chunk_seconds: float = Field(
        default=DEFAULT_CHUNK_SECONDS,
        gt=0,
        description="The expected time of the pairs that one process takes together, from what earlier ones took",
    )
    chunk_pairs: int = Field(
        default=DEFAULT_CHUNK_PAIRS, ge=1, description="The most pairs that one process takes together"
    )

    @property
    def is_cut(self) -> bool:
        """Whether a run is cut into chunks that may be carried out elsewhere."""
        return self.executor != "in_process"
