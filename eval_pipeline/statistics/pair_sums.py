"""Paired differences of sides as sums: what their test needs, for all pairs of a board at once.

Sums over disjoint clusters add up, so the test over several suites needs no answers, only the sums of each suite.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, repeat

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.case_arrays import relative_weights, sums_of_clusters
from eval_pipeline.statistics.sign_flips import GRID, LARGEST, flip_tail
from eval_pipeline.statistics.sign_tails import sign_values
from eval_pipeline.statistics.student import t_tail

Array = NDArray[np.float64]
MOST_CHANGES = round(LARGEST ** (1 / 3))
"""More changes than these are never tested exactly: the size of each is not needed."""
_SMALL_PRODUCT, _LEAST_CASES = 1 << 18, 256
"""Multiplications up to which OpenBLAS uses one thread, and cases that are worth a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSums:
    """Sufficient statistics of the differences between two sides over the cases that both have.

    With S the sum of the differences of a cluster and m its number of cases, over all clusters: `total` is the sum of
    S, `squares` of S², `products` of m S, `sizes` of m². `ups` and `downs` count clusters with S above and below 0.
    `step` is the size of every S that is not 0, None where they differ; `changes` are then these S, None for too many.
    """

    shared: int
    clusters: int
    ups: int
    downs: int
    total: float
    squares: float
    products: float
    sizes: float
    step: float | None = None
    changes: Sequence[float] | None = None

    @property
    def mean(self) -> float | None:
        """The mean difference; None without common cases."""
        return self.total / self.shared if self.shared else None


def pair_sums(
    sides: Sequence[Sequence[float | None]] | Array,
    clusters: Sequence[Hashable] | None = None,
    weights: Array | None = None,
) -> Iterator[tuple[int, int, PairSums]]:
    """Yield all pairs of sides, first before second, with their sums.

    Args:
        sides: for each side its mean of each case, None (NaN) where it has none; cases in the same order.
        clusters: the cluster of each case; by default each is its own.
        weights: of cases, above 0; the sums are of values times weights that are 1 on average.
    """
    values, shares = np.asarray(sides, dtype=np.float64), relative_weights(weights)
    values = values if shares is None or not values.size else values * shares
    if not values.size:
        values = values.reshape(len(sides), 0)
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    codes = cluster_codes(clusters)
    steps = set() if codes is not None else _sizes(values)
    if codes is None and len(steps) < 2:
        yield from _of_two_values(values, known, steps.pop() if steps else 0.0)
        return
    for first, second in combinations(range(len(values)), 2):
        both = known[first] & known[second]
        differences = (values[first] - values[second])[both]
        yield first, second, _of_differences(differences, None if codes is None else codes[both])


def cluster_codes(clusters: Sequence[Hashable] | None) -> NDArray[np.intp] | None:
    """Return the number of each case's cluster; None where each case is its own."""
    if clusters is None:
        return None
    if any(name is None or name != name for name in clusters):
        raise ValueError("a value has no cluster")
    numbers: dict[Hashable, int] = {}
    codes = [numbers.setdefault(name, len(numbers)) for name in clusters]
    return np.array(codes, dtype=np.intp) if len(numbers) < len(codes) else None


def _sizes(values: Array) -> set[float]:
    """Return the values that are not 0, up to two of them."""
    flat = values[values != 0]
    if not flat.size:
        return set()
    return {float(flat[0])} if bool((flat == flat[0]).all()) else {0.0, 1.0}


