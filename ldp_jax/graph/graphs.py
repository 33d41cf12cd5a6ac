"""Graphs as ``jraph.GraphsTuple``: building, checking, degrees. The only file that imports jraph.

An undirected graph is stored as directed edges in both directions, sorted by receiver and then by
sender, without self-loops and repeats. ``nodes``, ``edges`` and ``globals`` are None: private
values never travel inside the graph.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jraph
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float, Int

from ldp_jax.core.types import AnyArray, Graph, Numbers
from ldp_jax.core.validate import (
    complete,
    first_fraction,
    ids,
    integer_in,
    is_of,
    one_of,
    require,
    two_edges,
)
from ldp_jax.graph._sources import numbered_edges

__all__ = [
    "GraphSet",
    "GraphsTuple",
    "as_graph",
    "check_edges",
    "degree",
    "directed",
    "from_edges",
    "num_nodes",
    "to_edges",
    "validate_symmetric",
]

__dir__ = lambda: __all__


GraphsTuple = jraph.GraphsTuple
"""jraph's graph, or batch of graphs."""

_MAX_NODES = 2**31 - 1

# Edges that are looked at together: what is needed beside the edges themselves stays small.
_BLOCK = 2**22


def as_graph(graph: Graph, name: str = "graph") -> Graph:
    """Take a graph as it is, traced or not; ``name`` is that of the argument.

    Another library's graph of the nodes 0, ..., n - 1 is read, too, where it can be read in one way
    alone: one of networkx; a scipy matrix, or a PyTorch Geometric or DGL graph, that holds each
    edge in both directions. A ``ValueError`` for others tells how to make a graph, and no edge.

    >>> as_graph(None)
    Traceback (most recent call last):
    ValueError: graph must be a GraphsTuple, as graphs.from_edges(edges, num_nodes) makes it, ...
    """
    parts = [getattr(graph, part, None) for part in ("senders", "receivers", "n_node")]
    if all(part is not None for part in parts):
        require(
            not any(map(np.ma.is_masked, parts)),
            f"{name} must have no masked entries, and has some: leave those out",
        )
        require(
            not isinstance(graph, GraphsTuple) or graph.edges is None,
            f"{name} must have edges=None, for no function reads weights or features of edges: "
            "interop.read(it) compares them with 1, it._replace(edges=None) drops them",
        )
        return graph
    read = numbered_edges(graph)
    if read is not None:
        return from_edges(*read, pairs_in="rows")

    has = lambda *parts: any(hasattr(graph, part) for part in parts)
    hint = ""
    if isinstance(graph, GraphSet):
        hint = ": of a set give one graph, by set.subset([i]).graph"
    elif has("graph") and has("y", "names", "guarantee"):
        hint = ": give its attribute graph"
    elif has("edge_index", "edges") or any(
        is_of(library, graph) for library in ("networkx", "pandas", "scipy")
    ):
        hint = ": ldp_jax.graph.interop.read makes one of it, with names, or says what is wrong"
    elif isinstance(graph, (list, tuple)) or has("__array__"):
        hint = ": give it edges, each undirected one once, or here a scipy.sparse.csr_array"
    raise ValueError(
        f"{name} must be a GraphsTuple, as graphs.from_edges(edges, num_nodes) makes it, got "
        f"{type(graph).__name__}{hint}"
    )


def from_edges(
    edges: Numbers, num_nodes: int, *, pairs_in: Literal["rows", "columns"] | None = None
) -> jraph.GraphsTuple:
    """Build an undirected graph from m pairs of nodes: 2m edges sorted by (receiver, sender).

    Args:
      edges: integers [m, 2]; each undirected edge once, in any order and direction.
      num_nodes: how many nodes there are; isolated ones need no edge.
      pairs_in: ``columns`` for an ``edge_index`` [2, m] that has each edge once; ``rows`` by
        default, except that [2, 2] numbers are refused where both readings are graphs, and
        different ones.

    >>> graph = from_edges([[0, 1], [2, 1]], num_nodes=4)
    >>> graph.senders.tolist(), graph.receivers.tolist()
    ([1, 0, 2, 1], [0, 1, 1, 2])
    """
    integer_in(1, _MAX_NODES, num_nodes=num_nodes)
    pairs = _pairs(edges, num_nodes, pairs_in)
    one, other = pairs.T
    loops = one == other
    if loops.any():
        raise ValueError(f"edges must have no self-loops, got one at node {one[loops][0]}")
    low = np.minimum(one, other, dtype=np.int32, casting="unsafe")  # ids below num_nodes
    high = np.maximum(one, other, dtype=np.int32, casting="unsafe")
    above = _sorted_rows(low, high, num_nodes)
    low = _row_of_each(above)
    repeat = _repeat(above.indices, low)
    if repeat is not None:
        pair = int(low[repeat]), int(above.indices[repeat])
        raise ValueError(
            f"edges must name each pair once, got {pair} twice: ldp_jax.graph.interop.read takes "
            "both directions of each"
        )
    both = above + above.T
    return directed(both.indices, _row_of_each(both), num_nodes)


