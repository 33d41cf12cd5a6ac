"""Mechanisms on neighbour lists: the loss about an edge, through the reports of all users."""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.flags import standard_flags
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.spaces import NotApplicable
from ldp_jax.core.types import Array, Scalar
from ldp_jax.edges import HasBitLaw, Reporting
from ldp_jax.verification._programs import lost, wide

NODES = 4
_BLOCK = 64  # reports

Pair = tuple[int, int]
Owners = dict[Pair, int] | None
"""The reporter of each pair; None where both are."""


class RelationshipLoss(NamedTuple):
    """The largest log ratio of the joint laws of all reports, with an edge and without it."""

    epsilon: float
    edge: tuple[int, int]
    graph: tuple[tuple[int, int], ...]


@standard_flags()
def relationship_supremum(
    mechanism: object, reporting: Reporting | None = None
) -> RelationshipLoss:
    """The largest loss about one edge, through the reports of all users, enumerated.

    Over all 64 graphs on four nodes and all six edges, a sum over users, each taken over critical
    reports. A pair is reported by both ends (``full``), or by the end of the smaller budget, with
    equal budgets either; the degree is of the whole list (``half list``) or of the owned pairs.
    ``ValueError`` for what is no :class:`~ldp_jax.edges.HasBitLaw`, or budgets that are not one or
    four.

    >>> from ldp_jax.edges import DPRR
    >>> round(relationship_supremum(DPRR(0.3, 0.7), "half list").epsilon, 9)
    1.3
    """
    if not isinstance(mechanism, HasBitLaw):
        raise NotApplicable(
            f"{type(mechanism).__name__} has no law of one bit of a list, as edges.HasBitLaw"
        )
    reporting = mechanism.reporting if reporting is None else reporting
    validate.one_of(mechanism.reportings, reporting=reporting)
    users = [mechanism.of_users(lambda leaf, i=i: _one_of(leaf, i)) for i in range(NODES)]
    budgets = [user.guarantee().epsilon for user in users]
    same = all(user == users[0] for user in users)
    pairs = list(itertools.combinations(range(NODES), 2))
    best = RelationshipLoss(0.0, (0, 1), ())
    loss = functools.cache(lambda user, view: _loss(users[user], *view))
    for owners in _ownerships(budgets, pairs, reporting):
        for bits in itertools.product((False, True), repeat=len(pairs)):
            graph = tuple(pair for pair, bit in zip(pairs, bits, strict=True) if bit)
            for edge in (pair for pair in pairs if pair not in graph):
                views = _views(edge, graph, owners, reporting)
                found = [loss(0 if same else user, view) for user, view in views]
                for way in (0, 1):
                    total = sum(each[way] for each in found)
                    if total > best.epsilon:
                        best = RelationshipLoss(total, edge, graph)
    return best


def _one_of(leaf: Scalar, place: int) -> Scalar:
    if np.ndim(leaf) == 0:
        return leaf
    if np.shape(leaf) != (NODES,):
        raise ValueError(f"budgets must be one number or [{NODES}], got shape {np.shape(leaf)}")
    return float(np.asarray(leaf, np.float64)[place])


def _ownerships(budgets: list[float], pairs: list[Pair], reporting: str) -> list[Owners]:
    """The reporter of each pair.

    Both answers for pairs of equal budgets, the lower end or the higher one.
    """
    if reporting == "full":
        return [None]
    return [
        {(i, j): i if (budgets[i], tie * i) < (budgets[j], tie * j) else j for i, j in pairs}
        for tie in (1, -1)
    ]


def _views(
    edge: Pair, graph: tuple[Pair, ...], owners: Owners, reporting: str
) -> list[tuple[int, tuple[int, int, bool]]]:
    """For each user whose report depends on the edge.

    Pairs of the degree, how many are true, and the bit.
    """
    views = []
    for user in edge:
        mine = [pair for pair in itertools.combinations(range(NODES), 2) if user in pair]
        reports = owners is None or owners[edge] == user
        if owners is not None and reporting == "half":
            mine = [pair for pair in mine if owners[pair] == user]
        if reports or reporting == "half list":
            views.append((user, (len(mine), sum(pair in graph for pair in mine), reports)))
    return views


def _loss(m: HasBitLaw, owned: int, degree: int, reports: bool) -> tuple[float, float]:
    """The largest log ratio of one user's report with and without the edge, both ways round."""
    noisy, sent = m.bit_reports(owned)
    room = -(len(noisy) // -_BLOCK) * _BLOCK  # repeated: of one shape, whatever is owned
    with float64_on_cpu():
        numbers = (
            np.resize(noisy, room).astype(np.float64),
            np.resize(sent, room).astype(np.float64),
        )
        there, without = (
            np.asarray(
                _logs(
                    wide(m),
                    *numbers,
                    *map(np.float64, (degree + bit, bit if reports else np.nan, owned)),
                )
            )
            for bit in (1, 0)
        )
    ratio = lost(there, without)
    ratio = np.where(np.isnan(ratio), math.inf, ratio)  # NaN is not hidden
    return float(ratio.max()), float((-ratio).max())


@jax.jit
def _logs(
    m: HasBitLaw, noisy: Array, sent: Array, degree: Array, bit: Array, owned: Array
) -> Array:
    return m.bit_log_density(noisy, sent, degree, bit, owned) + jnp.zeros(noisy.shape)
