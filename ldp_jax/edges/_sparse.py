"""Neighbour lists of a whole graph at once: sparse, exact, compiled, streamed over users.

True pairs are a Bernoulli each. For N others, each reported with probability a, a Poisson number
(mean -N log1p(-a)) of uniform ranks is drawn *with* replacement and repeats are dropped. Every one
is then hit with probability exactly a, independently of the rest. Above a = 1/2 they are asked one
by one: at 1 no number of draws is enough. Nothing else is as large as the square of the number of
users.
"""

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, random_words, validate
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.edges import checks
from ldp_jax.edges.draws import capacity, each_below, happens, ordinal, poisson_counts
from ldp_jax.edges.population import Population, ReportedPairs, tally

if TYPE_CHECKING:
    from ldp_jax.edges.neighbour_lists import ListMechanism

_BLOCK = 2**22  # pairs and users of one block, but for a user who has more alone
_DENSE = 0.5  # the probability above which pairs that are not true are asked one by one
_AT_ONCE = 4  # blocks in work: NumPy sorts and searches on one core a thread


# --- Who owns a pair ------------------------------------------------------------------------------


class Users(NamedTuple):
    """Users by place, the places where their level begins and ends, and the size of their graph.

    A level holds the users of one graph and budget; of whole lists it is the graph.
    """

    place: Any
    start: Any
    end: Any
    size: Any


def universe(users: Users, half: bool) -> Any:
    """How many pairs each user owns: size - 1, or a part of a half matrix."""
    if not half:
        return users.size - 1
    low, high = _within_level(users)
    return low + high + (users.size - users.end)


def _within_level(users: Users) -> tuple[Any, Any]:
    """How many pairs of the own level a user owns, below and above the own place."""
    low = (users.place - users.start + 1) // 2
    high = (users.end - 1 - users.place) // 2
    return low, high


def rank_of(users: Users, other: np.ndarray, half: bool) -> np.ndarray:
    """The rank of an owned node among those the user owns; elementwise."""
    if not half:
        return other - (other > users.place)
    index = users.place - users.start
    within = other - users.start
    low, high = _within_level(users)
    above = low + (within - index) // 2 - 1
    inside = np.where(within < index, within // 2, above)
    beyond = low + high + (other - users.end)
    return np.where(other >= users.end, beyond, inside)


def node_of(users: Users, rank: np.ndarray, half: bool) -> np.ndarray:
    """The owned node of a rank: the inverse of :func:`rank_of`."""
    if not half:
        return rank + (rank >= users.place)
    index = users.place - users.start
    low, high = _within_level(users)
    below = 2 * rank + (index + 1) % 2
    above = index + 2 * (rank - low + 1)
    within = users.start + np.where(rank < low, below, above)
    beyond = users.end + rank - low - high
    return np.where(rank >= low + high, beyond, within)


def owns(users: Users, other: int | AnyArray, half: bool) -> Any:
    """Whether a user reports the pair with another node; NumPy or JAX, elementwise."""
    # In a half matrix a pair of one level belongs to the lower place if the two places sum to an
    # even number, else to the higher one; a pair of two levels to the user of the lower (smaller
    # epsilon).
    if not half:
        return other != users.place
    same = (other >= users.start) & (other < users.end) & (other != users.place)
    even = (users.place + other - 2 * users.start) % 2 == 0
    is_lower = other > users.place
    return (other >= users.end) | (same & (is_lower == even))


@dataclasses.dataclass(frozen=True)
class Plan:
    """Reporters, by place, and the true pairs that each owns."""

    who: np.ndarray  # the ids of the reporters
    users: Users
    degree: np.ndarray  # how many true pairs each owns
    node: np.ndarray  # the places of the other ends, user by user, sorted
    begin: np.ndarray  # where each reporter's graph begins
    member: np.ndarray  # the id of each place


def plan(m: "ListMechanism", people: Population, half: bool) -> Plan:
    """Assign pairs: every private user reports about all nodes, or each pair has one owner."""
    senders, receivers, group, private = people
    n = len(group)
    member = np.arange(n, dtype=np.int32)
    new = np.append(True, np.diff(group) > 0)  # where a level begins
    if half:  # users by graph, then by budget, then by id
        budget = np.broadcast_to(m.sums(), group.shape)
        member = member[private]
        member = member[np.lexsort((member, budget[member], group[member]))]
        new = np.ones(len(member), bool)
        new[1:] = (np.diff(group[member]) > 0) | (np.diff(budget[member]) > 0)
    begin = np.searchsorted(group[member], group[member], "left")
    size = np.searchsorted(group[member], group[member], "right") - begin
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(member))
    level = np.cumsum(new) - 1
    users = Users(
        place=np.arange(len(member)) - begin,
        start=starts[level] - begin,
        end=ends[level] - begin,
        size=size,
    )
    users = Users(*np.stack(users).astype(np.int32))

    # The pairs that are reported: the user, and the other end by its place in the graph.
    user = receivers
    local = senders
    if not private.all():
        reported = private[receivers] & (private[senders] | (not half))
        user = user[reported]
        local = local[reported]
    if half:
        place_of = np.full(n, -1, np.int32)
        place_of[member] = np.arange(len(member))
        user = place_of[user]
        local = place_of[local]
    local = local - begin.astype(np.int32)[user]
    if half:  # pairs of whole lists are in order, by receiver and then by sender
        mine = owns(Users(*(leaf[user] for leaf in users)), local, half)
        user = user[mine]
        local = local[mine]
        local = local[np.argsort(user * np.int64(n) + local, kind="stable")]

    at = np.flatnonzero(private[member])
    users = Users(*(leaf[at] for leaf in users))
    degree = tally(user, len(member))[at]
    return Plan(member[at], users, degree, local, begin[at], member)


