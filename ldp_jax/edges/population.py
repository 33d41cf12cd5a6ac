"""All users of a graph or of a set of graphs, and what they report."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph, PRNGKey, Values
from ldp_jax.edges import checks
from ldp_jax.graph import graphs

_BLOCK = 2**23


class Population(NamedTuple):
    """The users of a graph or of a set of graphs, numbered through, with their true edges.

    Checked, on the host.

    ``senders`` and ``receivers`` int32 [m] have each edge in both directions, by receiver and
    sender; ``group`` int [n] is each user's graph, non-decreasing from 0; lists are ``private``,
    bool [n], or released as they are.
    """

    senders: Int[np.ndarray, " m"]
    receivers: Int[np.ndarray, " m"]
    group: Int[np.ndarray, " n"]
    private: Bool[np.ndarray, " n"]

    @classmethod
    def of(
        cls,
        graph: "Graph | graphs.GraphSet | Population",
        public: Values | None = None,
    ) -> "Population":
        """Check a graph or a set of graphs, and the mask of public users.

        A population keeps its edges. ``ValueError``, which names no edge, for anything else.
        """
        if isinstance(graph, Population):
            if public is None:
                return graph
            return graph._replace(private=~validate.mask(len(graph.group), public=public))
        checks.concrete(
            "the number of edges is part of shapes, so call this outside jit, vmap and grad; "
            "inside, vmap the mechanism's privatize over users",
            graph=graph,
            public=public,
        )
        if isinstance(graph, graphs.GraphSet):
            group = np.asarray(graph.node_graph, np.int64)
        else:
            graph = one_graph(graph)
            group = np.zeros(graphs.num_nodes(graph), np.int64)
        shown = validate.mask(len(group), False, public=public)
        return cls(*edges_of(graph, group), group, ~shown)

    @property
    def degree(self) -> Int[np.ndarray, " n"]:
        """How many true neighbours each user has; int32 [n]."""
        return tally(self.receivers, len(self.group))

    def __repr__(self) -> str:
        return f"Population({len(self.group)} users, {self.private.sum()} of them private)"


class ReportedPairs(NamedTuple):
    """Pairs that private users report or a curator releases, int32, in any order.

    A pair is there twice where both ends report it. ``degree`` float32 [n] are the noisy degrees,
    NaN where none is sent; those of public users are ignored.
    """

    reporter: Int[np.ndarray, " pairs"]
    reported: Int[np.ndarray, " pairs"]
    degree: Float[np.ndarray, " n"]

    __repr__ = by_shapes


@runtime_checkable
class HasGraphSampler(Protocol):
    """A mechanism that draws the reports of all users at once, by the law of one user at a time."""

    def guarantee(self) -> Guarantee:
        """The promise of the reports; ``trust`` says by whom."""

    def sample_graph(self, key: PRNGKey, users: Population, memory: float) -> ReportedPairs:
        """Draw all reports; ``ValueError``, by public numbers, above ``memory`` bytes."""


def one_graph(graph: Graph, name: str = "graph") -> Graph:
    """Return the argument if it is one graph, else refuse it by name."""
    graph = graphs.as_graph(graph, name)
    count = np.size(graph.n_node)
    hint = ": give a set of graphs as a graphs.GraphSet" if name == "graph" else ""
    validate.require(count == 1, f"{name} must be one graph, got a GraphsTuple of {count}{hint}")
    return graph


def edges_of(graph: Graph, group: np.ndarray, name: str = "graph") -> tuple[np.ndarray, np.ndarray]:
    """Find the sorted senders and receivers of an undirected graph.

    The refusal of another graph names no edge, since edges are private.
    """
    try:
        as_one = graphs.directed(graph.senders, graph.receivers, len(group))
        return graphs.validate_symmetric(as_one, group)[:2]
    except (ValueError, TypeError):
        pass  # raised below, so that the message that names the edge is not its context
    raise ValueError(
        f"{name} must be undirected, as graphs.from_edges builds it: each edge once in each "
        "direction, no self-loop, within the nodes and within one graph of a set; edges are "
        "private, so no more is said here, and graphs.validate_symmetric names the edge to those "
        "who may see it"
    )


def tally(ids: np.ndarray, n: int) -> Int[np.ndarray, " n"]:
    """Count each of n numbers, int32 [n]; in blocks, as NumPy copies what is no int64."""
    found = np.zeros(n, np.int32)
    for start in range(0, len(ids), _BLOCK):
        found += np.bincount(ids[start : start + _BLOCK], minlength=n)
    return found
