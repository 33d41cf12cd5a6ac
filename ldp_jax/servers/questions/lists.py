"""Which users are in your neighbour list, and how many are they?"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.statement import Cost
from ldp_jax.core import validate
from ldp_jax.core.mechanism import check_single
from ldp_jax.core.pytree import digest, pytree, static
from ldp_jax.core.types import AnyArray, PRNGKey, Report
from ldp_jax.deployment import Pairs, ownership
from ldp_jax.edges import (
    HasServer,
    ListReport,
    NeighbourList,
    OneUsersView,
    RandomizedResponse,
)
from ldp_jax.edges.neighbour_lists import OnLists
from ldp_jax.edges.whole_graph import reported_pairs
from ldp_jax.servers.questions.question import User
from ldp_jax.servers.questions.shipped import OnTheWire

MEMORY = 8e9
"""Bytes of reported pairs that are allowed, where nobody says otherwise."""

_ID = 4  # bytes of a reported neighbour, and of a noisy degree


@pytree
class ListReports:
    """The noisy lists of all users, entry by entry; as large as the lists are.

    Attributes:
      reporter: int32 [entries], the user who reports the entry.
      reported: int32 [entries], the user who is in the list.
      degree: float32 [n], the noisy degrees; NaN where none is sent, 0 of users who did not report.

    >>> sent = np.full(3, np.nan, np.float32)
    >>> lists = ListReports(np.array([0, 0, 2]), np.array([1, 2, 0]), sent)
    >>> (
    ...     lists.blanked(np.array([False, False, True])).reported.tolist(),
    ...     lists.sent_bytes().tolist(),
    ... )
    ([0], [8, 0, 4])
    """

    reporter: Int[AnyArray, " entries"]
    reported: Int[AnyArray, " entries"]
    degree: Float[AnyArray, " n"]

    def blanked(self, who: Bool[np.ndarray, " n"]) -> "ListReports":
        """The lists of some users; others have an empty one, and a degree of 0."""
        reporter = np.asarray(self.reporter)
        kept = who[reporter]
        degree = np.where(who, self.degree, np.float32(0.0))
        return ListReports(reporter[kept], np.asarray(self.reported)[kept], degree)

    def sent_bytes(self) -> Int[np.ndarray, " n"]:
        """Bytes of each user's report: 4 an entry, and 4 for a degree."""
        entries = np.bincount(np.asarray(self.reporter), minlength=len(self.degree))
        return _ID * (entries + ~np.isnan(self.degree))