def _of_two_values(values: Array, known: NDArray[np.bool_], step: float) -> Iterator[tuple[int, int, PairSums]]:
    """Yield the sums of sides whose cases all are 0 or `step`, each its own cluster, by products of matrices."""
    ones, there = (values != 0).astype(np.float64), known.astype(np.float64)
    wins, shared = products_of_sides(ones, there - ones), products_of_sides(there, there)
    for first, second in combinations(range(len(values)), 2):
        ups, downs, cases = int(wins[first, second]), int(wins[second, first]), int(shared[first, second])
        sign = 1 if step > 0 else -1
        total = (ups - downs) * step
        yield (
            first,
            second,
            PairSums(
                shared=cases,
                clusters=cases,
                ups=ups if sign > 0 else downs,
                downs=downs if sign > 0 else ups,
                total=total,
                squares=(ups + downs) * step * step,
                products=total,
                sizes=float(cases),
                step=abs(step),
            ),
        )


def products_of_sides(first: NDArray[np.floating], second: NDArray[np.floating]) -> Array:
    """Return the sum over cases of the products of whole numbers of each two sides, some cases at a time: a small
    product of matrices is computed by one thread, a larger one wakes threads that wait for each other."""
    step = max(_LEAST_CASES, _SMALL_PRODUCT // max(1, len(first) * len(second)))
    parts = range(0, first.shape[1], step)
    return sum((first[:, at : at + step] @ second[:, at : at + step].T for at in parts), np.zeros((len(first),) * 2))


def _of_differences(differences: Array, codes: NDArray[np.intp] | None) -> PairSums:
    sums, sizes = sums_of_clusters(differences, codes)
    steps = np.rint(sums * GRID)
    changed = sums[steps != 0]
    alike = not changed.size or bool((np.abs(steps[steps != 0]) == abs(steps[steps != 0][0])).all())
    return PairSums(
        shared=len(differences),
        clusters=len(sums),
        ups=int((steps > 0).sum()),
        downs=int((steps < 0).sum()),
        total=math.fsum(differences),
        squares=float(sums @ sums),
        products=float(sizes @ sums),
        sizes=float(sizes @ sizes),
        step=(float(abs(changed[0])) if changed.size else 0.0) if alike else None,
        changes=None if alike or len(changed) > MOST_CHANGES else changed.tolist(),
    )


def p_values(all_sums: Sequence[PairSums]) -> list[float | None]:
    """Return the two-sided p-values of the sign-flip test (see `sign_flip_test`); None without common cases."""
    plain = [place for place, sums in enumerate(all_sums) if sums.shared and sums.step is not None]
    values: list[float | None] = list(repeat(None, len(all_sums)))
    counts = [(all_sums[place].ups, all_sums[place].downs) for place in plain]
    for place, value in zip(plain, sign_p_values(counts), strict=True):
        values[place] = value
    for place, sums in enumerate(all_sums):
        if sums.shared and sums.step is None:
            values[place] = _of_unlike(sums)
    return values


def _of_unlike(sums: PairSums) -> float:
    changes = sums.changes
    if changes is not None:
        steps = [round(change * GRID) for change in changes]
        unit = math.gcd(*steps)
        sizes = [abs(step) // unit for step in steps]
        if sum(sizes) * len(sizes) ** 2 <= LARGEST:
            return min(1.0, 2 * flip_tail(sizes, abs(sum(steps)) // unit))
    return _by_student(sums)


def _by_student(sums: PairSums) -> float:
    """Return the p-value by Student's t with the cluster-robust error (see `clustered_error`)."""
    if sums.clusters < 2:
        return 1.0
    middle = sums.total / sums.shared
    spread = max(0.0, sums.squares - 2 * middle * sums.products + middle * middle * sums.sizes)
    error = math.sqrt(spread * sums.clusters / (sums.clusters - 1)) / sums.shared
    return 2 * t_tail(abs(middle) / error, sums.clusters - 1) if error else 0.0


def sign_p_values(counts: Sequence[tuple[int, int]]) -> list[float]:
    """Return the two-sided p-values of sign tests with so many ups and downs, all at once."""
    pairs = np.array(counts, dtype=np.int64).reshape(-1, 2)
    values: list[float] = sign_values(pairs[:, 0], pairs[:, 1]).tolist()
    return values
