"""Leading eigenvectors of graphs beyond :data:`MANY` nodes, by a fixed number of products."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core.float32 import matmul
from ldp_jax.core.types import Array
from ldp_jax.graph.aggregation import Segments, Tables
from ldp_jax.graph.propagation import Operator

MANY = 2**15
"""Nodes up to which every member of a panel has a column of its own, and eigenvectors are found to a tolerance."""

_DEGREE, _ROUNDS = 8, 5
"""Of the polynomial that leaves leading eigenvectors, and how often it is applied."""


def beyond(op: Operator) -> bool:
    """Whether a graph on one device has more nodes than :data:`MANY`."""
    return op.num_nodes > MANY and isinstance(op.neighbours, (Segments, Tables))


def leading_vectors(op: Operator, count: int) -> Float[np.ndarray, "n count"]:
    r"""About the leading eigenvectors of :math:`D^{-1/2} A D^{-1/2}`, the largest eigenvalue first; [n, count].

    Subspace iteration with Chebyshev polynomials, a fixed number of products with a block. Those among close
    eigenvalues, as at the edge of the spectrum of a random graph, are of the right span rather than exact.
    """
    start = np.random.default_rng(0).standard_normal((op.num_nodes, count), np.float32)
    return np.asarray(_leading(op, start))


@jax.jit
def _leading(op: Operator, start: Array) -> Array:
    root = jnp.sqrt(jnp.maximum(op.rows(op.degree), 1.0))[:, None]

    def product(v: Array) -> Array:
        return root * op.average(v / root)

    def ritz(v: Array) -> tuple[Array, Array]:
        v = jnp.linalg.qr(v)[0]
        values, turn = jnp.linalg.eigh(matmul(v.T, product(v)))
        return matmul(v, turn[:, ::-1]), values[0]

    def filtered(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        v, least = carry  # eigenvalues in [-1, least] are held down, those above it grow
        middle, half = (least - 1.0) / 2.0, (least + 1.0) / 2.0

        def step(_: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
            now, before = pair
            return 2.0 * (product(now) - middle * now) / half - before, now

        first = (product(v) - middle * v) / half
        return ritz(jax.lax.fori_loop(1, _DEGREE, step, (first, v))[0])

    return op.nodes(jax.lax.fori_loop(0, _ROUNDS, filtered, ritz(op.rows(start)))[0])
