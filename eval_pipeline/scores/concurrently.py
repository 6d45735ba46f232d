"""Running several evaluators at the same time, except for those that have to follow each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


async def concurrently(
    items: Sequence[Item], run: Callable[[Item], Awaitable[Result]], in_order: Callable[[Item], bool]
) -> list[Result]:
    """Return the results of all items, run concurrently except for those that have to run `in_order`."""
    results: dict[int, Result] = {}

    async def put(positions: Iterable[int]) -> None:
        for position in positions:
            results[position] = await run(items[position])

    ordered = [position for position, item in enumerate(items) if in_order(item)]
    alone = [[position] for position in range(len(items)) if position not in ordered]
    await asyncio.gather(*map(put, [ordered, *alone]))
    return [results[position] for position in range(len(items))]
