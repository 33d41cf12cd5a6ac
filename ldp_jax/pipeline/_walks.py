r"""What structure takes of graphs beyond :data:`MANY` nodes: own shares by local walks, and filtered eigenvectors.

A member's own share of a propagation is what a walk from it brings back to it. Exact columns take time of nodes
times members; a walk stops where little of it is left, after a number of steps that the size of the graph does not
change.
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from ldp_jax.core.float32 import matmul
from ldp_jax.core.types import Array
from ldp_jax.graph.aggregation import Segments, Tables
from ldp_jax.graph.propagation import Operator

MANY = 2**15
"""Nodes up to which every member has a column of its own, and eigenvectors are found to a tolerance."""

_MEMBERS = 64
"""Whose walks are made together: what is left of them takes memory."""

_DEGREE, _ROUNDS = 8, 5
"""Of the polynomial that leaves leading eigenvectors, and how often it is applied."""


def by_walks(op: Operator) -> bool:
    """Whether own shares are those of walks."""
    return op.num_nodes > MANY and isinstance(op.neighbours, (Segments, Tables))


def returned(
    op: Operator,
    nodes: Int[np.ndarray, " some"],
    c: float,
    diagonal: Float[np.ndarray, " n"],
    least: float = 1e-5,
) -> Float[np.ndarray, " some"]:
    r"""Of each node i :math:`(1 - c) \sum_l c^l (\Delta^{-1} A)^l_{ii}`, how much of a walk ends at its start.

    Local push: a walk of which more than ``least`` :math:`\Delta_u` is left at u stops there in part, and goes on
    in part. Walks back are walks forth reversed, so that what is left, r, must go on only where two rests meet. The
    result is exact but for :math:`\Delta_i \sum_{uw} r_u r_w / \Delta_w` times the share of walks from u that end
    at w. That is at most ``least`` :math:`\Delta_i`; it is taken as it would be in a well mixed graph.

    ``diagonal`` is :math:`\Delta` by node, positive and no less than the degrees.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.graph.propagation import operator, ppr_rows
    >>> ring = operator(graphs.from_edges([[i, (i + 1) % 9] for i in range(9)], num_nodes=9))
    >>> exact = float(ppr_rows(ring, [4], 0.3, 0.0, 1e-7)[0, 4])
    >>> bool(abs(returned(ring, np.array([4]), 0.7, np.full(9, 2.0))[0] - exact) < 1e-5)
    True
    """
    walk, heavy, rank = _walk(op, diagonal)
    parts = np.split(rank[nodes], range(_MEMBERS, len(nodes), _MEMBERS))
    return np.concatenate([_returned(walk, heavy, part, c, least) for part in parts])


def returned_after(op: Operator, nodes: Int[np.ndarray, " some"], hops: int) -> Float[np.ndarray, " some"]:
    """The chance of a walk to be where it began after ``hops`` steps, exactly."""
    walk, heavy, rank = _walk(op, np.maximum(np.asarray(op.degree), 1.0))
    made = [_seeds(rank[nodes], len(heavy))]
    for _ in range(hops - hops // 2):
        made.append(made[-1] @ walk)
    met = made[hops // 2].multiply(made[-1]).tocsr()  # a walk forth meets one back
    met.data /= heavy[met.indices]
    return heavy[rank[nodes]] * met.sum(1)


def _seeds(nodes: np.ndarray, n: int) -> scipy.sparse.csr_array:
    """A walk a row, at its start."""
    return scipy.sparse.csr_array((np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=(len(nodes), n))


def _walk(op: Operator, diagonal: np.ndarray) -> tuple[scipy.sparse.csr_array, np.ndarray, np.ndarray]:
    """Steps, diagonal^-1 A, and the diagonal in the layout's own order; and the place of each node in it."""
    n, sums = op.num_nodes, op.neighbours
    if isinstance(sums, Tables):
        order, rank = np.asarray(sums.order), np.asarray(sums.rank)
        places = [np.asarray(table).T for table in sums.neighbours]
        count = np.concatenate([(place < n).sum(1) for place in places])
        columns = np.concatenate([place[place < n] for place in places])
    else:
        assert isinstance(sums, Segments)
        order = rank = np.arange(n)
        real = np.asarray(sums.receivers) < n
        count = np.bincount(np.asarray(sums.receivers)[real], minlength=n)
        columns = np.asarray(sums.senders)[real]
    heavy = np.asarray(diagonal, np.float64)[order]
    start = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
    return scipy.sparse.csr_array((np.repeat(1.0 / heavy, count), columns, start), shape=(n, n)), heavy, rank


def _returned(
    walk: scipy.sparse.csr_array, heavy: np.ndarray, nodes: np.ndarray, c: float, least: float
) -> np.ndarray:
    """:func:`returned` of some nodes, whose walks are rows of sparse matrices."""
    left = _seeds(nodes, len(heavy))
    ended = scipy.sparse.csr_array(left.shape)
    while True:
        due = left.copy()
        due.data[due.data <= least * heavy[due.indices]] = 0.0
        due.eliminate_zeros()
        if not due.nnz:
            break
        ended, left = ended + (1.0 - c) * due, left - due + c * (due @ walk)
    ended = scipy.sparse.csr_array(ended)
    met = (ended + (1.0 - c) * left).multiply(left).tocsr()
    met.data /= heavy[met.indices]
    mixed = c * left.sum(1) ** 2 / heavy.sum()
    return ended[np.arange(len(nodes)), nodes] + heavy[nodes] * (met.sum(1) + mixed)


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
