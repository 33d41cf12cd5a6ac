"""Worlds of users as they are stated: for the rehearsal of any protocol."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.types import PRNGKey
from ldp_jax.graph.graphs import from_edges
from ldp_jax.servers.users import Users
from ldp_jax.servers.worlds.friends import StatedFriends, drawn_friends, drawn_lists
from ldp_jax.servers.worlds.world import World


@dataclasses.dataclass(frozen=True)
class StatedUsers:
    """Users of whom only shares of classes and facts of friendships are stated.

    In a world each user has a label, drawn by the shares, and a list of friends, of whom a share,
    the homophily, is of the own class. They are full :class:`~ldp_jax.servers.users.Users` without
    records, so that any protocol about labels and lists can be rehearsed on them.

    Attributes:
      num_users: n.
      shares: of classes; they sum to 1.
      friends: what is stated of friendships; None for users without lists.

    ``ValueError`` for shares that are none, or friends whom so many users cannot have.

    >>> import jax
    >>> worlds = StatedUsers(500, (0.5, 0.3, 0.2), StatedFriends(6.0, 0.5))
    >>> world = worlds.draw(jax.random.key(0), 0)
    >>> world.users, world.without.shape
    (Users(500 users with labels, lists), (500,))
    """

    num_users: int
    shares: tuple[float, ...]
    friends: StatedFriends | None = None

    def __post_init__(self) -> None:
        validate.whole(2, num_users=self.num_users)
        shares = validate.numbers(shares=self.shares)
        rule = f"shares must be of the classes, >= 0 and of sum 1, got {self.shares}"
        validate.require(shares.ndim == 1 and (shares >= 0).all(), rule)
        validate.require(abs(shares.sum() - 1.0) <= 1e-6, rule)
        if self.friends is not None:
            self.friends.checked(self.num_users)

    def draw(self, key: PRNGKey, number: int) -> World:
        """One world; without any report everybody is of the class of the largest share."""
        n = self.num_users
        class_key, friend_key, list_key, report_key = random.split(key, 4)
        shares = np.log(np.maximum(self.shares, 1e-30)).astype(np.float32)
        log_q = np.tile(shares, (n, 1))
        y = random.categorical(class_key, jnp.asarray(log_q))
        lists = None
        if self.friends is not None:
            stated = self.friends.checked(n)
            friends = drawn_friends(friend_key, y, log_q, stated, np.zeros(2, np.float32))
            entries = max(1, round(float(stated[0]) * n / 2))
            owners, theirs = drawn_lists(list_key, friends, y, entries)
            pairs = np.sort(np.stack([owners, theirs], 1), axis=1)
            pairs = pairs[pairs[:, 0] < pairs[:, 1]]
            lists = from_edges(np.unique(pairs, axis=0), n)
        users = Users(labels=np.asarray(y), lists=lists)
        return World(users, y, log_q.argmax(1), np.ones(n, bool), report_key)
