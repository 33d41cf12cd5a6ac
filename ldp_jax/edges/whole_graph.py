"""All users of a graph at once: sparse, exact, and the same law as one user at a time."""

from typing import Any, NamedTuple

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

    What is private here: this is a simulation of all devices by one who holds the whole graph, and the guarantee is
    about the returned value alone. Running time, memory, and the shapes and number of compiled programs follow the
    private degrees and the draws; keep them, and profiles and logs of them, as you keep the graph. No exception
    says more than the reports do: arguments are refused by public numbers (sizes, budgets, masks), too much memory
    by the number of users and the budgets (for LocalLap by the noisy degrees, which are reported), and a graph that
    is none in one sentence, without its edges. That sentence is about the caller's code, not about a record: every
    record, that is every set of edges that :func:`ldp_jax.graphs.from_edges` takes, passes. A deployed device runs
    the one-user view, ``mechanism.privatize``: its time, memory and shapes depend on n alone (and on the length of
    a list on the host, in one pass over it), and it is total on data.

    Args:
      key: a typed threefry key.
      graph: undirected, as :func:`ldp_jax.graphs.from_edges` builds it; a set of graphs may be one graph of blocks.
      mechanism: :class:`~ldp_jax.edges.DPRR` or :class:`~ldp_jax.edges.RandomizedResponse`, whose budgets may be
        arrays [n], one a user, all public; or :class:`~ldp_jax.edges.LocalLap`.
      protocol: ``full``: every user reports her whole list (2 epsilon per edge). ``half``: a public rule gives each
        pair to one user, who alone reports it: of one budget (the sum that ``guarantee()`` states), i < j to i
        where i + j is even, else to j; of two budgets, to the smaller. List, noisy degree and n - 1 of eq. 6 are of
        the owned pairs. ``half list``: the same, but the noisy degree is the whole list's. By default ``full``, or
        ``half list`` for LocalLap, which has no ``full``.
      public: bool [n], users whose lists are released as they are (the customised setting); None for none.
      node_graph: int [n], non-decreasing: which graph of a set a node is in; pairs are within one graph.
      memory: bytes of reported pairs to allow, beyond those of the edges that are given: 16 for each false pair
        that n and the budgets let expect in a graph without edges; randomised response asks for 16 n^2 (1 - p).

    Returns:
      The reported graph, the reported degrees and the guarantee. An edge of a public user is not protected: per
      edge the guarantee is about pairs of private users.

    Raises:
      ValueError: for a graph that is not symmetric, has self-loops, edges given twice or edges between graphs of a
        set, arguments of wrong shape, or an expected output above ``memory``.
      RuntimeError: where a pair would be reported under the larger of its two budgets, which is a defect of this
        library; before anything is drawn, and from public budgets alone.

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
    n = graphs.num_nodes(graph)
    group, private = _groups(node_graph, n), _private(public, n)
    if not isinstance(mechanism, local_laplace.LocalLap):
        mechanism.of_users(lambda leaf: _one_or_each(leaf, n))
    senders, receivers = _edges_of(graph, node_graph)
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
    _refuse_dense(made, users, protocol != "full", memory)
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
    n = graphs.num_nodes(graph)
    keep = ~_private(public, n)
    senders, receivers = _edges_of(graph, None)
    both = keep[senders] & keep[receivers]
    return graphs.directed(senders[both], receivers[both], n)


def _edges_of(graph: Graph, node_graph: Any) -> tuple[np.ndarray, np.ndarray]:
    """Senders and receivers of an undirected graph, sorted; refused without naming an edge, which is private."""
    try:
        senders, receivers, _ = graphs.validate_symmetric(graph, node_graph)
    except (ValueError, TypeError):
        senders = receivers = None  # raised below, where the message that names the edge is not its context
    if senders is None or receivers is None:
        raise ValueError(
            "graph must be undirected, as graphs.from_edges builds it: each edge once in each direction, no "
            "self-loop, within the nodes and within one graph of a set; edges are private, so no more is said "
            "here, and graphs.validate_symmetric names the edge to those who may see it"
        )
    return senders, receivers


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


def _one_or_each(leaf: Any, n: int) -> Any:
    """A budget for all, or one a user."""
    if np.shape(leaf) not in ((), (n,)):
        raise ValueError(f"budgets must be one number or one a user, [{n}], got shape {np.shape(leaf)}")
    return leaf


def _order(m: Any, who: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Users by graph, then by budget, then by id; and where a level begins: the users of one graph and budget."""
    budget = np.broadcast_to(m.sums(), group.shape)
    who = who[np.lexsort((who, budget[who], group[who]))].astype(np.int32)
    new = np.ones(len(who), bool)
    new[1:] = (np.diff(group[who]) > 0) | (np.diff(budget[who]) > 0)
    return who, new


def _check_owners(budget: np.ndarray, begins: np.ndarray, start: np.ndarray) -> None:
    """That no user owns a pair with one of a smaller budget.

    She owns pairs within her level, which must be of one budget, and with all later places, which must not fall.

    Args:
      budget: float64 [users], by place: the sums that guarantees are computed from.
      begins: int [users], the first user of each one's graph.
      start: int [users], the first place of her level in the graph.
    """
    falls = (np.diff(budget) < 0) & (np.diff(begins) == 0)
    if falls.any() or (budget[begins + start] != budget).any():
        raise RuntimeError("a pair would belong to the larger budget of its two users: please report this defect")


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
    who, new = _order(m, np.flatnonzero(private), group)
    mine_group = group[who]
    place_of = np.full(n, -1, np.int64)
    place_of[who] = np.arange(len(who))
    begins = np.searchsorted(mine_group, mine_group, "left")
    size = np.searchsorted(mine_group, mine_group, "right") - begins
    level = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(who))
    users = _sparse.Users(
        *(
            array.astype(np.int32)
            for array in (np.arange(len(who)) - begins, starts[level] - begins, ends[level] - begins, size)
        )
    )
    _check_owners(np.broadcast_to(m.sums(), group.shape)[who], begins, users.start)
    both = private[receivers] & private[senders]
    user, other = place_of[receivers[both]], place_of[senders[both]]
    local = other - begins[user]
    mine = _sparse.owns(_sparse.Users(*(leaf[user] for leaf in users)), local, True)
    user, local = user[mine], local[mine]
    order = np.argsort(user * np.int64(n) + local)
    user, local = user[order], local[order].astype(np.int32)
    owned = np.bincount(user, minlength=len(who)).astype(np.int32)
    return who, users, owned, local, lambda mine, place: who[begins[mine] + place]


def _refuse_dense(m: Any, users: _sparse.Users, half: bool, memory: float) -> None:
    """Randomised response has a dense output by nature: say so before it is computed.

    From the number of users and the budgets alone: what is expected of a graph without edges. True edges add no
    more than the caller holds already, and a refusal that depended on them would tell them.
    """
    expected = 16.0 * _sparse.false_pairs_if_none(m, users, half)
    if expected > memory:
        raise ValueError(
            f"the reported graph is expected to take {expected / 1e9:.3g} GB (memory allows {memory / 1e9:.3g}): "
            "randomised response is dense, DPRR is not; or raise memory"
        )
