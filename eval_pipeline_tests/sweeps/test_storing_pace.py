"""How long finished pairs wait for others in a shared warehouse."""

from __future__ import annotations

import asyncio

import pytest

from eval_pipeline.sweeps.storing_pace import LEAST_S, MOST_S, OWN_S, StoringPace


@pytest.mark.parametrize(
    ("took_s", "waits_s"), [(0.1, LEAST_S), (1.5, 12.0), (60.0, MOST_S)], ids=["idle machine", "busy", "stuck"]
)
def test_the_wait_follows_what_the_last_transaction_took(took_s: float, waits_s: float) -> None:
    times = iter([100.0, 100.0 + took_s])
    pace = StoringPace(is_shared=True, clock=lambda: next(times))

    with pace.storing():
        pass

    assert pace.wait_s == waits_s


def test_a_process_with_a_warehouse_of_its_own_waits_no_longer_after_a_long_transaction() -> None:
    times = iter([100.0, 160.0])
    pace = StoringPace(is_shared=False, clock=lambda: next(times))

    with pace.storing():
        pass

    assert pace.wait_s == OWN_S


def test_who_waits_for_others_stores_as_soon_as_nothing_is_left_to_wait_for() -> None:
    async def two_of_two() -> list[str]:
        done: asyncio.Queue[str] = asyncio.Queue()
        asyncio.get_running_loop().call_later(0.01, done.put_nowait, "b")
        done.put_nowait("a")
        return await asyncio.wait_for(StoringPace(is_shared=True).finished_together(done, 2), LEAST_S / 2)

    assert asyncio.run(two_of_two()) == ["a", "b"]
