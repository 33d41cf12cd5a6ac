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

from ldp_jax.accounting.guarantee import PipelineGuarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.sharding import by_rows, each_part
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey, Values
from ldp_jax.core.whole_noise import WORDS
from ldp_jax.edges import _sparse, checks
from ldp_jax.edges.neighbour_counts import NeighbourCounts, checked_groups, with_noise
from ldp_jax.edges.neighbour_lists import per_edge, two_largest
from ldp_jax.edges.population import Population
from ldp_jax.graph import graphs

_BLOCK = 2**22  # edges that are counted at once
_TOGETHER = 2**16  # numbers that one call of a program gives noise
# Numbers that are given noise at once: drawing one takes a hundred times its own memory.
_DRAWN = 2**19
_OF_ONE = ("privatize", "true_counts", "add_noise", "from_words")  # make one user's report


class NoisyCounts(NamedTuple):
    """The noisy counts that users report about their lists.

    Attributes:
      counts: [n, K], int32 or, of Laplace noise, float32; 0 for those who report nothing. Traced
        where the key is, divided among devices where the groups were.
      reported: bool [n], who reports.
      guarantee: per bit of a list and per edge.
    """

    counts: np.ndarray
    reported: Bool[np.ndarray, " n"]
    guarantee: PipelineGuarantee

    def __repr__(self) -> str:
        users, groups = self.counts.shape
        return f"NoisyCounts({int(self.reported.sum())} of {users} users, {groups} groups)"


