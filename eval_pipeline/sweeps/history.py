"""What earlier sweeps stored of the pairs of a sweep, read for several pairs at a time: opening the warehouse costs
more than reading a small pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval_pipeline.suites.incomplete import NONE_COUNTS, IncompleteRule
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.pairs import Pair, incomplete_rules
from eval_pipeline.warehouse.journal import PairKey, recover
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import StoredExecution, pending_executions, stored_executions

CASES_AT_ONCE = 2_000


class StoredHistory:
    """The stored executions of pairs, taken pair by pair in their order.

    Args:
        sweep_id: The sweep under way, whose caller holds the sweep lock: journals that killed sweeps left behind are
            ingested first. None only looks: what journals hold counts as stored, and nothing is changed.
        clock: The order of what that sweep stores; it goes on after what journals hold.
    """

    def __init__(
        self, warehouse: Warehouse, pairs: Iterable[Pair], sweep_id: str | None = None, clock: OrderClock | None = None
    ) -> None:
        self._warehouse = warehouse
        self._sweep_id = sweep_id
        self._clock = clock
        pairs = list(pairs)
        self._ahead = {pair.name: len(pair.ready.suite.cases) for pair in pairs}
        self._pairs = {pair.name: pair for pair in pairs}
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
        if self._sweep_id is None:
            self._read.update(self._looked_at(chosen))
            return
        self._read.update({pair: error for pair in chosen if (error := self._recover(pair)) is not None})
        self._read.update(self._stored([pair for pair in chosen if pair not in self._read]))

    def _looked_at(self, pairs: Sequence[PairKey]) -> dict[PairKey, dict[str, StoredExecution]]:
        """What is stored of pairs together with what journals hold of them.

        Journals are read first: one that is ingested meanwhile is in the warehouse then.
        """
        rules = self._rules(pairs)
        pending = {pair: pending_executions(self._warehouse, pair, rules.get(pair, NONE_COUNTS)) for pair in pairs}
        stored = stored_executions(self._warehouse, pairs, rules)
        return {pair: _merged(stored[pair], pending[pair]) for pair in pairs}

    def _stored(self, pairs: Sequence[PairKey]) -> dict[PairKey, dict[str, StoredExecution]]:
        rules = self._rules(pairs)
        return stored_executions(self._warehouse, pairs, rules)

    def _rules(self, pairs: Sequence[PairKey]) -> dict[PairKey, IncompleteRule]:
        return incomplete_rules(self._pairs[pair] for pair in pairs if pair in self._pairs)

    def _recover(self, pair: PairKey) -> Exception | None:
        try:
            if recover(self._warehouse, pair) and self._clock is not None:
                self._clock.follow(self._warehouse)
        except Exception as error:  # noqa: BLE001 — raised again for this pair; it must not stop the others
            return error
        return None


def _merged(stored: dict[str, StoredExecution], pending: dict[str, StoredExecution]) -> dict[str, StoredExecution]:
    """The execution of each plan that counts once every journal is ingested."""
    return {**stored, **{key: execution for key, execution in pending.items() if _counts(execution, stored.get(key))}}


def _counts(pending: StoredExecution, stored: StoredExecution | None) -> bool:
    """Whether an execution in a journal counts instead of the stored one."""
    if stored is None:
        return True
    return pending.sweep_id > stored.sweep_id and (pending.valid or not stored.valid)
