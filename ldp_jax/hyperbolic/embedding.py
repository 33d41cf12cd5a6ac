r"""Poincaré embeddings.

A hierarchy's nodes as points of the ball, and how well they reconstruct it.

For a relation D of ordered pairs (u, v), such as "u is a v", the loss at curvature -1 is

.. math:: L = - \sum_{(u, v) \in D} \log \frac{e^{-d(u, v)}}{e^{-d(u, v)} + \sum_{s \in N(u)}
e^{-d(u, s)}}

with N(u) random nodes that u is in no pair with. Nothing of this is private.
Reference: Nickel & Kiela, Poincaré embeddings for learning hierarchical representations (NIPS
2017), eq. 1-6.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.float32 import matmul
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Numbers, PRNGKey, Record, Scalar
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import gap
from ldp_jax.hyperbolic.optimizers import apply_updates, riemannian_sgd

_SLOTS = 16  # of the table, for each pair: at most 1/16 of the nodes in no pair is passed over too


class PoincareEmbedding(NamedTuple):
    """A trained embedding in the ball of radius 1, and the mean loss of a pair in each epoch."""

    points: Float[Array, "n dim"]
    losses: Float[Array, " epochs"]

    __repr__ = by_shapes


class ReconstructionQuality(NamedTuple):
    """The quality of a reconstruction by distances.

    The ``mean_rank`` is over pairs (u, v): 1 + the number of nodes in no pair with u that are as
    near to u. The ``mean_average_precision`` is over nodes with pairs: of all others, ranked by
    nearness.
    """

    mean_rank: float
    mean_average_precision: float


def _relation(relation: Numbers, num_nodes: int) -> np.ndarray:
    pairs = validate.pairs(num_nodes, relation=relation)
    validate.require(
        len(pairs) and (pairs[:, 0] != pairs[:, 1]).all(),
        "relation must be of two different nodes each, one pair at least",
    )
    code = pairs[:, 0] * num_nodes + pairs[:, 1]
    validate.require(len(np.unique(code)) == len(code), "relation must name each pair once")
    return pairs.astype(np.int32)


def closure(parent: Numbers) -> np.ndarray:
    """All pairs (node, ancestor) of a forest: int32 [m, 2], by node and then upwards.

    ``parent`` [n] is the node above each; a root is its own.

    >>> closure([0, 0, 1]).tolist()
    [[1, 0], [2, 1], [2, 0]]
    """
    above = np.asarray(validate.in_order(parent, "parent"))
    n = len(above) if above.ndim == 1 else 0
    validate.require(
        n and np.issubdtype(above.dtype, np.integer) and above.min() >= 0 and above.max() < n,
        f"parent must be integers [n] in [0, n), got {above.dtype} of shape {above.shape}",
    )
    node = np.arange(n)
    reached = node
    levels = [np.zeros((0, 2), int)]
    while len(node):  # as often as the tree is high
        validate.require(len(levels) <= n, "parent must have no cycle")
        moves = above[reached] != reached
        node = node[moves]
        reached = above[reached[moves]]
        levels.append(np.stack([node, reached], 1))
    pairs = np.concatenate(levels)
    return pairs[np.argsort(pairs[:, 0], kind="stable")].astype(np.int32)


def _slot(u: AnyArray, v: AnyArray, bits: int) -> AnyArray:
    """The place of a pair in the table; uint32 words, of NumPy or JAX."""
    mixed = u * np.uint32(0x9E3779B1) + v * np.uint32(0x85EBCA77)
    mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0xC2B2AE3D)
    return mixed >> np.uint32(32 - bits)


def _table(pairs: np.ndarray) -> np.ndarray:
    """Whether a slot has a pair; 2^bits bools."""
    wanted = math.ceil(math.log2(_SLOTS * len(pairs)))
    bits = min(max(10, wanted), 30)
    table = np.zeros(2**bits, bool)
    u, v = pairs.astype(np.uint32).T
    table[_slot(u, v, bits)] = True
    return table


def _squared(x: Array, y: Array) -> Array:
    """Squared Euclidean distances [b, k] of rows, by differences.

    Products would lose close points.
    """
    y = jax.lax.optimization_barrier(y.T)  # contiguous, for vector instructions
    columns = [(x[:, k, None] - y[k]) ** 2 for k in range(x.shape[1])]
    return jax.lax.optimization_barrier(sum(columns[1:], columns[0]))  # once for all uses


def _mass(squared: Array, inverse: Array) -> tuple[Array, Array]:
    """e^-d, and twice the slope of d in the squared difference of two points.

    With r^2 = sinh(d / 2)^2 = |u - s|^2 / (gap(u) gap(s)), e^-d is (r + sqrt(1 + r^2))^-2, and the
    slope of d in r^2 is 1 / (r sqrt(1 + r^2)).
    """
    r2 = squared * inverse
    r = jnp.sqrt(r2)
    root = jnp.sqrt(1.0 + r2)
    mass = (r + root) ** -2
    slope = 2.0 * inverse / (jnp.maximum(r, 1e-15) * root)
    return mass, slope


def _gradient(
    rows: tuple[Array, ...], gaps: tuple[Array, ...], apart: Array, weight: Array
) -> tuple[Array, Array]:
    """The loss of each pair, and the gradient of the weighted sum with respect to all rows.

    ``rows`` are u [b, dim], v [b, dim] and s [k, dim], which all pairs share; ``apart`` [b, k] is 1
    where s is in no pair with u.
    """
    u, v, s = rows
    inverse_u, inverse_v, inverse_s = (1.0 / gap for gap in gaps)
    # Sums are products with ones, which are vectorised.
    ones_u = jnp.ones((len(u), 1), u.dtype)
    ones_s = jnp.ones((len(s), 1), u.dtype)

    near = ((u - v) ** 2).sum(-1, keepdims=True)
    far = _squared(u, s)
    mass_v, slope_v = _mass(near, inverse_u * inverse_v)
    mass_s, slope_s = jax.lax.optimization_barrier(_mass(far, inverse_u * inverse_s.T))
    mass_s = mass_s * apart
    total = mass_v + matmul(mass_s, ones_s)

    # The slope in |u - s|^2 pulls u and s together; that in the gaps moves each along its ray.
    share = weight / total
    pull_v = (weight - share * mass_v) * slope_v
    pull_s = -share * mass_s * slope_s
    ray_v = pull_v * near
    ray_s = jax.lax.optimization_barrier(pull_s * far)

    of_u = pull_v + matmul(pull_s, ones_s) + inverse_u * (ray_v + matmul(ray_s, ones_s))
    of_v = pull_v + inverse_v * ray_v
    of_s = matmul(pull_s.T, ones_u) + inverse_s * matmul(ray_s.T, ones_u)
    grad_u = of_u * u - pull_v * v - matmul(pull_s, s)
    grad_v = of_v * v - pull_v * u
    grad_s = of_s * s - matmul(pull_s.T, u)

    loss = jnp.log(total / mass_v)[:, 0]
    return loss, jnp.concatenate([grad_u, grad_v, grad_s])


@partial(jax.jit, static_argnames=("burn_in", "epochs", "batch_size", "negatives"))
def _train(
    key: PRNGKey,
    points: Array,
    pairs: Array,
    table: Array,
    learning_rate: Array,
    *,
    burn_in: int,
    epochs: int,
    batch_size: int,
    negatives: int,
) -> PoincareEmbedding:
    """Descend in ``burn_in`` epochs before the rate rises, and in ``epochs`` after it."""
    n = len(points)
    m = len(pairs)
    steps = -(-m // batch_size)
    bits = int(math.log2(len(table)))
    rate = lambda count: learning_rate * jnp.where(count < burn_in * steps, 0.1, 1.0)
    method = riemannian_sgd(rate)
    parts = lambda rows: tuple(jnp.split(rows, [batch_size, 2 * batch_size]))  # of u, v and s

    def step(carry: tuple, chosen: tuple[Array, Array, Array]) -> tuple[tuple, Array]:
        points, state, places = carry
        pair, weight, drawn = chosen
        u, v = pair.T
        # A step is taken with the rows that are touched.
        touched = jnp.concatenate([u, v, drawn])
        old = points[touched]

        slot = _slot(u.astype(jnp.uint32)[:, None], drawn.astype(jnp.uint32)[None], bits)
        related = table[slot] | (u[:, None] == drawn)
        apart = 1.0 - related.astype(points.dtype)
        loss, gradient = _gradient(parts(old), parts(gap(old, 1.0)), apart, weight)

        # A node that comes twice gets the sum, twice: all its rows are summed at the place of one
        # of them.
        places = places.at[touched].set(jnp.arange(len(touched), dtype=places.dtype))
        place = places[touched]
        gradient = jnp.zeros_like(gradient).at[place].add(gradient)[place]

        updates, state = method.update(gradient, state, old)
        points = points.at[touched].set(apply_updates(old, updates))
        return (points, state, places), (loss * weight[:, 0]).sum()

    def epoch(carry: tuple, key: PRNGKey) -> tuple[tuple, Array]:
        order_key, key = random.split(key)
        order = jnp.argsort(random.bits(order_key, (m,)))  # half the time of jax.random.permutation
        order = jnp.concatenate([order, jnp.full(steps * batch_size - m, m, order.dtype)])
        order = order.reshape(steps, batch_size)
        weight = (order < m).astype(points.dtype)[..., None]  # the last batch may be short
        batches = pairs[jnp.minimum(order, m - 1)]

        # All of an epoch's draws at once: a step has no time to spare for the generator.
        draw = jax.vmap(lambda key: random.randint(key, (negatives,), 0, n))
        drawn = draw(random.split(key, steps))
        carry, losses = jax.lax.scan(step, carry, (batches, weight, drawn))
        return carry, losses.sum() / m

    carry = points, method.init(points), jnp.zeros(n, jnp.int32)
    (points, *_), losses = jax.lax.scan(epoch, carry, random.split(key, burn_in + epochs))
    return PoincareEmbedding(points, losses)


@implicit_promotion()
def embed(
    key: PRNGKey,
    relation: Numbers,
    num_nodes: int,
    dim: int = 2,
    *,
    learning_rate: float = 0.2,
    epochs: int = 50,
    burn_in: int = 10,
    batch_size: int = 64,
    negatives: int = 50,
) -> PoincareEmbedding:
    """Train a Poincaré embedding of a relation by Riemannian descent, in one compiled program.

    A batch of pairs shares its random nodes, drawn uniformly. Nodes in a pair with u, and by a hash
    at most 1/16 of the others, count for nothing in u's sum. ``relation`` [m, 2] has ordered pairs
    (u, v), each once; both directions of a symmetric relation. The learning rate is a tenth in the
    ``burn_in`` epochs. A step sums the gradients of ``batch_size`` pairs, of which each node has as
    many random ``negatives``.
    """
    validate.threefry(key)
    num_nodes = validate.whole(2, 2**31 - 1, num_nodes=num_nodes)
    validate.integer_in(0, epochs=epochs, burn_in=burn_in)
    validate.integer_in(1, dim=dim, batch_size=batch_size, negatives=negatives)
    validate.number(0.0, open_lower=True, learning_rate=learning_rate)
    pairs = _relation(relation, num_nodes)
    init_key, train_key = random.split(key)
    points = random.uniform(init_key, (num_nodes, dim), minval=-1e-3, maxval=1e-3)
    return _train(
        train_key,
        points,
        jnp.asarray(pairs),
        jnp.asarray(_table(pairs)),
        jnp.float32(learning_rate),
        burn_in=burn_in,
        epochs=epochs,
        batch_size=min(batch_size, len(pairs)),
        negatives=negatives,
    )


@jax.jit
def _nearer(points: Array, scaled: Array, pairs: Array) -> tuple[Array, Array]:
    """How many other nodes are as near to u as v is, for each pair (u, v), and how far v is.

    Distances are |v - u|^2 times ``scaled``, which is 1 / gap.
    """
    u, v = pairs.T
    at = points[u]
    far = _squared(at, points) * scaled
    own = jnp.take_along_axis(far, v[:, None], 1)
    node = jnp.arange(len(points))
    # v is left out, too: a compiler may compute ``far`` once for each use, and round it otherwise.
    others = (node != u[:, None]) & (node != v[:, None])
    return ((far <= own) & others).sum(1), own[:, 0]


@implicit_promotion()
def reconstruction(
    points: Record, relation: Numbers, c: Scalar = 1.0, *, chunk: int = 256
) -> ReconstructionQuality:
    """The quality of the reconstruction of ordered pairs [m, 2] by distances.

    It is that of Nickel & Kiela 2017, section 4.1. Ties count against the pair: where all points
    are one, nothing is found. ``chunk`` pairs are compared at once, with memory of ``chunk`` times
    the nodes.
    """
    validate.whole(1, chunk=chunk)
    points, c = poincare._points(c, points=points)
    validate.shaped("n", "dim", points=points)
    pairs = _relation(relation, len(points))
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]

    scaled = 1.0 / gap(points, c)[:, 0]
    padded = np.resize(pairs, (len(pairs) + -len(pairs) % chunk, 2))
    parts = [_nearer(points, scaled, part) for part in padded.reshape(-1, chunk, 2)]
    closer, own = (np.concatenate(part)[: len(pairs)] for part in zip(*parts, strict=True))

    # Nodes no farther than v that are in a pair with u themselves: each u's pairs are sorted by
    # distance.
    order = np.lexsort((own, pairs[:, 0]))
    u = pairs[order, 0]
    own = own[order]
    closer = closer[order].astype(np.int64)
    place = np.arange(len(u))
    fresh = np.r_[True, u[1:] != u[:-1]]
    start = np.maximum.accumulate(np.where(fresh, place, 0))
    last_of_ties = np.r_[fresh[1:] | (own[1:] != own[:-1]), True]
    ends = np.flatnonzero(last_of_ties)
    before = ends[np.searchsorted(ends, place)] - start

    rank = closer - before + 1
    precision = (before + 1.0) / (closer + 1.0)
    node = np.cumsum(fresh) - 1
    average = np.bincount(node, precision) / np.bincount(node)
    return ReconstructionQuality(float(rank.mean()), float(average.mean()))


def radius(points: Record, c: Scalar = 1.0) -> Float[Array, " n"]:
    """Distance of each point to the origin, the hierarchy's level.

    The smaller, the higher (PoinDP eq. 6).
    """
    return poincare.norm(points, c)
