"""Worlds of links: everybody's list is that of a member of the pilot of the same group.

Lists are counted by group, and members are drawn anew in each world. A tenth of the links is taken
out of all lists. They are told from as many random pairs, by counts and by released degrees of the
same epsilon.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.pytree import pytree
from ldp_jax.core.types import Array, PRNGKey
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
class _Pilot:
    """What worlds take of the pilot.

    Of users their groups [n], and those by which they get lists (``like`` [n]). Of members their
    group [m], counts [m, K] and the first place [m] of their entries. Of entries the friend's group
    and the score of one class.
    """

    groups: Array
    like: Array
    of_member: Array
    counts: Array
    start: Array
    of_friend: Array
    alike: Array

    @classmethod
    def of(cls, facts: LinkFacts) -> "_Pilot":
        groups = facts.groups
        pilot = np.asarray(facts.pilot)
        friends = np.asarray(facts.friends)
        n, num_groups = np.shape(facts.log_q)
        place = np.full(n, len(pilot))
        place[pilot] = np.arange(len(pilot))
        order = np.argsort(place[friends[:, 0]], kind="stable")
        member, friend = place[friends[order, 0]], friends[order, 1]
        counts = np.zeros((len(pilot), num_groups), np.int32)
        np.add.at(counts, (member, groups[friend]), 1)
        size = np.bincount(groups[pilot], minlength=num_groups)
        like = np.where(size[groups] > 0, groups, size.argmax()).astype(np.int32)
        start = np.searchsorted(member, np.arange(len(pilot)))
        alike = facts.same_class(friends[order])
        made = groups, like, groups[pilot], counts, start, groups[friend], alike.astype(np.float32)
        return cls(*map(jnp.asarray, made))


class LinkScores(NamedTuple):
    """How well links of simulated users are found.

    Attributes:
      auc: float64 [worlds, epsilons, 4], in percent, by each of :data:`SCORES`.
      alone: float64 [worlds], by public classes alone.
    """

    auc: Float[np.ndarray, "worlds epsilons scores"]
    alone: Float[np.ndarray, " worlds"]

    def gains(self) -> Float[np.ndarray, "worlds epsilons"]:
        """Points of AUC by counts over released degrees, each by the better of two scores."""
        each = self.auc.reshape(*self.auc.shape[:2], 2, 2)  # by degrees and by counts
        best = np.take_along_axis(each, each.mean(0).argmax(2)[None, ..., None], 3)[..., 0]
        return best[..., 1] - best[..., 0]


def found_links(
    key: PRNGKey, facts: LinkFacts, epsilons: Sequence[float], worlds: Iterable[int]
) -> LinkScores:
    """Find links in each world, by counts and by released degrees of the same epsilons.

    ``ValueError`` for a pilot whose lists are of others or empty.
    """
    facts = _checked_pilot(facts)
    n = len(facts.labels)
    of_pilot = _Pilot.of(facts)
    size = min(math.ceil(_HELD_OUT * len(facts.friends) / len(facts.pilot) * n / 2), _MOST_LINKS)
    auc = []
    alone = []
    for world in worlds:
        draw_key, other_key, report_key = random.split(random.fold_in(key, world), 3)
        counts, linked, alike = _drawn_links(draw_key, of_pilot, size=size)
        others = np.asarray(random.randint(other_key, (size, 2), 0, n))
        alike = jnp.concatenate([alike, jnp.asarray(facts.same_class(others), jnp.float32)])
        pairs = np.concatenate([np.asarray(linked), others])
        alone.append(_percent(alike, size))
        auc.append([])
        for place, epsilon in enumerate(epsilons):
            run_key = random.fold_in(report_key, place)
            for scores in _scores(run_key, facts, counts, pairs, epsilon):
                auc[-1] += [_percent(scores, size), _percent(scores + alike, size)]
    shape = (len(auc), len(epsilons), len(SCORES))
    return LinkScores(np.reshape(auc, shape), np.array(alone))


def _scores(
    key: PRNGKey, facts: LinkFacts, counts: Array, pairs: np.ndarray, epsilon: float
) -> tuple[Array, Array]:
    """Scores of pairs by released degrees, and by counts."""
    n, num_groups = counts.shape
    degree_key, count_key = random.split(key)
    degree = NeighbourCounts(epsilon, 1).add_noise(degree_key, counts.sum(1, keepdims=True))
    degree = jnp.clip(degree, 0, n - 1)  # as NoisyDegree sends it
    reports = NeighbourCounts(epsilon, num_groups).add_noise(count_key, counts)
    by_degree = link_scores(degree, np.zeros(n, np.int32), pairs, epsilon)
    return by_degree, link_scores(reports, facts.groups, pairs, epsilon)


def _percent(scores: Array, size: int) -> float:
    return 100.0 * float(metrics.auc(scores[:size], scores[size:]))


def _checked_pilot(facts: LinkFacts) -> LinkFacts:
    """The facts with labels as whole numbers; what does not fit is refused."""
    log_q = np.asarray(facts.log_q)
    labels = validate.labels(facts.labels)
    pilot = np.asarray(facts.pilot)
    check_posterior(log_q)
    n = len(log_q)
    check_labels(labels, log_q.shape[1])
    if len(labels) != n:
        raise ValueError(f"labels must be of the {n} users of log_q, got {len(labels)}")
    validate.ids(n, "the users", pilot=pilot)
    if not len(friends := validate.pairs(n, "the users", friends=facts.friends)):
        raise ValueError("friends must be entries of lists, one at least")
    if len(np.unique(pilot)) < len(pilot) or not np.isin(friends[:, 0], pilot).all():
        raise ValueError(
            "pilot must name each member once, and friends must be of their lists alone"
        )
    if len(np.unique(friends, axis=0)) < len(friends) or (friends[:, 0] == friends[:, 1]).any():
        raise ValueError("friends must name each entry once, and nobody as their own friend")
    return LinkFacts(log_q, labels, pilot, friends)


@partial(jax.jit, static_argnames="size")
def _drawn_links(key: PRNGKey, pilot: _Pilot, *, size: int) -> tuple[Array, Array, Array]:
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
    donor = donors(
        donor_key, pilot.like, even, pilot.of_member, even[: len(pilot.of_member)], np.float32(1.0)
    )
    counts = pilot.counts[donor]
    degree = counts.sum(1)
    ends = degree.cumsum()
    one = jnp.searchsorted(
        ends, places_below(owner_key, jnp.broadcast_to(ends[-1], (size,))), side="right"
    )
    one = jnp.minimum(one, n - 1)
    entry = jnp.minimum(
        pilot.start[donor[one]] + places_below(entry_key, degree[one]), len(pilot.alike) - 1
    )
    of_one, of_other = groups[one], pilot.of_friend[entry]
    order = jnp.argsort(groups)
    people = (groups[:, None] == jnp.arange(num_groups)).sum(0)
    first = people.cumsum() - people
    # Stubs of all users, first by the group that they go to, then by the owner's.
    stubs = jnp.concatenate([jnp.zeros(1, jnp.int32), counts[order].T.ravel().cumsum()])
    row = of_one * n + first[of_other]
    low, high = stubs[row], stubs[row + people[of_other]]
    matched = (
        jnp.searchsorted(stubs, low + places_below(friend_key, high - low), side="right")
        - 1
        - of_one * n
    )
    anybody = first[of_other] + places_below(rest_key, people[of_other])
    other = order[jnp.clip(jnp.where(high > low, matched, anybody), 0, n - 1)]
    left = counts.at[one, of_other].add(-1).at[other, of_one].add(-1)
    return jnp.maximum(left, 0), jnp.stack([one, other], 1), pilot.alike[entry]
