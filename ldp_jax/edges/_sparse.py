"""Neighbour lists of a whole graph at once: sparse, exact, compiled, streamed over users.

A user reports some of the true pairs and some of the others. True pairs are a Bernoulli each. Of N others, each
reported with probability a, a Poisson number (mean -N log1p(-a)) of uniform ranks is drawn *with* replacement and
repeats are dropped: every one is then hit at least once with probability exactly a, independently of the rest. No
Binomial and no rejection is needed, and nothing is ever as large as the square of the number of users.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random_words
from ldp_jax.core.types import Array, PRNGKey

_BLOCK = 2**22
"""Pairs and users of one block, but for a user who has more alone."""
_STEP = 2**24
"""Slots grow by powers of two up to this many, then by multiples of it."""
_PIECE = 4.0
"""The largest Poisson mean that is drawn at once: see :func:`ldp_jax.core.random_words.poisson`."""


class Users(NamedTuple):
    """What the sampler knows of some users, in an order in which each owns one run of pairs; arrays [users].

    Attributes:
      place: the user's place in the graph.
      start: where the user's level begins (for a whole list, the graph).
      end: where it ends, one past the last.
      size: nodes of the user's graph.
    """

    place: Any
    start: Any
    end: Any
    size: Any


def universe(users: Users, half: bool) -> Any:
    """How many pairs each user owns: size - 1, or a part of a half matrix."""
    if not half:
        return users.size - 1
    index, level = users.place - users.start, users.end - users.start
    return (index + 1) // 2 + (level - 1 - index) // 2 + (users.size - users.end)


def rank_of(users: Users, other: Any, half: bool) -> Any:
    """The rank of an owned node among those the user owns; NumPy or JAX, elementwise."""
    if not half:
        return other - (other > users.place)
    index, level = users.place - users.start, users.end - users.start
    within = other - users.start
    low, high = (index + 1) // 2, (level - 1 - index) // 2
    below, above = within // 2, low + (within - index) // 2 - 1
    xp = np if isinstance(other, np.ndarray) else jnp
    return xp.where(other >= users.end, low + high + (other - users.end), xp.where(within < index, below, above))


def node_of(users: Users, rank: Any, half: bool) -> Any:
    """The owned node of a rank: the inverse of :func:`rank_of`."""
    if not half:
        return rank + (rank >= users.place)
    index, level = users.place - users.start, users.end - users.start
    low, high = (index + 1) // 2, (level - 1 - index) // 2
    below, above = 2 * rank + (index + 1) % 2, index + 2 * (rank - low + 1)
    within = users.start + jnp.where(rank < low, below, above)
    return jnp.where(rank >= low + high, users.end + rank - low - high, within)


def owns(users: Users, other: Any, half: bool) -> Any:
    """Whether the pair of a user and another node is the user's to report; NumPy or JAX, elementwise.

    In a half matrix a pair of one level belongs to the lower place if the two places sum to an even number, else to
    the higher one; a pair of two levels to the user of the lower (smaller epsilon).
    """
    if not half:
        return other != users.place
    same = (other >= users.start) & (other < users.end) & (other != users.place)
    even = (users.place + other - 2 * users.start) % 2 == 0
    return (other >= users.end) | (same & ((other > users.place) == even))


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """High and low words of a product of 32-bit words, without 64-bit integers."""
    a0, a1, b0, b1 = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
    middle = ((a0 * b0) >> 16) + ((a0 * b1) & 0xFFFF) + ((a1 * b0) & 0xFFFF)
    high = a1 * b1 + ((a0 * b1) >> 16) + ((a1 * b0) >> 16) + (middle >> 16)
    return high, a * b


def below(key: PRNGKey, bound: Array) -> Array:
    """Uniform integers in [0, bound): the high part of 64 random bits times the bound; off by bound / 2^64."""
    bits = jax.random.bits(key, (2, *bound.shape), jnp.uint32)
    limit = bound.astype(jnp.uint32)
    high, low = _product(bits[0], limit)
    carry_in, _ = _product(bits[1], limit)
    return (high + (low + carry_in < low)).astype(jnp.int32)


def capacity(count: int) -> int:
    """The slots that ``count`` needs: few different shapes, never too few slots."""
    return 1 << max(6, (count - 1).bit_length()) if count <= _STEP else -(-count // _STEP) * _STEP


def padded(array: np.ndarray, value: int = 0) -> np.ndarray:
    """An array [count, ...] filled up to its :func:`capacity`."""
    return np.pad(
        array, ((0, capacity(len(array)) - len(array)), *[(0, 0)] * (array.ndim - 1)), constant_values=value
    )


@partial(jax.jit, static_argnames=("draw", "slots"))
def _drawn(draw: Callable[..., Array], key: PRNGKey, slots: int, parameters: tuple[Any, ...]) -> Array:
    return draw(key, *parameters, (slots,))


def drawn(draw: Callable[..., Array], key: PRNGKey, count: int, *parameters: Any) -> np.ndarray:
    """``draw(key, *parameters, shape)`` on the host, of ``count`` entries along the last axis; few programs."""
    return np.asarray(_drawn(draw, key, capacity(count), parameters))[..., :count]


@partial(jax.jit, static_argnames="half")
def _rates(key: PRNGKey, m: Any, users: Users, degree: Array, half: bool) -> Any:
    owned = universe(users, half)
    noisy, keep, add = m.rates(key, degree, owned)
    drop = jnp.broadcast_to(m.drop_rate(noisy, owned), keep.shape)
    return noisy, keep, drop, add


@jax.jit
def _false_if_none(m: Any, owned: Array) -> Array:
    _, add = m.bit_rates(m.degree_if_none(owned), owned)
    return owned.astype(jnp.float32) * add


def false_pairs_if_none(m: Any, users: Users, half: bool) -> float:
    """About how many pairs are reported of users without any: of public numbers alone.

    ``m`` has one budget, or one a user; a user's pairs are at most what the mean noisy degree lets expect.
    """
    room = capacity(len(users.place))
    part = m.of_users(lambda leaf: _slice(leaf, 0, len(users.place), room))
    owned = np.pad(universe(users, half).astype(np.int32), (0, room - len(users.place)))
    return float(np.asarray(_false_if_none(part, owned), np.float64).sum())


@jax.jit
def _means(owned: Array, degree: Array, add: Array) -> tuple[Array, Array]:
    """Poisson means of the false pairs, and in how many pieces to draw each."""
    others = jnp.maximum(owned - degree, 0).astype(jnp.float32)
    mean = -others * jnp.log1p(-add)
    return mean, jnp.ceil(mean / _PIECE).astype(jnp.int32)


@partial(jax.jit, static_argnames="slots")
def _counts(key: PRNGKey, mean: Array, pieces: Array, slots: int) -> Array:
    """False pairs of each user: the sum of the user's pieces."""
    user = jnp.repeat(jnp.arange(len(mean)), pieces, total_repeat_length=slots)
    used = jnp.arange(slots) < pieces.sum()
    each = jnp.where(used, mean[user] / jnp.maximum(pieces[user], 1), 0.0)
    return jnp.zeros(len(mean), jnp.int32).at[user].add(random_words.poisson(key, each), mode="drop")


