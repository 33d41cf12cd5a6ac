"""All users of a graph at once: sparse, exact, and the same law as one user at a time."""

from typing import Any, NamedTuple

import jax
import numpy as np

from ldp_jax import _validate, graphs
from ldp_jax.edges import _sparse, local_laplace
from ldp_jax.edges.neighbour_lists import PROTOCOLS, Protocol
from ldp_jax.guarantee import PipelineGuarantee
from ldp_jax.types import Graph, PRNGKey

_MEMORY = 8e9
"""Bytes of reported pairs above which a dense output is refused unless the caller allows more."""


class NoisyGraph(NamedTuple):
    """The reports of all users as a graph.

    Attributes:
      graph: directed edges from each reported neighbour (sender) to the user who reports her (receiver), sorted; so
        that what a node sums over is her own report. Symmetric where each pair has one owner.
      degree: float32 [n], the noisy degrees; the true ones of public users; NaN where none is sent.
      guarantee: per bit of a list and per edge, what is protected and what is not.
    """

    graph: Graph
    degree: np.ndarray
    guarantee: PipelineGuarantee


def privatize_graph(
    key: PRNGKey,
    graph: Graph,
    mechanism: Any,
    *,
    protocol: Protocol | None = None,
    public: Any = None,
    node_graph: Any = None,
    memory: float = _MEMORY,
) -> NoisyGraph:
    r"""Every user's noisy neighbour list, as a graph.

    Time and memory are O(input edges + output edges): see :mod:`ldp_jax.edges._sparse`. Users are streamed in
    blocks, so that a graph of 10^8 edges takes the same path as a small one.

    Args:
      key: a typed threefry key.
      graph: undirected, as :func:`ldp_jax.graphs.from_edges` builds it; a set of graphs may be one graph of blocks.
      mechanism: :class:`~ldp_jax.edges.DPRR` or :class:`~ldp_jax.edges.RandomizedResponse`, whose budgets may be
        arrays [n], one a user; or :class:`~ldp_jax.edges.LocalLap`.
      protocol: ``full``: every user reports her whole list (2 epsilon per edge). ``half``: a public rule gives each
        pair to one user, who alone reports it: of one budget, i < j to i where i + j is even, else to j; of two
        budgets, to the smaller. List, noisy degree and n - 1 of eq. 6 are of the owned pairs. ``half list``: the
        same, but the noisy degree is the whole list's. By default ``full``, or ``half list`` for LocalLap, which
        has no ``full``.
      public: bool [n], users whose lists are released as they are (the customised setting); None for none.
      node_graph: int [n], non-decreasing: which graph of a set a node is in; pairs are within one graph.
      memory: bytes of reported pairs to allow; randomised response asks for 16 n^2 (1 - p).

    Returns:
      The reported graph, the reported degrees and the guarantee. An edge of a public user is not protected: per
      edge the guarantee is about pairs of private users.

    Raises:
      ValueError: for a graph that is not symmetric, has self-loops, edges given twice or edges between graphs of a
        set, arguments of wrong shape, or an expected output above ``memory``.

    >>> import jax
    >>> from ldp_jax.edges import DPRR
    >>> graph = graphs.from_edges([[0, 1], [1, 2], [2, 3]], num_nodes=4)
    >>> noisy = privatize_graph(jax.random.key(0), graph, DPRR(0.3, 0.7), protocol="half")
    >>> print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes
      epsilon 1 per neighbour-list (...)
      epsilon 1 per relationship (...)
    """
    _validate.threefry(key)
    allowed = mechanism.protocols if isinstance(mechanism, local_laplace.LocalLap) else PROTOCOLS
    protocol = allowed[0] if protocol is None else protocol
    _validate.one_of(allowed, protocol=protocol)
    group = _groups(node_graph, graphs.num_nodes(graph))
    senders, receivers, n = graphs.validate_symmetric(graph, node_graph)
    private = _private(public, n)
    guarantee = PipelineGuarantee.of(
        [mechanism.guarantee(), mechanism.relationship(protocol)],
        protected=("edges",),
        unprotected=("number of nodes", *(("lists of public users",) if not private.all() else ())),
    )
    if isinstance(mechanism, local_laplace.LocalLap):
        drawn = local_laplace.sample(key, mechanism, senders, receivers, group, private, protocol, memory)
        return NoisyGraph(*drawn, guarantee)
    degree = np.bincount(receivers, minlength=n).astype(np.int32)
    noisy_degree = np.where(private, np.nan, degree).astype(np.float32)
    arrange = _whole_lists if protocol == "full" else _half_lists
    who, users, owned_degree, node, back = arrange(senders, receivers, degree, group, private, mechanism)
    made = mechanism.of_users(lambda leaf: leaf if np.ndim(leaf) == 0 else np.asarray(leaf)[who])
    _refuse_dense(made, users, owned_degree, protocol != "full", memory)
    reporters, reported = [], []
    whole = degree[who] if protocol == "half list" else None
    for block in _sparse.sample(key, made, users, owned_degree, node, half=protocol != "full", whole_degree=whole):
        mine = block.user
        reporters.append(who[mine])
        reported.append(back(mine, block.node))
        if block.degree is not None:
            noisy_degree[who[block.first : block.first + len(block.degree)]] = block.degree
    to, of = np.concatenate([*reporters, np.zeros(0, np.int32)]), np.concatenate([*reported, np.zeros(0, np.int32)])
    if protocol != "full":
        to, of = np.concatenate([to, of]), np.concatenate([of, to])
    shown = ~private[receivers] if protocol == "full" else ~(private[receivers] & private[senders])
    if shown.any():
        to, of = np.concatenate([to, receivers[shown]]), np.concatenate([of, senders[shown]])
    if protocol != "full" or shown.any():
        order = np.argsort(to.astype(np.int64) * n + of)
        to, of = to[order], of[order]
    return NoisyGraph(graphs.directed(of, to, n), noisy_degree, guarantee)


