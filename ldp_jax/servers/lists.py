"""A noisy graph: every user is asked once for a noisy neighbour list."""

import dataclasses
from typing import NamedTuple

import jax  # noqa: F401 - the examples below
import numpy as np
from jaxtyping import Bool, Float, Int

from ldp_jax.accounting.statement import Role, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Graph, PRNGKey, Values
from ldp_jax.deployment.wire import checked_round
from ldp_jax.edges import (
    HasGraphSampler,
    NoisyGraph,
    OneUsersView,
    Population,
    Reporting,
    whole_graph,
)
from ldp_jax.graph import graphs
from ldp_jax.graph.graphs import GraphSet
from ldp_jax.servers.driver import simulate
from ldp_jax.servers.parts.list_entries import public_entries
from ldp_jax.servers.questions import Answers, Asked
from ldp_jax.servers.questions.lists import MEMORY, ListQuestion
from ldp_jax.servers.users import Users


class PublicLists(NamedTuple):
    """Users who let anybody read their lists.

    Attributes:
      who: bool [n].
      entries: int32 [entries, 2], all entries of these lists, each once: a public user, and who is
        in their list.
    """

    who: Bool[np.ndarray, " n"]
    entries: Int[np.ndarray, "entries 2"]

    __repr__ = by_shapes


class NoisyLists(NamedTuple):
    """The graph of what users reported.

    Attributes:
      graph: directed edges from each reported neighbour (sender) to the user who reports it
        (receiver), sorted; symmetric where each pair has one owner.
      degree: float32 [n], the noisy degrees; true ones of public users; NaN where none was sent.
    """

    graph: Graph
    degree: Float[np.ndarray, " n"]

    __repr__ = by_shapes