def _pairs(
    edges: Numbers, num_nodes: int, pairs_in: Literal["rows", "columns"] | None
) -> np.ndarray:
    one_of(("rows", "columns"), pairs_in=pairs_in or "rows")
    given = complete(edges=edges)
    pairs = given.T if pairs_in == "columns" else given
    if given.shape in ((0,), (0, 2)):  # an empty list has no integers
        pairs = np.zeros((0, 2), np.int32)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        wanted = "[2, m] with pairs_in='columns'" if pairs_in == "columns" else "[m, 2]"
        hint = ""
        if pairs_in is None and given.ndim == 2 and len(given) == 2:
            hint = ": give an edge_index of each edge once with pairs_in='columns'"
        if given.dtype.kind in "OUS":
            hint = ": ldp_jax.graph.interop.read takes a pandas table of names"
        got = f"{given.dtype} of shape {given.shape}"
        raise ValueError(f"edges must be integers of shape {wanted}, got {got}{hint}")
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= num_nodes):
        bad = pairs[((pairs < 0) | (pairs >= num_nodes)).any(1)][0]
        raise ValueError(f"edges must join nodes in [0, {num_nodes}), got {tuple(bad.tolist())}")
    if pairs_in is None and pairs.shape == (2, 2):
        rows = two_edges(pairs)
        columns = two_edges(pairs.T)
        if rows and columns and rows != columns:
            raise ValueError(
                f"edges of shape (2, 2) must say how they are read: {_shown(rows)} with "
                f"pairs_in='rows', or {_shown(columns)} with pairs_in='columns', as an edge_index"
            )
    return pairs


def _shown(pairs: set[tuple[int, int]]) -> str:
    return " and ".join(f"{low} - {high}" for low, high in sorted(pairs))


def _sorted_rows(row: np.ndarray, column: np.ndarray, n: int) -> scipy.sparse.csr_array:
    """Entries by row, and by column within one, repeats too: two counting sorts in linear time."""
    return _grouped(column, row, n).tocsc().T


def _grouped(row: np.ndarray, column: np.ndarray, n: int) -> scipy.sparse.csr_array:
    """Entries by row; those of one row stay as they come, repeats too. In linear time."""
    entries = scipy.sparse.coo_array((np.ones(len(row), np.int8), (row, column)), shape=(n, n))
    entries.has_canonical_format = True  # SciPy would add repeats up
    return entries.tocsr()


def _row_of_each(matrix: scipy.sparse.csr_array) -> np.ndarray:
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def directed(senders: Numbers, receivers: Numbers, num_nodes: int) -> jraph.GraphsTuple:
    """Make a graph of directed edges, int32 [m], that are sorted by (receiver, sender) already.

    ``ValueError`` for ends that are no whole numbers in [0, 2^31 - 1), which 32 bits do not hold.
    """
    ids(_MAX_NODES, senders=senders, receivers=receivers)
    one = np.asarray(senders, np.int32)
    other = np.asarray(receivers, np.int32)
    wide = np.int32 if len(one) < 2**31 else np.int64
    return _tuple(one, other, np.array([num_nodes], np.int32), np.array([len(one)], wide))


def _tuple(senders: np.ndarray, receivers: np.ndarray, n_node: np.ndarray, n_edge: np.ndarray):
    return jraph.GraphsTuple(
        nodes=None,
        edges=None,
        globals=None,
        senders=senders,  # pyrefly: ignore[bad-argument-type]
        receivers=receivers,  # pyrefly: ignore[bad-argument-type]
        n_node=n_node,  # pyrefly: ignore[bad-argument-type]
        n_edge=n_edge,  # pyrefly: ignore[bad-argument-type]
    )


