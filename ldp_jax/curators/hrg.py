r"""Hierarchical random graphs: dendrograms, their likelihood, and a Metropolis chain over them.

A dendrogram is a rooted binary tree whose leaves are the n nodes. The internal node r joins the
leaves of its two sides: :math:`N_r = L_r R_r` pairs, of which :math:`e_r` are edges. With
:math:`\chi(p) = p \log p + (1 - p) \log(1 - p)` the log-likelihood is
:math:`L = \sum_r N_r \chi(e_r/N_r)` (HeteroRR eq. 11, whose second line has the sign wrong).
Public and private edges are two graphs over one dendrogram, and the chain's law has density
proportional to :math:`\exp(w L_{pub}(D) + s L_{pri}(D))`, with :math:`s = \epsilon_1 / (2 \Delta)`
for the exponential mechanism.

A sweep is many moves at once. A move picks an internal node r below p, with sides x, y and sibling
z, and exchanges z with x. Fair coins colour all internal nodes *parent* or *child*. Each parent p
picks a side, and moves with the node r there if r is internal and a child: about n / 8 moves that
share no node. A move changes the terms of p and r alone, and keeps the pairs: given the coins a
sweep is a product of reversible Metropolis kernels.
Reference: Clauset et al., Nature 2008; Xiao et al., KDD 2014; HeteroRR (Tran et al., 2022), III-B,
eq. 10-19.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random, random_words, validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, PRNGKey, PRNGKeys, Values
from ldp_jax.edges.draws import padded

MIXED = 1.05
"""The R-hat above which chains still show where they began."""


class Dendrogram(NamedTuple):
    """A rooted binary tree over n >= 2 leaves: internal nodes 0 (the root) to n - 2.

    Node u's leaf is n - 1 + u.

    Internal node r has the slots 2 r and 2 r + 1 of ``children`` int32 [2 (n - 1)]. ``slot`` int32
    [2 n - 1] is that of each node, whose parent is slot // 2 (of the root 0). ``size`` int32 [2 n -
    1] counts the leaves below.
    """

    children: AnyArray
    slot: AnyArray
    size: AnyArray

    __repr__ = by_shapes


class Edges(NamedTuple):
    """Edges over the same nodes, int32 [2, m], and the kind of each, int32 [m].

    The kinds are 0 for public edges, 1 for private ones and 2 for padding.
    """

    ends: AnyArray
    kind: AnyArray

    __repr__ = by_shapes

    @classmethod
    def of(cls, public: Values, private: Values) -> "Edges":
        """Pairs [m, 2] of either kind, each edge once, padded to one of few shapes.

        >>> Edges.of([[0, 1]], [[1, 2], [0, 2]]).kind[:4].tolist()
        [0, 1, 1, 2]
        """
        both = [np.asarray(pairs, np.int32).reshape(-1, 2) for pairs in (public, private)]
        kind = np.repeat(np.arange(2, dtype=np.int32), [len(pairs) for pairs in both])
        return cls(padded(np.concatenate(both)).T, padded(kind, 2))


class State(NamedTuple):
    """The state of a chain.

    ``lca`` int32 [m] is the lowest common ancestor of each edge's ends. ``count`` int32 [2, n - 1]
    counts the edges of each kind that an internal node joins.
    """

    tree: Dendrogram
    lca: AnyArray
    count: AnyArray

    __repr__ = by_shapes


def sensitivity(num_nodes: int) -> float:
    r"""Bound the change of a dendrogram's log-likelihood by one edge, rounded up.

    :math:`\Delta = \log N + (N - 1) \log(1 + 1/(N - 1))` with :math:`N = \lfloor n^2/4 \rfloor`,
    attained by the first edge between two halves of ``num_nodes`` leaves (HeteroRR eq. 19; eq. 15
    lost the exponent); 0 for fewer than 3 nodes.

    >>> round(sensitivity(4), 5), round(sensitivity(5), 5), sensitivity(2)
    (2.24934, 2.70337, 0.0)
    """
    pairs = validate.whole(1, num_nodes=num_nodes) ** 2 // 4
    if pairs <= 1:
        return 0.0
    change = math.log(pairs) + (pairs - 1) * math.log1p(1 / (pairs - 1))
    return change * (1 + 1e-14)


def _leaves(tree: Dendrogram) -> int:
    return (tree.slot.shape[-1] + 1) // 2


def random_dendrogram(key: PRNGKey, num_nodes: int) -> Dendrogram:
    """Build a tree of least depth over at least two leaves in random order.

    A chain starts there, whatever the edges are.

    >>> tree = random_dendrogram(jax.random.key(0), 4)
    >>> tree.children[:2].tolist(), tree.size.tolist()
    ([1, 2], [4, 2, 2, 1, 1, 1, 1])
    """
    validate.threefry(key)
    n = validate.whole(2, num_nodes=num_nodes)
    # A heap: node i has the children 2 i + 1 and 2 i + 2, and the last n are the leaves.
    below = np.ones(2 * n - 1, np.int32)
    for depth in reversed(range(n.bit_length())):
        at = np.arange(2**depth - 1, min(2 ** (depth + 1), n) - 1)
        below[at] = below[2 * at + 1] + below[2 * at + 2]

    leaves = n - 1 + random.permutation(key, n)
    node = jnp.concatenate([jnp.arange(n - 1), leaves]).astype(jnp.int32)
    children = node[1:]
    slots = jnp.arange(2 * n - 2, dtype=jnp.int32)
    slot = jnp.zeros(2 * n - 1, jnp.int32).at[children].set(slots)
    return Dendrogram(children, slot, jnp.asarray(below))


@jax.jit
def positions(tree: Dendrogram) -> Int[Array, " nodes"]:
    """Find the first position of each node's leaves, with all leaves written from left to right.

    >>> tree = random_dendrogram(jax.random.key(0), 4)
    >>> positions(tree)[:3].tolist()
    [0, 0, 2]
    """
    n = _leaves(tree)
    ahead = jnp.where(tree.slot & 1 == 1, tree.size[tree.children[tree.slot ^ 1]], 0)
    start = ahead[: n - 1]
    above = tree.slot[: n - 1] >> 1
    for _ in range((n - 1).bit_length()):  # doublings that reach the root of any tree
        start = start + start[above]
        above = above[above]
    of_leaves = start[tree.slot[n - 1 :] >> 1] + ahead[n - 1 :]
    return jnp.concatenate([start, of_leaves])


def lowest_common_ancestors(tree: Dendrogram, ends: AnyArray) -> Int[Array, " m"]:
    """Find the internal node that joins each pair of nodes [2, m], in O(log n) each; int32 [m].

    For a pair of one node twice it is the node's parent.
    """
    n = _leaves(tree)
    start = positions(tree)
    place = start[n - 1 + jnp.asarray(ends[1])]

    def apart(node: Array) -> Array:
        return (place < start[node]) | (place >= start[node] + tree.size[node])

    # Item k is the ancestor 2^k steps up of each internal node.
    above = [tree.slot[: n - 1] >> 1]
    for _ in range((n - 1).bit_length() - 1):
        above.append(above[-1][above[-1]])

    node = tree.slot[n - 1 + jnp.asarray(ends[0])] >> 1
    found = apart(node)
    for jump in reversed(above):
        higher = jump[node]
        node = jnp.where(apart(node) & apart(higher), higher, node)
    return jnp.where(found, above[0][node], node).astype(jnp.int32)


@jax.jit
def state_of(tree: Dendrogram, edges: Edges) -> State:
    """Look up and count every edge in a dendrogram: the state of a chain that is there."""
    lca = lowest_common_ancestors(tree, edges.ends)
    return State(tree, lca, _per_node(lca, edges, jnp.int32(1), _leaves(tree) - 1))


def init(key: PRNGKey, num_nodes: int, edges: Edges) -> State:
    """Start a chain at :func:`random_dendrogram`, which does not depend on the edges.

    >>> state = init(jax.random.key(0), 4, Edges.of([], [[0, 1], [2, 3]]))
    >>> state.count.sum(1).tolist()
    [0, 2]
    """
    return state_of(random_dendrogram(key, num_nodes), edges)


def _per_node(lca: Array, edges: Edges, value: Array, internal: int) -> Array:
    """Sums of a value over the edges of each kind and internal node; int32 [2, n - 1].

    Padding is dropped.
    """
    kind = jnp.asarray(edges.kind)
    value = jnp.broadcast_to(value, lca.shape).astype(jnp.int32)
    sums = jax.ops.segment_sum(value, lca + kind * internal, 2 * internal)
    return sums.reshape(2, internal)


def _term(count: Array, pairs: Array) -> Array:
    """N chi(e / N) for e edges among N pairs; float32, elementwise."""
    edges = count.astype(jnp.float32)
    others = pairs - edges
    some = (edges > 0) & (others > 0)
    rest = jnp.maximum(pairs, 1.0)
    share = jnp.where(some, edges / rest, 0.5)
    term = edges * jnp.log(share) + others * jnp.log1p(-share)
    return jnp.where(some, term, 0.0)


def _terms(state: State) -> Array:
    """The part of each internal node in L_pub and L_pri; float32 [2, n - 1]."""
    size = jnp.asarray(state.tree.size).astype(jnp.float32)
    sides = size[jnp.asarray(state.tree.children)].reshape(-1, 2)
    return _term(jnp.asarray(state.count), sides[:, 0] * sides[:, 1])


def log_likelihood(state: State) -> Float[Array, " 2"]:
    """Compute L_pub and L_pri of a state's dendrogram, eq. 11; float32 [2]. L_pri is private."""
    return _terms(state).sum(1)


