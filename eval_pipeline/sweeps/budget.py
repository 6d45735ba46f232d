"""What a sweep may spend, and has spent."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Budget:
    """The known cost (USD) of targets and graders so far, in all and by suite, against a limit. None: no limit."""

    limit_usd: float | None = None
    spent_usd: float = 0.0
    by_suite: dict[str, float] = field(default_factory=dict)

    def spend(self, suite: str, cost_usd: float | None) -> None:
        """Add a cost; an unknown one adds nothing."""
        self.spent_usd += cost_usd or 0.0
        self.by_suite[suite] = self.by_suite.get(suite, 0.0) + (cost_usd or 0.0)

    def is_spent(self, suite: str, limit_usd: float | None) -> bool:
        """Return whether nothing is left of the sweep's budget, or of the suite's (`limit_usd`)."""
        over = self.limit_usd is not None and self.spent_usd >= self.limit_usd
        return over or (limit_usd is not None and self.by_suite.get(suite, 0.0) >= limit_usd)
