"""A server of real devices: its state is in a store, and a process that is killed goes on from it.

:func:`serve` opens the first round, or goes on where the store says. The open question is
broadcast, devices report, and their reports go into the store
(:meth:`ldp_jax.deployment.store.ReportStore.add`). When enough have arrived,
:meth:`Service.close_round` reads them, and keeps the next state or the result. Every step is
committed as a whole before anybody sees it. A second process that closes the same round takes what
the first one committed. So a question is asked once, however often processes die. One folder holds
one protocol.
"""

import dataclasses
import os
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.accounting.ledger import Budgets
from ldp_jax.accounting.statement import Account, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.progress import Progress, watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.deployment.store import ReportStore
from ldp_jax.servers import saved
from ldp_jax.servers.driver import Released, Round, Server, State, check_state, round_of
from ldp_jax.servers.questions.question import Question
from ldp_jax.servers.stored import Nodes, StoredUsers

_T = TypeVar("_T")

_ENTROPY = 8  # bytes of a threefry key


class Step(NamedTuple):
    """The record of a step that is kept.

    Attributes:
      server: the fingerprint of the server that made it, and of the history where there is one.
      made: the state whose question is open, or the result as it was released.
      opened: the number of the step whose question was asked last; its own where ``made`` is a
        state.
      answers: int32 [n, costs], the account with the open question; empty beside a result.
      rounds: the questions that are closed.
      heard: a digest of the answers that made it; empty of the first.
    """

    server: str
    made: Any
    opened: int
    answers: Int[np.ndarray, "n costs"]
    rounds: tuple[Round, ...]
    heard: str

    __repr__ = by_shapes


class Service(Generic[_T]):
    """A protocol that is being served; :func:`serve` makes it.

    Attributes:
      server: its public facts and options.
      store: of reports and steps.
      history: the statement of what the same users took part in before; None for nothing.
    """

    def __init__(
        self,
        server: Server[_T],
        store: ReportStore,
        users: Nodes,
        types: tuple[type, ...] = (),
        progress: Progress | None = None,
        history: Statement | None = None,
    ) -> None:
        self.server = server
        self.store = store
        self.history = history
        self._users = StoredUsers(store, users)
        self._types = types
        self._progress = progress
        known = server if history is None else (server, history)
        self._fingerprint = saved.fingerprint(known)
        self._number = -1
        self._step: Any = None  # the last Step, and that whose question was asked last
        self._opened: Any = None

    def __repr__(self) -> str:
        name = type(self.server).__name__
        if self.released is not None:
            return f"Service({name}, {self.released!r})"
        return f"Service({name}, round {self.round} is open to {int(self.asked.sum())} users)"

    # --- What is open ---

    @property
    def question(self) -> Question:
        """The question to broadcast, in the form that its class describes.

        After the result, that of latecomers.
        """
        return self._opened.made.question

    @property
    def asked(self) -> Bool[np.ndarray, " n"]:
        """The users whom it asks."""
        return np.asarray(self.question.asked)

    @property
    def round(self) -> int:
        """The number of the round by which devices report through tables.

        Another one a question.
        """
        return self._opened.opened

    @property
    def released(self) -> Released[_T] | None:
        """The result, with its guarantee; None while a round is open."""
        return self._step.made if isinstance(self._step.made, Released) else None

    # --- Going on ---

    def close_round(self) -> Released[_T] | None:
        """Read what has arrived, and keep the next question or the result.

        The result, or None for a question.

        Another process may have closed the round before: then its step is taken as it is, and
        nothing is done. ``ValueError`` where no round is open.
        """
        if self.resume():
            return self.released
        rule = "every round is closed: again() reads the reports that came later"
        validate.require(self.released is None, rule)
        return self._advance()

    def again(self) -> Released[_T] | None:
        """The result anew, with the reports of latecomers to the last question.

        They are of users whom it asked, and whose account was charged when it was opened. Reports
        about earlier questions are not read. None where the server now asks one more question,
        which its statement allows. ``ValueError`` before there is a result.
        """
        self.resume()
        rule = "there is no result yet: close_round() closes the round that is open"
        validate.require(self.released is not None, rule)
        return self._advance()

    def _advance(self) -> Released[_T] | None:
        state = self._opened.made
        users = dataclasses.replace(self._users, round=self.round)
        with watched(type(self.server).__name__, self._progress):
            answers = users.read(state.question)
            heard = digest(answers).hex()
            if heard == self._step.heard and self.released is not None:
                return self.released
            made = self.server.step(state, answers)
        rounds = (*self._opened.rounds, round_of(state.question, answers))
        account = Account(self.server.statement(), self._opened.answers)
        self._commit(self._checked(made, account, rounds, heard))
        return self.released

    def spend(self, budget: Budgets) -> None:
        """Write the statement, after the history, to the store's ledger, once."""
        self.store.spend(type(self.server).__name__, self._stated()[1], budget)

    def _stated(self) -> tuple[Statement, PipelineGuarantee]:
        """The server's statement for users who took part in the history, and its guarantee.

        The users who reported are seen by whoever runs the store.
        """
        total = self.server.statement()
        if self.history is not None:
            total = total.after(self.history)
        stated = total.guarantee()
        seen = (*stated.unprotected, "who reported")
        return total, dataclasses.replace(stated, unprotected=seen)

    def begin(self, key: PRNGKey, budget: Budgets) -> None:
        """Open the first round, where nobody has; the ledger has the statement before."""
        with watched(type(self.server).__name__, self._progress):
            made = self.server.init(key)
        account = Account.of(self.server.statement(), self._users.num_users)
        step = self._checked(made, account, (), "")
        self.spend(budget)
        self._commit(step)

    def _checked(self, made: Any, account: Account, rounds: tuple[Round, ...], heard: str) -> Step:
        """The step of what the server made, whose question is charged."""
        number = self._number + 1
        opened = 0 if self._opened is None else self._opened.opened
        if isinstance(made, State):
            check_state(made, self._users)
            self._users.check(made.question)  # before it is broadcast
            account = account.charge(made.question.cost(), np.asarray(made.question.asked))
            opened = number
        else:
            total, guarantee = self._stated()
            made = Released(made, guarantee, total, account.realised(), rounds)
        return Step(self._fingerprint, made, opened, account.answers, rounds, heard)

    def _commit(self, step: Step) -> None:
        """Keep a step and take it; or take the one that somebody else has committed meanwhile."""
        number = self._number + 1
        self._take(number, self.store.keep(number, saved.to_bytes(step)))

    # --- What is kept ---

    def resume(self) -> bool:
        """Take the last step of the store; whether it is another one than was known."""
        found = self.store.kept()
        if found is None or found[0] == self._number:
            return False
        self._take(*found)
        return True

    def _take(self, number: int, data: bytes) -> None:
        step = self._read(data)
        opened = step
        if step.opened != number:
            kept = self.store.kept(step.opened)
            assert kept is not None
            opened = self._read(kept[1])
        self._number = number
        self._step = step
        self._opened = opened

    def _read(self, data: bytes) -> Step:
        step = saved.from_bytes(data, self._types)
        validate.require(
            isinstance(step, Step) and step.server == self._fingerprint,
            f"{self.store} holds the steps of another server: give the same one, with the same "
            "facts, options and history, or another folder. Facts that were computed anew may "
            "differ in their last bits: keep them in a file (ldp_jax.servers.saved)",
        )
        return step


