"""Sufficient statistics of the means of many cases, from arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.clusters import CaseSums

Array = NDArray[np.float64]


def relative_weights(weights: Array | None) -> Array | None:
    """Return weights (above 0) scaled to 1 on average; None where all count the same."""
    if weights is None or not len(weights) or bool((weights == weights[0]).all()):
        return None
    scaled: Array = weights * (len(weights) / weights.sum())
    return scaled


def sums_of_clusters(values: Array, codes: NDArray[np.intp] | None, shares: Array | None = None) -> tuple[Array, Array]:
    """Return the sum and the size of each cluster of values; without `codes` each value is its own. `shares` are
    relative weights: a size is the sum of those of a cluster."""
    values = values if shares is None else values * shares
    if codes is None:
        return values, np.ones(len(values)) if shares is None else shares
    sizes: Array = np.bincount(codes, shares).astype(np.float64)
    sums = np.asarray(np.bincount(codes, values), dtype=np.float64)
    return sums[sizes > 0], sizes[sizes > 0]


def array_sums(
    means: Array,
    counts: NDArray[np.int64],
    codes: NDArray[np.intp] | None = None,
    weights: Array | None = None,
) -> CaseSums:
    """Return the statistics of cases as `case_sums` does: `codes` are the numbers of their clusters, None: each its
    own."""
    shares = relative_weights(weights)
    sums, sizes = sums_of_clusters(means, codes, shares)
    return CaseSums(
        cases=len(means),
        clusters=len(sums),
        total=float(sums.sum()),
        squares=float(sums @ sums),
        products=float(sizes @ sums),
        sizes=float(sizes @ sizes),
        inverse_counts=float(((1.0 if shares is None else shares * shares) / counts).sum()),
        weighted=shares is not None,
    )
