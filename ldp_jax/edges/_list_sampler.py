"""All neighbour lists of a graph at once, of mechanisms that treat every bit of one alike: who owns which pair."""

from typing import Any

import numpy as np

from ldp_jax.core.types import PRNGKey
from ldp_jax.edges import _sparse
from ldp_jax.edges.population import Population, ReportedPairs


def sample(key: PRNGKey, m: Any, users: Population, memory: float) -> ReportedPairs:
    """The reports of all private users: exact in law, in time and memory O(input pairs + output pairs).

    Args:
      key: a typed threefry key.
      m: a :class:`~ldp_jax.edges.neighbour_lists.ListMechanism`, whose budgets may be arrays [n], one a user.
      users: the graph.
      memory: bytes to allow for the false pairs that are expected of a graph without edges.

    Raises:
      ValueError: for budgets of another number of users, or more pairs than ``memory`` allows.
      RuntimeError: where a pair would belong to the larger of its two budgets; before anything is drawn.
    """
    n, half = len(users.group), m.reporting != "full"
    m.of_users(lambda leaf: _one_or_each(leaf, n))
    reporter, reported = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    noisy = np.full(n, np.nan, np.float32)
    if not users.private.any():
        return ReportedPairs(reporter[0], reported[0], noisy)
    degree = users.degree
    arrange = _half_lists if half else _whole_lists
    who, owners, owned_degree, node, back = arrange(users, degree, m)
    made = m.of_users(lambda leaf: leaf if np.ndim(leaf) == 0 else np.asarray(leaf)[who])
    _refuse_dense(made, owners, half, memory)
    whole = degree[who] if m.reporting == "half list" else None
    for block in _sparse.sample(key, made, owners, owned_degree, node, half=half, whole_degree=whole):
        reporter.append(who[block.user])
        reported.append(back(block.user, block.node))
        if block.degree is not None:
            noisy[who[block.first : block.first + len(block.degree)]] = block.degree
    return ReportedPairs(np.concatenate(reporter), np.concatenate(reported), noisy)


def _one_or_each(leaf: Any, n: int) -> Any:
    """A budget for all, or one a user."""
    if np.shape(leaf) not in ((), (n,)):
        raise ValueError(f"budgets must be one number or one a user, [{n}], got shape {np.shape(leaf)}")
    return leaf


def _order(m: Any, who: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Users by graph, then by budget, then by id; and where a level begins: the users of one graph and budget."""
    budget = np.broadcast_to(m.sums(), group.shape)
    who = who[np.lexsort((who, budget[who], group[who]))].astype(np.int32)
    new = np.ones(len(who), bool)
    new[1:] = (np.diff(group[who]) > 0) | (np.diff(budget[who]) > 0)
    return who, new


def _check_owners(budget: np.ndarray, begins: np.ndarray, start: np.ndarray) -> None:
    """That no user owns a pair with one of a smaller budget.

    Pairs are owned within a level, which must be of one budget, and with all later places, which must not fall.

    Args:
      budget: float64 [users], by place: the sums that guarantees are computed from.
      begins: int [users], the first user of each one's graph.
      start: int [users], the first place of each one's level in the graph.
    """
    falls = (np.diff(budget) < 0) & (np.diff(begins) == 0)
    if falls.any() or (budget[begins + start] != budget).any():
        raise RuntimeError("a pair would belong to the larger budget of its two users: please report this defect")


def _whole_lists(everyone: Population, degree: np.ndarray, _: Any) -> Any:
    """Every private user reports about all other nodes of one graph."""
    senders, receivers, group, private = everyone
    n = len(group)
    sizes = np.bincount(group, minlength=1)
    first = (np.cumsum(sizes) - sizes)[group]
    size = sizes[group]
    who = np.flatnonzero(private).astype(np.int32)
    mine = private[receivers]
    users = _sparse.Users(
        *(array.astype(np.int32)[who] for array in (np.arange(n) - first, np.zeros(n, int), size, size))
    )
    node = (senders - first[receivers])[mine].astype(np.int32)
    start = first[who]
    return who, users, degree[who], node, lambda user, other: (other + start[user]).astype(np.int32)


def _half_lists(everyone: Population, _: np.ndarray, m: Any) -> Any:
    """Each pair of private users of one graph belongs to one of them: see :func:`ldp_jax.edges._sparse.owns`."""
    senders, receivers, group, private = everyone
    n = len(group)
    who, new = _order(m, np.flatnonzero(private), group)
    mine_group = group[who]
    place_of = np.full(n, -1, np.int64)
    place_of[who] = np.arange(len(who))
    begins = np.searchsorted(mine_group, mine_group, "left")
    size = np.searchsorted(mine_group, mine_group, "right") - begins
    level = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(who))
    users = _sparse.Users(
        *(
            array.astype(np.int32)
            for array in (np.arange(len(who)) - begins, starts[level] - begins, ends[level] - begins, size)
        )
    )
    _check_owners(np.broadcast_to(m.sums(), group.shape)[who], begins, users.start)
    both = private[receivers] & private[senders]
    user, other = place_of[receivers[both]], place_of[senders[both]]
    local = other - begins[user]
    mine = _sparse.owns(_sparse.Users(*(leaf[user] for leaf in users)), local, True)
    user, local = user[mine], local[mine]
    order = np.argsort(user * np.int64(n) + local)
    user, local = user[order], local[order].astype(np.int32)
    owned = np.bincount(user, minlength=len(who)).astype(np.int32)
    return who, users, owned, local, lambda mine, place: who[begins[mine] + place]


def _refuse_dense(m: Any, users: _sparse.Users, half: bool, memory: float) -> None:
    """Randomised response has a dense output by nature: say so before it is computed.

    From the number of users and the budgets alone: what is expected of a graph without edges. True edges add no
    more than the caller holds already, and a refusal that depended on them would tell them.
    """
    expected = 16.0 * _sparse.false_pairs_if_none(m, users, half)
    if expected > memory:
        raise ValueError(
            f"the reported graph is expected to take {expected / 1e9:.3g} GB (memory allows {memory / 1e9:.3g}): "
            "randomised response is dense, DPRR is not; or raise memory"
        )