# --- Programs -------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="half")
def _rates(
    key: PRNGKey,
    m: "ListMechanism",
    users: Users,
    degree: Array,
    half: bool,
) -> tuple[Array | None, Array, Array, Array]:
    return m.rates(key, degree, universe(users, half))


@jax.jit
def _false_if_none(m: "ListMechanism", owned: Array) -> Array:
    *_, add = m.bit_rates(m.degree_if_none(owned), owned)
    return owned.astype(jnp.float32) * add


@jax.jit
def _means(owned: Array, degree: Array, add: Array) -> Array:
    return -jnp.maximum(owned - degree, 0).astype(jnp.float32) * jnp.log1p(-add)


# --- Sampling -------------------------------------------------------------------------------------


def sample(key: PRNGKey, m: "ListMechanism", people: Population, memory: float) -> ReportedPairs:
    """The reports of all private users.

    Exact in law, in time and memory O(input pairs + output pairs).

    Block b draws from ``fold_in(key, b)``. Budgets may be arrays [n]. ``memory`` bounds the bytes
    of false pairs that a graph without edges lets expect. ``ValueError`` for budgets of another
    number of users, or more pairs than that.
    """
    n = len(people.group)
    half = m.reporting != "full"
    for budget in m.budgets:
        shape = np.shape(getattr(m, budget))
        validate.require(
            shape in ((), (n,)),
            f"budgets must be one number or one a user, [{n}], got shape {shape}",
        )
    noisy = np.full(n, np.nan, np.float32)
    if not people.private.any():
        return ReportedPairs(np.zeros(0, np.int32), np.zeros(0, np.int32), noisy)
    made = plan(m, people, half)

    def of_reporters(budget: Scalar) -> Scalar:
        if np.ndim(budget) == 0:
            return budget
        return np.asarray(budget)[made.who]

    m = m.of_users(of_reporters)

    # A refusal must not tell true edges: it is by what a graph without edges lets expect.
    count = len(made.who)
    owned = universe(made.users, half).astype(np.int32)
    if 16.0 * float(owned.sum(dtype=np.float64)) > memory:
        padding = (0, capacity(count) - count)
        false = _false_if_none(_part(m, 0, count), np.pad(owned, padding))
        expected = float(np.asarray(false, np.float64).sum())
        checks.fits(expected, memory, "randomised response is dense, DPRR is not")

    counted = None
    if m.reporting == "half list":  # edges with public users are no part of a private list
        from_private = people.private[people.senders]
        counted = tally(people.receivers[from_private], n)[made.who]

    # Runs of users with at most a block's pairs, and at most a block's users.
    ends = np.concatenate([[0], np.cumsum(made.degree, dtype=np.int64)])
    spans = []
    stop = 0
    while stop < count:
        start = stop
        stop = int(np.searchsorted(ends, ends[start] + _BLOCK, "right")) - 1
        stop = min(max(stop, start + 1), start + _BLOCK, count)
        spans.append((start, stop))

    def block(number: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
        own = random.fold_in(key, number)
        degree, user, place = _block(own, m, made, counted, *spans[number])
        return degree, made.who[user], made.member[made.begin[user] + place]

    reporter = []
    reported = []
    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        first = block(0)  # which compiles for the others
        found = chain([first], pool.map(block, range(1, len(spans))))
        for (start, stop), (degree, who, whom) in zip(spans, found, strict=True):
            reporter.append(who)
            reported.append(whom)
            if degree is not None:
                noisy[made.who[start:stop]] = degree
    return ReportedPairs(np.concatenate(reporter), np.concatenate(reported), noisy)


def _block(
    key: PRNGKey,
    m: "ListMechanism",
    made: Plan,
    counted: np.ndarray | None,
    start: int,
    stop: int,
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Consecutive users' noisy degrees (or None), and the users and places of reported pairs.

    Pairs are sorted, each there once. ``counted`` is the degree that is sent, of size - 1 pairs,
    where it is not that of the owned pairs.
    """
    length = stop - start
    rate_key, count_key, keep_key, place_key, listed_key = random_words.split(key, 5)
    half = m.reporting != "full"

    def fill(array: np.ndarray, value: int = 0) -> np.ndarray:
        return np.pad(array[start:stop], (0, capacity(length) - length), constant_values=value)

    # Padding users own nothing: a graph of one node.
    mine = Users(*map(fill, made.users, (0, 0, 1, 1)))
    degree = fill(made.degree)
    part = _part(m, start, stop)
    if counted is None:
        noisy, keep, drop, add = _rates(rate_key, part, mine, degree, half)
    else:
        noisy, keep, drop, add = _rates(rate_key, part, mine, fill(counted), False)
    owned = universe(mine, half)
    add = np.asarray(add)
    dense = add > _DENSE
    means = _means(owned, degree, np.where(dense, np.float32(0), add))
    count = poisson_counts(count_key, np.asarray(means))

    before = int(made.degree[:start].sum(dtype=np.int64))
    each = partial(np.repeat, repeats=degree)  # what is a user's, for each true pair
    true = made.node[before : before + int(degree.sum(dtype=np.int64))]
    kept = happens(keep_key, each(np.asarray(keep)), each(np.asarray(drop)))
    width = int(made.users.size.max())
    whose = np.arange(len(degree)) * width

    # The drawn numbers say, plus ``width`` times the user, which of the pairs that are not true.
    others = np.repeat(np.maximum(owned - degree, 1), count)
    drawn = np.repeat(whose, count) + each_below(place_key, others)
    if dense.any():
        owner = np.repeat(np.arange(len(dense)), np.where(dense, np.maximum(owned - degree, 0), 0))
        chance = add[owner]
        added = happens(listed_key, chance, np.subtract(1, chance, dtype=np.float32))
        drawn = np.concatenate([drawn, (whose[owner] + ordinal(owner))[added]])
    drawn.sort(kind="stable")
    fresh = np.append(True, drawn[1:] != drawn[:-1])
    drawn = drawn[fresh[: len(drawn)]]

    # The r-th of them has rank r + k, k the number of true ranks t_j with t_j - j <= r. ``shifts``
    # are these differences, in order, plus the users.
    first = np.cumsum(degree, dtype=np.int64) - degree
    ranks = rank_of(Users(*map(each, mine)), true, half)
    shifts = each(whose + first) + ranks - np.arange(len(true))
    user = drawn // width
    true_before = np.searchsorted(shifts, drawn, "right") - first[user]
    rank = drawn - user * width + true_before
    wrong = user * width + node_of(Users(*(leaf[user] for leaf in mine)), rank, half)

    pairs = np.concatenate([(each(whose) + true)[kept], wrong])
    pairs.sort(kind="stable")  # which merges what is in order
    user = pairs // width
    place = (pairs - user * width).astype(np.int32)

    if noisy is not None:
        noisy = np.asarray(noisy)[:length]
    return noisy, (user + start).astype(np.int32), place


def _part(m: "ListMechanism", start: int, stop: int) -> "ListMechanism":
    """The mechanism of a block of users; padding repeats the last one's budget."""
    short = capacity(stop - start) - (stop - start)

    def part(leaf: Scalar) -> Scalar:
        if np.ndim(leaf) == 0:
            return leaf
        return np.pad(np.asarray(leaf)[start:stop], (0, short), mode="edge")

    return m.of_users(part)
