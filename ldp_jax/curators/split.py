"""Public and private edges: the data of a trusted curator."""

import dataclasses
from typing import Any, TypeAlias

import jax  # noqa: F401 - the examples below
import numpy as np
from jaxtyping import Int

from ldp_jax.core import random, validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph, PRNGKey, Values
from ldp_jax.edges import checks
from ldp_jax.edges.population import edges_of, one_graph
from ldp_jax.graph import graphs

NodePairs: TypeAlias = Int[np.ndarray, "pairs 2"]
"""Pairs of nodes, or of their places, one a row."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of private nodes, on the host.

    Places i < j among the p private nodes have the code i p + j.

    ``nodes`` [p] are sorted, as are the codes of ``public`` and of ``private`` edges between them.
    """

    nodes: Int[np.ndarray, " p"]
    public: Int[np.ndarray, " public"]
    private: Int[np.ndarray, " private"]

    __repr__ = by_shapes

    @property
    def candidates(self) -> int:
        """How many pairs may be private edges: all but the public ones. It is a public number."""
        return len(self.nodes) * (len(self.nodes) - 1) // 2 - len(self.public)

    def places(self, codes: Values) -> NodePairs:
        """Codes as pairs of places."""
        first, second = np.divmod(np.asarray(codes, np.int64), max(len(self.nodes), 1))
        return np.stack([first, second], 1)

    def ids(self, codes: Values) -> NodePairs:
        """Codes as pairs of nodes."""
        return self.nodes[self.places(codes)]

    def codes(self, ends: Values) -> Int[np.ndarray, " m"]:
        """Pairs of places [m, 2], in either order, as codes."""
        ends = np.asarray(ends, np.int64).reshape(-1, 2)
        return ends.min(1) * len(self.nodes) + ends.max(1)


@dataclasses.dataclass(frozen=True, eq=False)
class EdgeSplit:
    """A graph whose edges are public in part; checked, on the host.

    The nodes, the public edges and the set of private nodes are public. A private edge is between
    two private nodes, and mechanisms of this package release pairs of private nodes that are no
    public edges. Two splits are adjacent if they differ in one private edge: the private nodes must
    be chosen without the private edges. ``private_nodes`` bool [n] are all by default.
    ``ValueError``, which names no edge, for what does not fit.

    >>> both = EdgeSplit(
    ...     graphs.from_edges([[0, 1]], 4), graphs.from_edges([[1, 2]], 4)
    ... )
    >>> both
    EdgeSplit(4 nodes, 1 public edge; private edges between 4 of them)
    """

    public: Graph
    private: Graph
    private_nodes: Any = None

    def __post_init__(self) -> None:
        for name in ("public", "private"):
            object.__setattr__(self, name, one_graph(getattr(self, name), name))
        public = _edges("public", self.public)
        private = _edges("private", self.private)
        n = self.num_nodes
        checks.of_users(n, private=graphs.num_nodes(self.private))
        nodes = validate.mask(n, private_nodes=self.private_nodes)
        code = lambda ends: ends[:, 0].astype(np.int64) * n + ends[:, 1]
        validate.require(
            nodes[private].all() and not np.isin(code(private), code(public)).any(),
            "private must have both ends of each edge among private_nodes, and no edge of "
            "public; edges are private, so no more is said here",
        )
        object.__setattr__(self, "private_nodes", nodes)

    @classmethod
    def of(cls, graph: Graph, private_nodes: Values | None = None) -> "EdgeSplit":
        """A graph of which every edge is private.

        >>> EdgeSplit.of(graphs.from_edges([[0, 1]], 3))
        EdgeSplit(3 nodes, 0 public edges; private edges between 3 of them)
        """
        return cls(graphs.from_edges([], graphs.num_nodes(graph)), graph, private_nodes)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return graphs.num_nodes(self.public)

    def pairs(self) -> Pairs:
        """Number the edges by their places among the private nodes."""
        nodes = np.flatnonzero(self.private_nodes)
        place = np.full(self.num_nodes, -1, np.int64)
        place[nodes] = np.arange(len(nodes))
        codes = []
        for graph in (self.public, self.private):
            ends = place[graphs.to_edges(graph)]
            ends = ends[(ends >= 0).all(1)].astype(np.int64)
            codes.append(np.sort(ends.min(1) * len(nodes) + ends.max(1)))
        return Pairs(nodes, *codes)

    def __repr__(self) -> str:
        public = len(self.public.senders) // 2
        count = f"{self.num_nodes} nodes, {public} public edge{'s' * (public != 1)}"
        return f"EdgeSplit({count}; private edges between {self.private_nodes.sum()} of them)"


def _edges(name: str, graph: Graph) -> np.ndarray:
    """Each edge once; a graph that is invalid is refused without naming an edge."""
    graph = one_graph(graph, name)
    edges_of(graph, np.zeros(graphs.num_nodes(graph), np.int64), name)
    return graphs.to_edges(graph)


def split_edges(key: PRNGKey, graph: Graph, rho: float) -> EdgeSplit:
    """Make the share ``rho`` in (0, 1) of the edges private, chosen at random.

    A setting for experiments.

    Reference: HeteroRR, section V, where rho is 0.05, 0.1 and 0.2.

    >>> ring = graphs.from_edges([[i, (i + 1) % 10] for i in range(10)], 10)
    >>> split = split_edges(jax.random.key(0), ring, 0.2)
    >>> len(graphs.to_edges(split.public)), len(graphs.to_edges(split.private))
    (8, 2)
    """
    validate.threefry(key)
    validate.number(0.0, 1.0, open_lower=True, open_upper=True, rho=rho)
    edges = _edges("graph", graph)
    n = graphs.num_nodes(graph)
    order = random.generator(key).permutation(len(edges))
    private = np.zeros(len(edges), bool)
    private[order[: round(rho * len(order))]] = True
    return EdgeSplit(
        graphs.from_edges(edges[~private], n, pairs_in="rows"),
        graphs.from_edges(edges[private], n, pairs_in="rows"),
    )
