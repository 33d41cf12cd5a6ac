"""The driver: a server asks, users answer, and the guarantee is computed before the first question.

A **server** is a frozen dataclass of public facts and options with three methods. ``statement()``
says from these alone which answers each user can be asked for at most. ``init(key)`` gives the
first state, and ``step(state, answers)`` the next one or the result. A **state** is a pytree with a
``question`` that is open; it holds what facts and key cannot rebuild. A server never sees private
data.
"""

import dataclasses
import inspect
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee, PipelineGuarantee
from ldp_jax.accounting.ledger import Budgets, Ledger
from ldp_jax.accounting.statement import Account, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.progress import Progress, phase, watched
from ldp_jax.core.pytree import digest
from ldp_jax.core.types import PRNGKey
from ldp_jax.servers import saved
from ldp_jax.servers.questions.question import Answers, HasSizes, Question
from ldp_jax.servers.stored import OnDevices, StoredUsers, for_devices
from ldp_jax.servers.users import Respondents

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


@runtime_checkable
class State(Protocol):
    """A pytree with the question that is open."""

    question: Question


@runtime_checkable
class Server(Protocol[_T_co]):
    """Public facts and options, and what to ask next."""

    def statement(self) -> Statement:
        """The most answers that each user can be asked for, from public facts and options alone."""

    def init(self, key: PRNGKey) -> Any:
        """The first state; ``key`` is of the server's own randomness, which is public."""

    def step(self, state: Any, answers: Answers) -> Any:
        """The next state, or the result where no question is left."""


class Round(NamedTuple):
    """One question as it was asked.

    Attributes:
      digest: of the question, 16 bytes in hexadecimal digits.
      asked: how many users were asked.
      reported: how many of them reported.
      download: bytes that each device received.
      upload: bytes of one report, in the mean.
      cost: of one answer.
      asks: the first line of the question's docstring, and the name of its mechanism.
    """

    digest: str
    asked: int
    reported: int
    download: int
    upload: int
    cost: Guarantee
    asks: str


@dataclasses.dataclass(frozen=True)
class Released(Generic[_T]):
    """The result of a protocol, and what it costs.

    Attributes:
      value: what the server found.
      guarantee: what was stated beforehand, per unit; it holds whatever was reported.
      statement: the roles that it stands for.
      realised: the guarantee as if what was asked had been fixed beforehand: for information.
      rounds: the questions, in order.
      versions: of ``ldp_jax`` and ``jax``, by name, that found it.
    """

    value: _T
    guarantee: PipelineGuarantee
    statement: Statement
    realised: PipelineGuarantee | None
    rounds: tuple[Round, ...]
    versions: dict[str, str] = dataclasses.field(default_factory=saved.versions)

    def __repr__(self) -> str:
        asked = sum(one.asked for one in self.rounds)
        value = type(self.value).__name__
        return f"Released({value}, {len(self.rounds)} rounds, {asked} answers asked for)"

    def to_bytes(self) -> bytes:
        """All of it, for a file that :meth:`from_bytes` reads (:mod:`ldp_jax.servers.saved`).

        ``TypeError`` for a value of other things than arrays, numbers and text.

        >>> from ldp_jax.features import GeneralizedRR
        >>> from ldp_jax.servers import Share, Users
        >>> users = Users(labels=np.arange(500) % 2)
        >>> found = simulate(
        ...     jax.random.key(0), Share(GeneralizedRR(2.0, 2), 500), users
        ... )
        >>> again = Released.from_bytes(found.to_bytes())
        >>> same = bool((again.value == found.value).all())
        >>> again.guarantee == found.guarantee, same, sorted(again.versions)
        (True, True, ['jax', 'ldp_jax'])
        """
        return saved.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes, types: Iterable[type] = ()) -> "Released[Any]":
        """Read the bytes that :meth:`to_bytes` wrote.

        ``types`` are the classes of the value that are not this library's.

        ``ValueError`` for damaged bytes, other classes, and bytes of anything else than a result.
        """
        found = saved.from_bytes(data, types)
        if not isinstance(found, cls):
            raise ValueError(
                f"these bytes are of a {type(found).__name__}, and of no released result"
            )
        return found


