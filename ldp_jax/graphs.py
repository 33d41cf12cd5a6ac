"""Graphs as ``jraph.GraphsTuple``: building, checking, degrees. The only file that imports jraph.

An undirected graph is stored as directed edges in both directions, sorted by receiver and then by sender,
without self-loops and without repeats; ``nodes``, ``edges`` and ``globals`` are ``None``: what is private
(features, labels) never travels inside the graph.
"""

from typing import Any

import jraph
import numpy as np
from jaxtyping import Array, Float, Int

from ldp_jax._validate import integer_in

GraphsTuple = jraph.GraphsTuple

_MAX_NODES = 2**31 - 1


def from_edges(edges: Any, num_nodes: int) -> jraph.GraphsTuple:
    """Build an undirected graph from a list of node pairs.

    Args:
      edges: integers [m, 2]; each undirected edge once, in any order and direction. [2, 2] is two edges, one a
        row, never an ``edge_index`` of two columns.
      num_nodes: how many nodes there are; isolated ones need no edge.

    Returns:
      A graph with 2m directed edges, sorted by (receiver, sender).

    Raises:
      ValueError: for a shape other than [m, 2], a node outside [0, num_nodes), a self-loop, or an edge given
        twice. Nothing is repaired in silence.

    >>> graph = from_edges([[0, 1], [2, 1]], num_nodes=4)
    >>> graph.senders.tolist(), graph.receivers.tolist()
    ([1, 0, 2, 1], [0, 1, 1, 2])
    """
    integer_in(1, _MAX_NODES, num_nodes=num_nodes)
    pairs = np.asarray(edges)
    if pairs.shape in ((0,), (0, 2)):  # an empty list has no integers
        pairs = np.zeros((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        hint = ": transpose an edge_index, and keep one direction" if pairs.ndim == 2 and len(pairs) == 2 else ""
        raise ValueError(f"edges must be integers of shape [m, 2], got {pairs.dtype} of shape {pairs.shape}{hint}")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= num_nodes):
        bad = pairs[((pairs < 0) | (pairs >= num_nodes)).any(1)][0]
        raise ValueError(f"edges must join nodes in [0, {num_nodes}), got {tuple(bad.tolist())}")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        raise ValueError(f"edges must have no self-loops, got one at node {int(pairs[loops][0, 0])}")
    low, high = pairs.min(1).astype(np.int64), pairs.max(1).astype(np.int64)
    code = np.sort(low * num_nodes + high)
    repeat = code[1:] == code[:-1]
    if repeat.any():
        first = int(code[1:][repeat][0])
        raise ValueError(f"edges must name each pair once, got ({first // num_nodes}, {first % num_nodes}) twice")
    both: Any = np.stack([np.concatenate([low, high]), np.concatenate([high, low])])
    senders, receivers = both[:, np.argsort(both[1] * num_nodes + both[0], kind="stable")].astype(np.int32)
    return directed(senders, receivers, num_nodes)


def directed(senders: Any, receivers: Any, num_nodes: int) -> jraph.GraphsTuple:
    """A graph of directed edges as they are, from arrays that are sorted by (receiver, sender) already.

    Args:
      senders: int32 [m].
      receivers: int32 [m].
      num_nodes: how many nodes there are.
    """
    ends: Any = [np.asarray(senders, np.int32), np.asarray(receivers, np.int32)]
    counts: Any = np.array([[num_nodes], [len(senders)]], np.int32)
    return jraph.GraphsTuple(
        nodes=None,
        edges=None,
        globals=None,
        senders=ends[0],
        receivers=ends[1],
        n_node=counts[0],
        n_edge=counts[1],
    )


def to_edges(graph: jraph.GraphsTuple) -> Int[np.ndarray, "m 2"]:
    """The undirected edges of a symmetric graph, each once with u < v, sorted; int32 [m, 2].

    >>> to_edges(from_edges([[2, 1], [0, 1]], num_nodes=3)).tolist()
    [[0, 1], [1, 2]]
    """
    senders, receivers = np.asarray(graph.senders), np.asarray(graph.receivers)
    once = senders < receivers
    pairs = np.stack([senders[once], receivers[once]], 1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int32)


def num_nodes(graph: jraph.GraphsTuple) -> int:
    """How many nodes a concrete graph has."""
    return int(np.sum(np.asarray(graph.n_node)))


def degree(receivers: Int[Array | np.ndarray, " m"], num_nodes: int) -> Float[Array, " n"]:
    """How many edges end at each node; float32 [num_nodes], traced or not.

    >>> degree(from_edges([[0, 1], [2, 1]], num_nodes=4).receivers, 4).tolist()
    [1.0, 2.0, 1.0, 0.0]
    """
    import jax.numpy as jnp

    return jnp.zeros(num_nodes, jnp.float32).at[receivers].add(1.0, mode="drop")


def is_symmetric(graph: jraph.GraphsTuple) -> bool:
    """Whether every edge of a concrete graph has its reverse.

    >>> is_symmetric(from_edges([[0, 1]], num_nodes=2)), is_symmetric(directed([0], [1], num_nodes=2))
    (True, False)
    """
    n = num_nodes(graph)
    senders, receivers = (np.asarray(ends).astype(np.int64) for ends in (graph.senders, graph.receivers))
    return bool(np.array_equal(np.sort(receivers * n + senders), np.sort(senders * n + receivers)))


def check_edges(senders: np.ndarray, receivers: np.ndarray, node_graph: np.ndarray) -> None:
    """Check that edges stay within the nodes and within one graph of a set, and are no self-loops.

    Args:
      senders: integers [m].
      receivers: integers [m].
      node_graph: integers [n], the graph of each node.

    Raises:
      ValueError: naming the first edge that does not, and its graph.
    """
    n = len(node_graph)
    outside = np.flatnonzero((senders < 0) | (senders >= n) | (receivers < 0) | (receivers >= n))
    if len(outside):
        ends = senders[outside[0]], receivers[outside[0]]
        inside = [end for end in ends if 0 <= end < n]
        where = f"graph {node_graph[inside[0]]}" if inside else "no graph of the set"
        raise ValueError(f"edges must join nodes in [0, {n}), got {ends[0]} -> {ends[1]} in {where}")
    across = np.flatnonzero(node_graph[senders] != node_graph[receivers])
    if len(across):
        s, r = senders[across[0]], receivers[across[0]]
        raise ValueError(
            f"edges must stay in one graph, got {s} -> {r}, which joins graph {node_graph[s]} "
            f"and graph {node_graph[r]}"
        )
    loops = np.flatnonzero(senders == receivers)
    if len(loops):
        s = senders[loops[0]]
        raise ValueError(f"graph {node_graph[s]} must have no self-loops, got one at node {s}")


def validate_symmetric(graph: jraph.GraphsTuple, node_graph: Any = None) -> tuple[np.ndarray, np.ndarray, int]:
    """Check an undirected graph, or a set of them, on the host.

    Args:
      graph: edges in any order.
      node_graph: integers [n], the graph of each node; by default those of ``graph.n_node``.

    Returns:
      (senders, receivers, num_nodes), sorted by receiver, then by sender.

    Raises:
      ValueError: for an edge without its reverse, given twice, or refused by :func:`check_edges`. The message names
        the graph.
    """
    sizes = np.ravel(np.asarray(graph.n_node))
    n = int(sizes.sum())
    node_graph = np.repeat(np.arange(len(sizes)), sizes) if node_graph is None else np.asarray(node_graph)
    senders = np.asarray(graph.senders).astype(np.int64)
    receivers = np.asarray(graph.receivers).astype(np.int64)
    if senders.shape != receivers.shape:
        raise ValueError(f"senders and receivers must pair up, got {senders.shape} and {receivers.shape}")
    check_edges(senders, receivers, node_graph)
    forward = receivers * n + senders
    if len(forward) > 1 and not (forward[1:] >= forward[:-1]).all():
        order = np.argsort(forward, kind="stable")
        senders, receivers, forward = senders[order], receivers[order], forward[order]
    repeats = np.flatnonzero(forward[1:] == forward[:-1])
    if len(repeats):
        s, r = senders[repeats[0]], receivers[repeats[0]]
        raise ValueError(f"graph {node_graph[r]} must have each edge once, got {s} -> {r} twice")
    backward = np.sort(senders * n + receivers)
    if not np.array_equal(forward, backward):
        r, s = divmod(int(np.setdiff1d(forward, backward)[0]), n)
        raise ValueError(
            f"graph {node_graph[r]} must be symmetric: each directed edge with its reverse, as graphs.from_edges "
            f"builds them, got {s} -> {r} alone. For a directed graph use ppr_power."
        )
    return senders.astype(np.int32), receivers.astype(np.int32), n
