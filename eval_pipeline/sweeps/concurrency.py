"""How many executions of a runner are under way at once."""

from __future__ import annotations

from eval_pipeline.executions.adapters import Adapter
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Runner
from eval_pipeline.sweeps.options import SweepOptions


def most_at_once(runner: Runner, adapter: Adapter, options: SweepOptions) -> int:
    """Return the most where no suite sets less: the runner's own, that of the sweep, else the usual one."""
    usual: int = getattr(adapter, "usual_concurrency", DEFAULT_CONCURRENCY)
    return runner.concurrency or options.concurrency or options.defaults.concurrency or usual