def serve(
    server: Server[_T],
    store: ReportStore,
    *,
    users: Nodes,
    key: PRNGKey | None = None,
    budget: Budgets = None,
    history: Statement | None = None,
    types: Iterable[type] = (),
    progress: Progress | None = None,
) -> Service[_T]:
    """Serve a protocol to devices, or go on with it where an earlier process was killed.

    The statement is written to the store's ledger before the first question, and every question is
    charged to the users whom it asks when it is opened, whether they answer or not.
    Guarantee: that of the server's statement, composed with ``history``, for devices that keep
    their memory.

    Args:
      server: the same in every process; its questions must be such as devices answer (``forms`` and
        ``read``).
      store: a folder of its own.
      users: the user of each node, distinct; or n, where users are numbered as nodes, as they must
        be where neighbours are counted.
      key: of the server's public randomness, used for the first round alone; by default from the
        operating system's entropy.
      budget: the most that the protocol may cost, of the store's ledger.
      history: the statement of what the same users took part in before
        (:attr:`Released.statement`); the same in every process.
      types: classes of states and results that are not this library's.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    ``BudgetExceededError`` where the statement does not fit the budget, or a question not the
    statement. ``ValueError`` where the store holds another server's steps; ``TypeError`` for a
    question that devices cannot answer, and a server or state that cannot be saved.

    >>> import tempfile
    >>> from ldp_jax.deployment import Device, Session
    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Share
    >>> folder = tempfile.mkdtemp()
    >>> server = Share(GeneralizedRR(2.0, 2), 4)
    >>> start = lambda: serve(server, ReportStore(folder), users=4, budget=2.0)
    >>> service = start()
    >>> service
    Service(Share, round 0 is open to 4 users)
    >>> def send(user, label):
    ...     (table,) = service.question.forms()
    ...     session = Session(Device.new(), budget=2.0)
    ...     sent = session.report(table, label, user=user, round=service.round)
    ...     return service.store.add(sent, table).accepted
    >>> [send(user, 1) for user in (0, 3)]
    [1, 1]
    >>> service = start()  # killed, and started again
    >>> service.close_round().rounds[0].reported
    2
    >>> (
    ...     send(1, 1),
    ...     service.again().rounds[0].reported,
    ...     start().released.rounds[0].reported,
    ... )
    (1, 3, 3)
    """
    if key is not None:
        validate.host_key(key, "serve")
    service = Service(server, store, users, tuple(types), progress, history)
    if service.resume():
        service.spend(budget)
        return service
    if key is None:
        words = jax.device_put(np.frombuffer(os.urandom(_ENTROPY), np.uint32))
        key = jax.random.wrap_key_data(words, impl="threefry2x32")
    server_key, _ = random.split(key)
    service.begin(server_key, budget)
    return service
