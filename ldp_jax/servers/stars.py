r"""k-stars in one round, from private neighbour lists.

Each user is the centre of :math:`\binom{m}{k}` stars of m friends. They count at most d friends,
and send

.. math:: \binom{\min(m, d)}{k} + \mathrm{Lap}\left(\binom{d - 1}{k - 1} / \epsilon\right).

**Sensitivity.** The unit is one bit of a list. It adds
:math:`\binom{m + 1}{k} - \binom{m}{k} = \binom{m}{k - 1}` stars to m < d friends, and none to
more. So :math:`\Delta = \binom{d - 1}{k - 1}`, which is attained. A pair of users is in two lists,
and both ends count it in their stars: it costs :math:`2\epsilon`.

**Where the published budget differs.** The paper's noise has the scale
:math:`\binom{d}{k - 1} / \epsilon`, which costs :math:`\epsilon (d - k + 1)/d` only.

Reference: Imola, Murakami and Chaudhuri, *Locally Differentially Private Analysis of Graph
Statistics* (USENIX Security 2021), the one-round algorithm for k-stars, with its noisy maximum of
degrees.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax  # noqa: F401 - the examples below
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from ldp_jax.accounting.statement import Cost, Statement
from ldp_jax.core import random_words, validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.deployment import Stars
from ldp_jax.deployment.wire import checked_round
from ldp_jax.edges import Ownership
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, per_bit, per_edge
from ldp_jax.servers.questions import Answers, Asked, CountQuestion, User
from ldp_jax.servers.questions.shipped import SizedOnTheWire


class SubgraphCount(NamedTuple):
    """An estimated number of subgraphs.

    Attributes:
      estimate: unbiased where no user has more than ``bound`` friends to count; else too small in
        the mean.
      error: the standard error, of the users' noise.
      bound: the number of friends that a user counts at most.
    """

    estimate: float
    error: float
    bound: int


def laplace_cost(epsilon: float, *, owners: str = "") -> Cost:
    """The cost of a number with Laplace noise of the sensitivity of one bit, over epsilon.

    ``owners`` names the rule by which one end reports a pair; by default both ends do.

    >>> (
    ...     laplace_cost(1.0).pair.epsilon,
    ...     laplace_cost(1.0, owners="lower").pair.epsilon,
    ... )
    (2.0, 1.0)
    """
    made = per_bit(epsilon, "Laplace noise of the sensitivity of one bit of a cut list")
    ends = (epsilon,) if owners else (epsilon, epsilon)
    return Cost(made, per_edge(ends, "half" if owners else "full"), owners=owners)


def degree_question(
    epsilon: float | None,
    asked: Bool[np.ndarray, " n"],
    round: int,
    owners: Ownership | None = None,
) -> CountQuestion:
    """The question for noisy degrees, of the pairs that ``owners`` gives each user, or of all."""
    assert epsilon is not None
    groups = np.zeros(len(asked), np.int32)
    return CountQuestion(groups, asked, owners, epsilon=epsilon, round=round)


def largest_degree(answers: Answers, least: int) -> int:
    """The largest of the noisy degrees that were reported, within what a bound can be."""
    noisy = np.asarray(answers.values)[answers.reported]
    return int(np.clip(noisy.max(initial=least), least, len(answers.reported) - 1))


def check_bound(
    num_users: int, epsilon: float, bound: int | None, epsilon_degree: float | None, least: int
) -> None:
    """Refuse numbers out of range, and both or none of a public bound and the cost of one."""
    validate.whole(least + 1, num_users=num_users)
    validate.number(0.0, MAX_BIT_EPSILON, open_lower=True, epsilon=epsilon)
    rule = "bound or epsilon_degree must be given, and not both: a public bound, or what it costs"
    validate.require((bound is None) != (epsilon_degree is None), rule)
    if bound is not None:
        validate.whole(least, num_users - 1, bound=bound)


class NoisyNumber(SizedOnTheWire):
    """A question for one number with noise, of which devices send a whole number."""

    def noisy(self: Any, key: PRNGKey, count: AnyArray) -> Array:
        """Numbers with Laplace noise, or themselves for a ceiling."""
        noise = random_words.laplace(key, jnp.shape(count))
        return jnp.where(self.noiseless, count, count + self.scale * noise)

    def exact(self: Any) -> Any:
        """The number itself."""
        return dataclasses.replace(self, noiseless=True)

    def told(self, asked: Any, numbers: np.ndarray, who: np.ndarray) -> Float[np.ndarray, " n"]:
        """The numbers, 0 of users who are silent."""
        return np.where(who, asked.estimate(numbers)[:, 0], np.float32(0.0))


@pytree
class StarQuestion(NoisyNumber):
    """Count the k-stars whose centre you are, with at most ``bound`` friends.

    Attributes:
      asked: bool [n].
      bound: d, the number of friends that are counted at most.
      epsilon: of the count.
      k: the number of friends in a star.
      noiseless: whether devices add no noise, for a ceiling.
      round: the number of the question on the wire.
    """

    asked: Bool[AnyArray, " n"]
    bound: int
    epsilon: float
    k: int = static(default=2)
    noiseless: bool = static(default=False)
    round: int = static(default=0)

    @property
    def scale(self) -> Scalar:
        """The scale of the Laplace noise, the sensitivity over epsilon."""
        return _binomial(self.bound - 1, self.k - 1) / self.epsilon

    def cost(self) -> Cost:
        """Epsilon per bit, and twice that per pair, which both ends count."""
        return laplace_cost(self.epsilon)

    def answer(self, key: PRNGKey, user: User) -> Float[Array, ""]:
        """The noisy number of one user's stars."""
        count = _binomial(jnp.minimum(user.neighbours.count, self.bound), self.k)
        return self.noisy(key, count)

    def shipped(self) -> Stars:
        """The question, by whose device the noise is discrete."""
        bound = int(self.bound)
        return Stars(self.round, bound, float(self.epsilon), len(self.asked), self.k)


