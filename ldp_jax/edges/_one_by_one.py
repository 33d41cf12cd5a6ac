"""Whole graphs by one user's view, for mechanisms without a sampler of their own.

Correct for all, O(n^2).
"""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys, Report, Scalar
from ldp_jax.edges.draws import ordinal
from ldp_jax.edges.lists import ListReport, NeighbourList
from ldp_jax.edges.neighbour_lists import Reporting
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import Lists

_CELLS = 2**24  # bits of the lists that are in memory at once


@runtime_checkable
class OneUsersView(Protocol):
    """A local mechanism on neighbour lists, as one user runs it.

    A frozen dataclass that is a pytree.

    Static fields are ``n``, None until a graph is known, and ``reporting``, one of ``reportings``.
    """

    n: int | None
    reporting: Reporting
    reportings: tuple[Reporting, ...]

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Scalar = 0) -> Report:
        """The report of the user ``own``.

        A :class:`ListReport`, or what ``select`` takes, with a ``degree``.
        """

    def guarantee(self) -> Guarantee:
        """Per bit of one list."""

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users."""


@runtime_checkable
class HasServer(Protocol):
    """A mechanism whose reports become a graph on the server alone, such as LocalLap."""

    def select(self, reports: Report) -> Array:
        """bool [n, n], symmetric: the graph of the reports of users 0 to n - 1, stacked."""


@jax.jit
def _reports(m: OneUsersView, keys: PRNGKeys, lists: NeighbourList, own: Array) -> Report:
    return jax.vmap(m.privatize)(keys, lists, own)


@jax.jit
def _served(m: Any, reports: Report) -> Array:
    """The graphs [graphs, n, n] of the reports of all users of some graphs of n, one graph after the other."""
    split = jax.tree.map(lambda leaf: leaf.reshape(-1, m.n, *leaf.shape[1:]), reports)
    return jax.vmap(m.select)(split)


def sample(key: PRNGKey, m: OneUsersView, users: Population, memory: float) -> ReportedPairs:
    """The reports of all private users, each drawn by ``m.privatize``; in blocks.

    The i-th of p private users draws from ``jax.random.split(key, p)[i]``. In ``full`` a list is of
    all users of a graph; else of the private ones, since what is between them and public users is
    shown anyway. ``ValueError`` for personal budgets, or more reported pairs than ``memory`` bytes
    allow, 16 each.
    """
    check_single(m)
    made: Any = m  # a dataclass, which no protocol can say
    n = len(users.group)
    served = isinstance(m, HasServer)
    inside = np.ones(n, bool) if m.reporting == "full" and not served else users.private
    member, reporters = np.flatnonzero(inside), np.flatnonzero(users.private)
    sizes = np.bincount(users.group[inside], minlength=1)
    first = (np.cumsum(sizes) - sizes)[users.group]
    place = np.cumsum(inside) - 1 - first
    size_of = sizes[users.group[reporters]]
    keys = random.split(key, max(1, len(reporters)))
    mine = users.private[users.receivers] & inside[users.senders]
    node, receivers = place[users.senders[mine]], users.receivers[mine]
    begin, end = (np.searchsorted(receivers, reporters, side) for side in ("left", "right"))
    degree = np.full(n, np.nan, np.float32)
    found = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    total = 0
    for size in np.unique(size_of).tolist():
        one = dataclasses.replace(made, n=size)
        of_size = np.flatnonzero(size_of == size)
        room = max(1, _CELLS // size**2) * size if served else max(1, _CELLS // size)
        room = min(room, len(of_size))
        for start in range(0, len(of_size), room):
            turn = of_size[start : start + room]
            # Padding repeats the first user, whose further reports nobody reads: one program a
            # size.
            rows = np.append(turn, np.full(room - len(turn), turn[0]))
            who = reporters[turn]
            own = place[reporters[rows]].astype(np.int32)
            reports = _reports(one, keys[rows], _lists(node, begin[rows], end[rows], size), own)
            row, column = np.nonzero(_bits(one, reports, own, m.reporting == "full")[: len(turn)])
            degree[who] = np.asarray(reports.degree)[: len(turn)]
            found.append(
                (who[row].astype(np.int32), member[first[who[row]] + column].astype(np.int32))
            )
            total += len(row)
            if 16.0 * total > memory:
                raise ValueError(
                    f"the reports hold more than {memory / 1e9:.3g} GB of pairs, which is all that memory allows: "
                    "raise memory, or use a mechanism that reports fewer"
                )
    reporter, reported = (np.concatenate(ends) for ends in zip(*found, strict=True))
    return ReportedPairs(reporter, reported, degree)


def _bits(m: Any, reports: Report, own: np.ndarray, both_ends: bool) -> np.ndarray:
    """The reported pairs of each user, bool [users, n].

    Of a server's graph once each, unless both ends report.
    """
    n: int = m.n
    if isinstance(m, HasServer):
        kept = np.asarray(_served(m, reports)).reshape(-1, n)
        return kept if both_ends else kept & (np.arange(n) > own[:, None])
    if not isinstance(reports, ListReport):
        raise ValueError(
            f"{type(m).__name__} must report a ListReport, or have select(reports), which makes a graph of what it "
            f"reports; got {type(reports).__name__}"
        )
    return Lists(n).bits(reports.neighbours)


def _lists(node: np.ndarray, begin: np.ndarray, end: np.ndarray, size: int) -> NeighbourList:
    """The runs of ``node`` that are some users' lists, padded with ``size``."""
    length = (end - begin).astype(np.int32)
    row = np.repeat(np.arange(len(length)), length)
    ids = np.full((len(length), size), size, np.int32)
    ids[row, ordinal(row)] = node[begin[row] + ordinal(row)]
    return NeighbourList(jnp.asarray(ids), jnp.asarray(length))
