"""A provider's limit of requests: a bucket of tokens, as most have it. For the stub server and the simulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RateLimit:
    """At most `per_second` requests a second on average, and `burst` at once; 0: no limit. Times are seconds."""

    per_second: float
    burst: float = 0.0
    _left: float = 0.0
    _at: float | None = None

    def refuses(self, now: float) -> bool:
        """Take a request at a time, or refuse it."""
        if not self.per_second:
            return False
        most = max(1.0, self.burst or self.per_second)
        self._left = most if self._at is None else min(most, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left < 1.0:
            return True
        self._left -= 1.0
        return False
