"""What was paid beside an answer: for attempts that failed, and for turns of conversations that began anew.

Each is priced by the runner that was called: a fallback that answers does not pay for the runner that failed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from eval_pipeline.executions.model import Execution
from eval_pipeline.reports.usage import Usage, costs_of

Prices = Mapping[str, float]
PricesOf = Callable[[str], Prices | None]
"""The prices of the runner of a name; None: there is no such runner any more."""
_MILLION = 1_000_000


def with_cost(usage: Usage, prices: Prices, calls: int | None) -> Usage:
    """Return usage with its cost: as reported, else tokens × prices (USD per million), else unknown.

    Cache reads and writes have prices of their own where they are given, else the price of input.
    """
    if usage.cost_usd is not None or not prices:
        return usage
    tokens = _token_cost(usage, prices) if "input_per_million" in prices else 0.0
    if tokens is None:
        return usage
    cost = tokens + prices.get("per_call", 0.0) * (1 if calls is None else calls)
    return replace(usage, cost_usd=cost, cost_source="computed")


def _token_cost(usage: Usage, prices: Prices) -> float | None:
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    input_price = prices["input_per_million"]
    cached, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
    return (
        (usage.input_tokens - cached - written) * input_price
        + cached * prices.get("cached_input_per_million", input_price)
        + written * prices.get("cache_write_per_million", input_price)
        + usage.output_tokens * prices["output_per_million"]
    ) / _MILLION


def without_computed_cost(usage: Usage) -> Usage:
    """Return usage without a cost that was computed."""
    return replace(usage, cost_usd=None, cost_source=None) if usage.cost_source == "computed" else usage


def priced(given_up: Sequence[Mapping[str, Any]], execution: Execution, prices_of: PricesOf) -> list[dict[str, Any]]:
    """Return what was used in turns that are given up, each with its cost by the prices of its runner."""
    return [_priced(used, prices_of(used.get("runner") or execution.runner)) for used in given_up]


def _priced(used: Mapping[str, Any], prices: Prices | None) -> dict[str, Any]:
    if "usage" not in used or prices is None:
        return dict(used)
    usage = with_cost(without_computed_cost(Usage(**used["usage"])), prices, used.get("model_calls"))
    return {**used, "usage": asdict(usage)}


def retries_cost_usd(
    given_up: Sequence[Mapping[str, Any]], execution: Execution, usage: Usage, prices_of: PricesOf
) -> float | None:
    """Return what is known to be paid beside an answer that has this usage; None where a cost is unknown, and no other
    is known to be more than nothing.

    A failed attempt costs what its call costs; its tokens are not known, and count as none.
    """
    costs = [*costs_of(given_up), *_costs_of_failed_attempts(execution, usage, prices_of)]
    known = sum(cost for cost in costs if cost is not None)
    return known if known or None not in costs else None


def _costs_of_failed_attempts(execution: Execution, usage: Usage, prices_of: PricesOf) -> Iterator[float | None]:
    """Yield what the call of each attempt before the last one cost, None where its runner is gone; a runner that
    reports its cost is not priced."""
    answering = execution.answered_by or execution.runner
    for attempt in execution.calling[:-1]:
        name = attempt.runner or execution.runner
        if name != answering or usage.cost_source == "computed":
            prices = prices_of(name)
            yield None if prices is None else prices.get("per_call", 0.0)