def _moved(
    word: Array,
    state: State,
    terms: Array,
    edges: Edges,
    scales: Values,
) -> tuple[State, Array]:
    """One sweep of a state and its :func:`_terms`, by three words of random bits a node."""
    tree, lca, count = jax.tree.map(jnp.asarray, state)
    n = _leaves(tree)
    internal = n - 1
    scales = jnp.asarray(scales, jnp.float32)
    coin, side, which = ((word[0] >> bit & 1).astype(jnp.int32) for bit in range(3))
    parent = coin == 1
    waiting = random_words.exponential_from_words(word[1:])

    # One move for each internal node p; its r, and the slots and nodes of x, y and z.
    p = jnp.arange(internal, dtype=jnp.int32)
    below = tree.children[2 * p + side]
    active = parent & (below < internal)
    r = jnp.where(below < internal, below, 0)
    active = active & ~parent[r]
    slot_x = 2 * r + which
    slot_z = 2 * p + 1 - side
    x = tree.children[slot_x]
    y = tree.children[slot_x ^ 1]
    z = tree.children[slot_z]

    # Speed alone: a compiler that fuses positions with what reads them adds them up again for each
    # edge.
    start = jax.lax.optimization_barrier(positions(tree))
    first_of = jnp.where(active, start[x], 0)[lca]
    length_of = jnp.where(active, tree.size[x], 0)[lca]
    place = start[n - 1 :]
    in_x = jnp.zeros(lca.shape, bool)
    for end in jnp.asarray(edges.ends):
        ahead = place[end] - first_of
        in_x = in_x | ((ahead >= 0) & (ahead < length_of))
    between = _per_node(lca, edges, in_x, internal)  # x and z

    size = tree.size.astype(jnp.float32)
    new_p = between + count[:, r]
    new_r = count - between
    term_p = _term(new_p, size[x] * (size[y] + size[z]))
    term_r = _term(new_r, size[y] * size[z])
    change = (term_p - terms) + (term_r - terms[:, r])
    accepted = active & (-(scales[:, None] * change).sum(0) < waiting)

    # Gather instead of scatter: each slot and node reads its new value.
    above = tree.slot[:internal] >> 1
    moved = accepted[above] & (r[above] == p) & (p > 0)  # nodes that are the r of an accepted move
    slots = jnp.arange(2 * internal, dtype=jnp.int32)
    owner = slots >> 1
    of_z = accepted[owner] & (slots == slot_z[owner])
    exchanged = jnp.where(of_z, slot_x[owner], slots)
    of_x = moved[owner] & (slots == slot_x[above[owner]])
    exchanged = jnp.where(of_x, slot_z[above[owner]], exchanged)
    children = tree.children[exchanged]
    slot = exchanged[tree.slot].at[0].set(0)

    shrunk = jnp.where(moved, (tree.size[y] + tree.size[z])[above], tree.size[:internal])
    sizes = jnp.concatenate([shrunk, tree.size[internal:]])

    def updated(at_p: Array, at_r: Array, now: Array) -> Array:
        """The value of each node: as the p or the r of an accepted move, or as it was."""
        as_r = jnp.where(moved, at_r[:, above], now)
        return jnp.where(accepted, at_p, as_r)

    count = updated(new_p, new_r, count)
    terms = updated(term_p, term_r, terms)

    # x - y edges rise from r to p; of those of p, which all end in z, those from y sink to r.
    risen = jnp.where(moved, above, p)
    other = jnp.where(accepted, r, risen)
    lca = jnp.where(in_x, lca, other[lca])
    return State(Dendrogram(children, slot, sizes), lca, count), terms