def to_edges(graph: "jraph.GraphsTuple | GraphSet") -> Int[np.ndarray, "m 2"]:
    """List the undirected edges of a symmetric graph or set, int32 [m, 2], sorted, with u < v.

    >>> to_edges(from_edges([[2, 1], [0, 1]], num_nodes=3)).tolist()
    [[0, 1], [1, 2]]
    """
    if not isinstance(graph, GraphSet):
        graph = as_graph(graph)
    ends = np.asarray(graph.senders), np.asarray(graph.receivers)
    found = _undirected(*ends)
    if found is None:
        raise ValueError(
            "graph must hold each edge in both directions, and has one without its reverse; its "
            "directed pairs are np.stack([graph.senders, graph.receivers], 1)"
        )
    code, n = found
    require(
        (ends[0] != ends[1]).all() and (code[1:] != code[:-1]).all(),
        "graph must hold each edge once in each direction and no self-loop, and does not",
    )
    return np.stack(np.divmod(code, n), 1).astype(np.int32)


def num_nodes(graph: jraph.GraphsTuple) -> int:
    """Count the nodes of a concrete graph."""
    return int(np.sum(np.asarray(as_graph(graph).n_node)))


def degree(receivers: Int[AnyArray, " m"], num_nodes: int) -> Float[Array, " n"]:
    """The number of edges that end at each node; float32 [num_nodes], traced or not."""
    import jax.numpy as jnp

    # Beyond 2^24 a float32 that counts by ones stands still.
    count = jnp.zeros(num_nodes, jnp.int32).at[receivers].add(1, mode="drop")
    return count.astype(jnp.float32)


def is_symmetric(graph: Graph) -> bool:
    """Whether every edge of a concrete graph has its reverse.

    >>> is_symmetric(from_edges([[0, 1]], num_nodes=2))
    True
    >>> is_symmetric(directed([0], [1], num_nodes=2))
    False
    """
    graph = as_graph(graph)
    return _undirected(np.asarray(graph.senders), np.asarray(graph.receivers)) is not None


def _undirected(senders: np.ndarray, receivers: np.ndarray) -> tuple[np.ndarray, int] | None:
    """low n + high of the edges that are no loops, sorted, and n.

    None where one lacks its reverse.
    """
    n = 1 + int(max(senders.max(initial=0), receivers.max(initial=0)))
    up = senders < receivers
    down = senders > receivers
    forward = _codes(senders[up], receivers[up], n)
    backward = _codes(receivers[down], senders[down], n)
    forward.sort(kind="stable")  # in no time where it is in order
    backward.sort(kind="stable")
    if not np.array_equal(forward, backward):
        return None
    return forward, n


def _codes(first: np.ndarray, second: np.ndarray, n: int) -> np.ndarray:
    """first n + second in 64 bits."""
    code = first.astype(np.int64)
    code *= n
    code += second.astype(np.int64)
    return code


def check_edges(senders: np.ndarray, receivers: np.ndarray, node_graph: np.ndarray) -> None:
    """Refuse edges beyond the nodes or between graphs, and self-loops.

    ``node_graph`` [n] is each node's graph.
    """
    require(
        senders.shape == receivers.shape,
        f"senders and receivers must pair up, got {senders.shape} and {receivers.shape}",
    )
    n = len(node_graph)
    ends = senders, receivers
    beyond = lambda end: (end < 0) | (end >= n)
    outside = _first(lambda s, r: beyond(s) | beyond(r), *ends)
    if outside is not None:
        pair = senders[outside], receivers[outside]
        inside = [end for end in pair if 0 <= end < n]
        where = f"graph {node_graph[inside[0]]}" if inside else "no graph of the set"
        raise ValueError(
            f"edges must join nodes in [0, {n}), got {pair[0]} -> {pair[1]} in {where}"
        )
    across = None
    if (node_graph != node_graph[:1]).any():
        across = _first(lambda s, r: node_graph[s] != node_graph[r], *ends)
    if across is not None:
        s, r = senders[across], receivers[across]
        raise ValueError(
            f"edges must stay in one graph, got {s} -> {r}, which joins graph {node_graph[s]} "
            f"and graph {node_graph[r]}"
        )
    loop = _first(lambda s, r: s == r, *ends)
    if loop is not None:
        s = senders[loop]
        raise ValueError(f"graph {node_graph[s]} must have no self-loops, got one at node {s}")


def _first(holds: Callable[..., np.ndarray], *arrays: np.ndarray) -> int | None:
    """The first place where something holds, sought block by block; None where it never does."""
    for start in range(0, len(arrays[0]), _BLOCK):
        found = holds(*(array[start : start + _BLOCK] for array in arrays))
        if found.any():
            return start + int(found.argmax())
    return None


def _repeat(senders: np.ndarray, receivers: np.ndarray) -> int | None:
    """The first of the sorted edges that the next one repeats."""
    same = lambda s, r, next_s, next_r: (s == next_s) & (r == next_r)
    return _first(same, senders[:-1], receivers[:-1], senders[1:], receivers[1:])


