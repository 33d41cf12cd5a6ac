"""The chain of :mod:`ldp_jax.curators.hrg`, one move after the other, compiled by numba.

A move looks at the edges of one internal node and at the leaves below one of its sides. So on a
CPU a chain of single moves goes much further in a second than sweeps over all nodes and edges do.
Its law is that of :mod:`~ldp_jax.curators.hrg`, its draws are not. Philox draws its random numbers,
by the key that is passed. It needs numba (extra ``chains``).
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.types import PRNGKey, PRNGKeys, Values
from ldp_jax.curators import hrg

try:
    import numba
except ImportError as error:
    raise ImportError(
        "a chain of single moves needs numba: pip install 'ldp_jax[chains]'"
    ) from error

_NONE = -1  # where a list of edges ends


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as numba's, without the checks of types that an import hook wraps around it."""
    return numba.njit(inspect.unwrap(function))


class _Walk(NamedTuple):
    """A dendrogram that moves change in place, and the edges that each internal node joins.

    ``parent`` and ``size`` are by node. ``head`` is an edge of each internal node, ``after`` the
    next edge of the same node. ``marked`` is the last move that marked each leaf, ``waiting`` has
    room for the nodes below one side that are still to be visited.
    """

    children: np.ndarray
    parent: np.ndarray
    size: np.ndarray
    head: np.ndarray
    after: np.ndarray
    ends: np.ndarray
    kind: np.ndarray
    count: np.ndarray
    marked: np.ndarray
    waiting: np.ndarray


def run(key: PRNGKey, state: hrg.State, edges: hrg.Edges, scales: Values, sweeps: int) -> hrg.State:
    """Run a chain as :func:`ldp_jax.curators.hrg.run` does, of about n / 8 moves a sweep.

    ``scales`` [2] are the factors of the log-likelihoods of public and of private edges.

    >>> edges = hrg.Edges.of([[0, 1]], [[1, 2], [0, 3]])
    >>> state = hrg.init(jax.random.key(0), 4, edges)
    >>> moved = run(jax.random.key(1), state, edges, [0.1, 0.1], 100)
    >>> moved.count.sum(1).tolist()
    [1, 2]
    """
    return trace(key[None], state, edges, scales, sweeps)[0]