@jax.jit
def _sweeps(keys: PRNGKeys, state: State, edges: Edges, scales: Array) -> State:
    """A sweep for each key, at its own scales [sweeps, 2]."""
    place = jnp.arange(3 * (_leaves(state.tree) - 1)).reshape(3, -1)

    def draw(data: Array) -> Array:
        key = jax.random.wrap_key_data(data, impl="threefry2x32")
        return random_words.words_at(key, place)

    def advance(
        carry: tuple[State, Array, Array],
        turn: tuple[Array, Array],
    ) -> tuple[tuple[State, Array, Array], None]:
        state, terms, word = carry
        next_data, scale = turn
        state, terms = _moved(word, state, terms, edges, scale)
        return (state, terms, draw(next_data)), None

    # A sweep draws the words of the next: a compiler would draw its own again in each place that
    # reads them.
    data = jax.random.key_data(keys)
    carry = (state, _terms(state), draw(data[0]))
    (state, *_), _ = jax.lax.scan(advance, carry, (jnp.roll(data, -1, 0), scales))
    return state


def run(key: PRNGKey, state: State, edges: Edges, scales: Values, sweeps: int) -> State:
    """Run a chain for ``sweeps``, a static number, of about n / 8 moves each: see the module.

    ``scales`` [2] or [sweeps, 2] are the factors of the log-likelihoods of public and of private
    edges. Sweep i draws from ``jax.random.split(key, sweeps)[i]``.
    Numerics: counts are integers, terms of the likelihood float32; a move is accepted by an
    exponential of 64 bits.
    """
    each = jnp.broadcast_to(jnp.asarray(scales, jnp.float32), (sweeps, 2))
    return _sweeps(random.split(key, sweeps), state, edges, each)


