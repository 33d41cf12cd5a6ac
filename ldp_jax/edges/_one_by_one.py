"""Whole graphs by one user's view, for mechanisms without a sampler of their own: correct for all, O(n^2)."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.edges.lists import ListReport, NeighbourList
from ldp_jax.edges.neighbour_lists import Reporting
from ldp_jax.edges.population import Population, ReportedPairs

_CELLS = 2**24
"""Bits of the lists that are in memory at once."""


@runtime_checkable
class OneUsersView(Protocol):
    """A local mechanism on neighbour lists, as one user runs it; a frozen dataclass that is a pytree.

    Attributes:
      n: nodes of the graph, a static field; None until a graph is known.
      reporting: who reports a pair, a static field.
      reportings: which reportings there are.
    """

    n: int | None
    reporting: Reporting
    reportings: tuple[Reporting, ...]

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Any = 0) -> Any:
        """The report of the user ``own``: a :class:`ListReport`, or what ``select`` takes, with a ``degree``."""
        ...

    def guarantee(self) -> Guarantee:
        """Per bit of one user's list."""
        ...

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        """Per edge, seen through the reports of all users."""
        ...


@runtime_checkable
class HasServer(Protocol):
    """A mechanism whose reports become a graph on the server alone, such as LocalLap."""

    def select(self, reports: Any) -> Array:
        """bool [n, n], symmetric: the graph of the reports of users 0 to n - 1, stacked."""
        ...


@jax.jit
def _many(m: Any, keys: Any, lists: NeighbourList, own: Array) -> Any:
    return jax.vmap(lambda key, mine, place: m.privatize(key, mine, place))(keys, lists, own)


@jax.jit
def _served(m: Any, reports: Any) -> Any:
    """The graphs [graphs, n, n] of the reports of all users of some graphs of n, one graph after the other."""
    split = jax.tree.map(lambda leaf: leaf.reshape(-1, m.n, *leaf.shape[1:]), reports)
    return jax.vmap(m.select)(split)


def sample(key: PRNGKey, m: OneUsersView, users: Population, memory: float) -> ReportedPairs:
    """The reports of all private users, each drawn by ``m.privatize`` from a key of its own; in blocks.

    In ``full`` a list is of all users of a graph; else of the private ones, since what is between them and public
    users is shown anyway.

    Args:
      key: a typed threefry key; of p private users, the i-th draws from ``jax.random.split(key, p)[i]``.
      m: with one budget for all users.
      users: the graph.
      memory: bytes of reported pairs to allow, 16 each.

    Raises:
      ValueError: for personal budgets, or more reported pairs than ``memory`` allows.
    """
    check_single(m)
    made: Any = m  # a dataclass, which no protocol can say
    n, served = len(users.group), isinstance(m, HasServer)
    inside = np.ones(n, bool) if m.reporting == "full" and not served else users.private
    sizes = np.bincount(users.group[inside], minlength=1)
    first = np.cumsum(sizes) - sizes
    place = np.cumsum(inside) - 1 - first[users.group] if n else np.zeros(0, int)
    member = np.flatnonzero(inside)
    reporters = np.flatnonzero(users.private)
    keys = jax.random.split(key, max(1, len(reporters)))
    mine = users.private[users.receivers] & inside[users.senders]
    senders, receivers = users.senders[mine], users.receivers[mine]
    count = np.bincount(receivers, minlength=n)
    start = np.cumsum(count) - count
    degree = np.full(n, np.nan, np.float32)
    found, total = [(np.zeros(0, np.int32), np.zeros(0, np.int32))], 0
    for size in np.unique(sizes[users.group[reporters]]).tolist():
        one = dataclasses.replace(made, n=size)
        of_size = np.flatnonzero(sizes[users.group[reporters]] == size)
        room = max(1, _CELLS // size**2) * size if served else max(1, _CELLS // size)
        room = min(room, len(of_size))
        for at in range(0, len(of_size), room):
            turn = of_size[at : at + room]
            who = reporters[turn]
            # Padding repeats the first user, whose further reports nobody reads: one program a size.
            rows = np.concatenate([turn, np.full(room - len(turn), turn[0])])
            lists = _lists(reporters[rows], start, count, place[senders], size)
            reports = _many(one, keys[rows], lists, jnp.asarray(place[reporters[rows]], jnp.int32))
            base = first[users.group[who]]
            if served:
                kept = np.asarray(_served(one, reports))[: len(who) // size].reshape(len(who), size)
                if m.reporting != "full":  # each pair once
                    kept = kept & (np.arange(size) > place[who][:, None])
                row, column = np.nonzero(kept)
            else:
                if not isinstance(reports, ListReport):
                    raise ValueError(
                        f"{type(m).__name__} must report a ListReport, or have select(reports), which makes a "
                        f"graph of what it reports; got {type(reports).__name__}"
                    )
                ids = np.asarray(reports.neighbours.ids)[: len(who)]
                row, at_column = np.nonzero(
                    np.arange(ids.shape[1]) < np.asarray(reports.neighbours.count)[: len(who), None]
                )
                column = ids[row, at_column]
            degree[who] = np.asarray(reports.degree)[: len(who)]
            found.append((who[row].astype(np.int32), member[base[row] + column].astype(np.int32)))
            total += len(row)
            if 16.0 * total > memory:
                raise ValueError(
                    f"the reports hold more than {memory / 1e9:.3g} GB of pairs, which is all that memory allows: "
                    "raise memory, or use a mechanism that reports fewer"
                )
    reporter, reported = (np.concatenate(ends) for ends in zip(*found, strict=True))
    return ReportedPairs(reporter, reported, degree)


def _lists(who: np.ndarray, start: np.ndarray, count: np.ndarray, node: np.ndarray, size: int) -> NeighbourList:
    """The lists of some users, padded with ``size``; ``node`` holds all lists, one after the other."""
    length = count[who]
    row = np.repeat(np.arange(len(who)), length)
    column = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    ids = np.full((len(who), size), size, np.int32)
    ids[row, column] = node[np.repeat(start[who], length) + column]
    return NeighbourList(jnp.asarray(ids), jnp.asarray(length, jnp.int32))
