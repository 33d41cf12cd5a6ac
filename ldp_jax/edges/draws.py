"""Draws of sizes that depend on data, by few compiled programs; on the host."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random_words
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar

_STEP = 2**24  # slots grow by powers of two up to this many, then by multiples of it
PIECE = 4.0
"""The largest Poisson mean that is drawn at once: see :func:`ldp_jax.core.random_words.poisson`."""


def capacity(count: int) -> int:
    """Round a count up to one of few numbers of slots, so that there are few shapes."""
    if count <= _STEP:
        return 1 << max(6, (count - 1).bit_length())
    return -(-count // _STEP) * _STEP


def padded(array: np.ndarray, value: int = 0) -> np.ndarray:
    """Fill an array [count, ...] up to its :func:`capacity`."""
    short = capacity(len(array)) - len(array)
    widths = [(0, short)] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, widths, constant_values=value)


@partial(jax.jit, static_argnames=("draw", "slots"))
def _drawn(
    draw: Callable[..., Array],
    key: PRNGKey,
    slots: int,
    parameters: tuple[Scalar, ...],
) -> Array:
    return draw(key, *parameters, (slots,))


def drawn(draw: Callable[..., Array], key: PRNGKey, count: int, *parameters: Scalar) -> np.ndarray:
    """Call ``draw(key, *parameters, shape)`` for ``count`` entries along the last axis."""
    return np.asarray(_drawn(draw, key, capacity(count), parameters))[..., :count]


def uniforms(key: PRNGKey, count: int) -> np.ndarray:
    """Draw uniform float64 in (0, 1] from 64 bits, which small values keep relatively."""
    high, low = drawn(random_words.words, key, count)
    return (high * 2.0**32 + low + 0.5) * 2.0**-64


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """High and low words of a product of 32-bit words, without 64-bit integers."""
    low_a = a & 0xFFFF
    high_a = a >> 16
    low_b = b & 0xFFFF
    high_b = b >> 16
    one = low_a * high_b
    other = high_a * low_b
    middle = ((low_a * low_b) >> 16) + (one & 0xFFFF) + (other & 0xFFFF)
    high = high_a * high_b + (one >> 16) + (other >> 16) + (middle >> 16)
    return high, a * b


@jax.jit
def below(key: PRNGKey, bound: AnyArray) -> Array:
    """Draw uniform integers in [0, bound): the high part of 64 random bits times the bound.

    Probabilities are off by bound / 2^64.
    """
    bits = random_words.words(key, bound.shape)
    limit = jnp.asarray(bound, jnp.uint32)
    high, low = _product(bits[0], limit)
    carry_in, _ = _product(bits[1], limit)
    return (high + (low + carry_in < low)).astype(jnp.int32)


def each_below(key: PRNGKey, bound: np.ndarray) -> np.ndarray:
    """:func:`below` on the host, of any number of bounds; int32 [k]."""
    bounds = padded(bound.astype(np.int32, copy=False), 1)
    return np.asarray(below(key, bounds))[: len(bound)]


# Gathers are the host's: beside them a CPU's compiler does not vectorise threefry's rounds.
_poisson = jax.jit(random_words.poisson)
_bernoulli = jax.jit(random_words.bernoulli)


def happens(key: PRNGKey, p: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Draw independent events of probability ``p`` = 1 - ``rest``, on the host; bool [k]."""
    return np.asarray(_bernoulli(key, padded(p), padded(rest)))[: len(p)]


def poisson_counts(key: PRNGKey, mean: np.ndarray) -> np.ndarray:
    """Draw Poisson counts of any means, each the sum of pieces, on the host; int64 [k]."""
    mean = mean.astype(np.float32)
    pieces = np.ceil(mean / np.float32(PIECE)).astype(np.int64)
    each = np.repeat(mean / np.maximum(pieces, 1).astype(np.float32), pieces)
    owner = np.repeat(np.arange(len(mean)), pieces)
    drawn = np.asarray(_poisson(key, padded(each)))[: len(each)]
    return np.bincount(owner, drawn, len(mean)).astype(np.int64)


def ordinal(owner: np.ndarray) -> np.ndarray:
    """Number the entries of each run of equal ones; ``owner`` is non-decreasing."""
    return np.arange(len(owner)) - np.searchsorted(owner, owner)


def smallest(score: np.ndarray, owner: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Find the ``wanted`` entries of each owner that have the smallest scores, owner by owner."""
    order = np.lexsort((score, owner))
    owner = owner[order]
    return order[ordinal(owner) < wanted[owner]]


def contains(known: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Say which codes are among the sorted known ones."""
    place = np.searchsorted(known, code)
    return np.append(known, -1)[place] == code
