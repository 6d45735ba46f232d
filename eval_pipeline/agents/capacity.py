"""How many sessions of agents this machine can run at the same time."""

from __future__ import annotations

import os

from eval_pipeline.executions.worker_process import memory_bytes

SESSIONS_PER_PROCESSOR = 2
BYTES_PER_SESSION = 1 << 30
"""A session with all its processes: OpenCode takes 1.2 GB, Qwen Code 1.0 GB, the other CLIs 0.2 to 0.4 GB."""


def sessions_at_once() -> int:
    """Return how many sessions processors and memory (of the machine, or its container) allow: at least one."""
    by_processors = SESSIONS_PER_PROCESSOR * _processors()
    return max(1, min(by_processors, memory_bytes() // BYTES_PER_SESSION))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
