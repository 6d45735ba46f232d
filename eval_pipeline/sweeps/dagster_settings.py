"""How Dagster serves a project: the executor, how much a process takes at once, the keys of assets. No Dagster here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from eval_pipeline.errors import InputError

DEFAULT_CHUNK_SECONDS = 600.0
DEFAULT_CHUNK_PAIRS = 50
_PART = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_EXPECTED_PREFIX = "names of letters, digits, '-', '_' and '.', as team/evals or [team, evals]"


def prefix_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a prefix of keys: `team/evals`, or a list of them. Raises InputError for others."""
    parts = _parts(value)
    if parts is None:
        raise InputError(f"key_prefix: expected {_EXPECTED_PREFIX}")
    return parts


def _parts(value: Any) -> tuple[str, ...] | None:
    parts = value.split("/") if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) and _PART.fullmatch(part) for part in parts):
        return None
    return tuple(parts)


def _prefix_field(value: Any) -> tuple[str, ...]:
    parts = _parts(value)
    if parts is None:
        raise PydanticCustomError("key_prefix", "{expected}", {"expected": _EXPECTED_PREFIX})
    return parts


_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
KeyPrefix = Annotated[tuple[str, ...], BeforeValidator(_prefix_field), WithJsonSchema(_TEXTS)]


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
    key_prefix: KeyPrefix = Field(
        default=(),
        description="What the keys of the assets begin with, where others are in the same Dagster: `team/evals` or"
        " `[team, evals]`",
    )

    @property
    def is_cut(self) -> bool:
        """Whether a run is cut into chunks that may be carried out elsewhere."""
        return self.executor != "in_process"
