"""What an edge costs, by enumeration: every graph on a few nodes, every edge, every reporting, personal budgets."""

import dataclasses
import itertools
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from ldp_jax import _validate
from ldp_jax.domains import NotApplicable
from ldp_jax.edges import LapReport, LocalLap, NeighbourCounts, NeighbourList
from ldp_jax.edges.neighbour_lists import ListMechanism, Reporting
from ldp_jax.edges.spaces import critical_degrees
from ldp_jax.types import Array

NODES = 4
_FAR = 1e3
_BLOCK = 32  # noisy degrees


class RelationshipLoss(NamedTuple):
    """The largest loss about one edge.

    Attributes:
      epsilon: the largest log ratio of the joint laws of all users' reports, of two graphs that differ in one edge.
      edge: which.
      graph: the edges of the graph without it.
    """

    epsilon: float
    edge: tuple[int, int]
    graph: tuple[tuple[int, int], ...]


def relationship_supremum(mechanism: Any, reporting: Reporting | None = None) -> RelationshipLoss:
    r"""The largest loss about one edge, through the reports of all users, enumerated.

    All 64 graphs on four nodes and all six edges, taken away or added. Reports of different users are independent
    given the graph, so that the loss of a report of all is a sum over users, and its supremum the sum of the
    suprema; each is taken over every noisy degree that is critical, and every list. Who reports a pair is written
    here a second time, as it is documented: both ends (``full``), or the end of the smaller budget, with equal
    budgets either; the degree is of the whole list (``half list``) or of the owned pairs.

    Power: a claim that is too small by one part in 1e9, for four users or whatever is a matter of degrees up to
    three; a rule that is broken for larger graphs alone is not seen. Whether ``privatize_graph`` follows
    the rule is a matter of its own tests.

    Args:
      mechanism: on lists; budgets may be arrays [4], one a user.
      reporting: as in ``relationship``; by default the mechanism's own.

    Raises:
      ValueError: for another mechanism, or budgets that are not one or four.

    >>> from ldp_jax.edges import DPRR
    >>> round(relationship_supremum(DPRR(0.3, 0.7), "half list").epsilon, 9)
    1.3
    """
    if not isinstance(mechanism, (ListMechanism, LocalLap, NeighbourCounts)):
        raise NotApplicable(f"mechanism must be one on neighbour lists, got {type(mechanism).__name__}")
    asked: Any = mechanism
    reporting = asked.reporting if reporting is None else reporting
    _validate.one_of(asked.reportings, reporting=reporting)
    users = [_user(mechanism, place) for place in range(NODES)]
    budgets = [user.guarantee().epsilon for user in users]
    same = all(user == users[0] for user in users)
    pairs = list(itertools.combinations(range(NODES), 2))
    best = RelationshipLoss(0.0, (0, 1), ())
    known: dict[Any, tuple[float, float]] = {}
    for owners in _ownerships(budgets, pairs, reporting):
        for bits in itertools.product((False, True), repeat=len(pairs)):
            graph = tuple(pair for pair, bit in zip(pairs, bits, strict=True) if bit)
            for edge in (pair for pair in pairs if pair not in graph):
                views = _views(edge, graph, owners, reporting)
                for way in (0, 1):
                    total = 0.0
                    for user, view in views:
                        case = _what_matters(mechanism, view) if same else (user, *view)
                        if case not in known:
                            known[case] = _loss(users[user], *view)
                        total += known[case][way]
                    if total > best.epsilon:
                        best = RelationshipLoss(total, edge, graph)
    return best


def _what_matters(mechanism: Any, view: tuple[int, int, bool]) -> tuple[Any, ...]:
    """A noisy degree that is never clipped loses the same whatever the degree is."""
    return view[2:] if isinstance(mechanism, LocalLap) else view


def _user(mechanism: Any, place: int) -> Any:
    """The mechanism of one user, of a graph of four nodes."""
    take = lambda leaf: leaf if np.ndim(leaf) == 0 else _one_of(leaf, place)
    if isinstance(mechanism, LocalLap):
        return type(mechanism)(take(mechanism.epsilon_degree), take(mechanism.epsilon_edges), n=NODES)
    if isinstance(mechanism, NeighbourCounts):  # a bit moves one count, whatever the groups are
        return dataclasses.replace(mechanism, n=NODES, groups=np.zeros(NODES, np.int32))
    made = mechanism.of_users(take)
    object.__setattr__(made, "n", NODES)  # a copy of our own
    return made


def _one_of(leaf: Any, place: int) -> float:
    if np.shape(leaf) != (NODES,):
        raise ValueError(f"budgets must be one number or [{NODES}], got shape {np.shape(leaf)}")
    return float(np.asarray(leaf, np.float64)[place])