@implicit_promotion()
def simulate(
    key: PRNGKey,
    server: Server[_T],
    users: Respondents,
    budget: Budgets = None,
    *,
    history: Statement | None = None,
    progress: Progress | None = None,
) -> Released[_T]:
    """Run a protocol: ask, blank whoever was not asked, charge, and step until there is a result.

    Guarantee: that of the server's statement, composed with ``history``; epsilon infinity where
    users answer without noise (:meth:`~ldp_jax.servers.users.Users.exact`). It is checked against
    ``budget`` before the first question, and every question against the statement before anybody
    answers.

    Args:
      key: a typed threefry key: of the server's public randomness and of the users' noise.
      server: see :class:`Server`.
      users: :class:`~ldp_jax.servers.users.Users`, or others who answer.
      budget: the most that the protocol may cost, as :class:`~ldp_jax.accounting.ledger.Ledger`
        takes it.
      history: the statement of what the same users took part in before
        (:attr:`Released.statement`). Devices repeat an answer for good from their memory; others
        draw it anew, which is charged.
      progress: told of each phase (:data:`ldp_jax.core.progress.Progress`); by default shown after
        five seconds.

    Raises:
      BudgetExceededError: where the statement does not fit the budget, or a question not the
        statement.
      TypeError: for a state that is no pytree, or that holds code, or an array of the users' own
        private data (their copies cannot be told from public ones).
      ValueError: for a question that asks nobody, or of another number of users; and for one whose
        rows of :class:`~ldp_jax.servers.StoredUsers` answered another one before.

    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Share, Users
    >>> users = Users(labels=np.arange(500) % 2)
    >>> found = simulate(
    ...     jax.random.key(0), Share(GeneralizedRR(2.0, 2), 500), users
    ... )
    >>> found.value.round(1).tolist(), found.rounds[0].asked
    ([0.5, 0.5], 500)
    """
    validate.host_key(key, "simulate")
    stated = server.statement()
    kept = isinstance(users, OnDevices)
    total = stated if history is None else stated.after(history, kept=kept)
    guarantee = total.guarantee()  # before anybody answers, as it may raise
    if budget is not None:
        Ledger(budget).spend(type(server).__name__, guarantee)
    account = Account.of(stated, users.num_users)
    server_key, users_key = random.split(key)
    rounds: tuple[Round, ...] = ()
    read: dict[bytes, np.ndarray] = {}  # whose stored rows by each table were an answer
    exact = False
    with watched(type(server).__name__, progress):
        made = server.init(server_key)
        while isinstance(made, State):
            check_state(made, users)
            asked = np.asarray(made.question.asked)
            account = account.charge(made.question.cost(), asked)
            if isinstance(users, StoredUsers):
                for form in for_devices(made.question).forms():
                    before = read.get(form.digest, np.zeros_like(asked))
                    rule = "stored rows answer one question: serve() gives each a round of its own"
                    validate.require(not (before & asked).any(), rule)
                    read[form.digest] = before | asked
            put = users.put(made.question)
            state: Any = made
            if put is not made.question:
                exact = True  # whatever they were asked in its place, the server's question was not
                state = dataclasses.replace(state, question=put)
            number = len(rounds)
            phase(f"round {number + 1}: {int(asked.sum())} users answer", number / (number + 1))
            answers = users.answer(random.fold_in(users_key, number), put)
            rounds = (*rounds, round_of(made.question, answers))
            made = server.step(state, answers)
    realised = account.realised()
    if exact:
        stated = stated.without_noise()
        total = stated if history is None else stated.after(history, kept=kept)
        guarantee = total.guarantee()
        realised = stated.guarantee()
    return Released(made, guarantee, total, realised, rounds)


def round_of(question: Question, answers: Answers) -> Round:
    """Count who was asked, who answered, and the bytes of it."""
    asked = np.asarray(question.asked)
    if isinstance(question, HasSizes):
        download = question.download_bytes()
        upload = question.upload_bytes()
    else:
        nbytes = lambda tree: sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(tree))
        download = nbytes(question) - asked.nbytes
        values: Any = answers.values
        own_form = hasattr(values, "sent_bytes")  # such as lists
        sent = values.sent_bytes().sum() if own_form else nbytes(values)
        upload = int(sent) // max(len(asked), 1)

    # In words: the class of a question says what a device does, by which mechanism.
    kind = type(question)
    line = (inspect.getdoc(kind) or "").split("\n")[0]
    generated = line.startswith(f"{kind.__name__}(")  # by dataclasses, from the fields
    words = kind.__name__ if generated or not line else line.rstrip(".")
    mechanism = getattr(question, "mechanism", None)
    if mechanism is not None:
        both = (mechanism, getattr(mechanism, "inner", None))
        named = [type(one).__name__ for one in both if one is not None]
        words = f"{words} ({' of '.join(named)})"
    return Round(
        digest(question).hex(),
        int(asked.sum()),
        int(answers.reported.sum()),
        download,
        upload,
        question.cost().guarantee,
        words,
    )


# --- What a server could get wrong ----------------------------------------------------------------


def check_state(state: State, users: Respondents) -> None:
    """Refuse a state that is no pytree, and a question that is not public or asks nobody."""
    name = type(state).__name__
    if jax.tree_util.all_leaves([state]):
        raise TypeError(f"{name} must be a pytree: decorate it with ldp_jax.core.pytree.pytree")
    if not isinstance(state.question, Question) or jax.tree_util.all_leaves([state.question]):
        raise TypeError(
            f"the question of {name} must be a pytree with asked, cost() and answer(key, user)"
        )
    leaves = jax.tree.leaves(state)
    for leaf in leaves:
        number = isinstance(leaf, (bool, int, float, np.ndarray, np.generic, jax.Array))
        if callable(leaf) or not number:
            raise TypeError(f"{name} must hold arrays and numbers, got {type(leaf).__name__}")
    asked = np.asarray(state.question.asked)
    validate.mask(users.num_users, asked=asked)
    rule = f"the question of {name} asks nobody: return a result in its place"
    validate.require(asked.any(), rule)
    private = tuple(getattr(users, field, None) for field in ("records", "labels", "lists"))
    for held in jax.tree.leaves(private):
        if not isinstance(held, (np.ndarray, jax.Array)):
            continue
        for leaf in leaves:
            on_host = isinstance(leaf, np.ndarray) and isinstance(held, np.ndarray)
            if leaf is held or (on_host and np.may_share_memory(leaf, held)):
                raise TypeError(
                    f"{name} holds an array of the users' private data: "
                    "a server is made of public facts alone"
                )
