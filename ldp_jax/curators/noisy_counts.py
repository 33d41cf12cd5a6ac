"""Noisy counts of edges over disjoint groups of pairs, and counts that could be true from them."""

import numpy as np

from ldp_jax.core.types import PRNGKey
from ldp_jax.edges.degree_noise import DRAWS, Noise
from ldp_jax.edges.draws import drawn

_HALVINGS = 110  # halvings of an interval of 2^57 counts: the rest is below float64's spacing at 1


def noisy_counts(
    key: PRNGKey,
    counts: np.ndarray,
    epsilon: float,
    noise: Noise = "laplace",
) -> np.ndarray:
    """Add noise of scale 1 / epsilon to each count; float64 [k].

    An edge is in one group, so it costs epsilon.
    """
    added = drawn(DRAWS[noise], key, len(counts), np.float32(epsilon))
    return counts + added.astype(np.float64)


def consistent(noisy: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Find the nearest counts within [0, most] that have the sum of the noisy ones.

    Float64, along the last axis.

    Counts clipped one by one gain what noise took below 0. Here one number is taken from all before
    they are clipped, so that the sum stays: the Euclidean projection ("Norm-Sub": Wang et al., NDSS
    2020), post-processing.

    >>> consistent(np.array([5.0, -1.0, 1.0]), np.array([9.0, 9.0, 9.0])).round(
    ...     9
    ... ).tolist()
    [4.5, 0.0, 0.5]
    >>> consistent(np.array([3.0, -1.0, 0.5]), np.array([2.0, 9.0, 9.0])).round(
    ...     9
    ... ).tolist()
    [2.0, 0.0, 0.5]
    """
    noisy, most = np.broadcast_arrays(np.asarray(noisy, np.float64), np.asarray(most, np.float64))
    total = np.clip(noisy.sum(-1, keepdims=True), 0.0, most.sum(-1, keepdims=True))
    low = (noisy - most).min(-1, keepdims=True, initial=0.0)
    high = noisy.max(-1, keepdims=True, initial=0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        clipped = np.clip(noisy - middle, 0.0, most)
        above = clipped.sum(-1, keepdims=True) > total
        low = np.where(above, middle, low)
        high = np.where(above, high, middle)
    return np.clip(noisy - high, 0.0, most)


def whole(uniform: np.ndarray | float, counts: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Round counts down or up at random: each keeps its mean, and so does their sum.

    Int64, along the last axis.

    ``uniform`` is one number in [0, 1) for all counts of a sum; counts are in [0, most].

    >>> whole(0.5, np.array([0.25, 0.5, 1.25]), np.array([9, 9, 9])).tolist()
    [0, 1, 1]
    """
    ends = np.floor(np.cumsum(counts, -1) + np.asarray(uniform)[..., None])
    return np.minimum(np.diff(ends, axis=-1, prepend=0.0), most).astype(np.int64)
