"""The noisy counts of all users at once: the same law as one user at a time, in O(edges)."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax import _validate
from ldp_jax.edges import _sparse
from ldp_jax.edges.neighbour_counts import NeighbourCounts, checked_groups
from ldp_jax.edges.ownership import Ownership
from ldp_jax.edges.population import Population
from ldp_jax.guarantee import PipelineGuarantee
from ldp_jax.types import Array, PRNGKey

_BLOCK = 2**24
"""Edges that are counted at once."""


class NoisyCounts(NamedTuple):
    """What users report of their lists.

    Attributes:
      counts: [n, K], int32 or, of Laplace noise, float32; 0 for those who report nothing.
      reported: bool [n], who reports.
      guarantee: per bit of a list and per edge, what is protected and what is not.
    """

    counts: np.ndarray
    reported: Bool[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    def __repr__(self) -> str:
        users, groups = self.counts.shape
        return f"NoisyCounts({int(self.reported.sum())} of {users} users, {groups} groups)"


def count_neighbours(
    users: Population, groups: Any, num_groups: int, counted: Any = None
) -> Int[np.ndarray, "n groups"]:
    """How many neighbours each user has in each group, exactly: private, on the host, in one pass over the edges.

    Args:
      users: the graph or set of graphs, checked.
      groups: int [n] in [-1, num_groups); -1 counts nowhere.
      num_groups: K.
      counted: of a user and a neighbour, arrays, which pairs count; all by default.

    >>> from ldp_jax import graphs
    >>> star = Population.of(graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4))
    >>> count_neighbours(star, [0, 0, 1, -1], 2).tolist()
    [[1, 1], [1, 0], [1, 0], [1, 0]]
    """
    n = len(users.group)
    groups = checked_groups(groups, n, num_groups)
    found = np.zeros((n, num_groups), np.int32)
    for at in range(0, len(users.receivers), _BLOCK):
        user, other = users.receivers[at : at + _BLOCK], users.senders[at : at + _BLOCK]
        group = groups[other]
        kept = group >= 0 if counted is None else (group >= 0) & counted(user, other)
        if kept.any():
            user, group = user[kept].astype(np.int64), group[kept]
            first, last = int(user[0]), int(user[-1]) + 1  # edges are sorted by receiver
            code = (user - first) * num_groups + group
            found[first:last] += np.bincount(code, minlength=(last - first) * num_groups).reshape(-1, num_groups)
    return found


def privatize_counts(
    key: PRNGKey,
    graph: Any,
    mechanism: NeighbourCounts,
    groups: Any,
    *,
    reporters: Any = None,
    owners: Ownership | None = None,
) -> NoisyCounts:
    """Every user's noisy counts of her neighbours by public group.

    Time is O(edges), memory that of the graph and K numbers a user. As in
    :func:`~ldp_jax.edges.privatize_graph`, this simulates all devices; the guarantee is about what is returned.

    Args:
      key: a typed threefry key.
      graph: undirected, as :func:`ldp_jax.graphs.from_edges` builds it, or a :class:`~ldp_jax.graphs.GraphSet`.
      mechanism: its own ``n`` and ``groups`` are not looked at.
      groups: int [n] in [-1, K), public; -1 for a node that counts nowhere.
      reporters: bool [n], public: who reports; all by default.
      owners: a public rule by which each pair is reported once, instead of the mechanism's ``reporting``: then an
        edge costs epsilon.

    Raises:
      ValueError: for a graph that is none, groups or masks of another shape, a group that is not in [-1, K),
        ``owners`` beside ``half`` reporting, or a reporter who is silent in ``owners``.

    >>> from ldp_jax import graphs
    >>> star = graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    >>> noisy = privatize_counts(jax.random.key(0), star, NeighbourCounts(2.0, num_groups=2), [0, 0, 1, 1])
    >>> noisy.counts.shape, print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes, groups of nodes
      epsilon 2 per neighbour-list (...)
      epsilon 4 per relationship (...)
    ((4, 2), None)
    """
    _validate.threefry(key)
    users = Population.of(graph)
    n = len(users.group)
    groups = checked_groups(groups, n, mechanism.num_groups)
    reported = _mask(reporters, n)
    if owners is not None:
        if mechanism.reporting != "full":
            raise ValueError(
                f"owners say who reports a pair, and so does reporting {mechanism.reporting!r}: give one"
            )
        if owners.order.shape != (n,):
            raise ValueError(f"owners must be of {n} users, got {len(owners.order)}")
        if reporters is None:
            reported = ~owners.silent
        elif (reported & owners.silent).any():
            raise ValueError(f"{int((reported & owners.silent).sum())} reporters are silent in owners")
    counted = None
    if owners is not None:
        counted = owners.owns
    elif mechanism.reporting == "half":
        counted = lambda user, other: _sparse.owns(_sparse.Users(user, 0, n, n), other, True)
    counts = count_neighbours(users, groups, mechanism.num_groups, counted)
    noisy = np.asarray(_add_noise(mechanism, key, counts))
    once = mechanism.relationship("half" if owners is not None else mechanism.reporting)
    unprotected = ("number of nodes", "groups of nodes", *(("who reports",) if not reported.all() else ()))
    guarantee = PipelineGuarantee.of([mechanism.guarantee(), once], protected=("edges",), unprotected=unprotected)
    return NoisyCounts(np.where(reported[:, None], noisy, 0).astype(noisy.dtype), reported, guarantee)


@jax.jit
def _add_noise(m: NeighbourCounts, key: PRNGKey, counts: Any) -> Array:
    return m.add_noise(key, counts)


def _mask(reporters: Any, n: int) -> Bool[np.ndarray, " n"]:
    if reporters is None:
        return np.ones(n, bool)
    mask = np.asarray(reporters)
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(f"reporters must be bool [{n}], got {mask.dtype} {mask.shape}")
    return mask
