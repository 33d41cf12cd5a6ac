"""Neighbour lists of a whole graph at once: sparse, exact, compiled, streamed over users.

True pairs are a Bernoulli each. For N others, each reported with probability a, a Poisson number
(mean -N log1p(-a)) of uniform ranks is drawn *with* replacement and repeats are dropped. Every one
is then hit with probability exactly a, independently of the rest. Nothing is ever as large as the
square of the number of users.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random, random_words
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Scalar
from ldp_jax.edges.draws import capacity, each_below, happens, poisson_counts
from ldp_jax.edges.population import Population, ReportedPairs, tally

_BLOCK = 2**22  # pairs and users of one block, but for a user who has more alone
_AT_ONCE = 4  # blocks in work: NumPy sorts and searches on one core a thread


@runtime_checkable
class BitMechanism(Protocol):
    """The part of :class:`~ldp_jax.edges.neighbour_lists.ListMechanism` used here, which documents it."""

    @property
    def reporting(self) -> str: ...
    def of_users(self, choose: Callable[[Scalar], Scalar]) -> "BitMechanism": ...
    def sums(self) -> np.ndarray: ...
    def rates(
        self, key: PRNGKey, degree: Array, owned: Scalar
    ) -> tuple[Array | None, Array, Array]: ...
    def drop_rate(self, noisy: Array | None, owned: Scalar) -> Array: ...
    def bit_rates(self, noisy: Array | None, owned: Scalar) -> tuple[Array, Array]: ...
    def degree_if_none(self, owned: Scalar) -> Array | None: ...


# --- Who owns a pair ------------------------------------------------------------------------------


class Users(NamedTuple):
    """Users by place, where their level (of a whole list, the graph) begins and ends, and the size of the graph."""

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
    index, level = users.place - users.start, users.end - users.start
    return (index + 1) // 2, (level - 1 - index) // 2


def rank_of(users: Users, other: np.ndarray, half: bool) -> np.ndarray:
    """The rank of an owned node among those the user owns; elementwise."""
    if not half:
        return other - (other > users.place)
    index, within = users.place - users.start, other - users.start
    low, high = _within_level(users)
    inside = np.where(within < index, within // 2, low + (within - index) // 2 - 1)
    return np.where(other >= users.end, low + high + (other - users.end), inside)


def node_of(users: Users, rank: np.ndarray, half: bool) -> np.ndarray:
    """The owned node of a rank: the inverse of :func:`rank_of`."""
    if not half:
        return rank + (rank >= users.place)
    index = users.place - users.start
    low, high = _within_level(users)
    below, above = 2 * rank + (index + 1) % 2, index + 2 * (rank - low + 1)
    within = users.start + np.where(rank < low, below, above)
    return np.where(rank >= low + high, users.end + rank - low - high, within)


def owns(users: Users, other: int | AnyArray, half: bool) -> Any:
    """Whether the pair of a user and another node is the user's to report.

    NumPy or JAX, elementwise.
    """
    # In a half matrix a pair of one level belongs to the lower place if the two places sum to an
    # even number, else to the higher one; a pair of two levels to the user of the lower (smaller
    # epsilon).
    if not half:
        return other != users.place
    same = (other >= users.start) & (other < users.end) & (other != users.place)
    even = (users.place + other - 2 * users.start) % 2 == 0
    return (other >= users.end) | (same & ((other > users.place) == even))


class Plan(NamedTuple):
    """Reporters, by place, and the true pairs that each owns."""

    who: np.ndarray  # the ids of the reporters
    users: Users
    degree: np.ndarray  # how many true pairs each owns
    node: np.ndarray  # the places of the other ends, user by user, sorted
    begin: np.ndarray  # where each reporter's graph begins
    member: np.ndarray  # the id of each place


def plan(m: BitMechanism, people: Population, half: bool) -> Plan:
    """Every private user reports about all nodes of one graph, or pairs of private users have one owner each."""
    senders, receivers, group, private = people
    n = len(group)
    if half:
        member, new = _order(m, np.flatnonzero(private), group)
    else:
        member = np.arange(n, dtype=np.int32)
        new = np.append(True, np.diff(group) > 0)
    begin = np.searchsorted(group[member], group[member], "left")
    size = np.searchsorted(group[member], group[member], "right") - begin
    starts = np.flatnonzero(new)
    level = np.cumsum(new) - 1
    ends = np.append(starts[1:], len(member))
    places = np.arange(len(member)) - begin, starts[level] - begin, ends[level] - begin, size
    users = Users(*np.stack(places).astype(np.int32))
    if half:
        _check_owners(np.broadcast_to(m.sums(), group.shape)[member], begin, users.start)

    if not private.all():
        reported = private[receivers] & (private[senders] | (not half))
        senders, receivers = senders[reported], receivers[reported]
    user, local = receivers, senders
    if half:
        place_of = np.full(n, -1, np.int32)
        place_of[member] = np.arange(len(member))
        user, local = place_of[receivers], place_of[senders]
    local = local - begin.astype(np.int32)[user]
    if half:  # pairs of whole lists are in order, by receiver and then by sender
        mine = owns(Users(*(leaf[user] for leaf in users)), local, half)
        user, local = user[mine], local[mine]
        local = local[np.argsort(user * np.int64(n) + local, kind="stable")]
    at = np.flatnonzero(private[member])
    users = Users(*(leaf[at] for leaf in users))
    return Plan(member[at], users, tally(user, len(member))[at], local, begin[at], member)


def _order(m: BitMechanism, who: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Users by graph, then by budget, then by id.

    And where a level begins: the users of one graph and budget.
    """
    budget = np.broadcast_to(m.sums(), group.shape)
    who = who[np.lexsort((who, budget[who], group[who]))].astype(np.int32)
    new = np.ones(len(who), bool)
    new[1:] = (np.diff(group[who]) > 0) | (np.diff(budget[who]) > 0)
    return who, new


