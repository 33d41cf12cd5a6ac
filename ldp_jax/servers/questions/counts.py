"""How many neighbours do you have in each public group?"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from ldp_jax.accounting.statement import Cost
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.pytree import digest, pytree, static
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.deployment import Question as Shipped
from ldp_jax.edges import NeighbourCounts, NeighbourList, count_neighbours, privatize_counts
from ldp_jax.servers.questions.question import User
from ldp_jax.servers.questions.shipped import SizedOnTheWire

NO_NOISE = 20.0
"""The epsilon by whose law exact counts are read: its noise is 0 but once in 2e8."""


@pytree
class CountQuestion(SizedOnTheWire):
    """Count your neighbours by public group, and add discrete Laplace noise to each count.

    One bit of a list moves one count by one, so K counts together cost the epsilon of one.

    Attributes:
      groups: int [n] in [-1, K), the public group of every user; -1 counts nowhere.
      asked: bool [n].
      owners: the public rule by which one end of each pair reports it; None where both ends do.
      num_groups: K.
      epsilon: of each count, in [0.001, 40].
      most: the largest count that is reported.
      round: the number of the question on the wire.
      noiseless: whether devices add no noise, for a ceiling.

    >>> asked = CountQuestion(
    ...     np.array([0, 0, 1]), np.ones(3, bool), num_groups=2, epsilon=1.0
    ... )
    >>> (
    ...     asked.cost().guarantee.epsilon,
    ...     asked.cost().pair.epsilon,
    ...     asked.upload_bytes(),
    ... )
    (1.0, 2.0, 40)
    """

    groups: Int[AnyArray, " n"]
    asked: Bool[AnyArray, " n"]
    owners: Ownership | None = None
    num_groups: int = static(default=1)
    epsilon: float = static(default=1.0)
    most: int = static(default=65_535)
    round: int = static(default=0)
    noiseless: bool = static(default=False)

    def __post_init__(self) -> None:
        if self.owners is not None and self.owners.order.dtype.kind == "f":
            # Ranks are exact on a device, where confidences would be rounded to float32.
            _, rank = np.unique(self.owners.order, return_inverse=True)
            object.__setattr__(self, "owners", self.owners._replace(order=rank.astype(np.int32)))

    @property
    def mechanism(self) -> NeighbourCounts:
        """The noise of each count."""
        return NeighbourCounts(self.epsilon, self.num_groups, most=self.most)

    def cost(self) -> Cost:
        """Epsilon per bit of a list; of a pair the sum of both ends, or the owner's alone."""
        rule = None if self.owners is None else digest(self.owners).hex()
        return count_cost(self.epsilon, rule, most=self.most)

    def answer(self, key: PRNGKey, user: User) -> Int[Array, " groups"]:
        """The noisy counts of one user."""
        neighbours = user.neighbours
        if self.owners is not None:
            owners = jax.tree.map(jnp.asarray, self.owners)
            ids = jnp.asarray(neighbours.ids)
            n = len(owners.order)
            owned = (ids < n) & owners.names(user.own, jnp.minimum(ids, n - 1))
            count = owned.sum().astype(jnp.int32)
            neighbours = NeighbourList(jnp.sort(jnp.where(owned, ids, n)), count)
        mechanism = dataclasses.replace(self.mechanism, n=len(self.groups))
        if self.noiseless:
            return mechanism.true_counts(neighbours, user.own, self.groups)
        return mechanism.privatize(key, neighbours, user.own, self.groups)

    def answer_all(self, key: PRNGKey, users: Any) -> Int[np.ndarray, "n groups"]:
        """The counts of all users, in one pass over the edges."""
        asked = np.asarray(self.asked)
        owners = self.owners
        if self.noiseless:
            counted = None if owners is None else owners.owns
            return count_neighbours(users.lists, self.groups, self.num_groups, counted)
        found = privatize_counts(
            key, users.lists, self.mechanism, self.groups, reporters=asked, owners=owners
        )
        return found.counts

    def exact(self) -> "CountQuestion":
        """True counts, read by the law of noise that is 0 but once in 2e8."""
        return dataclasses.replace(self, noiseless=True, epsilon=NO_NOISE)

    def shipped(self) -> Shipped:
        """The question and owners for :meth:`ldp_jax.deployment.Session.report_neighbours`."""
        groups = np.asarray(self.groups)
        return Shipped(self.round, groups, self.num_groups, self.epsilon, self.most, self.owners)


def count_cost(epsilon: float, owners: str | None = None, *, most: int = 65_535) -> Cost:
    """The cost of one report of counts, for a statement.

    ``owners`` names one rule of ownership for all questions.

    None is for pairs that both ends report.

    >>> count_cost(1.0).pair.epsilon, count_cost(1.0, "by confidence").pair.epsilon
    (2.0, 1.0)
    """
    mechanism = NeighbourCounts(epsilon, 1, most=most)
    pair = mechanism.relationship("full" if owners is None else "half")
    return Cost(mechanism.guarantee(), pair, owners=owners or "")
