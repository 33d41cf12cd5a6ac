"""Whole graphs by one user's view, in O(n^2), for mechanisms without a sampler of their own."""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, validate
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys, Report, Scalar
from ldp_jax.edges import checks
from ldp_jax.edges.draws import capacity, ordinal
from ldp_jax.edges.lists import ListReport, NeighbourList
from ldp_jax.edges.neighbour_lists import Reporting
from ldp_jax.edges.population import Population, ReportedPairs
from ldp_jax.edges.spaces import Lists

_CELLS = 2**24  # bits of the lists that are in memory at once


@runtime_checkable
class OneUsersView(Protocol):
    """A local mechanism on neighbour lists, as one user runs it: a frozen dataclass and a pytree.

    Static fields are ``n``, None until a graph is known, and ``reporting``, one of ``reportings``.
    A class attribute ``any_size = True`` says that the reported bits of n users are, in law, those
    of the first n of more users, as where each bit is drawn alone. Graphs of many sizes then need
    few programs; else each size is compiled.
    """

    n: int | None
    reporting: Reporting
    reportings: tuple[Reporting, ...]

    def privatize(self, key: PRNGKey, neighbours: NeighbourList, own: Scalar = 0) -> Report:
        """The report of a user: a :class:`ListReport`, or what ``select`` takes."""

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
    """The graphs [graphs, n, n] of the reports of all users, one graph of n after the other."""
    split = jax.tree.map(lambda leaf: leaf.reshape(-1, m.n, *leaf.shape[1:]), reports)
    return jax.vmap(m.select)(split)


def sample(key: PRNGKey, m: OneUsersView, users: Population, memory: float) -> ReportedPairs:
    """The reports of all private users, each drawn by ``m.privatize``; in blocks.

    The i-th of p private users draws from ``jax.random.split(key, p)[i]``. In ``full`` a list is of
    all users of a graph; else of the private ones, since what is between them and public users is
    shown anyway. ``ValueError`` for personal budgets, more reported pairs than ``memory`` bytes
    allow, 16 each, a user's own id, or a pair that both ends report where it has one owner.

    A mechanism of ``any_size`` is run on lists of few capacities, and reports are cut to the users
    that there are: post-processing.
    """
    check_single(m)
    made: Any = m  # a dataclass, which no protocol can say
    n = len(users.group)
    served = isinstance(m, HasServer)
    full = m.reporting == "full"
    inside = np.ones(n, bool) if full and not served else users.private
    member = np.flatnonzero(inside)
    reporters = np.flatnonzero(users.private)
    sizes = np.bincount(users.group[inside], minlength=1)
    first = (np.cumsum(sizes) - sizes)[users.group]
    place = np.cumsum(inside) - 1 - first
    size_of = sizes[users.group[reporters]]
    keys = random.split(key, max(1, len(reporters)))

    # The true pairs of each reporter, sorted by receiver.
    mine = users.private[users.receivers] & inside[users.senders]
    node = place[users.senders[mine]]
    receivers = users.receivers[mine]
    begin = np.searchsorted(receivers, reporters, "left")
    end = np.searchsorted(receivers, reporters, "right")

    degree = np.full(n, np.nan, np.float32)
    found = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    total = 0
    run_at = size_of
    if not served and getattr(made, "any_size", False):
        run_at = np.array([capacity(size) for size in size_of.tolist()], size_of.dtype)
    for size in np.unique(run_at).tolist():
        one = dataclasses.replace(made, n=size)
        of_size = np.flatnonzero(run_at == size)
        room = max(1, _CELLS // size)
        if served:  # whole graphs
            room = max(1, _CELLS // size**2) * size
        room = min(room, len(of_size))
        for start in range(0, len(of_size), room):
            turn = of_size[start : start + room]
            # One program a size: padding repeats the first user, whose further reports are dropped.
            rows = np.append(turn, np.full(room - len(turn), turn[0]))
            own = place[reporters[rows]].astype(np.int32)
            length = (end[rows] - begin[rows]).astype(np.int32)
            row = np.repeat(np.arange(room), length)
            within = ordinal(row)
            ids = np.full((room, size), size, np.int32)
            ids[row, within] = node[begin[rows][row] + within]
            lists = NeighbourList(jnp.asarray(ids), jnp.asarray(length))
            reports = _reports(one, keys[rows], lists, own)

            if served:
                bits = np.asarray(_served(one, reports)).reshape(-1, size)
                bits = bits & (full | (np.arange(size) > own[:, None]))
            elif isinstance(reports, ListReport):
                bits = Lists(size).bits(reports.neighbours)
                bits &= np.arange(size) < size_of[rows][:, None]
            else:
                raise ValueError(
                    f"{type(m).__name__} must report a ListReport, or have select(reports), which "
                    f"makes a graph of what it reports; got {type(reports).__name__}"
                )
            validate.require(
                not bits[np.arange(room), own].any(),
                f"{type(m).__name__} must report other users alone, and reports the user's own id",
            )
            row, column = np.nonzero(bits[: len(turn)])
            who = reporters[turn]
            if hasattr(reports, "degree"):
                degree[who] = np.asarray(reports.degree)[: len(turn)]
            reporter = who[row]
            reported = member[first[reporter] + column]
            found.append((reporter.astype(np.int32), reported.astype(np.int32)))
            total += len(row)
            checks.fits(total, memory, "use a mechanism that reports fewer")
    reporter, reported = (np.concatenate(ends) for ends in zip(*found, strict=True))
    pair = np.sort(np.minimum(reporter, reported) * np.int64(n) + np.maximum(reporter, reported))
    validate.require(
        full or (pair[1:] != pair[:-1]).all(),
        f"{type(m).__name__} must report the pairs that neighbour_lists.pairs_of gives a user, if "
        f"reporting is {m.reporting!r}: both ends report one, which costs more than relationship()",
    )
    return ReportedPairs(reporter, reported, degree)