def _ownerships(budgets: list[float], pairs: list[Any], reporting: str) -> list[dict[Any, int] | None]:
    """Who reports each pair; both answers for all pairs of equal budgets, the lower end or the higher one."""
    if reporting == "full":
        return [None]
    return [
        {(i, j): i if (budgets[i], tie * i) < (budgets[j], tie * j) else j for i, j in pairs} for tie in (1, -1)
    ]


def _views(edge: Any, graph: Any, owners: Any, reporting: str) -> list[tuple[int, tuple[int, int, bool]]]:
    """For each user whose report depends on the edge: pairs that her degree is of, how many are true, her bit."""
    views = []
    for user in edge:
        mine = [pair for pair in itertools.combinations(range(NODES), 2) if user in pair]
        reports = owners is None or owners[edge] == user
        if reporting == "half":
            mine = [pair for pair in mine if owners[pair] == user]
        if reports or reporting == "half list":
            views.append((user, (len(mine), sum(pair in graph for pair in mine), reports)))
    return views


def _loss(m: Any, owned: int, degree: int, bit: bool) -> tuple[float, float]:
    """The largest log ratio with the edge over without it, and the other way round, of one user's report."""
    with jax.enable_x64(True):
        if isinstance(m, NeighbourCounts):
            ratio = _count_ratio(m, degree)
            return float(np.max(ratio)), float(np.max(-ratio))
        wide = jax.tree.map(np.float64, m)
        ratio = _lap_ratio(wide, bit) if isinstance(m, LocalLap) else _list_ratio(wide, owned, degree, bit)
    return float(np.max(ratio)), float(np.max(-ratio))


def _list_ratio(m: Any, owned: int, degree: int, bit: bool) -> np.ndarray:
    """log of (edge there) over (not there), at every critical noisy degree, with the bit sent and not sent."""
    noisy = critical_degrees(m.degrees(owned))
    noisy = np.resize(noisy, -(len(noisy) // -_BLOCK) * _BLOCK)  # repeated: of one shape, whatever is owned
    log = lambda d: np.asarray(_degree_log(m, noisy, np.float64(d), np.float64(owned))) + np.zeros(len(noisy))
    with np.errstate(invalid="ignore"):
        ratio = log(degree + 1) - log(degree)
    ratio = np.nan_to_num(ratio, nan=0.0, posinf=math.inf, neginf=-math.inf)
    if not bit:
        return ratio
    keep, add = (np.asarray(rate) + np.zeros(len(noisy)) for rate in _rates(m, noisy, np.float64(owned)))
    with np.errstate(divide="ignore", invalid="ignore"):
        sent = np.where((keep == 0) & (add == 0), 0.0, np.log(keep) - np.log(add))
        not_sent = np.log1p(-keep) - np.log1p(-add)
    return np.concatenate([ratio + sent, ratio + not_sent])


def _count_ratio(m: NeighbourCounts, degree: int) -> np.ndarray:
    """log of (edge there) over (not there), of the count that it is in: of any size, as groups may be any."""
    reports = np.array([-_FAR, *np.arange(0, NODES, 0.5), _FAR])
    if m.noise == "geometric":
        low, high = m.span()
        reports = np.arange(low, high + 1.0)
    logs = np.stack([np.asarray(m.log_likelihood(reports, np.float64(count))) for count in range(degree + 2)])
    return np.diff(logs, axis=0)


def _lap_ratio(m: LocalLap, bit: bool) -> np.ndarray:
    """The same of noisy numbers, by one's own density: the list is empty, or holds the first owned node."""
    user = 1  # owns a pair, whatever the parity
    empty = NeighbourList(np.full(NODES, NODES, np.int32), np.int32(0))
    owned = ~np.isnan(np.asarray(m.privatize(jax.random.key(0), empty, user).values))
    node = int(np.flatnonzero(owned)[0])
    one = NeighbourList(np.array([node, *[NODES] * (NODES - 1)], np.int32), np.int32(1))
    at = np.array([-_FAR, 0.0, 0.5, 1.0, _FAR])
    noisy, value = (grid.ravel() for grid in np.meshgrid(at, at if bit else at[2:3]))  # a half says nothing
    values = np.tile(np.where(owned, 0.0, np.nan), (len(noisy), 1))
    values[:, node] = value
    reports = LapReport(noisy, values)
    return np.asarray(_lap_logs(m, reports, one, user)) - np.asarray(_lap_logs(m, reports, empty, user))


@jax.jit
def _degree_log(m: Any, noisy: Any, degree: Any, owned: Any) -> Array:
    return m.degree_log_density(noisy, degree, owned)


@jax.jit
def _rates(m: Any, noisy: Any, owned: Any) -> tuple[Array, Array]:
    return m.bit_rates(noisy, owned)


@jax.jit
def _lap_logs(m: LocalLap, y: LapReport, x: NeighbourList, own: Any) -> Array:
    return jax.vmap(lambda report: m.log_density(report, x, own))(y)