def _binomial(friends: Any, k: int) -> Any:
    """The number of sets of k friends, as a product of k ratios."""
    found = 1.0
    for place in range(k):
        found = found * (friends - place) / (place + 1)
    return found


@dataclasses.dataclass(frozen=True)
class StarServer:
    r"""Counts k-stars in one round, or in two with a bound that is found privately.

    The law and the sensitivity are those of :mod:`ldp_jax.servers.stars`.
    Guarantee: per bit of a list the sum of ``epsilon`` and ``epsilon_degree``, and twice that per
    pair of users, which both ends count. Laplace noise holds in ideal arithmetic; the whole
    noise of devices (:mod:`ldp_jax.deployment.subgraphs`) is exact.
    Utility: unbiased where no user has more than ``bound`` friends, and too small in the mean where
    some do. The standard error is :math:`\sqrt{2n} \binom{d - 1}{k - 1} / \epsilon`. Stars whose
    centre is silent are left out.

    Attributes:
      num_users: n.
      epsilon: of each user's count, in (0, 40].
      k: the number of friends in a star, at least 2.
      bound: d, the number of friends that a user counts at most; public, at least k.
      epsilon_degree: of each degree, in [0.001, 40], in the place of a bound; the bound is then the
        largest noisy degree.
      round: the number of the questions on the wire: devices answer each number once.

    The result is a :class:`SubgraphCount`. ``ValueError`` for numbers out of range, and for both or
    none of ``bound`` and ``epsilon_degree``.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.servers import Users, simulate
    >>> users = Users(
    ...     lists=graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    ... )
    >>> server = StarServer(4, epsilon=1.0, k=2, bound=3)
    >>> found = simulate(jax.random.key(0), server, users.exact())
    >>> (
    ...     found.value.estimate,
    ...     [one.epsilon for one in server.statement().guarantee().values()],
    ... )
    (3.0, [1.0, 2.0])
    """

    num_users: int
    epsilon: float
    k: int = 2
    bound: int | None = None
    epsilon_degree: float | None = None
    round: int = 0

    def __post_init__(self) -> None:
        checked_round(self.round)
        validate.whole(2, k=self.k)
        check_bound(self.num_users, self.epsilon, self.bound, self.epsilon_degree, self.k)
        self.statement()

    @property
    def degrees(self) -> CountQuestion:
        """The question for degrees."""
        everybody = np.ones(self.num_users, bool)
        return degree_question(self.epsilon_degree, everybody, self.round)

    def stars(self, bound: int) -> StarQuestion:
        """The question for stars."""
        everybody = np.ones(self.num_users, bool)
        return StarQuestion(everybody, bound, self.epsilon, self.k, round=self.round)

    def statement(self) -> Statement:
        """A count of each user, and a degree where the bound is found privately."""
        costs = [laplace_cost(self.epsilon)]
        if self.bound is None:
            costs.append(self.degrees.cost())
        return Statement.of(costs, exposes=("number of nodes",))

    def init(self, key: PRNGKey) -> Asked:
        """Users are asked for degrees, or for stars where the bound is public."""
        return Asked(self.degrees if self.bound is None else self.stars(self.bound))

    def step(self, state: Asked, answers: Answers) -> Asked | SubgraphCount:
        """The question for stars, or the estimate."""
        question = state.question
        if isinstance(question, CountQuestion):
            return Asked(self.stars(largest_degree(answers, least=self.k)))
        reported = answers.reported
        total = np.asarray(answers.values, float)[reported].sum()
        error = 0.0 if question.noiseless else math.sqrt(2 * reported.sum()) * question.scale
        return SubgraphCount(float(total), float(error), int(question.bound))
