"""Differences about what programs are started with."""

from __future__ import annotations

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observations
from eval_pipeline_tests.conformance.recorded_facts import Row

_TIMES = ("start_time", "end_time")
_OWN_RUN = frozenset({"workspace_path", "duration_ms", "file_changes", *_TIMES})


def _without_times(row: Row) -> bool:
    return "payload" in row.data and all(row.data["payload"].get(name) is None for name in _TIMES)


def _times_of_the_execution(row: Row, observations: Observations) -> None:
    """Everything else is the same. A patch ends with a line end, without which `git apply` calls it corrupt."""
    values = observations[AS_WRITTEN].values
    received, recorded = values["stdin"], row.data["payload"]

    assert received["start_time"] < received["end_time"]
    assert received["file_changes"] == (recorded["file_changes"] + "\n" if recorded["file_changes"] else None)
    assert {name: received[name] for name in recorded.keys() - _OWN_RUN} == {
        name: recorded[name] for name in recorded.keys() - _OWN_RUN
    }
    assert (values["is_folder"], values["env"]) == (True, received["workspace_path"])
    assert received["duration_ms"] > 0


PROTOCOLS = (
    Difference(
        "times of the execution",
        "AgentV gives a grader no times where the provider reports none, and a patch without its last line end; here "
        "the times are those of the execution, and the patch can be applied",
        _without_times,
        _times_of_the_execution,
    ),
)