@pytree
class ListQuestion(OnTheWire):
    """Send your neighbour list, and its length, through a mechanism on lists.

    ``answer`` is what one device computes, in O(n). ``answer_all`` has the same law for all users
    at once, in the size of the lists: a mechanism of which the server keeps the largest values
    (:class:`~ldp_jax.edges.LocalLap`) is drawn together with what the server keeps.

    Attributes:
      mechanism: such as :class:`~ldp_jax.edges.DPRR`; its budgets may be public stacks [n]. Where
        ``mechanism.reporting`` is not ``full``, a list is of users who are asked.
      asked: bool [n].
      group: int32 [n], non-decreasing: the graph of each user, within which lists are.
      size: how many users a list is about, the user included; 0 where graphs are of several sizes,
        which ``answer`` refuses.
      memory: bytes of false pairs to allow, 16 for each.
      round: the number of the question on the wire.

    >>> from ldp_jax.edges import RandomizedResponse
    >>> asked = ListQuestion.of(
    ...     RandomizedResponse(1.0), np.ones(5, bool), np.zeros(5, int)
    ... )
    >>> asked.cost().guarantee.epsilon, asked.cost().pair.epsilon
    (1.0, 2.0)
    """

    mechanism: Any
    asked: Bool[AnyArray, " n"]
    group: Int[AnyArray, " n"]
    size: int = static(default=0)
    memory: float = static(default=MEMORY)
    round: int = static(default=0)

    @classmethod
    def of(
        cls,
        mechanism: OneUsersView,
        asked: Bool[np.ndarray, " n"],
        group: Int[np.ndarray, " n"],
        memory: float = MEMORY,
    ) -> "ListQuestion":
        """The question to some users, whose lists are within ``group``."""
        listed = np.ones(len(asked), bool) if _of_everybody(mechanism) else asked
        sizes = np.bincount(group[listed], minlength=1)
        sizes = np.unique(sizes[np.unique(group[asked])])
        size = int(sizes[0]) if len(sizes) == 1 else 0
        return cls(mechanism, asked, group.astype(np.int32), size, float(memory))

    def cost(self) -> Cost:
        """The loss of the mechanism per bit of a list, and per pair by its rule of ownership.

        Where one end owns a pair, budgets and the places of those who are asked say which.
        """
        rule = ""
        if self.mechanism.reporting != "full":
            rule = digest((self.mechanism, self.asked, self.group, self.size)).hex()
        return Cost(self.mechanism.guarantee(), self.mechanism.relationship(), owners=rule)

    # --- On devices ---

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The report of one user, whose entries are users; noisy numbers are by place in the graph.

        ``ValueError`` where graphs are of several sizes, or unequal budgets decide who reports a
        pair.
        """
        rule = "one user answers within graphs of one size: ask the graphs of each size apart"
        validate.require(self.size, rule)
        n = len(self.group)
        made = self.mechanism
        if isinstance(made, OnLists) and any(np.ndim(getattr(made, name)) for name in made.budgets):
            rule = "one user does not know who owns a pair under personal budgets: report in full"
            validate.require(made.reporting == "full", rule)
            mine = lambda budget: jnp.asarray(budget)[user.own] if np.ndim(budget) else budget
            made = made.of_users(mine)
        check_single(made)
        made = dataclasses.replace(made, n=self.size)
        listed = jnp.ones(n, bool) if _of_everybody(made) else jnp.asarray(self.asked)
        group = jnp.asarray(self.group)
        before = jnp.cumsum(listed) - listed  # how many listed users have smaller numbers
        first = before[jnp.searchsorted(group, group[user.own])]
        ids = jnp.asarray(user.neighbours.ids)
        other = jnp.minimum(ids, n - 1)
        known = (ids < n) & listed[other] & (group[other] == group[user.own])
        place = jnp.where(known, before[other] - first, self.size)
        place = jnp.sort(place).astype(jnp.int32)
        neighbours = NeighbourList(place, known.sum().astype(jnp.int32))
        own = (before[user.own] - first).astype(jnp.int32)
        report = made.privatize(key, neighbours, own)
        if not isinstance(report, ListReport):
            return report
        sent = report.neighbours.ids
        member = jnp.flatnonzero(listed, size=n, fill_value=n).astype(jnp.int32)
        at = jnp.minimum(first + sent, n - 1)
        users = jnp.where(sent < self.size, member[at], n)
        return ListReport(report.degree, NeighbourList(users, report.neighbours.count))

    def answer_all(self, key: PRNGKey, users: Any) -> ListReports:
        """The reports of all users, by the mechanism's sampler of whole graphs."""
        people = users.lists._replace(private=np.asarray(self.asked))
        found = reported_pairs(key, self.mechanism, people, self.memory)
        reporter = np.asarray(found.reporter, np.int32)
        reported = np.asarray(found.reported, np.int32)
        return ListReports(reporter, reported, np.asarray(found.degree, np.float32))

    def exact(self) -> "ListQuestion":
        """The question under the largest budgets, whose noise changes a bit once in 1e17 or less.

        ``TypeError`` for a mechanism that is none of this library's.
        """
        made = self.mechanism
        if not isinstance(made, OnLists):
            raise TypeError(f"{type(made).__name__} has no largest budgets, which a ceiling asks")
        most = {name: np.float32(budget) for name, budget in made.budgets.items()}
        of_all: Any = made  # a dataclass
        return dataclasses.replace(self, mechanism=dataclasses.replace(of_all, **most))

    # --- On the wire ---

    def shipped(self) -> Pairs:
        """The question for :meth:`ldp_jax.deployment.Session.report_neighbours`.

        ``ValueError`` where devices have no such question: they report by randomised response at
        one epsilon, of at most 20, in one graph where nobody's list is public.
        """
        made = self.mechanism
        asked = np.asarray(self.asked)
        alike = isinstance(made, RandomizedResponse) and not np.ndim(made.epsilon)
        validate.require(
            alike and asked.all() and not np.ptp(self.group),
            "devices report lists by RandomizedResponse at one epsilon, in one graph where "
            f"nobody's list is public: got {made}, {asked.sum()} of {len(asked)} users asked",
        )
        owners = None if made.reporting == "full" else ownership(np.zeros(len(asked)))
        return Pairs(self.round, len(asked), float(made.epsilon), owners)

    def told(self, asked: Any, numbers: np.ndarray, who: np.ndarray) -> ListReports:
        """The lists, without degrees."""
        reporter, reported = asked.entries(numbers)
        no_degree = np.full(len(who), np.nan, np.float32)
        return ListReports(reporter.astype(np.int32), reported.astype(np.int32), no_degree)

    # --- On the server ---

    def gathered(self, values: Report) -> ListReports:
        """Reports of devices, stacked by user, as lists; those of ``answer_all`` stay."""
        if isinstance(values, ListReports):
            return values
        n = len(self.group)
        degree = np.asarray(getattr(values, "degree", np.full(n, np.nan)), np.float32)
        if isinstance(values, ListReport):
            ids = np.asarray(values.neighbours.ids)
            asked = np.asarray(self.asked)[:, None]
            reporter, column = np.nonzero((ids < n) & asked)
            reported = ids[reporter, column]
            return ListReports(reporter.astype(np.int32), reported.astype(np.int32), degree)
        made: Any = self.mechanism  # a dataclass, which no protocol can say
        if not isinstance(made, HasServer):
            raise TypeError(f"{type(made).__name__} has no select(reports)")
        one: Any = made
        made = dataclasses.replace(one, n=self.size)
        ends = [np.zeros((2, 0), np.int32)]
        for members in np.flatnonzero(self.asked).reshape(-1, self.size):
            of_graph = jax.tree.map(lambda leaf, members=members: leaf[members], values)
            low, high = np.nonzero(np.triu(np.asarray(made.select(of_graph))))
            ends.append(np.stack([members[low], members[high]]).astype(np.int32))
        reporter, reported = np.concatenate(ends, 1)
        return ListReports(reporter, reported, degree)


def _of_everybody(mechanism: Any) -> bool:
    """Whether a list is of all users of a graph, asked or not."""
    return mechanism.reporting == "full" and not isinstance(mechanism, HasServer)
