"""The same data in every round: fresh answers that follow them, or one permanent answer."""

import dataclasses

import jax
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.statement import Statement
from ldp_jax.core import validate
from ldp_jax.core.mechanism import Mechanism, check_single
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.spaces import as_records
from ldp_jax.core.types import AnyArray, PRNGKey, Report
from ldp_jax.servers.questions import Answers, User
from ldp_jax.servers.questions.question import ByMechanism
from ldp_jax.servers.users import blanked


@pytree
class RoundQuestion(ByMechanism):
    """Send the record of one round through a mechanism; a record is a history [rounds, ...].

    Attributes:
      mechanism: for the record of one round.
      asked: bool [n].
      round: whose record is sent, from 0.
      rounds: how many there are in a history.
      permanent: the name of an answer for good.

    ``ValueError`` from ``answer`` for a history of another number of rounds.
    """

    mechanism: Mechanism
    asked: Bool[AnyArray, " n"]
    round: Int[AnyArray, ""]
    rounds: int = static()
    permanent: str = static(default="")

    def answer(self, key: PRNGKey, user: User) -> Report:
        """The report of the round's record."""
        check_single(self.mechanism)
        histories = jax.tree.map(as_records, user.record)
        for history in jax.tree.leaves(histories):
            rule = f"records must be histories of {self.rounds} rounds, got shape {history.shape}"
            validate.require(history.ndim and history.shape[0] == self.rounds, rule)
        record = jax.tree.map(lambda history: history[self.round], histories)
        return self.mechanism.privatize(key, record)


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
    that of one answer, also after other protocols whose answers by this mechanism have this name,
    where devices repeat them from their memory. Simulated users, who have none, draw anew then.

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
        rule = "delta must be None for permanent answers, which are charged once"
        validate.require(not self.permanent or self.delta is None, rule)

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
        reports = (*state.reports, blanked(answers.values, answers.reported))
        if self.permanent:
            reports = reports * self.rounds
        if len(reports) < self.rounds:
            return RoundAsked(self._question(len(reports)), reports)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *reports)

    def _question(self, number: int) -> RoundQuestion:
        everybody = np.ones(self.num_users, bool)
        return RoundQuestion(
            self.mechanism,
            everybody,
            np.asarray(number, np.int32),
            self.rounds,
            self.permanent,
        )