@partial(jax.jit, static_argnames="sweeps")
def trace(
    keys: PRNGKeys,
    state: State,
    edges: Edges,
    scales: Values,
    sweeps: int,
) -> tuple[State, Float[Array, "k 2"]]:
    """Run k blocks of ``sweeps``, each from a key of its own, and trace L_pub and L_pri.

    Returns the last state and the log-likelihoods at the end of each block, float32 [k, 2]. It is
    for public data and tests: no guarantee covers it.
    """

    def block(state: State, key: PRNGKey) -> tuple[State, Array]:
        state = run(key, state, edges, scales, sweeps)
        return state, log_likelihood(state)

    return jax.lax.scan(block, state, keys)


def r_hat(values: Values) -> float:
    """Compute Gelman and Rubin's R-hat of several chains, each split in two halves.

    Above :data:`MIXED` the chains still show where they began. ``values`` are float [chains, at
    least 4 draws].
    Reference: Gelman et al., Bayesian Data Analysis, 3rd edition, section 11.4.

    >>> round(r_hat([[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]), 3)
    0.707
    """
    chains = np.asarray(values, np.float64)
    validate.require(
        chains.ndim == 2 and chains.shape[1] > 3,
        f"values must be [chains, draws] with at least 4 draws, got shape {chains.shape}",
    )
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, -half:]])
    within = parts.var(1, ddof=1).mean()
    between = parts.mean(1).var(ddof=1)
    if within == 0:  # stuck chains, at one place or at several
        return 1.0 if between == 0 else math.inf
    return float(np.sqrt((half - 1) / half + between / within))
