"""All dendrograms of a few nodes, their exact law, and what an edge changes of it.

By brute force, in float64.
"""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy import special

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Values
from ldp_jax.curators import hrg


def _clusters(nodes: tuple[int, ...]) -> list[frozenset[tuple[int, int]]]:
    """Every rooted binary tree over some nodes, as a set of (one side, other side) in bit masks."""
    if len(nodes) == 1:
        return [frozenset()]
    mask = lambda some: sum(1 << node for node in some)
    first = nodes[0]
    rest = nodes[1:]
    found = []
    for count in range(len(rest)):
        for more in itertools.combinations(rest, count):
            left = (first, *more)
            right = tuple(node for node in rest if node not in more)
            root = (mask(left), mask(right))
            for one, other in itertools.product(_clusters(left), _clusters(right)):
                found.append(one | other | {root})
    return found


@functools.cache
def sides(n: int) -> Int[np.ndarray, "trees internal 2"]:
    """The two sides of each internal node of all (2 n - 3)!! dendrograms, as bit masks.

    The root is the first.
    """
    above = lambda node: (-(node[0] | node[1]).bit_count(), node)
    made = np.array([sorted(tree, key=above) for tree in _clusters(tuple(range(n)))])
    made.flags.writeable = False
    return made


def pairs_of(n: int) -> Int[np.ndarray, "pairs 2"]:
    """All pairs of n nodes, the lower one first."""
    return np.stack(np.triu_indices(n, 1), 1)


def joins(trees: np.ndarray, pairs: Values) -> np.ndarray:
    """Whether each internal node of each dendrogram joins each pair; bool [trees, n - 1, pairs]."""
    first, second = 1 << np.asarray(pairs, np.int64).reshape(-1, 2).T
    one = trees[..., 0, None]
    other = trees[..., 1, None]
    first_in_one = (one & first > 0) & (other & second > 0)
    second_in_one = (one & second > 0) & (other & first > 0)
    return first_in_one | second_in_one


def log_likelihoods(trees: np.ndarray, edges: Values) -> Float[np.ndarray, " trees"]:
    """L of each dendrogram, eq. 11, by its definition."""
    return _likelihoods(trees, joins(trees, edges).sum(-1))


def over_all_graphs(n: int, pairs: np.ndarray) -> Float[np.ndarray, "graphs trees"]:
    """L of every graph of some pairs, by its bits, and every dendrogram over n nodes."""
    trees = sides(n)
    joined = joins(trees, pairs).astype(int)
    found = np.einsum("gp,trp->gtr", bits_of(len(pairs)), joined)
    return _likelihoods(trees, found)


def bits_of(count: int) -> Int[np.ndarray, "sets count"]:
    """All sets of ``count`` pairs, set i by the bits of i."""
    return np.arange(1 << count)[:, None] >> np.arange(count) & 1


def _likelihoods(trees: np.ndarray, found: np.ndarray) -> np.ndarray:
    """The sum over internal nodes of N chi(e / N), of so many edges each."""
    pairs = np.bitwise_count(trees).prod(-1, dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = found / pairs
        of_edges = found * np.log(share)
        of_others = (pairs - found) * np.log1p(-share)
    terms = np.nan_to_num(of_edges) + np.nan_to_num(of_others)
    return terms.sum(-1)


law = functools.partial(special.softmax, axis=-1)
"""Shares that are proportional to an exponential, along the last axis."""


def as_trees(n: int) -> list[hrg.Dendrogram]:
    """The same dendrograms as the library has them.

    Internal node r of each is that of :func:`sides`.
    """
    trees = []
    for tree in sides(n):
        clusters = tree[:, 0] | tree[:, 1]
        masks = np.concatenate([clusters, 1 << np.arange(n)])
        node = np.zeros(1 << n, np.int32)
        node[masks] = np.arange(2 * n - 1)
        children = node[tree].ravel()
        slot = np.zeros(2 * n - 1, np.int32)
        slot[children] = np.arange(2 * n - 2)
        trees.append(hrg.Dendrogram(children, slot, np.bitwise_count(masks).astype(np.int32)))
    return trees


# --- Which dendrogram a chain has drawn -----------------------------------------------------------


def _weights(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**32, 2**n, dtype=np.uint32)


def name_of(tree: hrg.Dendrogram) -> Array:
    """The sum of the numbers of a dendrogram's clusters; traceable."""
    n = (tree.slot.shape[-1] + 1) // 2
    mask = jnp.concatenate([jnp.zeros(n - 1, jnp.int32), 1 << jnp.arange(n)])
    for _ in range(n - 1):
        inner = mask[tree.children].reshape(-1, 2)
        mask = jnp.concatenate([inner[:, 0] | inner[:, 1], mask[n - 1 :]])
    return jnp.asarray(_weights(n))[mask[: n - 1]].sum(dtype=jnp.uint32)


def counts_of(drawn: np.ndarray, n: int) -> Int[np.ndarray, " trees"]:
    """How often each dendrogram of :func:`sides` is among drawn numbers.

    Others are a ``ValueError``.
    """
    trees = sides(n)
    clusters = trees[..., 0] | trees[..., 1]
    known = _weights(n)[clusters].sum(-1, dtype=np.uint32)
    order = np.argsort(known)
    at = np.minimum(np.searchsorted(known[order], drawn), len(known) - 1)
    validate.require(
        (known[order][at] == drawn).all(),
        f"what was drawn must be dendrograms over {n} nodes, got other trees",
    )
    return np.bincount(order[at], minlength=len(known))
