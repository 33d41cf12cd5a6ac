"""The reports of all users of a graph at once, by the law of one user at a time."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from ldp_jax.accounting.guarantee import PipelineGuarantee, digits_up
from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Graph, PRNGKey, Values
from ldp_jax.edges import _one_by_one, checks
from ldp_jax.edges._one_by_one import OneUsersView
from ldp_jax.edges.neighbour_lists import OnLists, Reporting
from ldp_jax.edges.population import HasGraphSampler, Population
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
        each = self.guarantee.items()
        spent = ", ".join(f"epsilon {digits_up(one.epsilon)} per {unit}" for unit, one in each)
        size = f"{len(self.degree)} users, {len(self.graph.senders)} directed edges"
        return f"NoisyGraph({size}; {spent})"


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
    """Draw every user's noisy neighbour list, as one graph.

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

    >>> import jax
    >>> from ldp_jax.edges import DPRR
    >>> graph = graphs.from_edges([[0, 1], [1, 2], [2, 3]], num_nodes=4)
    >>> noisy = privatize_graph(jax.random.key(0), graph, DPRR(0.3, 0.7), reporting="half")
    >>> print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes
      epsilon 1 per neighbour-list (...)
      epsilon 1 per relationship (...)
    """
    validate.threefry(key)
    checks.concrete(
        "the number of reported pairs is part of shapes, so call privatize_graph in a Python loop, "
        "outside jit, vmap and grad; inside, vmap mechanism.privatize over users",
        key=key,
        mechanism=mechanism,
    )
    made: Any = mechanism  # a dataclass, which no protocol can say
    if reporting is not None:
        validate.one_of(getattr(made, "reportings", ("None",)), reporting=reporting)
        made = dataclasses.replace(made, reporting=reporting)
    of_one_user = isinstance(made, OneUsersView)
    if not of_one_user and not isinstance(made, HasGraphSampler):
        kind = type(made).__name__
        raise ValueError(f"mechanism must be on neighbour lists or on graphs, got {kind}")
    users = Population.of(graph, public)
    private = users.private
    n = len(users.group)

    guarantees = [made.guarantee()]
    if of_one_user:
        guarantees.append(made.relationship())
    unprotected = ["number of nodes"]
    if isinstance(graph, graphs.GraphSet):
        unprotected = ["number of nodes of each graph", "labels of graphs"]
    if not private.all():
        unprotected.append("lists of public users")
    if isinstance(made, OnLists) and made.sums().ndim:
        unprotected.append("personal budgets")
    guarantee = PipelineGuarantee.of(guarantees, protected=("edges",), unprotected=unprotected)

    if isinstance(made, HasGraphSampler):
        reporter, reported, noisy = made.sample_graph(key, users, memory)
    else:
        reporter, reported, noisy = _one_by_one.sample(key, made, users, memory)
    receivers = [reporter]
    senders = [reported]
    shown = ~private[users.receivers]
    if not (of_one_user and made.reporting == "full"):  # one end reports for both
        receivers.append(reported)
        senders.append(reporter)
        shown = shown | ~private[users.senders]
    receivers = np.concatenate([*receivers, users.receivers[shown]])
    senders = np.concatenate([*senders, users.senders[shown]])
    code = receivers.astype(np.int64) * n + senders
    if not (code[1:] > code[:-1]).all():
        order = np.argsort(code, kind="stable")  # which merges what is in order
        receivers, senders = receivers[order], senders[order]
    degree = np.where(private, noisy, users.degree).astype(np.float32)
    return NoisyGraph(_like(graph, senders, receivers), degree, guarantee)


def _like(
    graph: Graph | graphs.GraphSet,
    senders: np.ndarray,
    receivers: np.ndarray,
) -> Graph | graphs.GraphSet:
    """The graph or set of graphs with other edges, sorted by receiver, then by sender."""
    if isinstance(graph, graphs.GraphSet):
        return dataclasses.replace(
            graph,
            senders=senders.astype(np.int32),
            receivers=receivers.astype(np.int32),
        )
    return graphs.directed(senders, receivers, graphs.num_nodes(graph))


def public_part(graph: Graph | graphs.GraphSet, public: Values) -> Graph | graphs.GraphSet:
    """Keep the edges between public users alone (NonPriv-Part); all nodes stay.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> public_part(graph, [True, True, False]).senders.tolist()
    [1, 0]
    """
    users = Population.of(graph, public)
    both = ~users.private[users.senders] & ~users.private[users.receivers]
    return _like(graph, users.senders[both], users.receivers[both])
