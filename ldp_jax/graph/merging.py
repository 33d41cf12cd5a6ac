"""Nodes that no sum over neighbours can tell apart, as one node with a count.

Where all nodes start alike, nodes of one class of a stable colouring have equal rows in every layer
of a network that adds up neighbours. Leaves of one hub are such a class, and isolated nodes are
another.
Reference: Xu et al., How powerful are graph neural networks? (ICLR 2019), lemma 2: no such network
tells apart what colour refinement does not.
"""

from typing import NamedTuple

import numpy as np

from ldp_jax.core.shown import by_shapes
from ldp_jax.graph.graphs import GraphSet

_ROUNDS = 32  # a graph whose colouring is not stable after as many keeps all of its nodes


class Merged(NamedTuple):
    """A graph set of fewer nodes, in the order of the first node of each.

    Edges may repeat and be loops.

    Attributes:
      senders: int32 [m], as ``receivers``, sorted by receiver: each node's sum is that of the whole
        graph.
      node_graph: int32 [n], non-decreasing.
      count: int32 [n], for how many nodes each one stands.
    """

    senders: np.ndarray
    receivers: np.ndarray
    node_graph: np.ndarray
    count: np.ndarray

    __repr__ = by_shapes


def merged(graph_set: GraphSet) -> Merged:
    """Make one node of the nodes of a graph whose rows are equal in every layer; on the host.

    >>> star = GraphSet.from_edges([1, 2, 0, 0], [0, 0, 1, 2], [0, 0, 0], [0])
    >>> merged(star).count.tolist(), merged(star).senders.tolist()
    ([1, 2], [1, 1, 0])
    """
    first = _firsts(graph_set)
    kept = first == np.arange(len(first))
    number = (np.cumsum(kept) - 1).astype(np.int32)
    into = kept[graph_set.receivers]
    return Merged(
        number[first[graph_set.senders[into]]],
        number[graph_set.receivers[into]],
        graph_set.node_graph[kept],
        np.bincount(number[first]).astype(np.int32),
    )


def _firsts(graph_set: GraphSet) -> np.ndarray:
    """The first node of each node's class.

    Each node itself in a graph whose classes are not stable.
    """
    senders = graph_set.senders
    receivers = graph_set.receivers
    node_graph = graph_set.node_graph
    nodes = np.arange(len(node_graph))
    start = np.searchsorted(receivers, np.append(nodes, len(nodes)))
    degree = np.diff(start)
    first, colour = _colours(senders, start, node_graph)
    leader = first[colour]
    # Colours are those of hashes: the classes are held against each other here, edge by edge.
    code = receivers.astype(np.int64) * len(first) + colour[senders]
    told = np.sort(code) % len(first)
    place = np.arange(len(senders)) - start[receivers]
    theirs = np.minimum(start[leader[receivers]] + place, len(senders) - 1)
    unlike = (degree != degree[leader]) | (node_graph != node_graph[leader])
    unlike[receivers[told != told[theirs]]] = True
    unstable = np.bincount(node_graph, weights=unlike) > 0
    return np.where(unstable[node_graph], nodes, leader)


def _colours(
    senders: np.ndarray, start: np.ndarray, node_graph: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The first node of each colour, and the colour of each node by those of its senders."""
    draws = np.random.default_rng(0)
    found = 0
    colour = node_graph
    for _ in range(_ROUNDS):
        own, sent = draws.integers(-(2**63), 2**63, (2, int(colour.max()) + 1))
        total = np.append(0, np.cumsum(sent[colour[senders]]))  # modulo 2^64
        hashes = own[colour] + total[start[1:]] - total[start[:-1]]
        _, first, colour = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) == found:
            break
        found = len(first)
    return first, colour
