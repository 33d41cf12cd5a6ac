r"""Triangles in two rounds, from private neighbour lists.

User i owns the pairs :math:`\{i, j\}` with :math:`i < j`, in every round. In the first round users
send the bits of their owned pairs through randomised response, which flips each with probability
:math:`p = 1/(e^{\epsilon_1} + 1)`. The server broadcasts the noisy graph :math:`E'`. In the second
round each user keeps at most d owned friends N, drawn at random, and sends

.. math:: w_i = t_i - p\,s_i + \mathrm{Lap}\Bigl(\frac{d - 1}{\epsilon_2}\Bigr), \qquad
   t_i = |\{j < k \in N : \{j, k\} \in E'\}|, \quad s_i = \binom{|N|}{2}.

Each triangle is counted by its lowest user, from a bit that its middle user owns. The estimate is
:math:`\sum_i w_i / (1 - 2p)`.

**Sensitivity.** The unit is one bit of a list. Let it be the bit of user j, and let N be without j.
*Without a cut* (:math:`|N| < d`) the bit adds :math:`\sum_{k \in N} (E'_{jk} - p)`: at most
:math:`d - 1` terms in :math:`[-p, 1 - p]`. *With a cut* random places decide who is kept. They are
drawn for all users, whatever the list is. Given these places, j takes the place of one user l or of
nobody. The other :math:`d - 1` members stay, and the change is
:math:`\sum_k (E'_{jk} - E'_{lk})`, with terms in [-1, 1]. So :math:`\Delta = d - 1`, which a cut
attains. A loss given the places bounds the loss of their mixture.

**Where the published budget differs.** The paper adds noise of scale :math:`d/\epsilon_2`, which
costs :math:`\epsilon_2 (d - 1)/d` only. The authors' code cuts whole lists, and bounds whole
degrees. Then the reports of both ends depend on a pair, which costs up to
:math:`2\epsilon_0 + \epsilon_1 + 2\epsilon_2 (d - 1)/d`. Here users cut, and count, owned pairs
alone: a pair costs :math:`\epsilon_0 + \epsilon_1 + \epsilon_2`, as a bit does.

Reference: Imola, Murakami and Chaudhuri, *Locally Differentially Private Analysis of Graph
Statistics* (USENIX Security 2021), the two-round algorithm for triangles, with its noisy maximum of
degrees. If a user's list is cut, their code counts all pairs of friends, owned or not.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt32

from ldp_jax.accounting.statement import Cost, Statement
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.deployment import Triangles
from ldp_jax.deployment.wire import checked_round
from ldp_jax.edges import NeighbourList, ownership
from ldp_jax.edges.lists import to_bits
from ldp_jax.edges.neighbour_lists import flip_rate
from ldp_jax.servers.questions import Answers, CountQuestion, User
from ldp_jax.servers.questions.pairs import LOWER, PairsQuestion, bits_of, packed
from ldp_jax.servers.stars import (
    NoisyNumber,
    SubgraphCount,
    check_bound,
    degree_question,
    laplace_cost,
    largest_degree,
)
from ldp_jax.servers.users import blanked

_COLUMNS = 1024


@pytree
class TriangleQuestion(NoisyNumber):
    """Count the noisy links between your owned friends, less those that noise lets expect.

    Attributes:
      linked: uint32 [n, words], the noisy bits of each user's owned pairs.
      known: bool [n], the users whose bits these are; pairs that others own are not counted.
      asked: bool [n].
      flip: p, the probability that a bit of ``linked`` was flipped.
      bound: d, the number of owned friends that are counted at most.
      epsilon: of the count.
      noiseless: whether devices add no noise, for a ceiling.
      round: the number of the question on the wire.
    """

    linked: UInt32[AnyArray, "n words"]
    known: Bool[AnyArray, " n"]
    asked: Bool[AnyArray, " n"]
    flip: Scalar
    bound: Scalar
    epsilon: float
    noiseless: bool = False
    round: int = static(default=0)

    @property
    def scale(self) -> Scalar:
        """The scale of the Laplace noise, the sensitivity over epsilon."""
        return (self.bound - 1) / self.epsilon

    def cost(self) -> Cost:
        """Epsilon per bit, and per pair, which has one owner."""
        return laplace_cost(self.epsilon, owners=LOWER)

    def answer(self, key: PRNGKey, user: User) -> Float[Array, ""]:
        """The noisy count of one user."""
        places_key, noise_key = random_words.split(key)
        n = len(self.asked)
        ids = user.neighbours.ids
        owned = (ids > user.own) & (ids < n)
        place = random.uniform(places_key, (n,)).at[ids].get(mode="fill")
        rank = jnp.where(owned, place, 1.0).argsort().argsort()
        kept = owned & (rank < self.bound)
        friends = NeighbourList(jnp.where(kept, ids, n), kept.sum())

        # A friend's bits are about users of higher numbers, so that each pair is met once.
        bits = jnp.asarray(self.linked).at[ids].get(mode="fill", fill_value=0)
        links = jax.lax.population_count(bits & packed(to_bits(friends, n))).sum(1)
        counted = kept & jnp.asarray(self.known).at[ids].get(mode="fill", fill_value=False)
        pairs = kept.sum() - kept.cumsum()
        count = jnp.where(counted, links - self.flip * pairs, 0.0).sum()
        return self.noisy(noise_key, count)

    def answer_all(self, key: PRNGKey, users: Any) -> Float[Array, " n"]:
        """The noisy counts of all users, in the number of pairs of their owned friends."""
        places_key, noise_key = random_words.split(key)
        owned = users.lists.senders > users.lists.receivers
        owner = users.lists.receivers[owned]
        kept = random_words.places_within(places_key, owner) < self.bound
        owner = owner[kept]
        friend = users.lists.senders[owned][kept]

        # Entries are in order, so that those behind one are its partners.
        pairs = np.searchsorted(owner, owner, "right") - np.arange(1, len(owner) + 1)
        pairs[~self.known[friend]] = 0
        links = np.zeros(len(owner))
        for step in range(1, pairs.max(initial=0) + 1):
            at = np.flatnonzero(pairs >= step)
            other = friend[at + step]
            word = self.linked[friend[at], other >> 5]
            links[at] += word >> (other & 31) & 1
        count = np.bincount(owner, links - self.flip * pairs, len(self.asked))
        return self.noisy(noise_key, count)

    def shipped(self) -> Triangles:
        """The question with its owners, by whose device the noise is discrete."""
        return Triangles(
            self.round,
            int(self.bound),
            float(self.epsilon),
            np.asarray(self.linked),
            np.asarray(self.known),
            flips=round(2**32 * float(self.flip)),
            owners=ownership(np.arange(len(self.asked))),
        )


@pytree
class TrianglesAsked:
    """The open question: for owned degrees, for owned pairs, or for triangles.

    Attributes:
      question: the open one.
      columns: the users on whose pairs the spread of randomised response is estimated.
      bound: d, the number of owned friends that are counted at most; 0 where it is not known yet.
    """

    question: CountQuestion | PairsQuestion | TriangleQuestion
    columns: Int[AnyArray, " some"]
    bound: int


@dataclasses.dataclass(frozen=True)
class TriangleServer:
    r"""Counts triangles in two rounds, or in three with a bound that is found privately.

    The law and the sensitivity are those of :mod:`ldp_jax.servers.triangles`.
    Guarantee: per bit of a list, and per pair of users, the sum of ``epsilon_pairs``, ``epsilon``
    and ``epsilon_degree``; each pair has one owner in all rounds. Laplace noise holds in ideal
    arithmetic; the whole noise of devices (:mod:`ldp_jax.deployment.subgraphs`) is exact.
    Utility: unbiased where no user owns more than ``bound`` friends, and too small in the mean
    where some are cut. The error adds two variances. That of Laplace noise is
    :math:`2 n ((d - 1)/\epsilon_2)^2 / (1 - 2p)^2`. That of randomised response is
    :math:`p(1 - p)/(1 - 2p)^2 \sum_{jk} c_{jk}^2`, c the number of users who own both as friends.
    The server estimates this sum without bias from the noisy graph, on the pairs of at most 1024
    users. A triangle is left out whose lowest user is silent in the second round, or whose middle
    one is in the first.

    Attributes:
      num_users: n.
      epsilon_pairs: :math:`\epsilon_1`, of each noisy bit, in (0, 40].
      epsilon: :math:`\epsilon_2`, of each user's count, in (0, 40].
      bound: d, the number of owned friends that a user counts at most; public, at least 2.
      epsilon_degree: :math:`\epsilon_0`, of each owned degree, in [0.001, 40], in the place of a
        bound; the bound is then the largest noisy degree.
      memory: bytes of noisy bits to allow, n / 8 for each user.
      round: the number of the questions on the wire: devices answer each number once.

    The result is a :class:`SubgraphCount`. ``ValueError`` for numbers out of range, for both or
    none of ``bound`` and ``epsilon_degree``, and for more noisy bits than ``memory`` allows.

    >>> from ldp_jax.graph import graphs
    >>> from ldp_jax.servers import Users, simulate
    >>> users = Users(
    ...     lists=graphs.from_edges([[0, 1], [1, 2], [0, 2], [2, 3]], num_nodes=4)
    ... )
    >>> server = TriangleServer(4, 1.0, 1.0, bound=3)
    >>> found = simulate(jax.random.key(0), server, users.exact())
    >>> round(found.value.estimate, 3), found.value.bound
    (1.0, 3)
    >>> [round(one.epsilon, 3) for one in server.statement().guarantee().values()]
    [2.0, 2.0]
    """

    num_users: int
    epsilon_pairs: float
    epsilon: float
    bound: int | None = None
    epsilon_degree: float | None = None
    memory: float = 8e9
    round: int = 0

    def __post_init__(self) -> None:
        checked_round(self.round)
        check_bound(self.num_users, self.epsilon, self.bound, self.epsilon_degree, 2)
        self.statement()
        needed = self.num_users**2 / 8
        rule = f"memory must be at least {needed:.3g} bytes, of noisy bits"
        validate.require(needed <= self.memory, rule, self.memory)

    @property
    def pairs(self) -> PairsQuestion:
        """The question for owned pairs."""
        return PairsQuestion(np.ones(self.num_users, bool), self.epsilon_pairs, self.round)

    @property
    def degrees(self) -> CountQuestion:
        """The question for owned degrees."""
        lower = ownership(np.arange(self.num_users))
        return degree_question(self.epsilon_degree, ~lower.silent, self.round, lower)

    def statement(self) -> Statement:
        """Noisy bits and a count of each user, and a degree where the bound is found privately."""
        costs = [self.pairs.cost(), laplace_cost(self.epsilon, owners=LOWER)]
        if self.bound is None:
            costs.append(self.degrees.cost())
        return Statement.of(costs, exposes=("number of nodes",))

    def init(self, key: PRNGKey) -> TrianglesAsked:
        """Users are asked for owned degrees, or for owned pairs where the bound is public."""
        columns = np.asarray(random.permutation(key, self.num_users))[:_COLUMNS]
        if self.bound is None:
            return TrianglesAsked(self.degrees, columns, 0)
        return TrianglesAsked(self.pairs, columns, self.bound)

    def step(self, state: TrianglesAsked, answers: Answers) -> TrianglesAsked | SubgraphCount:
        """The next round, or the estimate."""
        question = state.question
        reported = answers.reported
        if isinstance(question, CountQuestion):
            bound = largest_degree(answers, least=2)
            return dataclasses.replace(state, question=self.pairs, bound=bound)
        values = np.asarray(blanked(answers.values, reported))
        if isinstance(question, PairsQuestion):
            flip = float(flip_rate(np.float64(question.epsilon)))
            asked = TriangleQuestion(
                linked=values,
                known=reported,
                asked=np.ones_like(reported),
                flip=flip,
                bound=state.bound,
                epsilon=self.epsilon,
                round=self.round,
            )
            return dataclasses.replace(state, question=asked)

        flip = float(question.flip)
        columns = np.asarray(state.columns)
        variance = flip * (1 - flip) * _squares(question, columns, reported)
        if not question.noiseless:
            variance += 2 * float(reported.sum()) * float(question.scale) ** 2
        error = math.sqrt(max(variance, 0.0)) / (1 - 2 * flip)
        estimate = float(values.sum(dtype=float)) / (1 - 2 * flip)
        return SubgraphCount(estimate, error, int(question.bound))


def _squares(question: TriangleQuestion, columns: np.ndarray, reported: np.ndarray) -> float:
    """An unbiased estimate of the sum of :math:`c_{jk}^2` over pairs, from the noisy graph.

    With unbiased bits a, c is a sum of products a_ij a_ik over i. Its square, less the squares of
    the products, plus the products, is unbiased for the square of the true c.
    """
    known = question.known
    columns = columns[known[columns]]
    bits = bits_of(np.asarray(question.linked), columns)
    owned = np.arange(len(known))[:, None] < columns
    counted = owned & (known & reported)[:, None]
    unbiased = np.where(counted, (bits - question.flip) / (1 - 2 * question.flip), 0.0)
    found = unbiased.T @ unbiased
    found += found**2 - (unbiased**2).T @ unbiased**2
    np.fill_diagonal(found, 0.0)
    asked_pairs = max(math.comb(len(columns), 2), 1)
    all_pairs = math.comb(int(known.sum()), 2)
    return float(found.sum() / 2 * all_pairs / asked_pairs)
