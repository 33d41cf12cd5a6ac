"""Worlds of links: everybody's list is that of a member of the pilot of the same group.

Lists are counted by group, and members are drawn anew in each world. A tenth of the links is taken
out of all lists. They are told from as many random pairs, by counts and by released degrees of the
same epsilon.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.core.whole_noise import MAX_EPSILON, MIN_EPSILON
from ldp_jax.edges import NeighbourCounts
from ldp_jax.learning import metrics
from ldp_jax.servers.links import LinkFacts, link_scores
from ldp_jax.servers.parts.groups import check_labels, check_posterior
from ldp_jax.servers.worlds.records import donors
from ldp_jax.servers.worlds.world import places_below

SCORES = ("degrees", "degrees and same class", "counts", "counts and same class")
"""By which links are found. Degrees are released, counts are of neighbours by group."""

# The share of the links of a world that is held out, and the most of them.
_HELD_OUT, _MOST_LINKS = 0.1, 5000


@pytree
class Pilot:
    """The part of the pilot that worlds need.

    Users have groups [n], and those by which they get lists (``like`` [n]). Members have a group
    [m], counts [m, K] and the first place [m] of their entries. Entries have the friend's group and
    the score of one class.
    """

    groups: Array
    like: Array
    of_member: Array
    counts: Array
    start: Array
    of_friend: Array
    alike: Array

    @classmethod
    def of(cls, facts: LinkFacts) -> "Pilot":
        """The pilot of facts that were checked."""
        groups = facts.groups
        pilot = np.asarray(facts.pilot)
        friends = np.asarray(facts.friends)
        n, num_groups = np.shape(facts.log_q)
        place = np.full(n, len(pilot))
        place[pilot] = np.arange(len(pilot))
        order = np.argsort(place[friends[:, 0]], kind="stable")
        friends = friends[order]
        member = place[friends[:, 0]]
        of_friend = groups[friends[:, 1]]
        alike = facts.same_class(friends).astype(np.float32)
        start = np.searchsorted(member, np.arange(len(pilot)))
        counts = np.zeros((len(pilot), num_groups), np.int32)
        np.add.at(counts, (member, of_friend), 1)
        size = np.bincount(groups[pilot], minlength=num_groups)
        like = np.where(size[groups] > 0, groups, size.argmax()).astype(np.int32)
        made = groups, like, groups[pilot], counts, start, of_friend, alike
        return cls(*map(jnp.asarray, made))


@dataclasses.dataclass(frozen=True, eq=False)
class LinkWorlds:
    """Draws lists of which links are taken out.

    Attributes:
      OF: the facts that these worlds are drawn from; ``MESSAGE``: what is found; ``RANGE``:
        epsilons that may be tried; ``STATED``: whether friends must be stated.
      facts: public, with labels as whole numbers.
    """

    OF = LinkFacts
    MESSAGE = "links"
    RANGE = (MIN_EPSILON, MAX_EPSILON)
    STATED = False

    facts: LinkFacts

    __repr__ = by_shapes

    @classmethod
    def of(cls, key: PRNGKey, facts: LinkFacts) -> "tuple[LinkWorlds, PRNGKey]":
        """The worlds, and the key that is left to draw them.

        ``ValueError`` for a pilot whose lists are of others or empty.
        """
        log_q = np.asarray(facts.log_q)
        labels = validate.labels(facts.labels)
        pilot = np.asarray(facts.pilot)
        check_posterior(log_q)
        n = len(log_q)
        check_labels(labels, log_q.shape[1])
        rule = f"labels must be of the {n} users of log_q, got {len(labels)}"
        validate.require(len(labels) == n, rule)
        entries = facts.check_pilot()
        validate.require(len(entries), "friends must be entries of lists, one at least")
        return cls(LinkFacts(log_q, labels, pilot, entries)), key

    def found(
        self, key: PRNGKey, epsilons: Sequence[float], worlds: Iterable[int]
    ) -> tuple[Float[np.ndarray, "worlds epsilons scores"], Float[np.ndarray, " worlds"]]:
        """The AUC of links in each world, in percent: by each of :data:`SCORES`, by classes alone.

        Counts and released degrees are of the same epsilons.
        """
        facts = self.facts
        n = len(facts.labels)
        pilot = Pilot.of(facts)
        links = _HELD_OUT * len(facts.friends) / len(facts.pilot) * n / 2
        size = min(math.ceil(links), _MOST_LINKS)
        percent = lambda scores: 100.0 * float(metrics.auc(scores[:size], scores[size:]))
        auc = []
        alone = []
        for world in worlds:
            draw_key, other_key, report_key = random.split(random.fold_in(key, world), 3)
            counts, linked, alike = drawn_links(draw_key, pilot, size=size)
            others = np.asarray(random.randint(other_key, (size, 2), 0, n))
            of_others = jnp.asarray(facts.same_class(others), jnp.float32)
            alike = jnp.concatenate([alike, of_others])
            pairs = np.concatenate([np.asarray(linked), others])
            alone.append(percent(alike))
            for place, epsilon in enumerate(epsilons):
                degree_key, count_key = random.split(random.fold_in(report_key, place))
                noise = NeighbourCounts(epsilon, 1)
                degree = noise.add_noise(degree_key, counts.sum(1, keepdims=True))
                degree = jnp.clip(degree, 0, n - 1)  # as NoisyDegree sends it
                noise = NeighbourCounts(epsilon, counts.shape[1])
                reports = noise.add_noise(count_key, counts)
                by_degree = link_scores(degree, np.zeros(n, np.int32), pairs, epsilon)
                by_count = link_scores(reports, facts.groups, pairs, epsilon)
                for scores in (by_degree, by_count):
                    auc += [percent(scores), percent(scores + alike)]
        shape = (len(alone), len(epsilons), len(SCORES))
        return np.reshape(auc, shape), np.array(alone)

    @staticmethod
    def gains(
        auc: Float[np.ndarray, "worlds epsilons scores"],
    ) -> Float[np.ndarray, "worlds epsilons"]:
        """Points of AUC by counts over released degrees, each by the better of two scores."""
        each = auc.reshape(*auc.shape[:2], 2, 2)  # by degrees and by counts
        better = each.mean(0).argmax(2)[None, ..., None]
        by_degree, by_count = np.moveaxis(np.take_along_axis(each, better, 3)[..., 0], 2, 0)
        return by_count - by_degree


@partial(jax.jit, static_argnames="size")
def drawn_links(key: PRNGKey, pilot: Pilot, *, size: int) -> tuple[Array, Array, Array]:
    """Counts by group int32 [n, K], and links that are in none of them.

    Ends [size, 2], and scores of one class.

    One end is an entry of a list. The other is of the group that the list names, by their entries
    of the first end's group: links between two groups are stubs that are matched at random.
    """
    donor_key, owner_key, entry_key, friend_key, rest_key = random.split(key, 5)
    groups = pilot.groups
    n = len(pilot.groups)
    num_groups = pilot.counts.shape[1]
    even = jnp.zeros((n, num_groups), jnp.float32)
    even_of_members = even[: len(pilot.of_member)]
    everybody = np.float32(1.0)
    donor = donors(donor_key, pilot.like, even, pilot.of_member, even_of_members, everybody)
    counts = pilot.counts[donor]
    degree = counts.sum(1)
    ends = degree.cumsum()

    place = places_below(owner_key, jnp.broadcast_to(ends[-1], (size,)))
    one = jnp.minimum(jnp.searchsorted(ends, place, side="right"), n - 1)
    entry = pilot.start[donor[one]] + places_below(entry_key, degree[one])
    entry = jnp.minimum(entry, len(pilot.alike) - 1)
    of_one = groups[one]
    of_other = pilot.of_friend[entry]

    order = jnp.argsort(groups)
    people = (groups[:, None] == jnp.arange(num_groups)).sum(0)
    first = people.cumsum() - people
    # Stubs of all users, first by the group that they go to, then by the owner's.
    stubs = jnp.concatenate([jnp.zeros(1, jnp.int32), counts[order].T.ravel().cumsum()])
    row = of_one * n + first[of_other]
    low = stubs[row]
    high = stubs[row + people[of_other]]
    stub = low + places_below(friend_key, high - low)
    matched = jnp.searchsorted(stubs, stub, side="right") - 1 - of_one * n
    anybody = first[of_other] + places_below(rest_key, people[of_other])
    other = order[jnp.clip(jnp.where(high > low, matched, anybody), 0, n - 1)]

    left = counts.at[one, of_other].add(-1)
    left = left.at[other, of_one].add(-1)
    return jnp.maximum(left, 0), jnp.stack([one, other], 1), pilot.alike[entry]
