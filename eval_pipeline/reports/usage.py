"""Usage: the tokens and the cost of a session or a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens and cost of a session or turn, as the provider counted them; None where it did not.

    `input_tokens` is gross: cache reads and cache writes are part of it. `output_tokens` includes reasoning. The
    parts (`cached_input_tokens`, `cache_write_tokens`, `reasoning_tokens`) are never added on top. `cost_source` is
    whether the cost was `reported` by the target or `computed` from the runner's prices.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    cost_source: Literal["reported", "computed"] | None = None

    @property
    def total_tokens(self) -> int | None:
        """Gross input plus output; None unless both are known."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    @property
    def uncached_input_tokens(self) -> int | None:
        """Input without cache reads, AgentV's `input`; a provider that counts no cache reads had none."""
        return None if self.input_tokens is None else self.input_tokens - (self.cached_input_tokens or 0)

    @property
    def uncached_tokens(self) -> int | None:
        """Input without cache reads, plus output; None unless both are known."""
        return None if self.total_tokens is None else self.total_tokens - (self.cached_input_tokens or 0)


_COUNTED = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Return the sum of usages; a count missing in one of them is unknown."""
    costs = [usage.cost_usd for usage in usages]
    counted: dict[str, Any] = {name: _sum([getattr(usage, name) for usage in usages]) for name in _COUNTED}
    source = usages[0].cost_source if usages and None not in costs else None
    return Usage(**counted, cost_usd=_sum(costs), cost_source=source) if usages else Usage()


def costs_of(given_up: Iterable[Mapping[str, Any]]) -> list[float | None]:
    """Return what turns that were given up cost, each; None: unknown. Entries without usage are no turns."""
    return [used["usage"].get("cost_usd") for used in given_up if "usage" in used]


def _sum(values: Sequence[Any]) -> Any:
    return None if None in values else sum(values)