def public_part(graph: Graph, public: Any) -> Graph:
    """NonPriv-Part: the edges between public users alone; all nodes stay.

    >>> graph = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> public_part(graph, [True, True, False]).senders.tolist()
    [1, 0]
    """
    senders, receivers, n = graphs.validate_symmetric(graph)
    keep = ~_private(public, n)
    both = keep[senders] & keep[receivers]
    return graphs.directed(senders[both], receivers[both], n)


def _groups(node_graph: Any, n: int) -> np.ndarray:
    if node_graph is None:
        return np.zeros(n, np.int64)
    group = np.asarray(node_graph)
    if group.shape != (n,) or not np.issubdtype(group.dtype, np.integer) or (np.diff(group) < 0).any():
        raise ValueError(f"node_graph must be non-decreasing integers [{n}], got shape {group.shape}")
    return np.unique(group, return_inverse=True)[1]


def _private(public: Any, n: int) -> np.ndarray:
    if public is None:
        return np.ones(n, bool)
    mask = np.asarray(public)
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(f"public must be bool [{n}], got {mask.dtype} of shape {mask.shape}")
    return ~mask


def _budgets(mechanism: Any, n: int) -> np.ndarray:
    """A number a user that orders their budgets; one for all where they are equal."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(mechanism.of_users(lambda leaf: leaf))]
    personal = [leaf for leaf in leaves if leaf.shape == (n,)]
    return np.zeros(n) if not personal else np.sum(personal, axis=0)


def _whole_lists(
    senders: np.ndarray, receivers: np.ndarray, degree: np.ndarray, group: np.ndarray, private: np.ndarray, _: Any
) -> Any:
    """Every private user reports about all other nodes of her graph."""
    n = len(group)
    sizes = np.bincount(group, minlength=1)
    first = (np.cumsum(sizes) - sizes)[group]
    size = sizes[group]
    who = np.flatnonzero(private).astype(np.int32)
    mine = private[receivers]
    users = _sparse.Users(
        *(array.astype(np.int32)[who] for array in (np.arange(n) - first, np.zeros(n, int), size, size))
    )
    node = (senders - first[receivers])[mine].astype(np.int32)
    start = first[who]
    return who, users, degree[who], node, lambda user, other: (other + start[user]).astype(np.int32)


def _half_lists(
    senders: np.ndarray, receivers: np.ndarray, degree: np.ndarray, group: np.ndarray, private: np.ndarray, m: Any
) -> Any:
    """Each pair of private users of one graph belongs to one of them: see :func:`ldp_jax.edges._sparse.owns`."""
    n = len(group)
    who = np.flatnonzero(private)
    budget = _budgets(m, n)
    who = who[np.lexsort((who, budget[who], group[who]))].astype(np.int32)  # users, level by level in each graph
    mine_group, mine_budget = group[who], budget[who]
    place_of = np.full(n, -1, np.int64)
    place_of[who] = np.arange(len(who))
    begins = np.searchsorted(mine_group, mine_group, "left")
    size = np.searchsorted(mine_group, mine_group, "right") - begins
    new = np.ones(len(who), bool)
    new[1:] = (np.diff(mine_group) > 0) | (np.diff(mine_budget) > 0)
    level = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(who))
    users = _sparse.Users(
        *(
            array.astype(np.int32)
            for array in (np.arange(len(who)) - begins, starts[level] - begins, ends[level] - begins, size)
        )
    )
    both = private[receivers] & private[senders]
    user, other = place_of[receivers[both]], place_of[senders[both]]
    local = other - begins[user]
    mine = _sparse.owns(_sparse.Users(*(leaf[user] for leaf in users)), local, True)
    user, local = user[mine], local[mine]
    order = np.argsort(user * np.int64(n) + local)
    user, local = user[order], local[order].astype(np.int32)
    owned = np.bincount(user, minlength=len(who)).astype(np.int32)
    return who, users, owned, local, lambda mine, place: who[begins[mine] + place]


def _refuse_dense(m: Any, users: Any, degree: np.ndarray, half: bool, memory: float) -> None:
    """Randomised response has a dense output by nature: say so before it is computed."""
    keep, add = (np.asarray(rate) for rate in m.bit_rates(degree.astype(np.float32), _sparse.universe(users, half)))
    others = np.asarray(_sparse.universe(users, half)) - degree
    expected = 16.0 * float((degree * keep + others * add).sum())
    if expected > memory:
        raise ValueError(
            f"the reported graph is expected to take {expected / 1e9:.3g} GB (memory allows {memory / 1e9:.3g}): "
            "randomised response is dense, DPRR is not; or raise memory"
        )