def poisson_counts(key: PRNGKey, mean: np.ndarray) -> np.ndarray:
    """Poisson counts of any means, on the host; int32 [k]."""
    pieces = np.ceil(mean / _PIECE).astype(np.int32)
    return np.asarray(_counts(key, padded(mean.astype(np.float32)), padded(pieces), capacity(int(pieces.sum()))))[
        : len(mean)
    ]


@partial(jax.jit, static_argnames="slots")
def _kept(key: PRNGKey, keep: Array, drop: Array, degree: Array, slots: int) -> Array:
    """Which true pairs are reported, of probabilities ``keep`` = 1 - ``drop``."""
    user = jnp.repeat(jnp.arange(len(keep)), degree, total_repeat_length=slots)
    return random_words.bernoulli(key, keep[user], drop[user])


@partial(jax.jit, static_argnames=("slots", "half"))
def _false(
    key: PRNGKey, users: Users, owned: Array, degree: Array, ranks: Array, count: Array, slots: int, half: bool
) -> tuple[Array, Array]:
    """(user, node) of the false pairs, repeats and all: uniform ranks among those that are no true pair.

    ``ranks`` are those of the true pairs, sorted within each user. The r-th other has rank r + k, k the number
    of true ranks t_j with t_j - j <= r: found by bisection in the user's own run.
    """
    user = jnp.repeat(jnp.arange(len(owned)), count, total_repeat_length=slots)
    others = jnp.maximum(owned - degree, 1)[user]
    rank = below(key, others)
    first = (jnp.cumsum(degree) - degree)[user]
    last = degree[user]
    steps = jnp.ceil(jnp.log2(degree.max() + 1.0)).astype(jnp.int32) + 1

    def bisect(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = (low + high) // 2
        shifted = ranks.at[first + middle].get(mode="clip") - middle
        go = (shifted <= rank) & (low < high)
        return jnp.where(go, middle + 1, low), jnp.where(go, high, middle)

    low, _ = jax.lax.fori_loop(0, steps, bisect, (jnp.zeros_like(rank), last))
    mine = jax.tree.map(lambda leaf: leaf[user], users)
    return user, node_of(mine, rank + low, half)


class Block(NamedTuple):
    """Reports of consecutive users: a noisy degree each (or None), and the reported pairs, sorted, each once."""

    first: int
    degree: np.ndarray | None
    user: np.ndarray
    node: np.ndarray


def _blocks(degree: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of users with at most a block's pairs, and at most a block's users."""
    ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    start, n = 0, len(degree)
    while start < n:
        stop = int(np.searchsorted(ends, ends[start] + _BLOCK, "right")) - 1
        stop = min(max(stop, start + 1), start + _BLOCK, n)
        yield start, stop
        start = stop


def sample(
    key: PRNGKey,
    m: Any,
    users: Users,
    degree: np.ndarray,
    node: np.ndarray,
    *,
    half: bool,
    whole_degree: np.ndarray | None = None,
) -> Iterator[Block]:
    """The reports of all users, a block at a time.

    Args:
      key: a typed threefry key; block b draws from ``fold_in(key, b)``.
      m: a mechanism with ``rates(key, degree, owned) -> (noisy degree or None, keep, add)`` and ``drop_rate(noisy,
        owned)``; its parameters may be stacked, one a user.
      users: NumPy arrays [users].
      degree: int32 [users], true pairs that each user owns.
      node: int32, their nodes, user by user, sorted within each.
      half: whether users own half a matrix.
      whole_degree: what the noisy degree is about, where it is not ``degree``: a whole list, of size - 1 pairs.
    """
    ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    for number, (start, stop) in enumerate(_blocks(degree)):
        keys = jax.random.split(jax.random.fold_in(key, number), 4)
        room = capacity(stop - start)
        fill = lambda array, value=0, a=start, b=stop, c=room: np.pad(
            np.asarray(array[a:b], np.int32), (0, c - (b - a)), constant_values=value
        )
        # Padding users own nothing: a graph of one node.
        mine = Users(fill(users.place), fill(users.start), fill(users.end, 1), fill(users.size, 1))
        mine_degree = fill(degree)
        part = m.of_users(lambda leaf, a=start, b=stop, c=room: _slice(leaf, a, b, c))
        counted, whole = (mine_degree, half) if whole_degree is None else (fill(whole_degree), False)
        noisy, keep, drop, add = _rates(keys[0], part, mine, counted, whole)
        owned = universe(mine, half)
        mean, pieces = _means(owned, mine_degree, add)
        count = _counts(keys[1], mean, pieces, capacity(int(pieces.sum())))
        true = node[ends[start] : ends[stop]]
        whose = np.repeat(np.arange(stop - start, dtype=np.int32), degree[start:stop])
        kept = np.asarray(_kept(keys[2], keep, drop, mine_degree, capacity(len(true))))[: len(true)]
        at = Users(*(leaf[whose] for leaf in mine))
        ranks = np.pad(rank_of(at, true, half), (0, capacity(len(true)) - len(true)))
        total = int(count.sum())
        # Slices of NumPy: one of a device's array, of a random length, would be a program of its own.
        added = _false(keys[3], mine, owned, mine_degree, ranks, count, capacity(total), half)
        user, false = (np.asarray(leaf)[:total] for leaf in added)
        # A NumPy sort of whole pairs is faster than a device's sort of two keys, and than np.unique, which hashes.
        width = int(users.size.max())
        wrong = np.sort(user.astype(np.int64) * width + false)
        wrong = wrong[np.diff(wrong, prepend=-1) > 0]
        right = whose[kept].astype(np.int64) * width + true[kept]
        pairs = np.sort(np.concatenate([right, wrong]))
        yield Block(
            start,
            None if noisy is None else np.asarray(noisy)[: stop - start],
            (pairs // width + start).astype(np.int32),
            (pairs % width).astype(np.int32),
        )


def _slice(leaf: Any, start: int, stop: int, room: int) -> Any:
    """One parameter for all users, or those of a block; padding repeats the first."""
    if np.ndim(leaf) == 0:
        return leaf
    mine = np.asarray(leaf)[start:stop]
    return np.concatenate([mine, np.repeat(mine[:1], room - len(mine), 0)])
