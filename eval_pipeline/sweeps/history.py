"""What earlier sweeps stored of the pairs of a sweep, read for several pairs at a time: opening the warehouse costs
more than reading a small pair."""

from __future__ import annotations

from collections.abc import Iterable

from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.journal import PairKey, recover
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import StoredExecution, stored_executions

CASES_AT_ONCE = 2_000


class StoredHistory:
    """The stored executions of pairs, taken pair by pair in their order.

    The journals that killed sweeps left behind come first; those of `sweep_id`, which is under way, are left alone.
    """

    def __init__(self, warehouse: Warehouse, pairs: Iterable[Pair], sweep_id: str = "") -> None:
        self._warehouse = warehouse
        self._sweep_id = sweep_id
        self._ahead = {pair.name: len(pair.ready.suite.cases) for pair in pairs}
        self._read: dict[PairKey, dict[str, StoredExecution] | Exception] = {}

    def take(self, pair: PairKey) -> dict[str, StoredExecution]:
        """Return what is stored of a pair, by plan key. Raises what made its journals unreadable."""
        if pair not in self._read:
            self._read_ahead(pair)
        stored = self._read.pop(pair)
        if isinstance(stored, Exception):
            raise stored
        return stored

    def _read_ahead(self, first: PairKey) -> None:
        """Read a pair, and as many after it as are small together."""
        chosen, cases = [first], self._ahead.pop(first, 0)
        for pair, count in list(self._ahead.items()):
            if cases + count > CASES_AT_ONCE:
                break
            cases += count
            chosen.append(pair)
            del self._ahead[pair]
        self._read.update({pair: error for pair in chosen if (error := self._recover(pair)) is not None})
        self._read.update(stored_executions(self._warehouse, [pair for pair in chosen if pair not in self._read]))

    def _recover(self, pair: PairKey) -> Exception | None:
        try:
            recover(self._warehouse, pair, self._sweep_id)
        except Exception as error:  # noqa: BLE001 — raised again for this pair; it must not stop the others
            return error
        return None
