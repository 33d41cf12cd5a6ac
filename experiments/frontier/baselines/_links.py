"""Reported graphs as what is multiplied with: a symmetric matrix of links, sparse or dense."""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from ldp_jax.core.types import Array, Graph
from ldp_jax.graph.aggregation import Segments, linear

MEMORY = 3e8
"""Bytes of a dense matrix of pairs, or of reported pairs, above which a baseline refuses a graph."""


class Links(Protocol):
    """A symmetric matrix of link weights without a diagonal; a pytree."""

    @property
    def degree(self) -> Any:
        """Row sums, float32 [n]."""
        ...

    def sum(self, h: Any) -> Any:
        """The product with rows [n, k]."""
        ...


class Sparse(NamedTuple):
    """Links of weight 1, by their ends."""

    degree: Any
    neighbours: Segments

    def sum(self, h: Array) -> Array:
        return linear(self.neighbours.sum, self.neighbours.sum, h)


class Dense(NamedTuple):
    """Links as the matrix that they are: less work than a list of them where a tenth of all pairs is linked."""

    degree: Any
    matrix: Any

    def sum(self, h: Array) -> Array:
        return self.matrix @ h


def sparse(senders: Any, receivers: Any, num_nodes: int) -> Sparse:
    """Links in both directions, in any order, padded so that graphs of like size share a program."""
    order = np.lexsort((senders, receivers))
    step = 1 << max(6, len(order).bit_length() - 3)
    room = -(-max(len(order), 1) // step) * step  # at most a quarter more, in few different sizes
    ends = [
        np.pad(np.asarray(end, np.int32)[order], (0, room - len(order)), constant_values=fill)
        for end, fill in ((senders, 0), (receivers, num_nodes))
    ]
    degree = np.bincount(receivers, minlength=num_nodes).astype(np.float32)
    return Sparse(jnp.asarray(degree), Segments(*map(jnp.asarray, ends)))


def of_graph(graph: Graph) -> Sparse:
    """The true links."""
    return sparse(graph.senders, graph.receivers, int(np.asarray(graph.n_node).sum()))


def dense(matrix: np.ndarray) -> Dense:
    return Dense(jnp.asarray(matrix.sum(1), jnp.float32), jnp.asarray(matrix, jnp.float32))


def linked(
    senders: Int[np.ndarray, " m"], receivers: Int[np.ndarray, " m"], num_nodes: int, *, ends: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that at least so many ends report (1 or 2), in both directions."""
    low, high = np.minimum(senders, receivers).astype(np.int64), np.maximum(senders, receivers)
    code, reported = np.unique(low * num_nodes + high, return_counts=True)
    low, high = np.divmod(code[reported >= ends], num_nodes)
    return np.concatenate([low, high]), np.concatenate([high, low])