def count_neighbours(
    users: Population,
    groups: Values,
    num_groups: int,
    counted: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> Int[np.ndarray, "n groups"]:
    """Count each user's neighbours in each group exactly: private, in one pass over the edges.

    Groups are in [-1, num_groups), and -1 counts nowhere; ``counted`` says which pairs (user,
    neighbour) count.

    >>> star = Population.of(
    ...     graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    ... )
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
    # Edges are sorted by receiver.
    begin, end = np.searchsorted(users.receivers, (rows.start, rows.stop))
    for at in range(begin, end, _BLOCK):
        block = slice(at, min(at + _BLOCK, end))
        user = users.receivers[block]
        other = users.senders[block]
        group = groups[other]
        kept = group >= 0
        if counted is not None:
            kept = kept & counted(user, other)
        if not kept.any():
            continue

        user = user[kept].astype(np.int64) - rows.start
        first = int(user[0])
        last = int(user[-1]) + 1
        code = (user - first) * num_groups + group[kept]
        count = np.bincount(code, minlength=(last - first) * num_groups)
        found[first:last] += count.reshape(-1, num_groups)
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
) -> NoisyCounts:
    """Draw every user's noisy counts of neighbours by public group, in time O(edges).

    As :func:`~ldp_jax.edges.privatize_graph` it simulates all devices; the guarantee is about the
    returned value. :func:`ldp_jax.servers.simulate` runs several rounds and adds up their costs.

    Args:
      key: a typed threefry key; it may be traced, all else is concrete: ``jax.vmap(lambda key:
        privatize_counts(key, graph, mechanism, groups).counts)(keys)``.
      graph: undirected, or a :class:`~ldp_jax.graph.graphs.GraphSet`.
      mechanism: whose ``n`` and ``groups`` are ignored; or a public menu, of which epsilon alone
        differs.
      groups: int [n] in [-1, K), public; -1 for a node that counts nowhere. Where they are divided
        among devices, so are the counts; the draws stay the same.
      levels: int [n], public: which mechanism of a menu each user takes, whatever the user's list
        is.
      reporters: bool [n], public: who reports; all by default.
      owners: a public rule by which each pair is reported once, for epsilon, instead of
        ``reporting``.

    ``ValueError`` for arguments that do not fit each other.

    >>> star = graphs.from_edges([[0, 1], [0, 2], [0, 3]], num_nodes=4)
    >>> m = NeighbourCounts(2.0, num_groups=2)
    >>> noisy = privatize_counts(jax.random.key(0), star, m, [0, 0, 1, 1])
    >>> noisy.counts.shape, print(noisy.guarantee)  # doctest: +ELLIPSIS
    protected: edges; NOT protected: number of nodes, groups of nodes
      epsilon 2 per neighbour-list (...)
      epsilon 4 per relationship (...)
    ((4, 2), None)
    """
    validate.threefry(key)
    users = Population.of(graph)
    n = len(users.group)
    menu = list(mechanism) if isinstance(mechanism, Sequence) else [mechanism]
    alike = set()
    for one in menu:
        ours = isinstance(one, NeighbourCounts)
        kind = type(one)
        same = [getattr(kind, name, None) is getattr(NeighbourCounts, name) for name in _OF_ONE]
        drawn_here = ours and all(same)
        alike.add(drawn_here and (one.num_groups, one.most, one.reporting))
    validate.require(
        len(alike) == 1 and False not in alike,
        f"mechanism must be NeighbourCounts with its own {', '.join(_OF_ONE)}, or a menu of them "
        "that differ in epsilon alone",
    )

    level = np.zeros(n, np.int32)
    if levels is not None or len(menu) > 1:
        level = checked_groups(levels, n, len(menu), 0, "levels")
    first = menu[0]
    over = by_rows(groups)
    if over is not None:
        groups = process_allgather(groups, tiled=True)
    groups = checked_groups(groups, n, first.num_groups)

    reported = validate.mask(n, reporters=reporters)
    counted = None
    if first.reporting == "half":
        counted = lambda user, other: _sparse.owns(_sparse.Users(user, 0, n, n), other, True)
    if owners is not None:
        checks.of_users(n, owners=len(owners.order))
        if reporters is None:
            reported = ~owners.silent
        silent = int((reported & owners.silent).sum())
        validate.require(
            counted is None and not silent,
            "owners must be the one rule of who reports a pair, with no silent reporter, got "
            f"reporting {first.reporting!r} and {silent} of them",
        )
        counted = owners.owns

    def true(index: tuple[slice, ...] | None) -> np.ndarray:
        rows = range(n) if index is None else range(n)[index[0]]
        return np.clip(_counts(users, groups, first.num_groups, counted, rows), 0, first.most)

    # Where users are divided, each process counts for its own.
    shape = (n, first.num_groups)
    to = over and NamedSharding(over.mesh, P(over.spec[0]))
    counts = true(None) if to is None else jax.make_array_from_callback(shape, to, true)
    xp = np if over is None and validate.concrete(key) else jnp
    keys = [key] if len(menu) == 1 else random.split(key, len(menu))
    noisy = _noisy(first, keys[0], counts, over)
    for number in range(1, len(menu)):
        other = _noisy(menu[number], keys[number], counts, over)
        noisy = xp.where((level == number)[:, None], other, noisy)
    counts = xp.where(reported[:, None], noisy, 0).astype(noisy.dtype)

    # Per bit of a list the largest budget that is taken; per edge it alone, or the two largest.
    taken = [menu[number] for number in np.unique(level)] or menu[:1]
    bit = max((one.guarantee() for one in taken), key=lambda one: one.epsilon)
    reporting = "full" if counted is None else "half"
    edge = taken[0].relationship(reporting)
    if len(taken) > 1:
        epsilons = np.array([one.guarantee().epsilon for one in menu])
        second, most = two_largest(epsilons[level])
        edge = per_edge((second, most) if counted is None else (most,), reporting)
        edge = dataclasses.replace(edge, arithmetic=bit.arithmetic)
    unprotected = ["number of nodes", "groups of nodes"]
    if not reported.all():
        unprotected.append("who reports")
    if len(menu) > 1:
        unprotected.append("personal budgets")
    guarantee = PipelineGuarantee.of([bit, edge], protected=("edges",), unprotected=unprotected)
    return NoisyCounts(cast("np.ndarray", counts), reported, guarantee)


def _noisy(
    m: NeighbourCounts,
    key: PRNGKey,
    counts: AnyArray,
    over: NamedSharding | None,
) -> AnyArray:
    """Counts with noise; of many users by blocks of one size, each with its own key."""
    n, groups = counts.shape
    together = max(_DRAWN // groups, 1)
    size = min(n, together) * groups
    numbers = np.array([*m.noise_sizes(), *m.span()], np.int32)
    given = m.thresholds, np.int32(size), numbers
    if over is not None or not validate.concrete(key):
        return _by_user(key, counts, given, together, over)
    keys = [key] if n <= together else random.split(key, -(-n // together))

    parts = []
    for own, first in zip(keys, range(0, n, together), strict=False):  # nobody has one key
        true = np.ravel(counts[first : first + together])
        for at in range(0, len(true), _TOGETHER):
            some = true[at : at + _TOGETHER]
            padded = np.pad(some, (0, _TOGETHER - len(some)))
            place = np.arange(at, at + _TOGETHER, dtype=np.int32)
            parts.append((len(some), _drawn(own, place, padded, given)))

    # All are drawn before the first is waited for.
    drawn = [np.asarray(part)[:real] for real, part in parts]
    return np.concatenate([np.zeros(0, numbers.dtype), *drawn]).reshape(n, groups)


@partial(jax.jit, static_argnames=("together", "over"))
def _by_user(
    key: PRNGKey,
    counts: AnyArray,
    given: tuple,
    together: int,
    over: NamedSharding | None,
) -> Array:
    """:func:`_noisy` in one program, some users at a time; each device draws for its own."""
    n, groups = counts.shape

    def part(key: PRNGKey, user: Array, counts: Array, given: tuple) -> Array:
        def one(row: tuple[Array, Array]) -> Array:
            user, true = row
            block, within = jnp.divmod(user, together)
            own = key if n <= together else random.fold_in(key, block)
            place = within * groups + jnp.arange(groups)
            return _drawn(own, place, true, given)

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
    """The draws of ``add_noise`` for counts at some places; one program for all budgets."""
    thresholds, size, (near, reach, low, high) = given
    places = place + size * np.arange(1 + WORDS)[:, None]
    words = random_words.words_at(key, places)
    return with_noise(thresholds, words, counts, (near, reach), (low, high))
