"""Connection probabilities of a dendrogram from its noisy counts, and graphs sampled by them."""

import jax  # noqa: F401 - the examples below
import numpy as np
from jaxtyping import Float, Int

from ldp_jax.core import random
from ldp_jax.core.types import PRNGKey
from ldp_jax.curators import hrg
from ldp_jax.curators.noisy_counts import consistent, noisy_counts
from ldp_jax.curators.release import MEMORY
from ldp_jax.curators.split import NodePairs
from ldp_jax.edges import checks
from ldp_jax.edges.degree_noise import Noise
from ldp_jax.edges.draws import each_below, happens, ordinal, poisson_counts

THRESHOLDS = (0.05, 0.01)
"""tau_1 and tau_2 of the authors' code, public."""

_DENSE = 0.5  # the probability above which the pairs of an internal node are listed, one by one


def regions(
    tree: hrg.Dendrogram,
    epsilon: float,
    thresholds: tuple[float, float] = THRESHOLDS,
) -> Int[np.ndarray, " internal"]:
    r"""Group internal nodes that share one noisy count; int [n - 1], the topmost node of each.

    From the root down, the subtree of a node of L and R leaves on its sides, n of them together, is
    one region where noise would drown its counts: where :math:`1/(\epsilon L R) \ge \tau_1` and
    :math:`2/(\epsilon n (n - 1)) \ge \tau_2`. Any other node is a region of its own. It depends on
    the dendrogram and on public numbers alone.
    Reference: Xiao, Chen and Tan, KDD 2014; HeteroRR, Algorithm 3, whose second threshold lacks the
    2.

    >>> tree = hrg.random_dendrogram(jax.random.key(0), 8)
    >>> regions(tree, 1.0).tolist(), regions(tree, 10.0, (0.02, 0.01)).tolist()
    ([0, 0, 0, 0, 0, 0, 0], [0, 1, 2, 1, 1, 2, 2])
    """
    children, slot, size = (np.asarray(leaf) for leaf in tree)
    internal = len(slot) // 2
    leaves = size[:internal].astype(np.float64)
    node_drowns = 1 / (epsilon * _pairs(children, size)) >= thresholds[0]
    subtree_drowns = 2 / (epsilon * leaves * (leaves - 1)) >= thresholds[1]
    whole = node_drowns & subtree_drowns

    # The topmost of those on the path to the root, itself among it, by pointer jumping.
    top = np.where(whole, np.arange(internal), -1)
    above = slot[:internal] >> 1
    for _ in range(internal.bit_length()):
        top = np.where(top[above] >= 0, top[above], top)
        above = above[above]
    return np.where(top >= 0, top, np.arange(internal))


def _pairs(children: np.ndarray, size: np.ndarray) -> np.ndarray:
    """N of each internal node; float64."""
    return size[children].reshape(-1, 2).astype(np.float64).prod(1)


def probabilities(
    key: PRNGKey,
    state: hrg.State,
    epsilon: float,
    region: Int[np.ndarray, " internal"],
    *,
    noise: Noise = "laplace",
    fresh: bool = False,
) -> Float[np.ndarray, " internal"]:
    """Compute the probability that a pair is released, by the internal node that joins it.

    Float64 [n - 1], for pairs that are no public edge.

    Each region (:func:`regions`) has one noisy count of its private edges, made consistent
    (:func:`~ldp_jax.curators.noisy_counts.consistent`), and all its pairs the same
    probability. Epsilon is of all counts together, since an edge is in one region. ``fresh`` noise
    is every internal node's own, as HeteroRR's Algorithm 3 prints it, clipped to [0, 1]: an edge
    costs epsilon for each node of its region.
    """
    children, _, size = (np.asarray(leaf) for leaf in state.tree)
    internal = len(region)
    public, private = (np.bincount(region, each, internal) for each in np.asarray(state.count))
    most = np.bincount(region, _pairs(children, size), internal) - public
    if fresh:
        noisy = noisy_counts(key, private[region], epsilon, noise)
        return np.clip(noisy / np.maximum(most[region], 1.0), 0.0, 1.0)
    used = np.unique(region)
    noisy = noisy_counts(key, private[used], epsilon, noise)
    count = np.zeros(internal)
    count[used] = consistent(noisy, most[used])
    return (count / np.maximum(most, 1.0))[region]


def sample(
    key: PRNGKey,
    tree: hrg.Dendrogram,
    probability: Float[np.ndarray, " internal"],
    memory: float = MEMORY,
) -> NodePairs:
    """Draw a graph: each pair of leaves is an edge with the probability of the node that joins it.

    Pairs are int [k, 2], the lower node first.

    Exact in law, in time and memory O(edges out): of N pairs with probability p, a Poisson number
    (mean -N log(1 - p)) is drawn with replacement and repeats are dropped. From p = 1/2 on they are
    listed.

    >>> tree = hrg.random_dendrogram(jax.random.key(0), 4)
    >>> sample(jax.random.key(1), tree, np.array([1.0, 0.0, 0.0])).shape
    (4, 2)
    """
    children, _, size = (np.asarray(leaf) for leaf in tree)
    internal = len(probability)
    n = internal + 1
    pairs = _pairs(children, size)
    checks.fits(float((pairs * probability).sum()), memory, "use a larger epsilon")

    # The leaves below a node are ``size`` places from its start.
    start = np.asarray(hrg.positions(tree))
    leaf = np.empty(n, np.int64)
    leaf[start[internal:]] = np.arange(n)
    left = children[::2]
    right = children[1::2]
    count_key, left_key, right_key, listed_key = random.split(key, 4)

    dense = probability > _DENSE
    drawn = np.where(dense, 0.0, probability)
    count = poisson_counts(count_key, -pairs * np.log1p(-drawn))
    node = np.repeat(np.arange(internal), count)
    one = start[left[node]] + each_below(left_key, size[left[node]])
    other = start[right[node]] + each_below(right_key, size[right[node]])

    owner = np.repeat(np.arange(internal), np.where(dense, pairs, 0.0).astype(np.int64))
    row, column = np.divmod(ordinal(owner), size[right[owner]])
    chance = probability[owner]
    kept = happens(listed_key, chance.astype(np.float32), (1 - chance).astype(np.float32))
    one = np.concatenate([one, (start[left[owner]] + row)[kept]])
    other = np.concatenate([other, (start[right[owner]] + column)[kept]])

    ends = np.sort(leaf[np.stack([one, other], 1)], 1)
    codes = np.unique(ends[:, 0] * n + ends[:, 1])
    return np.stack(np.divmod(codes, n), 1)
