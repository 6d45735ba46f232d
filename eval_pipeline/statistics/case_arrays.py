"""Sufficient statistics of the means of many cases, from arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.clusters import CaseSums


def sums_of_clusters(
    values: NDArray[np.float64], codes: NDArray[np.intp] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the size of each cluster of values; without `codes` each value is its own."""
    if codes is None:
        return values, np.ones(len(values))
    sizes: NDArray[np.float64] = np.bincount(codes).astype(np.float64)
    sums = np.asarray(np.bincount(codes, values), dtype=np.float64)
    return sums[sizes > 0], sizes[sizes > 0]


def array_sums(
    means: NDArray[np.float64], counts: NDArray[np.int64], codes: NDArray[np.intp] | None = None
) -> CaseSums:
    """Return the statistics of cases as `case_sums` does: `codes` are the numbers of their clusters, None: each its
    own."""
    sums, sizes = sums_of_clusters(means, codes)
    return CaseSums(
        cases=len(means),
        clusters=len(sums),
        total=float(sums.sum()),
        squares=float(sums @ sums),
        products=float(sizes @ sums),
        sizes=float(sizes @ sizes),
        inverse_counts=float((1 / counts).sum()),
    )