def sorted_edges(
    senders: np.ndarray, receivers: np.ndarray, node_graph: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Directed edges, checked, sorted by receiver, then by sender.

    Int32, the arrays themselves where they are.
    """
    check_edges(senders, receivers, node_graph)
    senders, receivers = (end.astype(np.int32, copy=False) for end in (senders, receivers))
    falls = _first(
        lambda s, r, next_s, next_r: (next_r < r) | ((next_r == r) & (next_s < s)),
        *(senders[:-1], receivers[:-1], senders[1:], receivers[1:]),
    )
    if falls is not None:
        rows = _sorted_rows(receivers, senders, len(node_graph))
        senders = rows.indices.astype(np.int32, copy=False)
        receivers = _row_of_each(rows)
    repeat = _repeat(senders, receivers)
    if repeat is not None:
        s, r = senders[repeat], receivers[repeat]
        raise ValueError(f"graph {node_graph[r]} must have each edge once, got {s} -> {r} twice")
    return senders, receivers


def validate_symmetric(
    graph: jraph.GraphsTuple, node_graph: Numbers | None = None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Check an undirected graph, or a set of them, with edges in any order; on the host.

    ``node_graph`` [n] is the graph of each node, by default those of ``graph.n_node``. It gives
    (senders, receivers, num_nodes), sorted by receiver, then by sender: int32, the graph's arrays
    themselves where they are sorted.
    """
    graph = as_graph(graph)
    sizes = np.ravel(np.asarray(graph.n_node))
    n = int(sizes.sum())
    if node_graph is None:
        node_graph = np.repeat(np.arange(len(sizes)), sizes)
    node_graph = complete(node_graph=node_graph)
    senders, receivers = sorted_edges(
        np.asarray(graph.senders), np.asarray(graph.receivers), node_graph
    )
    upwards = senders < receivers
    backward = _grouped(senders[~upwards], receivers[~upwards], n)
    if not (
        np.array_equal(backward.indices, senders[upwards])
        and np.array_equal(np.diff(backward.indptr), np.bincount(receivers[upwards], minlength=n))
    ):
        forward = _codes(receivers, senders, n)
        backward = _codes(senders, receivers, n)
        r, s = divmod(int(np.setdiff1d(forward, backward)[0]), n)
        raise ValueError(
            f"graph {node_graph[r]} must be symmetric: each edge with its reverse, as "
            f"graphs.from_edges and reporting='half' make them, got {s} -> {r} alone. "
            "operator(graph, allow_directed=True) takes others."
        )
    return senders, receivers, n


# --- Sets of graphs -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class GraphSet:
    """Labelled graphs, checked; on the host. Made by :meth:`from_edges` or :meth:`from_dataset`.

    Nodes are numbered through the whole set, graph after graph. Edges are directed; an undirected
    graph has each in both directions. In a noisy graph the edges *into* node i are the neighbour
    list that user i reported.

    Attributes:
      senders: int32 [m], as ``receivers``; edges are sorted by receiver, then by sender.
      node_graph: int32 [n], the graph of each node, non-decreasing; every graph has a node.
      labels: int32 [graphs], the class of each, from 0.
    """

    senders: Int[np.ndarray, " m"]
    receivers: Int[np.ndarray, " m"]
    node_graph: Int[np.ndarray, " n"]
    labels: Int[np.ndarray, " graphs"]

    def __post_init__(self) -> None:
        for array in (self.senders, self.receivers, self.node_graph, self.labels):
            array.setflags(write=False)

    @classmethod
    def from_edges(
        cls,
        senders: Numbers,
        receivers: Numbers,
        node_graph: Numbers,
        labels: Numbers,
    ) -> "GraphSet":
        """Check a set of graphs and sort its edges.

        ``node_graph`` [n] is the graph of each node, from 0 and non-decreasing, ``labels`` the
        class of each graph.

        >>> GraphSet.from_edges(
        ...     [1, 0], [0, 1], [0, 0, 1], [0, 1]
        ... ).nodes_per_graph.tolist()
        [2, 1]
        """
        labels = whole_numbers("labels", labels, "graph")
        node_graph = whole_numbers("node_graph", node_graph)
        senders = whole_numbers("senders", senders)
        receivers = whole_numbers("receivers", receivers)
        require(
            len(labels) and len(node_graph),
            f"a graph set must have a graph, got {len(labels)} labels and {len(node_graph)} nodes",
        )
        falls = np.flatnonzero(node_graph[1:] < node_graph[:-1])
        if len(falls):
            at = int(falls[0]) + 1
            raise ValueError(
                f"node_graph must not decrease, got graph {node_graph[at]} at node {at} "
                f"after graph {node_graph[at - 1]}"
            )
        disagree = "labels and graphs disagree"
        for bad in (node_graph[0], node_graph[-1]):
            require(
                0 <= bad < len(labels),
                f"{disagree}: there are {len(labels)} labels, and nodes of graph {bad}",
            )
        nodes = np.bincount(node_graph, minlength=len(labels))
        require(nodes.all(), f"{disagree}: graph {nodes.argmin()} has a label but no node")
        ids(labels=labels)
        return cls(
            *sorted_edges(senders, receivers, node_graph),
            node_graph.astype(np.int32),
            labels.astype(np.int32),
        )

    @classmethod
    def from_dataset(cls, dataset) -> "GraphSet":
        """The graphs of a data set that has ``node_graph`` and one label a graph."""
        name = getattr(dataset, "name", "the data set")
        node_graph, labels = dataset.node_graph, dataset.y
        require(
            node_graph is not None and labels is not None,
            f"{name} must be a set of labelled graphs, got one without node_graph or y",
        )
        return cls.from_edges(dataset.graph.senders, dataset.graph.receivers, node_graph, labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        nodes = len(self.node_graph)
        return f"GraphSet({len(self)} graphs, {nodes} nodes, {len(self.senders)} directed edges)"

    @property
    def nodes_per_graph(self) -> Int[np.ndarray, " graphs"]:
        """How many nodes each graph has."""
        return np.bincount(self.node_graph, minlength=len(self))

    @property
    def edges_per_graph(self) -> Int[np.ndarray, " graphs"]:
        """How many directed edges each graph has."""
        return np.bincount(self.node_graph[self.receivers], minlength=len(self))

    @property
    def symmetric(self) -> bool:
        """Whether every edge has its reverse."""
        return _undirected(self.senders, self.receivers) is not None

    @property
    def graph(self) -> jraph.GraphsTuple:
        """The set as one ``jraph.GraphsTuple`` of many graphs.

        ``jraph.unbatch_np`` takes it apart.
        """
        # Copies: jraph.unbatch_np writes into them.
        return _tuple(
            self.senders.copy(),
            self.receivers.copy(),
            self.nodes_per_graph.astype(np.int32),
            self.edges_per_graph.astype(np.int32),
        )

    def subset(self, indices: Numbers) -> "GraphSet":
        """The graphs with these distinct numbers, in this order.

        >>> three = GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1, 2], [0, 1, 2])
        >>> two = three.subset([2, 0])
        >>> two.labels.tolist(), two.node_graph.tolist(), two.senders.tolist()
        ([2, 0], [0, 1, 1], [2, 1])
        """
        indices = whole_numbers("indices", indices)
        require(len(indices), "indices must name at least one graph, got none")
        ids(len(self), "one of the graphs", indices=indices)
        times = np.bincount(indices)
        require(
            times.max() == 1, f"indices must name each graph once, got graph {times.argmax()} twice"
        )
        counts = self.nodes_per_graph
        edge_counts = self.edges_per_graph
        first_node = np.cumsum(counts) - counts
        first_edge = np.cumsum(edge_counts) - edge_counts  # sorted by receiver is sorted by graph
        nodes = _ranges(first_node[indices], counts[indices])
        edges = _ranges(first_edge[indices], edge_counts[indices])
        place = np.zeros(len(self.node_graph), np.int32)
        place[nodes] = np.arange(len(nodes), dtype=np.int32)
        return GraphSet(
            place[self.senders[edges]],
            place[self.receivers[edges]],
            np.repeat(np.arange(len(indices), dtype=np.int32), counts[indices]),
            self.labels[indices],
        )


def whole_numbers(name: str, values: Numbers, of: str = "place") -> np.ndarray:
    """Return one axis of whole numbers as int64, and refuse anything else by name."""
    array = complete(**{name: values})
    if array.size == 0:
        array = array.astype(np.int64)
    require(
        array.ndim == 1 and np.issubdtype(array.dtype, np.integer),
        f"{name} must be integers with one axis, got {array.dtype} of shape {array.shape}"
        f"{first_fraction(array, of)}",
    )
    # Beyond, it would become a negative number.
    require(array.max(initial=0) < 2**63, f"{name} must be below 2^63, and some are not")
    return array.astype(np.int64)


def _ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``arange(start, start + count)`` of every run, one after the other."""
    begin = np.cumsum(counts) - counts
    return np.repeat(starts - begin, counts) + np.arange(counts.sum())
