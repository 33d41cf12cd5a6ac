"""All users of a graph at once.

The same law as one user at a time, by each mechanism's own sampler.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from ldp_jax.accounting.guarantee import PipelineGuarantee, digits_up
from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Graph, PRNGKey, Values
from ldp_jax.edges import _one_by_one
from ldp_jax.edges._one_by_one import OneUsersView
from ldp_jax.edges.neighbour_lists import OnLists, Reporting
from ldp_jax.edges.population import HasGraphSampler, Population, ReportedPairs
from ldp_jax.graph import graphs

# bytes of reported pairs above which a dense output is refused unless the caller allows more
_MEMORY = 8e9


class NoisyGraph(NamedTuple):
    """The reports of all users as a graph, or as a set of graphs.

    Attributes:
      graph: directed edges from each reported neighbour (sender) to the user who reports it
        (receiver), sorted; symmetric where each pair has one owner. A
        :class:`~ldp_jax.graph.graphs.GraphSet` where a set was given.
      degree: float32 [n], the noisy degrees; the true ones of public users; NaN where none is sent.
      guarantee: per bit of a list and per edge, what is protected and what is not.
    """

    graph: Graph
    degree: np.ndarray
    guarantee: PipelineGuarantee

    def __repr__(self) -> str:
        spent = ", ".join(
            f"epsilon {digits_up(one.epsilon)} per {unit}" for unit, one in self.guarantee.items()
        )
        edges = len(self.graph.senders)
        return f"NoisyGraph({len(self.degree)} users, {edges} directed edges; {spent})"


@implicit_promotion()
def privatize_graph(
    key: PRNGKey,
    graph: Graph | graphs.GraphSet,
    mechanism: HasGraphSampler | OneUsersView,
    *,
    reporting: Reporting | None = None,
    public: Values | None = None,
    memory: float = _MEMORY,
) -> NoisyGraph:
    """Every user's noisy neighbour list, as a graph.

    The library's mechanisms take time and memory O(input edges + output edges), a one-user view
    O(n^2). This simulates all devices on the host; the guarantee is about the returned value and
    exceptions. Running time, memory and shapes of compiled programs follow private degrees and
    draws: protect them as you protect the graph.

    Args:
      key: a typed threefry key.
      graph: undirected, or a :class:`~ldp_jax.graph.graphs.GraphSet`, in which pairs are within one
        graph.
      mechanism: of this package, or your own. DPRR, RandomizedResponse and NoisyDegree take public
        budgets [n].
      reporting: in place of the mechanism's own. ``full``: every user reports the whole list (2
        epsilon per edge). ``half``: each pair has one reporter, the user of the smaller budget (the
        sum that ``guarantee()`` states); of equal ones, i < j goes to i where i + j is even, else
        to j. List, noisy degree and n - 1 of eq. 6 are of the owned pairs. ``half list``: the same,
        but the noisy degree is the whole list's. LocalLap has no ``full``, NoisyDegree no
        ``half list``.
      public: bool [n], users whose lists are released as they are (the customised setting). Degrees
        count public neighbours in ``full``, and in LocalLap's ``half list``; else private ones
        alone.
      memory: bytes beyond true edges, 16 for each false pair that n and the budgets let expect in
        an empty graph.

    The guarantee per edge is about pairs of private users. ``ValueError`` for traced or invalid
    arguments, or an expected output above ``memory``.

    >>> from ldp_jax.edges import DPRR
    >>> graph = graphs.from_edges([[0, 1], [1, 2], [2, 3]], num_nodes=4)
    >>> noisy = privatize_graph(
    ...     jax.random.key(0), graph, DPRR(0.3, 0.7), reporting="half"
    ... )
    >>> print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes
      epsilon 1 per neighbour-list (...)
      epsilon 1 per relationship (...)
    """
    check_concrete(key, mechanism)
    made, both_ends = with_reporting(mechanism, reporting)
    users = Population.of(graph, public)
    private = users.private
    guarantees = [made.guarantee()]
    if isinstance(made, OneUsersView):
        guarantees.append(made.relationship())
    exposed = public_facts(made, private, isinstance(graph, graphs.GraphSet))
    guarantee = PipelineGuarantee.of(guarantees, protected=("edges",), unprotected=exposed)

    pairs = reported_pairs(key, made, users, memory)
    shown = ~private[users.receivers]
    if not both_ends:
        shown = shown | ~private[users.senders]
    noisy = joined(
        graph,
        pairs.reporter,
        pairs.reported,
        both_ends,
        users.receivers[shown],
        users.senders[shown],
    )
    degree = np.where(private, pairs.degree, users.degree).astype(np.float32)
    return NoisyGraph(noisy, degree, guarantee)


def check_concrete(key: PRNGKey, mechanism: object) -> None:
    """Refuse a key or a mechanism that is traced: the shape of a noisy graph is drawn."""
    validate.threefry(key)
    validate.require(
        all(map(validate.concrete, jax.tree.leaves((key, mechanism)))),
        "key and mechanism must be concrete, because the number of reported pairs is part of "
        "shapes: call privatize_graph in a Python loop, outside jit, vmap and grad; inside, "
        "vmap mechanism.privatize over users",
    )


def public_facts(
    mechanism: HasGraphSampler | OneUsersView, private: np.ndarray, several: bool
) -> tuple[str, ...]:
    """Name the facts that reports of neighbour lists do not protect."""
    facts = ["number of nodes"]
    if several:
        facts = ["number of nodes of each graph", "labels of graphs"]
    if not private.all():
        facts.append("lists of public users")
    if isinstance(mechanism, OnLists) and mechanism.sums().ndim:
        facts.append("personal budgets")
    return tuple(facts)


def reported_pairs(
    key: PRNGKey,
    mechanism: HasGraphSampler | OneUsersView,
    users: Population,
    memory: float = _MEMORY,
) -> ReportedPairs:
    """The reports of all private users: by the mechanism's own sampler, else user by user.

    A class that overrides ``privatize`` or ``select`` alone is asked user by user: its parent's
    sampler draws other reports.
    """
    kind = type(mechanism)
    drawn_by = next((one for one in kind.__mro__ if "sample_graph" in vars(one)), kind)
    law = lambda one: [getattr(one, name, None) for name in ("privatize", "select")]
    if law(drawn_by) == law(kind) and isinstance(mechanism, HasGraphSampler):
        return mechanism.sample_graph(key, users, memory)
    assert isinstance(mechanism, OneUsersView)
    return _one_by_one.sample(key, mechanism, users, memory)


def joined(
    like: Graph | graphs.GraphSet,
    reporter: np.ndarray,
    reported: np.ndarray,
    both_ends: bool,
    receivers: np.ndarray,
    senders: np.ndarray,
) -> Graph | graphs.GraphSet:
    """The graph of reported pairs and of public edges, of the same users as ``like``.

    A pair that one end reports stands in both lists. ``receivers`` and ``senders`` are public
    entries of lists, each once.
    """
    to = reporter
    by = reported
    if not both_ends:
        to = np.concatenate([reporter, reported])
        by = np.concatenate([reported, reporter])
    if len(receivers):
        to = np.concatenate([to, receivers])
        by = np.concatenate([by, senders])
    n = len(like.node_graph) if isinstance(like, graphs.GraphSet) else graphs.num_nodes(like)
    code = to.astype(np.int64) * n + by
    if not (code[1:] > code[:-1]).all():
        order = np.argsort(code, kind="stable")  # which merges what is in order
        to = to[order]
        by = by[order]
    return _like(like, by, to)


def with_reporting(
    mechanism: HasGraphSampler | OneUsersView, reporting: Reporting | None
) -> tuple[HasGraphSampler | OneUsersView, bool]:
    """The mechanism with the reporting asked for, and whether both ends may report a pair."""
    if not isinstance(mechanism, OneUsersView):
        kind = type(mechanism).__name__
        validate.require(
            isinstance(mechanism, HasGraphSampler),
            f"mechanism must be on neighbour lists or on graphs, got {kind}",
        )
        # A curator has the graph: nobody reports.
        validate.require(reporting is None, f"{kind} has no reportings, got {reporting!r}")
        return mechanism, False
    if reporting is not None:
        validate.one_of(mechanism.reportings, reporting=reporting)
        made: Any = mechanism  # a dataclass, which no protocol can say
        return dataclasses.replace(made, reporting=reporting), reporting == "full"
    return mechanism, mechanism.reporting == "full"


def _like(
    graph: Graph | graphs.GraphSet, senders: np.ndarray, receivers: np.ndarray
) -> Graph | graphs.GraphSet:
    """A graph, or a set of graphs, of the same users with other edges.

    Sorted by receiver, then by sender.
    """
    if isinstance(graph, graphs.GraphSet):
        return dataclasses.replace(
            graph, senders=senders.astype(np.int32), receivers=receivers.astype(np.int32)
        )
    return graphs.directed(senders, receivers, graphs.num_nodes(graph))


def public_part(graph: Graph | graphs.GraphSet, public: Values) -> Graph | graphs.GraphSet:
    """NonPriv-Part: the edges between public users alone; all nodes stay.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> public_part(graph, [True, True, False]).senders.tolist()
    [1, 0]
    """
    users = Population.of(graph, public)
    both = ~users.private[users.senders] & ~users.private[users.receivers]
    return _like(graph, users.senders[both], users.receivers[both])
