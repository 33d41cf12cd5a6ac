"""The same data in every round: fresh answers that follow them, or one permanent answer."""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.composition import ANSWERS, over_rounds
from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.accounting.statement import Cost, Statement
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.mechanism import Mechanism
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import Array, PRNGKey, PRNGKeys, Report, Values
from ldp_jax.servers.questions import Answers, Ask, Noiseless, User


class RepeatedReports(NamedTuple):
    """The reports of users in all rounds, and what they cost each of them.

    Attributes:
      reports: as the mechanism reports, with axes [rounds, n, ...].
      guarantee: for any two histories of one user.
    """

    reports: Report
    guarantee: Guarantee

    __repr__ = by_shapes


def answer(
    key: PRNGKey, mechanism: Mechanism, history: Values, round: Array | int, *, answers: str
) -> Report:
    """One user's report of one round: a pure function of the user's key; ``vmap`` it.

    A permanent answer takes its record and its randomness from the first round alone, a fresh one
    from its own. The typed threefry key is of this user and question, the same in every round.
    Another question, or the same one answered otherwise, needs another key, or both share their
    noise. ``history`` [rounds, ...] are the records so far, up to the ``round``, from 0, which may
    be traced; ``answers`` is one of :data:`~ldp_jax.accounting.composition.ANSWERS`. ``ValueError``
    for other words, a key that is not threefry, or a fresh answer of a round beyond the history.

    >>> from ldp_jax.features import GeneralizedRR
    >>> key, mechanism, history = (
    ...     jax.random.key(0),
    ...     GeneralizedRR(1.0, 4),
    ...     jnp.array([2, 2, 3, 0]),
    ... )
    >>> len(
    ...     {
    ...         int(answer(key, mechanism, history, t, answers="permanent"))
    ...         for t in range(4)
    ...     }
    ... )
    1
    """
    validate.threefry(key)
    validate.one_of(ANSWERS, answers=answers)
    if answers == "fresh":  # JAX would take the last record for one that is not there
        validate.in_range(0.0, len(jax.tree.leaves(history)[0]) - 1.0, round=round)
    which = jnp.zeros_like(round) if answers == "permanent" else round
    return mechanism.privatize(
        random.fold_in(key, which), jax.tree.map(lambda x: as_records(x)[which], history)
    )


@implicit_promotion()
def collect_rounds(
    key: PRNGKey, mechanism: Mechanism, records: Values, *, answers: str, delta: float | None = None
) -> RepeatedReports:
    """Every user's report of every round, as their devices would send them, and what it costs.

    User i's key is ``jax.random.split(key, n)[i]``, the report of round t :func:`answer` of it.
    ``records`` are [rounds, n, ...], ``answers`` ``fresh`` or ``permanent``, and ``delta`` that of
    :func:`~ldp_jax.accounting.composition.over_rounds`. ``ValueError``, before anybody reports, for
    other words, no round or user, or an unfit delta.

    >>> from ldp_jax.features import GeneralizedRR
    >>> records = jnp.array(
    ...     [[0, 1, 2], [0, 1, 1], [0, 2, 2]]
    ... )  # three rounds of three users
    >>> mechanism = GeneralizedRR(1.0, 3)
    >>> found = collect_rounds(
    ...     jax.random.key(0), mechanism, records, answers="permanent"
    ... )
    >>> (
    ...     bool((found.reports == found.reports[0]).all()),
    ...     round(found.guarantee.epsilon, 6),
    ... )
    (True, 1.0)
    """
    validate.threefry(key)
    records = jax.tree.map(
        as_records, records
    )  # before they are traced: numbers of the host may be of any size
    shapes = {jnp.shape(x)[:2] for x in jax.tree.leaves(records)}
    shape = next(iter(shapes), ())
    if len(shapes) != 1 or len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"records must have axes [rounds, n, ...], none of them empty, got {sorted(shapes)}"
        )
    guarantee = over_rounds(mechanism.guarantee(), shape[0], answers=answers, delta=delta)
    return RepeatedReports(
        _reports(random.split(key, shape[1]), mechanism, records, answers), guarantee
    )


