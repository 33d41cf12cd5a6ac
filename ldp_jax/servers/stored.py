"""Users who answer by their devices.

From a store, from rows at hand, or by a call that broadcasts and waits.

A question says by which tables, or by which question about neighbours, devices report, and reads
their rows by user. Users who are silent, late or unknown contribute nothing. Reporting must not
depend on what is private.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax  # noqa: F401 - the example below
import numpy as np
from jaxtyping import Integer

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.deployment import Table
from ldp_jax.deployment.neighbours import NeighbourQuestion
from ldp_jax.servers.parts.arrived import ReportRows
from ldp_jax.servers.questions.question import Answers, Question

Nodes = int | Integer[np.ndarray, " n"]
"""The user of each node, distinct whole numbers; or how many there are, whose numbers are those of
the nodes.
"""


@runtime_checkable
class DeviceQuestion(Protocol):
    """A question that devices answer, and whose rows the server reads."""

    def forms(self) -> tuple[Table | NeighbourQuestion, ...]:
        """The tables by which devices report, or the question about neighbours that they answer."""

    def read(self, nodes: Integer[np.ndarray, " n"], rows: Sequence[ReportRows]) -> Answers:
        """The answers of users who are asked; rows of others are left out.

        ``ValueError`` for rows of another table or question, or several of a user.
        """


def numbered(nodes: Nodes) -> Integer[np.ndarray, " n"]:
    """The user of each node, as an array."""
    if np.ndim(nodes):
        return np.asarray(nodes)
    return np.arange(validate.whole(1, nodes=nodes))


def for_devices(question: Any) -> DeviceQuestion:
    """The question; ``TypeError`` for one that devices cannot answer."""
    if not isinstance(question, DeviceQuestion):
        raise TypeError(
            f"{type(question).__name__} has no forms() and read(nodes, rows), which devices need"
        )
    return question


class OnDevices(abc.ABC):
    """Users who answer by rows that their devices sent; abstract.

    Attributes:
      nodes: see :data:`Nodes`.
    """

    nodes: Nodes

    @property
    def num_users(self) -> int:
        """How many nodes there are."""
        return len(numbered(self.nodes))

    @abc.abstractmethod
    def rows(self, question: DeviceQuestion) -> Sequence[ReportRows]:
        """The rows of each of the question's forms."""

    def put(self, question: Question) -> Question:
        """The question as it is: devices add their own noise."""
        return question

    def answer(self, key: PRNGKey, question: Question) -> Answers:
        """The rows of those who are asked; others are silent.

        No key is used: devices have their own randomness.
        """
        return self.read(question)

    def read(self, question: Question) -> Answers:
        """The same without a key."""
        asked = for_devices(question)
        return asked.read(numbered(self.nodes), self.rows(asked))


@dataclasses.dataclass(frozen=True, eq=False)
class DeviceUsers(OnDevices):
    """Users whose rows some call returns.

    Attributes:
      nodes: see :data:`Nodes`.
      arrived: takes the question and returns the rows of each of its forms: those at hand, or those
        that come in after a broadcast.
    """

    nodes: Nodes  # pyrefly: ignore[bad-override]
    arrived: Callable[[Any], Sequence[ReportRows]]

    __repr__ = by_shapes

    def rows(self, question: DeviceQuestion) -> Sequence[ReportRows]:
        """The rows that the call returns."""
        return self.arrived(question)


@dataclasses.dataclass(frozen=True, eq=False)
class StoredUsers(OnDevices):
    """Users whose devices' reports are in a store: a question is answered by what has arrived.

    Attributes:
      store: such as a :class:`~ldp_jax.deployment.store.ReportStore`.
      nodes: see :data:`Nodes`.
      round: whose reports by tables are read; None for all, of which a user may have one. A
        question about neighbours has a round of its own.

    >>> import tempfile
    >>> from ldp_jax.deployment import Device, Session
    >>> from ldp_jax.deployment.store import ReportStore
    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Share, simulate
    >>> server = Share(GeneralizedRR(2.0, 2), 3)
    >>> table = server.mechanism.table()
    >>> store = ReportStore(tempfile.mkdtemp())
    >>> for user, label in ((30, 1), (10, 0)):  # user 20 is silent
    ...     sent = Session(Device.new(), budget=2.0).report(
    ...         table, label, user=user, round=0
    ...     )
    ...     taken = store.add(sent, table)
    >>> found = simulate(
    ...     jax.random.key(0), server, StoredUsers(store, np.array([10, 20, 30]))
    ... )
    >>> found.rounds[0].asked, found.rounds[0].reported
    (3, 2)
    """

    store: Any
    nodes: Nodes  # pyrefly: ignore[bad-override]
    round: int | None = None

    __repr__ = by_shapes

    def rows(self, question: DeviceQuestion) -> Sequence[ReportRows]:
        """The rows that have arrived for each form."""
        rows = []
        for form in question.forms():
            own_round = self.round is None or isinstance(form, NeighbourQuestion)
            rounds = None if own_round else [self.round]
            rows.append(self.store.all(form, rounds=rounds))
        return rows

    def check(self, question: Question) -> None:
        """Refuse a question that devices cannot answer, or that these users' numbers do not fit."""
        asked = for_devices(question)
        for form in asked.forms():
            if isinstance(form, NeighbourQuestion):
                form.guarantee()  # refuses noise that no device can draw
        asked.read(numbered(self.nodes), [])
