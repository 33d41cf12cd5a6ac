"""Worlds of private lists beside public features.

Classes follow the public posterior, as sure of itself as held-out labels are. Users of like
features have like classes, so that reports may teach more of features than few labels did. How
alike is not known: each world has another share of common noise. A list is what is stated of
friendships (:class:`~ldp_jax.servers.worlds.friends.StatedFriends`): so many neighbours, a share h
of them of the own class, the others of anybody's. Friends who are of the class that features say of
a user, right or wrong, tell nothing new; nor do friends of the user's class whom features mislead
as they do the user.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.float32 import matmul
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.core.whole_noise import MAX_EPSILON, MIN_EPSILON
from ldp_jax.servers.counts import CountServer
from ldp_jax.servers.facts.counts import CountFacts
from ldp_jax.servers.parts.rows import DenseRows, Rows, RowTables, laid_out
from ldp_jax.servers.worlds.friends import (
    MOST_ECHO,
    MOST_OVERLAP,
    StatedFriends,
    drawn_classes,
    drawn_friends,
)
from ldp_jax.servers.worlds.users import DrawnUsers
from ldp_jax.servers.worlds.world import World, by_field, calibrated

# Multiples of these numbers, less whole ones, are spread evenly in a cube.
_EVENLY = np.array([0.8191725, 0.6710436, 0.5497005])

# The least share of the noise that users of like features share, as a part of the most; chosen on
# citeseer, cora, debian and caltech36.
_LEAST_ALIKE = 0.5

_COLUMNS = 64  # of the estimate of variances


@dataclasses.dataclass(frozen=True, eq=False)
class ListWorlds:
    """Draws users with private lists.

    Attributes:
      OF: the facts that these worlds are drawn from; ``MESSAGE``: what is reported; ``RANGE``:
        epsilons that may be tried; ``STATED``: whether friends must be stated.
      facts: public (:func:`~ldp_jax.servers.facts.counts.count_facts`).
      friends: what is stated of them.
      log_q: float32 [n, C], the public posterior, as sure of itself as held-out labels are.
      alike: the noise that users of like features share; None without features.
      first: float64 [3] in [0, 1), where the shares of the first world are.
    """

    OF = CountFacts
    MESSAGE = "lists"
    RANGE = (MIN_EPSILON, MAX_EPSILON)
    STATED = True

    facts: CountFacts
    friends: StatedFriends
    log_q: Float[np.ndarray, "n classes"]
    alike: "LikeFeatures | None"
    first: Float[np.ndarray, " three"]

    __repr__ = by_shapes

    @classmethod
    def of(
        cls, key: PRNGKey, facts: CountFacts, friends: StatedFriends
    ) -> "tuple[ListWorlds, PRNGKey]":
        """The worlds, and the key that is left to draw them.

        ``ValueError`` for friends whom so many users cannot have.
        """
        friends.checked(len(facts.labels))
        for name in ("overlap", "echo"):
            if getattr(friends, name) is not None:
                validate.number(0.0, 1.0, **{name: getattr(friends, name)})
        spread_key, unknown_key, key = random.split(key, 3)
        alike = None
        if facts.rows is not None and facts.known.ridge is not None:
            alike = LikeFeatures.of(spread_key, facts.rows)
        first = np.asarray(random.uniform(unknown_key, (3,)), np.float64)
        return cls(facts, friends, calibrated(facts.known.log_q, facts.labels), alike, first), key

    def servers(self, epsilons: Sequence[float]) -> list[list[CountServer]]:
        """The server of each epsilon."""
        return [[CountServer(self.facts, epsilon)] for epsilon in epsilons]

    def draw(self, key: PRNGKey, number: int) -> World:
        """One world."""
        class_key, draw_key, report_key = random.split(key, 3)
        labels = self.facts.labels
        share, overlap, echo = self._unknown(number)
        if self.alike is None:
            y = drawn_classes(class_key, self.log_q, labels)
        else:
            y = _alike_classes(class_key, self.alike, self.log_q, labels, np.float32(share))
        misled = np.asarray([overlap, echo], np.float32)
        stated = self.friends.checked(len(labels))
        friends = drawn_friends(draw_key, y, self.log_q, stated, misled)
        users = DrawnUsers(len(labels), friends=friends)
        return World(users, y, self.facts.known.log_q, labels < 0, report_key)

    def _unknown(self, number: int) -> Float[np.ndarray, " three"]:
        """The share of common noise, overlap and echo of one world, where they are not stated."""
        ridge = self.facts.known.ridge
        # By the ridge a score varies by 1 / ridge with features, beside its Gumbel noise of
        # variance pi^2 / 6.
        alike = 0.0 if ridge is None else 1.0 / (1.0 + ridge * math.pi**2 / 6.0)
        most = np.array([alike, MOST_OVERLAP, MOST_ECHO])
        least = most * [_LEAST_ALIKE, 0.0, 0.0]
        place = (self.first + number * _EVENLY) % 1.0
        drawn = least + (most - least) * place
        for place, stated in ((1, self.friends.overlap), (2, self.friends.echo)):
            if stated is not None:
                drawn[place] = stated
        return drawn


@pytree
class LikeFeatures:
    """Noise that users of like features share.

    Averages over users by the products of their centred rows.
    """

    rows: RowTables | DenseRows
    mean: Array  # of the rows, [d]
    spread: Array  # the standard deviation of a user's noise, [n, 1]

    @classmethod
    def of(cls, key: PRNGKey, rows: Rows | DenseRows) -> "LikeFeatures":
        """The noise of users of these rows; ``key`` is of the estimate of its spread."""
        laid = laid_out(rows)
        n = rows.shape[0]
        ones = jnp.ones((laid.shape[0], 1), jnp.float32)
        mean = laid.transposed(ones)[:, 0] / n
        bare = cls(laid, mean, jnp.ones((n, 1), jnp.float32))
        made = _shared_noise(bare, random.normal(key, (n, _COLUMNS)))
        variance = (made**2).mean(1, keepdims=True)
        return cls(laid, mean, jnp.sqrt(variance + 1e-12))


@jax.jit
def _shared_noise(alike: LikeFeatures, noise: Array) -> Array:
    n = len(noise)
    missing = alike.rows.shape[0] - n
    padded = jnp.pad(noise - noise.mean(0), ((0, missing), (0, 0)))
    weights = alike.rows.transposed(padded)
    centred = alike.rows.times(weights)[:n] - matmul(alike.mean, weights)
    return centred / alike.spread


@jax.jit
def _alike_classes(
    key: PRNGKey, alike: LikeFeatures, log_q: Array, labels: Array, share: Scalar
) -> Array:
    """Classes of which each follows its q; a ``share`` of their noise is common to like users.

    Labels are kept.
    """
    shared_key, own_key = random.split(key)
    shared = _shared_noise(alike, random.normal(shared_key, log_q.shape))
    own = random.normal(own_key, log_q.shape)
    field = jnp.sqrt(share) * shared + jnp.sqrt(1.0 - share) * own
    return by_field(log_q, field, labels)