@partial(jax.jit, static_argnames="answers")
def _reports(keys: PRNGKeys, mechanism: Mechanism, records: Values, answers: str) -> Report:
    rounds = jnp.arange(len(jax.tree.leaves(records)[0]))
    of_user = jax.vmap(partial(answer, answers=answers), in_axes=(None, None, None, 0))
    return jax.vmap(of_user, in_axes=(0, None, 1, None), out_axes=1)(
        keys, mechanism, records, rounds
    )


@pytree
class RoundQuestion:
    """Send the record of one round through a mechanism; a record is a history [rounds, ...].

    Attributes:
      mechanism: for the record of one round.
      asked: bool [n].
      round: whose record is sent, from 0.
      permanent: the name of an answer for good.
    """

    mechanism: Mechanism
    asked: Bool[Array | np.ndarray, " n"]
    round: Int[Array | np.ndarray, ""]
    permanent: str = static(default="")

    def cost(self) -> Cost:
        """The guarantee of the mechanism, per record."""
        return Ask(self.mechanism, self.asked, permanent=self.permanent).cost()

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The report of the round's record."""
        record = jax.tree.map(lambda history: as_records(history)[self.round], user.record)
        return self.mechanism.privatize(key, record)

    def exact(self) -> "RoundQuestion":
        """The clipped record itself."""
        return dataclasses.replace(self, mechanism=Noiseless(self.mechanism))


@pytree
class RoundAsked:
    """Everybody is asked for the record of a round.

    Attributes:
      question: the open one.
      reports: of the rounds before, in order.
    """

    question: RoundQuestion
    reports: tuple[Report, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class RoundsServer:
    """Asks everybody in every round; a permanent answer is asked for once, for all rounds.

    Records of users are histories [n, rounds, ...]. The result are the reports, with axes
    [rounds, n, ...]; those of silent users are 0.
    Guarantee: of fresh answers, the sum of all rounds, or better by ``delta``; of permanent ones,
    that of one answer, also after other protocols whose answers have this name, if devices repeat
    what they sent: with the same key for the users, or from their memory.

    Attributes:
      mechanism: for the record of one round.
      num_users: n.
      rounds: how many there are.
      permanent: the name of the permanent answer; empty for fresh ones.
      delta: of fresh answers, for composition better than the sum.

    >>> from ldp_jax.features import GeneralizedRR
    >>> from ldp_jax.servers import Users, simulate
    >>> records = np.array(
    ...     [[0, 0, 0], [1, 1, 2], [2, 1, 2]]
    ... )  # three users of three rounds
    >>> server = RoundsServer(GeneralizedRR(1.0, 3), 3, rounds=3)
    >>> found = simulate(jax.random.key(0), server, Users(records=records))
    >>> (
    ...     found.value.shape,
    ...     [round(one.epsilon, 6) for one in found.guarantee.values()],
    ... )
    ((3, 3), [3.0])
    """

    mechanism: Mechanism
    num_users: int
    rounds: int
    permanent: str = ""
    delta: float | None = None

    __repr__ = by_shapes

    def __post_init__(self) -> None:
        validate.whole(1, num_users=self.num_users)
        validate.whole(1, rounds=self.rounds)
        if self.permanent and self.delta is not None:
            raise ValueError("delta must be None for permanent answers, which are charged once")

    def statement(self) -> Statement:
        """As many answers as there are rounds, or one permanent one."""
        one = self._question(0).cost()
        if self.permanent:
            return Statement.of([one])
        return Statement.of([dataclasses.replace(one, delta=self.delta, times=self.rounds)])

    def init(self, key: PRNGKey) -> RoundAsked:
        """The first round."""
        return RoundAsked(self._question(0), ())

    def step(self, state: RoundAsked, answers: Answers) -> RoundAsked | Report:
        """The next round, or the reports of all of them."""
        blank = lambda leaf: np.where(
            answers.reported.reshape(-1, *(1,) * (np.ndim(leaf) - 1)), leaf, np.zeros_like(leaf)
        )
        reports = (*state.reports, jax.tree.map(blank, answers.values))
        if self.permanent:
            reports = reports * self.rounds
        if len(reports) < self.rounds:
            return RoundAsked(self._question(len(reports)), reports)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *reports)

    def _question(self, number: int) -> RoundQuestion:
        everybody = np.ones(self.num_users, bool)
        return RoundQuestion(
            self.mechanism, everybody, np.asarray(number, np.int32), self.permanent
        )