def _check_owners(budget: np.ndarray, begin: np.ndarray, start: np.ndarray) -> None:
    """Levels have one budget each, and later places of a graph no smaller one.

    No owner has the larger budget.
    """
    falls = (np.diff(budget) < 0) & (np.diff(begin) == 0)
    if falls.any() or (budget[begin + start] != budget).any():
        raise RuntimeError(
            "a pair would belong to the larger budget of its two users: please report this defect"
        )


# --- Programs -------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="half")
def _rates(
    key: PRNGKey, m: BitMechanism, users: Users, degree: Array, half: bool
) -> tuple[Array | None, Array, Array, Array]:
    owned = universe(users, half)
    noisy, keep, add = m.rates(key, degree, owned)
    return noisy, keep, jnp.broadcast_to(m.drop_rate(noisy, owned), keep.shape), add


@jax.jit
def _false_if_none(m: BitMechanism, owned: Array) -> Array:
    _, add = m.bit_rates(m.degree_if_none(owned), owned)
    return owned.astype(jnp.float32) * add


@jax.jit
def _means(owned: Array, degree: Array, add: Array) -> Array:
    return -jnp.maximum(owned - degree, 0).astype(jnp.float32) * jnp.log1p(-add)


# --- Sampling -------------------------------------------------------------------------------------


def sample(key: PRNGKey, m: BitMechanism, people: Population, memory: float) -> ReportedPairs:
    """The reports of all private users.

    Exact in law, in time and memory O(input pairs + output pairs).

    Block b draws from ``fold_in(key, b)``. Budgets may be arrays [n]. ``memory`` bounds the bytes
    of false pairs that a graph without edges lets expect. ``ValueError`` for budgets of another
    number of users, or more pairs than that; ``RuntimeError``, before anything is drawn, where a
    pair would belong to its larger budget.
    """
    n = len(people.group)
    half = m.reporting != "full"
    m.of_users(lambda leaf: _one_or_each(leaf, n))
    noisy = np.full(n, np.nan, np.float32)
    reporter, reported = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    if people.private.any():
        made = plan(m, people, half)
        m = m.of_users(lambda leaf: leaf if np.ndim(leaf) == 0 else np.asarray(leaf)[made.who])
        _refuse_dense(m, made.users, half, memory)
        counted = None
        if m.reporting == "half list":  # edges with public users are no part of a private list
            counted = tally(people.receivers[people.private[people.senders]], n)[made.who]
        spans = list(_blocks(made.degree))

        def block(number: int) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
            degree, user, place = _block(
                random.fold_in(key, number), m, made, counted, *spans[number]
            )
            return degree, made.who[user], made.member[made.begin[user] + place]

        with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
            first = block(0)  # which compiles for the others
            found = chain([first], pool.map(block, range(1, len(spans))))
            for (start, stop), (degree, who, whom) in zip(spans, found, strict=True):
                reporter.append(who)
                reported.append(whom)
                if degree is not None:
                    noisy[made.who[start:stop]] = degree
    return ReportedPairs(np.concatenate(reporter), np.concatenate(reported), noisy)


def _one_or_each(leaf: Scalar, n: int) -> Scalar:
    if np.shape(leaf) not in ((), (n,)):
        raise ValueError(
            f"budgets must be one number or one a user, [{n}], got shape {np.shape(leaf)}"
        )
    return leaf


