"""Random splits of nodes and of edges, from a key. No privacy depends on them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.validate import require

if TYPE_CHECKING:
    import jax


class NodeSplit(NamedTuple):
    """Node indices, int32, disjoint, all nodes together."""

    train: Int[np.ndarray, " a"]
    validation: Int[np.ndarray, " b"]
    test: Int[np.ndarray, " c"]

    __repr__ = by_shapes


class LinkSplit(NamedTuple):
    """Edges [m, 2] of each part, and as many pairs without an edge beside them; all int32, u < v.

    The graph to propagate over is that of the training edges alone.
    """

    train: Int[np.ndarray, "a 2"]
    validation: Int[np.ndarray, "b 2"]
    test: Int[np.ndarray, "c 2"]
    train_non_edges: Int[np.ndarray, "a 2"]
    validation_non_edges: Int[np.ndarray, "b 2"]
    test_non_edges: Int[np.ndarray, "c 2"]

    __repr__ = by_shapes


def generator(key: "jax.Array") -> np.random.Generator:
    """NumPy's generator from a key of JAX: for draws on the host, whose sizes depend on data."""
    import jax

    validate.threefry(key)
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _sizes(total: int, shares: Sequence[float]) -> list[int]:
    inside = len(shares) == 3 and all(0.0 < share < 1.0 for share in shares)
    require(
        inside and abs(sum(shares) - 1.0) <= 1e-9,
        f"shares must be three numbers in (0, 1) that sum to 1, got {tuple(shares)}",
    )
    train, validation = (int(share * total + 1e-9) for share in shares[:2])  # 0.29 of 100 is 29
    sizes = [train, validation, total - train - validation]
    require(min(sizes) >= 1, f"shares {tuple(shares)} leave a part of {total} without any member")
    return sizes


def node_split(
    key: "jax.Array", num_nodes: int, shares: Sequence[float] = (0.5, 0.25, 0.25)
) -> NodeSplit:
    """Split the nodes at random into train, validation and test.

    >>> import jax
    >>> [len(part) for part in node_split(jax.random.key(0), 100)]
    [50, 25, 25]
    """
    num_nodes = validate.whole(3, 2**31 - 1, num_nodes=num_nodes)
    sizes = _sizes(num_nodes, shares)
    order = generator(key).permutation(num_nodes).astype(np.int32)
    return NodeSplit(*np.split(order, np.cumsum(sizes)[:2]))


def link_split(
    key: "jax.Array",
    edges: Int[np.ndarray, "m 2"],
    num_nodes: int,
    shares: Sequence[float] = (0.85, 0.05, 0.10),
) -> LinkSplit:
    """Split the edges at random, and draw as many distinct pairs without an edge.

    Each edge is given once, in either direction. ``ValueError`` for edges that are no integers [m,
    2], repeats, self-loops, ends outside [0, num_nodes), and graphs too dense for such pairs.

    >>> import jax
    >>> ring = np.array([[i, i + 1] for i in range(99)], np.int32)
    >>> split = link_split(jax.random.key(0), ring, 100)
    >>> [len(part) for part in split]
    [84, 4, 11, 84, 4, 11]
    """
    from ldp_jax.graph.graphs import from_edges  # which needs JAX

    m = len(edges)
    num_nodes = validate.whole(2, 2**31 - 1, num_nodes=num_nodes)
    require(
        num_nodes * (num_nodes - 1) // 2 >= 2 * m,
        f"{m} edges leave too few pairs without an edge among {num_nodes} nodes",
    )
    from_edges(edges, num_nodes, pairs_in="rows")  # whose refusals these are

    sizes = _sizes(m, shares)
    rng = generator(key)
    edges = np.sort(edges, axis=1)
    taken = np.sort(edges[:, 0].astype(np.int64) * num_nodes + edges[:, 1])
    found = np.zeros(0, np.int64)
    while len(found) < m:  # each round finds at least about half of what is still missing
        drawn = rng.integers(0, num_nodes, (2 * (m - len(found)) + 16, 2))
        pairs = np.sort(drawn, axis=1)
        code = pairs[pairs[:, 0] < pairs[:, 1]] @ np.array([num_nodes, 1])
        place = np.minimum(np.searchsorted(taken, code), m - 1)
        code = code[taken[place] != code]
        found = np.unique(np.concatenate([found, code]))
    chosen = rng.permutation(found)[:m]
    non_edges = np.stack(np.divmod(chosen, num_nodes), 1).astype(np.int32)

    edges = edges[rng.permutation(m)].astype(np.int32)
    cuts = np.cumsum(sizes)[:2]
    return LinkSplit(*np.split(edges, cuts), *np.split(non_edges, cuts))