def trace(
    keys: PRNGKeys, state: hrg.State, edges: hrg.Edges, scales: Values, sweeps: int
) -> tuple[hrg.State, Float[np.ndarray, "k 2"]]:
    """Run k blocks of ``sweeps``, each from a key of its own, and trace L_pub and L_pri.

    As :func:`ldp_jax.curators.hrg.trace`: the last state, and float32 [k, 2].
    """
    validate.threefry(keys[0])
    factors = np.asarray(scales, np.float64)
    validate.require(factors.shape == (2,), f"scales must be [2], got shape {factors.shape}")
    walk = _walk_of(state, edges)
    moves = sweeps * max(1, len(walk.marked) // 8)
    found = np.zeros((len(keys), 2), np.float32)
    for block, words in enumerate(np.asarray(jax.random.key_data(keys), np.uint64)):
        random = np.random.Generator(np.random.Philox(key=words))
        _move_on(walk, factors, block * moves, moves, random)
        found[block] = _log_likelihood(walk)
    return hrg.state_of(_tree_of(walk), edges), found


def _walk_of(state: hrg.State, edges: hrg.Edges) -> _Walk:
    tree = state.tree
    real = np.asarray(edges.kind) < 2
    children = np.array(tree.children, np.int64)
    parent = np.array(tree.slot, np.int64) >> 1
    n = (len(parent) + 1) // 2
    lca = np.asarray(state.lca, np.int64)[real]
    head = np.full(n - 1, _NONE, np.int64)
    after = np.full(len(lca), _NONE, np.int64)
    _list_edges(lca, head, after)
    return _Walk(
        children=children,
        parent=parent,
        size=np.array(tree.size, np.int64),
        head=head,
        after=after,
        ends=np.asarray(edges.ends, np.int64).T[real],
        kind=np.asarray(edges.kind, np.int64)[real],
        count=np.array(state.count, np.int64),
        marked=np.full(n, _NONE, np.int64),
        waiting=np.zeros(n, np.int64),
    )


def _tree_of(walk: _Walk) -> hrg.Dendrogram:
    children = walk.children.astype(np.int32)
    slot = np.zeros(len(walk.parent), np.int32)
    slot[children] = np.arange(len(children))
    return hrg.Dendrogram(children, slot, walk.size.astype(np.int32))


@_compiled
def _list_edges(lca: np.ndarray, head: np.ndarray, after: np.ndarray) -> None:
    """Put each edge before those that its internal node has already."""
    for edge, node in enumerate(lca):
        after[edge] = head[node]
        head[node] = edge


@_compiled
def _term(edges: int, pairs: float) -> float:
    """N chi(e / N) for e edges among N pairs."""
    if edges <= 0 or edges >= pairs:
        return 0.0
    share = edges / pairs
    return edges * np.log(share) + (pairs - edges) * np.log1p(-share)


@_compiled
def _log_likelihood(walk: _Walk) -> tuple[float, float]:
    public = 0.0
    private = 0.0
    for node in range(len(walk.head)):
        left = float(walk.size[walk.children[2 * node]])
        pairs = left * walk.size[walk.children[2 * node + 1]]
        public += _term(walk.count[0, node], pairs)
        private += _term(walk.count[1, node], pairs)
    return public, private


@_compiled
def _move_on(
    walk: _Walk, scales: np.ndarray, before: int, moves: int, random: np.random.Generator
) -> None:
    """Try so many moves, each of a random internal node below the root and a random side of it."""
    below_root = len(walk.head) - 1
    if below_root == 0:
        return
    for turn in range(before, before + moves):
        choice = int(random.random() * 2 * below_root)
        _try(walk, 1 + choice // 2, choice % 2, turn, scales, random)


@_compiled
def _mark(walk: _Walk, node: int, turn: int) -> None:
    """Mark the leaves below a node."""
    internal = len(walk.head)
    walk.waiting[0] = node
    left = 1
    while left > 0:
        left -= 1
        node = walk.waiting[left]
        if node >= internal:
            walk.marked[node - internal] = turn
            continue
        walk.waiting[left] = walk.children[2 * node]
        walk.waiting[left + 1] = walk.children[2 * node + 1]
        left += 2


@_compiled
def _try(
    walk: _Walk, r: int, side: int, turn: int, scales: np.ndarray, random: np.random.Generator
) -> None:
    """Exchange a side x of r with r's sibling z below p, or leave them, by Metropolis."""
    p = walk.parent[r]
    slot_x = 2 * r + side
    slot_z = 2 * p + int(walk.children[2 * p] == r)
    x = walk.children[slot_x]
    y = walk.children[slot_x ^ 1]
    z = walk.children[slot_z]

    # The edges that p joins: from x to z, which p goes on to join, and from y to z.
    of_x = walk.size[x] <= walk.size[y]
    _mark(walk, x if of_x else y, turn)
    between_public = 0
    between_private = 0
    head_x = _NONE
    last_x = _NONE
    head_y = _NONE
    edge = walk.head[p]
    while edge != _NONE:
        following = walk.after[edge]
        first = walk.marked[walk.ends[edge, 0]]
        second = walk.marked[walk.ends[edge, 1]]
        met = first == turn or second == turn
        if met == of_x:
            between_public += walk.kind[edge] == 0
            between_private += walk.kind[edge] == 1
            walk.after[edge] = head_x
            if head_x == _NONE:
                last_x = edge
            head_x = edge
        else:
            walk.after[edge] = head_y
            head_y = edge
        edge = following

    between = (between_public, between_private)
    size_x = float(walk.size[x])
    size_y = float(walk.size[y])
    size_z = float(walk.size[z])
    change = 0.0
    for kind in range(2):
        if scales[kind] == 0.0:
            continue
        at_p = walk.count[kind, p]
        at_r = walk.count[kind, r]
        before = _term(at_p, (size_x + size_y) * size_z) + _term(at_r, size_x * size_y)
        joined = between[kind] + at_r
        now = _term(joined, size_x * (size_y + size_z))
        now += _term(at_p - between[kind], size_y * size_z)
        change += scales[kind] * (now - before)

    if change < 0.0 and random.random() >= np.exp(change):
        walk.head[p] = _linked(walk, head_x, last_x, head_y)
        return

    for kind in range(2):
        at_p = walk.count[kind, p]
        walk.count[kind, p] = between[kind] + walk.count[kind, r]
        walk.count[kind, r] = at_p - between[kind]
    walk.head[p] = _linked(walk, head_x, last_x, walk.head[r])
    walk.head[r] = head_y

    walk.children[slot_x] = z
    walk.children[slot_z] = x
    walk.parent[z] = r
    walk.parent[x] = p
    walk.size[r] = walk.size[y] + walk.size[z]


@_compiled
def _linked(walk: _Walk, head: int, last: int, rest: int) -> int:
    """The head of two lists of edges, one after the other."""
    if head == _NONE:
        return rest
    walk.after[last] = rest
    return head