def _refuse_dense(m: BitMechanism, users: Users, half: bool, memory: float) -> None:
    """Refuse a dense output by what a graph without edges lets expect.

    A refusal must not tell true edges.
    """
    count = len(users.place)
    owned = universe(users, half).astype(np.int32)
    if 16.0 * float(owned.sum(dtype=np.float64)) <= memory:  # all pairs would fit
        return
    false = _false_if_none(_part(m, 0, count), np.pad(owned, (0, capacity(count) - count)))
    expected = 16.0 * float(np.asarray(false, np.float64).sum())
    if expected > memory:
        raise ValueError(
            f"the reported graph is expected to take {expected / 1e9:.3g} GB (memory allows {memory / 1e9:.3g}): "
            "randomised response is dense, DPRR is not; or raise memory"
        )


def _blocks(degree: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of users with at most a block's pairs, and at most a block's users."""
    ends = np.concatenate([[0], np.cumsum(degree, dtype=np.int64)])
    start = 0
    n = len(degree)
    while start < n:
        stop = int(np.searchsorted(ends, ends[start] + _BLOCK, "right")) - 1
        stop = min(max(stop, start + 1), start + _BLOCK, n)
        yield start, stop
        start = stop


def _block(
    key: PRNGKey, m: BitMechanism, made: Plan, counted: np.ndarray | None, start: int, stop: int
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Consecutive users' noisy degrees (or None), and the reported pairs, sorted, each once.

    Users and places.
    """
    # ``counted`` is the degree that is sent, of size - 1 pairs, where it is not that of the owned
    # pairs.
    length = stop - start
    keys = random_words.split(key, 4)
    half = m.reporting != "full"

    def fill(array: np.ndarray, value: int = 0) -> np.ndarray:
        return np.pad(array[start:stop], (0, capacity(length) - length), constant_values=value)

    # Padding users own nothing: a graph of one node.
    mine = Users(
        fill(made.users.place),
        fill(made.users.start),
        fill(made.users.end, 1),
        fill(made.users.size, 1),
    )
    degree = fill(made.degree)
    sent, of_owned = (degree, half) if counted is None else (fill(counted), False)
    noisy, keep, drop, add = _rates(keys[0], _part(m, start, stop), mine, sent, of_owned)
    owned = universe(mine, half)
    count = poisson_counts(keys[1], np.asarray(_means(owned, degree, add)))

    before = int(made.degree[:start].sum(dtype=np.int64))
    each = partial(np.repeat, repeats=degree)  # what is a user's, for each true pair
    true = made.node[before : before + int(degree.sum(dtype=np.int64))]
    kept = happens(keys[2], each(np.asarray(keep)), each(np.asarray(drop)))
    ranks = rank_of(Users(*map(each, mine)), true, half)
    width = int(made.users.size.max())
    whose = np.arange(len(degree)) * width
    drawn = np.repeat(whose, count) + each_below(
        keys[3], np.repeat(np.maximum(owned - degree, 1), count)
    )
    first = np.cumsum(degree, dtype=np.int64) - degree
    liar, rank = _among_others(
        drawn, each(whose + first) + ranks - np.arange(len(true)), first, width
    )
    wrong = liar * width + node_of(Users(*(leaf[liar] for leaf in mine)), rank, half)
    pairs = np.concatenate([(each(whose) + true)[kept], wrong])
    pairs.sort(kind="stable")  # which merges what is in order
    user = pairs // width
    place = (pairs - user * width).astype(np.int32)
    return (
        None if noisy is None else np.asarray(noisy)[:length],
        (user + start).astype(np.int32),
        place,
    )


def _among_others(
    drawn: np.ndarray, true: np.ndarray, first: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Users, and the ranks below ``width`` of their false pairs, in order and each once."""
    # ``drawn`` is, times ``width`` the user, which of the pairs that are not true. The r-th of them
    # has rank r + k, k the number of true ranks t_j with t_j - j <= r; ``true`` are these
    # differences, in order, plus the users. A user's begin at ``first``.
    drawn.sort(kind="stable")
    drawn = drawn[np.append(True, drawn[1:] != drawn[:-1])[: len(drawn)]]
    user = drawn // width
    return user, drawn - user * width + np.searchsorted(true, drawn, "right") - first[user]


def _part(m: BitMechanism, start: int, stop: int) -> BitMechanism:
    """The mechanism of a block of users; padding repeats the first one's budget."""
    short = capacity(stop - start) - (stop - start)

    def part(leaf: Scalar) -> Scalar:
        if np.ndim(leaf) == 0:
            return leaf
        mine = np.asarray(leaf)[start:stop]
        return np.concatenate([mine, np.repeat(mine[:1], short, 0)])

    return m.of_users(part)
