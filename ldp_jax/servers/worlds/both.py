"""Worlds of private records and lists beside a public panel.

Classes follow the shares of the panel, scores are those of a member of the class, and lists are as
stated. Each total is tried in several splits, and as one report that reads friends by the stated
homophily, on the same worlds.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ldp_jax.core import random, validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import PRNGKey
from ldp_jax.core.whole_noise import MIN_EPSILON
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.joint import JointServer
from ldp_jax.servers.joint_privacy import JointPrivacy
from ldp_jax.servers.parts.panel import MOST_EPSILON
from ldp_jax.servers.worlds.friends import (
    StatedFriends,
    drawn_classes,
    drawn_friends,
    drawn_lists,
)
from ldp_jax.servers.worlds.records import drawn_scores
from ldp_jax.servers.worlds.users import DrawnUsers
from ldp_jax.servers.worlds.world import World

SHARES = (1.0, 0.75, 0.5, 0.0)
"""Shares of a total for the record: the splits that are tried, beside one report of both."""

# The largest homophily by which devices read friends; 1 would let one friend outweigh everything.
_MOST_ALIKE = 0.99


@dataclasses.dataclass(frozen=True, eq=False)
class JointWorlds:
    """Draws users with private records and lists.

    Attributes:
      OF: the facts that these worlds are drawn from; ``MESSAGE``: what is reported; ``RANGE``:
        totals that may be tried; ``STATED``: whether friends must be stated.
      facts: public (:func:`~ldp_jax.servers.facts.joint.joint_facts`).
      friends: what is stated of them.
    """

    OF = JointFacts
    MESSAGE = "records and lists"
    RANGE = (0.0, MOST_EPSILON)
    STATED = True

    facts: JointFacts
    friends: StatedFriends

    __repr__ = by_shapes

    @classmethod
    def of(
        cls, key: PRNGKey, facts: JointFacts, friends: StatedFriends
    ) -> "tuple[JointWorlds, PRNGKey]":
        """The worlds of the classes that the panel has, and the key that is left to draw them.

        ``ValueError`` for what is stated of features.
        """
        rule = "overlap and echo must be None of joint totals: nobody has public features"
        validate.require(friends.overlap is friends.echo is None, rule)
        return cls(facts._replace(numbering=None), friends), key

    def servers(self, epsilons: Sequence[float]) -> list[list[JointServer]]:
        """Each total in several splits, and as one report of both."""
        return [[self.server(one) for one in splits(total)] for total in epsilons]

    def server(self, privacy: JointPrivacy) -> JointServer:
        """The server of one split, which reads friends by the stated homophily."""
        return JointServer(privacy, self.facts, homophily=min(float(self._stated[1]), _MOST_ALIKE))

    @property
    def _stated(self) -> tuple[np.float32, np.float32, np.float32]:
        return self.friends.checked(len(self.facts.labels))

    def draw(self, key: PRNGKey, number: int) -> World:
        """One world."""
        facts = self.facts
        n = len(facts.labels)
        log_q = np.tile(facts.log_prior, (n, 1))
        draw_key, donor_key, report_key = random.split(key, 3)
        class_key, rate_key, list_key = random.split(draw_key, 3)
        y = drawn_classes(class_key, log_q, facts.labels)
        friends = drawn_friends(rate_key, y, log_q, self._stated, np.zeros(2, np.float32))
        scores = drawn_scores(donor_key, facts, y, log_q, 1.0)
        entries = max(1, round(float(self._stated[0]) * n))
        owners, theirs = drawn_lists(list_key, friends, y, entries)
        users = DrawnUsers(n, scores, friends, (np.asarray(owners), np.asarray(theirs)))
        return World(users, y, log_q, facts.labels < 0, report_key, one_noise=True)


def splits(total: float) -> list[JointPrivacy]:
    """The splits that leave a list nothing, or enough for its noise; and one report of both."""
    each = []
    for share in SHARES:
        if share == 1.0 or (1.0 - share) * total > 2 * MIN_EPSILON:
            each.append(JointPrivacy.split(total, share))
    each.append(JointPrivacy(both=total))
    return [dataclasses.replace(one, rehearsed=True) for one in each]