@dataclasses.dataclass(frozen=True, eq=False)
class ListServer:
    """Asks each user for a neighbour list through a mechanism, and makes a graph of the reports.

    Guarantee: that of the mechanism, per bit of a list; per pair of users that of both ends, or of
    its one owner, by the mechanism's reporting.

    Attributes:
      mechanism: on neighbour lists, such as :class:`~ldp_jax.edges.DPRR`; its budgets may be public
        stacks [n].
      users: how many there are; or a :class:`~ldp_jax.graph.graphs.GraphSet` without edges, within
        whose graphs lists are.
      public: whose lists are read as they are; nobody's by default.
      memory: bytes of false pairs to allow, 16 for each.
      round: the number of the question on the wire: devices answer each number once.

    Devices report by :class:`~ldp_jax.edges.RandomizedResponse` alone, at one epsilon, in one graph
    where nobody's list is public (:class:`ldp_jax.deployment.Pairs`).

    ``ValueError`` for a set that holds edges, or public lists of other users.

    >>> from ldp_jax.edges import DPRR
    >>> server = ListServer(DPRR(0.3, 0.7, reporting="half"), 4)
    >>> ring = Users(
    ...     lists=graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 0]], num_nodes=4)
    ... )
    >>> found = simulate(jax.random.key(0), server, ring)
    >>> [f"{one.epsilon:.3g} per {unit}" for unit, one in found.guarantee.items()]
    ['1 per neighbour-list', '1 per relationship']
    """

    mechanism: OneUsersView
    users: int | GraphSet
    public: PublicLists | None = None
    memory: float = MEMORY
    round: int = 0

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        checked_round(self.round)
        if isinstance(self.users, GraphSet):
            rule = "users must be a set without edges: edges are private"
            validate.require(not len(self.users.senders), rule)
        else:
            validate.whole(1, users=self.users)
        if self.public is not None:
            n = len(self.group)
            who = validate.mask(n, who=self.public.who)
            public_entries(n, np.flatnonzero(who), entries=self.public.entries)

    @property
    def group(self) -> Int[np.ndarray, " n"]:
        """The graph of each user."""
        if isinstance(self.users, GraphSet):
            return np.array(self.users.node_graph, np.int32)
        return np.zeros(self.users, np.int32)

    @property
    def question(self) -> ListQuestion:
        """The list through the mechanism, of everybody whose list is not public."""
        group = self.group
        private = np.ones(len(group), bool) if self.public is None else ~self.public.who
        asked = ListQuestion.of(self.mechanism, private, group, self.memory)
        return dataclasses.replace(asked, round=self.round)

    def statement(self) -> Statement:
        """One report of a list."""
        question = self.question
        private = np.asarray(question.asked)
        several = isinstance(self.users, GraphSet)
        exposes = whole_graph.public_facts(self.mechanism, private, several)
        role = Role((question.cost(),), private if private.any() else None)
        return Statement.of(role, exposes=exposes)

    def init(self, key: PRNGKey) -> Asked | NoisyLists:
        """Users are asked; the public lists alone are the result where no list is private."""
        question = self.question
        if np.asarray(question.asked).any():
            return Asked(question)
        nobody = np.zeros(0, np.int32)
        return self._graph(nobody, nobody, np.full(len(self.group), np.nan, np.float32))

    def step(self, state: Asked, answers: Answers) -> NoisyLists:
        """The graph of the reports; a user who is silent has an empty list and no degree."""
        found = state.question.gathered(answers.values).blanked(answers.reported)
        degree = np.where(answers.reported, found.degree, np.float32(np.nan))
        return self._graph(np.asarray(found.reporter), np.asarray(found.reported), degree)

    def _graph(self, reporter: np.ndarray, reported: np.ndarray, degree: np.ndarray) -> NoisyLists:
        """Reported pairs and public lists, as one graph."""
        n = len(self.group)
        like = self.users if isinstance(self.users, GraphSet) else graphs.from_edges([], n)
        both_ends = self.mechanism.reporting == "full"
        receivers = senders = np.zeros(0, np.int32)
        if self.public is not None:
            receivers, senders = np.asarray(self.public.entries, np.int32).T
            degree = np.where(self.public.who, np.bincount(receivers, minlength=n), degree)
            if not both_ends:  # an entry of a public list says what both lists hold
                code = np.union1d(
                    receivers.astype(np.int64) * n + senders,
                    senders.astype(np.int64) * n + receivers,
                )
                receivers = (code // n).astype(np.int32)
                senders = (code % n).astype(np.int32)
        graph = whole_graph.joined(like, reporter, reported, both_ends, receivers, senders)
        return NoisyLists(graph, degree.astype(np.float32))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _ByKey(Users):
    """Users whose noise is drawn by a key of their own, not by one of the driver's."""

    key: PRNGKey | None = None

    def answer(self, key: PRNGKey, question) -> Answers:
        assert self.key is not None
        return super().answer(self.key, question)


@implicit_promotion()
def privatize_graph(
    key: PRNGKey,
    graph: Graph | GraphSet,
    mechanism: HasGraphSampler | OneUsersView,
    *,
    reporting: Reporting | None = None,
    public: Values | None = None,
    memory: float = MEMORY,
) -> NoisyGraph:
    """Ask every user of a graph for a noisy neighbour list, and make a graph of the reports.

    It runs :class:`ListServer`; a trusted curator's mechanism is given the whole graph. Arguments,
    results and draws are those of :func:`ldp_jax.edges.privatize_graph`, which documents them, and
    which traced and curators' code calls.

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
    if not isinstance(mechanism, OneUsersView):
        return whole_graph.privatize_graph(
            key, graph, mechanism, reporting=reporting, public=public, memory=memory
        )
    whole_graph.check_concrete(key, mechanism)
    made, _ = whole_graph.with_reporting(mechanism, reporting)
    assert isinstance(made, OneUsersView)
    people = Population.of(graph, public)
    users = len(people.group)
    if isinstance(graph, GraphSet):
        nothing = np.zeros(0, np.int32)
        users = dataclasses.replace(graph, senders=nothing, receivers=nothing)
    shown = None
    if not people.private.all():
        read = ~people.private[people.receivers]
        entries = np.stack([people.receivers[read], people.senders[read]], 1)
        shown = PublicLists(~people.private, entries)
    server = ListServer(made, users, shown, memory)
    asked = _ByKey(lists=people, public=~people.private, key=random.again(key))
    found = simulate(key, server, asked)
    return NoisyGraph(found.value.graph, found.value.degree, found.guarantee)
