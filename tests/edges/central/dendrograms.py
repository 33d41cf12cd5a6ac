"""All dendrograms of a few nodes and their exact law, by brute force: what the chain is compared with."""

import itertools

import jax.numpy as jnp
import numpy as np


def clusters(nodes):
    """Every rooted binary tree over some nodes, each as the set of (one side, other side), as bit masks."""
    if len(nodes) == 1:
        return [frozenset()]
    mask = lambda some: sum(1 << node for node in some)
    first, rest, found = nodes[0], nodes[1:], []
    for count in range(len(rest)):
        for more in itertools.combinations(rest, count):
            left, right = (first, *more), tuple(node for node in rest if node not in more)
            found += [
                one | other | {(mask(left), mask(right))} for one in clusters(left) for other in clusters(right)
            ]
    return found


def sides(n):
    """The two sides of each internal node of all (2 n - 3)!! dendrograms; int [trees, n - 1, 2]."""
    return np.array([sorted(tree) for tree in clusters(tuple(range(n)))])


def counts(trees, edges):
    """How many of some edges [m, 2] each internal node of each dendrogram joins; int [trees, n - 1]."""
    bits = 1 << np.asarray(edges, int).reshape(-1, 2)
    one, other = trees[..., 0, None], trees[..., 1, None]
    first, second = bits[:, 0], bits[:, 1]
    joins = ((one & first > 0) & (other & second > 0)) | ((one & second > 0) & (other & first > 0))
    return joins.sum(-1)


def log_likelihoods(trees, edges):
    """L of each dendrogram, eq. 11, in float64 by its definition; float [trees]."""
    members = np.bitwise_count(trees)
    pairs = members[..., 0] * members[..., 1]
    found = counts(trees, edges)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = found / pairs
        each = np.nan_to_num(found * np.log(share)) + np.nan_to_num((pairs - found) * np.log1p(-share))
    return each.sum(-1)


def _weights(n):
    return np.random.default_rng(n).integers(0, 2**32, 2**n, dtype=np.uint32)


def names(trees, n):
    """A number for each dendrogram: the sum of its clusters' numbers."""
    made = _weights(n)[trees[..., 0] | trees[..., 1]].sum(-1, dtype=np.uint32)
    assert len(np.unique(made)) == len(made)
    return made


def name_of(tree):
    """The same number, of a dendrogram of the library."""
    n = (tree.slot.shape[-1] + 1) // 2
    mask = jnp.concatenate([jnp.zeros(n - 1, jnp.int32), 1 << jnp.arange(n)])
    for _ in range(n - 1):
        inner = mask[tree.children].reshape(-1, 2)
        mask = jnp.concatenate([inner[:, 0] | inner[:, 1], mask[n - 1 :]])
    return jnp.asarray(_weights(n))[mask[: n - 1]].sum(dtype=jnp.uint32)


def shares(drawn, trees, n):
    """How often each dendrogram is among the drawn numbers."""
    known = names(trees, n)
    order = np.argsort(known)
    at = np.searchsorted(known[order], drawn)
    np.testing.assert_array_equal(known[order][at], drawn)
    return np.bincount(order[at], minlength=len(trees)) / len(drawn)


def law(log_density):
    """Shares that are proportional to an exponential."""
    weight = np.exp(log_density - log_density.max())
    return weight / weight.sum()
