"""The noisy counts of all users at once: the law of one user at a time, in O(edges)."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Bool, Int

from ldp_jax.accounting.composition import parallel
from ldp_jax.accounting.guarantee import (
    NEIGHBOUR_LIST,
    RELATIONSHIP,
    Guarantee,
    PipelineGuarantee,
    sequential,
)
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.sharding import by_rows, each_part
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey, Values
from ldp_jax.core.whole_noise import WORDS
from ldp_jax.edges import _sparse
from ldp_jax.edges.neighbour_counts import NeighbourCounts, checked_groups, with_noise
from ldp_jax.edges.neighbour_lists import Reporting, per_edge, two_largest
from ldp_jax.edges.population import Population
from ldp_jax.graph import graphs

_BLOCK = 2**22  # edges that are counted at once

_TOGETHER = 2**16  # numbers that one call of a program gives noise

_DRAWN = (
    2**19
)  # numbers that are given noise at once: drawing one takes a hundred times its own memory


class NoisyCounts(NamedTuple):
    """The reports of users about their lists.

    Attributes:
      counts: [n, K], int32 or, of Laplace noise, float32; 0 for those who report nothing. Traced
        where the key is, divided among devices where the groups were.
      reported: bool [n], who reports.
      guarantee: per bit of a list and per edge, of the rounds before too.
      owners: the rule by which a pair was reported: an order of users, or a reporting.
      after: the round before, where this one was made of its reports.
    """

    counts: np.ndarray
    reported: Bool[np.ndarray, " n"]
    guarantee: PipelineGuarantee
    owners: Ownership | Reporting = "full"
    after: "NoisyCounts | None" = None

    def __repr__(self) -> str:
        users, groups = self.counts.shape
        return f"NoisyCounts({int(self.reported.sum())} of {users} users, {groups} groups)"


def count_neighbours(
    users: Population,
    groups: Values,
    num_groups: int,
    counted: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> Int[np.ndarray, "n groups"]:
    """How many neighbours each user has in each group, exactly.

    Private, on the host, in one pass over the edges.

    Groups are in [-1, num_groups), and -1 counts nowhere; ``counted`` says which pairs (user,
    neighbour) count.

    >>> star = Population.of(graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4))
    >>> count_neighbours(star, [0, 0, 1, -1], 2).tolist()
    [[1, 1], [1, 0], [1, 0], [1, 0]]
    """
    n = len(users.group)
    return _counts(users, checked_groups(groups, n, num_groups), num_groups, counted, range(n))


def _counts(
    users: Population,
    groups: np.ndarray,
    num_groups: int,
    counted: Callable[[np.ndarray, np.ndarray], np.ndarray] | None,
    rows: range,
) -> np.ndarray:
    """:func:`count_neighbours` of some users."""
    found = np.zeros((len(rows), num_groups), np.int32)
    begin, end = np.searchsorted(
        users.receivers, (rows.start, rows.stop)
    )  # edges are sorted by receiver
    for at in range(begin, end, _BLOCK):
        user, other = (
            ends[at : min(at + _BLOCK, end)] for ends in (users.receivers, users.senders)
        )
        group = groups[other]
        kept = group >= 0 if counted is None else (group >= 0) & counted(user, other)
        if kept.any():
            user = user[kept].astype(np.int64) - rows.start
            group = group[kept]
            first = int(user[0])
            last = int(user[-1]) + 1
            code = (user - first) * num_groups + group
            found[first:last] += np.bincount(code, minlength=(last - first) * num_groups).reshape(
                -1, num_groups
            )
    return found


@implicit_promotion()
def privatize_counts(
    key: PRNGKey,
    graph: Graph | graphs.GraphSet,
    mechanism: NeighbourCounts | Sequence[NeighbourCounts],
    groups: Values,
    *,
    levels: Values | None = None,
    reporters: Values | None = None,
    owners: Ownership | None = None,
    after: NoisyCounts | None = None,
) -> NoisyCounts:
    """Every user's noisy counts of neighbours by public group, in time O(edges).

    As :func:`~ldp_jax.edges.privatize_graph` it simulates all devices; the guarantee is about the
    returned value.

    Args:
      key: a typed threefry key; it may be traced, all else is concrete: ``jax.vmap(lambda key:
        privatize_counts(key, graph, mechanism, groups).counts)(keys)``.
      graph: undirected, or a :class:`~ldp_jax.graph.graphs.GraphSet`.
      mechanism: whose ``n`` and ``groups`` are ignored; or a public menu, of which epsilon alone
        differs.
      groups: int [n] in [-1, K), public or made of the reports of ``after``; -1 for a node that
        counts nowhere. Where they are divided among devices, so are the counts; the draws stay the
        same.
      levels: int [n], public: which mechanism of a menu each user takes, whatever the user's list
        is.
      reporters: bool [n], public: who reports; all by default.
      owners: a public rule by which each pair is reported once, for epsilon, instead of
        ``reporting``.
      after: the round of whose reports ``groups``, ``reporters`` or ``owners`` were made; the
        guarantee is of all rounds. A list that is in one round alone costs what that round does.

    ``ValueError`` for arguments that do not fit each other, or a menu that differs in more than
    epsilon.

    >>> star = graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    >>> noisy = privatize_counts(jax.random.key(0), star, NeighbourCounts(2.0, num_groups=2), [0, 0, 1, 1])
    >>> noisy.counts.shape, print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes, groups of nodes
      epsilon 2 per neighbour-list (...)
      epsilon 4 per relationship (...)
    ((4, 2), None)

    A user who reports again, by groups that were made of these reports, pays for both:

    >>> second = NeighbourCounts(2.0, num_groups=2)
    >>> both = privatize_counts(jax.random.key(1), star, second, noisy.counts.argmax(1), after=noisy)
    >>> both.guarantee[NEIGHBOUR_LIST].epsilon > 3.99
    True
    """
    validate.threefry(key)
    users = Population.of(graph)
    n = len(users.group)
    if after is not None and after.reported.shape != (n,):
        raise ValueError(f"after must be of {n} users, as the graph is, got {len(after.reported)}")
    menu, level = _menu(mechanism, levels, n)
    first = menu[0]
    over = by_rows(groups)
    groups = checked_groups(
        groups if over is None else process_allgather(groups, tiled=True), n, first.num_groups
    )
    reported = validate.mask(n, reporters=reporters)
    if owners is not None:
        if first.reporting != "full":
            raise ValueError(
                f"owners say who reports a pair, and so does reporting {first.reporting!r}: give one"
            )
        if owners.order.shape != (n,):
            raise ValueError(f"owners must be of {n} users, got {len(owners.order)}")
        if reporters is None:
            reported = ~owners.silent
        elif (reported & owners.silent).any():
            raise ValueError(
                f"{int((reported & owners.silent).sum())} reporters are silent in owners"
            )
    counted = None if owners is None else owners.owns
    if first.reporting == "half":
        counted = lambda user, other: _sparse.owns(_sparse.Users(user, 0, n, n), other, True)

    def true(index: tuple[slice, ...] | None) -> np.ndarray:
        rows = range(n) if index is None else range(n)[index[0]]
        return np.clip(_counts(users, groups, first.num_groups, counted, rows), 0, first.most)

    # Of divided users each process counts for its own.
    shape = (n, first.num_groups)
    to = over and NamedSharding(over.mesh, P(over.spec[0]))
    counts = true(None) if to is None else jax.make_array_from_callback(shape, to, true)
    xp = np if over is None and validate.concrete(key) else jnp
    keys = [key] if len(menu) == 1 else random.split(key, len(menu))
    noisy = _noisy(first, keys[0], counts, over)
    for number in range(1, len(menu)):
        noisy = xp.where(
            (level == number)[:, None], _noisy(menu[number], keys[number], counts, over), noisy
        )
    unprotected = ("number of nodes", "groups of nodes")
    unprotected += () if reported.all() else ("who reports",)
    unprotected += ("personal budgets",) if len(menu) > 1 else ()
    rule = owners or first.reporting
    spent = _spent(menu, level, rule != "full")
    if after is not None:
        spent = _with_before(spent, reported, rule, after)
        unprotected = tuple(dict.fromkeys((*after.guarantee.unprotected, *unprotected)))
    guarantee = PipelineGuarantee.of(spent, protected=("edges",), unprotected=unprotected)
    counts = xp.where(reported[:, None], noisy, 0).astype(noisy.dtype)
    return NoisyCounts(cast("np.ndarray", counts), reported, guarantee, rule, after)


def _menu(
    mechanism: NeighbourCounts | Sequence[NeighbourCounts], levels: Values | None, n: int
) -> tuple[list[NeighbourCounts], Int[np.ndarray, " n"]]:
    """The mechanisms, and which of them each user takes."""
    menu = list(mechanism) if isinstance(mechanism, Sequence) else [mechanism]
    if not menu or not all(isinstance(one, NeighbourCounts) for one in menu):
        raise ValueError("mechanism must be NeighbourCounts, or a menu of them")
    alike = {(one.num_groups, one.most, one.noise, one.reporting) for one in menu}
    if len(alike) > 1:
        raise ValueError("a menu's mechanisms must differ in epsilon alone")
    if levels is None:
        if len(menu) > 1:
            raise ValueError(
                f"levels must be given with a menu of {len(menu)}: which mechanism each user takes"
            )
        return menu, np.zeros(n, np.int32)
    return menu, checked_groups(levels, n, len(menu), 0, "levels")


def _spent(menu: list[NeighbourCounts], level: np.ndarray, once: bool) -> list[Guarantee]:
    """Per bit of a list the largest budget that is taken; per edge it alone, or the two largest."""
    taken = [menu[number] for number in np.unique(level)] or menu[:1]
    worst = max((one.guarantee() for one in taken), key=lambda one: one.epsilon)
    if len(taken) == 1:
        return [worst, taken[0].relationship("half" if once else "full")]
    ends = two_largest(np.array([one.guarantee().epsilon for one in menu])[level])
    edge = per_edge(ends[-1:] if once else ends, "half" if once else "full")
    return [worst, dataclasses.replace(edge, arithmetic=worst.arithmetic)]


def _with_before(
    spent: list[Guarantee], reported: np.ndarray, rule: Ownership | Reporting, after: NoisyCounts
) -> list[Guarantee]:
    """The loss of this round and those before it together, per bit of a list and per edge."""
    bit, edge = spent
    known = np.zeros_like(reported)
    earlier = after
    once = rule != "full"
    while earlier is not None:
        known = known | earlier.reported
        once = once and _one_rule(rule, earlier.owners)
        earlier = earlier.after
    compose = sequential if (known & reported).any() else parallel
    bit = compose(after.guarantee[NEIGHBOUR_LIST], bit)
    edge = sequential(after.guarantee[RELATIONSHIP], edge)
    # An edge costs at most twice what a list does; as much where one rule names the same end in
    # every round.
    return [
        bit,
        dataclasses.replace(edge, epsilon=min(edge.epsilon, (1 if once else 2) * bit.epsilon)),
    ]


def _one_rule(first: Ownership | Reporting, second: Ownership | Reporting) -> bool:
    """Whether each pair has the same owner by both."""
    orders = isinstance(first, Ownership) and isinstance(second, Ownership)
    return all(map(np.array_equal, first, second)) if orders else first == second


def _noisy(
    m: NeighbourCounts, key: PRNGKey, counts: AnyArray, over: NamedSharding | None
) -> AnyArray:
    """Counts with noise; of many users by blocks of one size, each with its own key."""
    n, groups = counts.shape
    together = max(_DRAWN // groups, 1)
    size = min(n, together) * groups
    kind, numbers = (
        (np.float32, [m.epsilon])
        if m.noise == "laplace"
        else (np.int32, [*m.noise_sizes(), *m.span()])
    )
    given = m.thresholds, np.int32(size), np.array(numbers, kind)
    if over is not None or not validate.concrete(key):
        return _by_user(key, counts, given, together, over)
    keys = [key] if n <= together else random.split(key, -(-n // together))
    parts = []
    for own, first in zip(keys, range(0, n, together), strict=False):  # nobody has one key
        true = np.ravel(counts[first : first + together])
        for at in range(0, len(true), _TOGETHER):
            some = true[at : at + _TOGETHER]
            padded = np.pad(some, (0, _TOGETHER - len(some)))
            parts.append(
                (
                    len(some),
                    _drawn(own, np.arange(at, at + _TOGETHER, dtype=np.int32), padded, given),
                )
            )
    drawn = [np.asarray(part)[:real] for real, part in parts]
    return np.concatenate([np.zeros(0, kind), *drawn]).reshape(n, groups)


@partial(jax.jit, static_argnames=("together", "over"))
def _by_user(
    key: PRNGKey, counts: AnyArray, given: tuple, together: int, over: NamedSharding | None
) -> Array:
    """:func:`_noisy` in one program, some users at a time.

    Each device draws for its own, if any.
    """
    n, groups = counts.shape

    def part(key: PRNGKey, user: Array, counts: Array, given: tuple) -> Array:
        def one(row: tuple[Array, Array]) -> Array:
            block, within = jnp.divmod(row[0], together)
            own = key if n <= together else random.fold_in(key, block)
            return _drawn(own, within * groups + jnp.arange(groups), row[1], given)

        each = max(min(together, len(user)), 1)
        more = (0, -len(user) % each)  # a rest of another size would be another copy of the program
        rows = jnp.pad(user, more), jnp.pad(counts, (more, (0, 0)))
        return jax.lax.map(one, rows, batch_size=each)[: len(user)]

    if over is not None:
        rows = P(over.spec[0])
        part = each_part(part, over, (P(), rows, rows, P()), rows)
    return part(key, jnp.arange(n), jnp.asarray(counts), given)


@jax.jit
def _drawn(key: PRNGKey, place: AnyArray, counts: AnyArray, given: tuple) -> Array:
    """The draws of ``add_noise`` for counts at some places of all, elementwise.

    One program for all budgets.
    """
    thresholds, size, numbers = given
    word = np.arange(random_words.NOISE_WORDS if thresholds is None else 1 + WORDS)
    words = random_words.words_at(key, place + size * word[:, None])
    if thresholds is None:
        return counts + random_words.laplace_from_words(words) / numbers[0]
    near, reach, low, high = numbers
    return with_noise(thresholds, words, counts, (near, reach), (low, high))
