"""Gromov's four-point delta: the distance of a graph from a tree.

Delta of four points is half the difference of the two largest sums of opposite distances, such as
d(w, x) + d(y, z): 0 in a tree. A metric is delta-hyperbolic by the *maximum*; published figures are
often means.
Reference: Gromov, Hyperbolic groups (1987); Chami et al., NeurIPS 2019, appendix A; PoinDP table 3.

>>> graph_delta(
...     jax.random.key(0), [[0, 1], [1, 2], [2, 3], [3, 0]], 4, samples=10
... )
Delta(mean=1.0, maximum=1.0, samples=10)
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

from ldp_jax.core import random, validate
from ldp_jax.core.types import Array, Numbers, PRNGKey

_BLOCK = 64  # nodes whose shortest paths are in memory at once


class Delta(NamedTuple):
    """Four-point deltas of sampled points.

    The maximum of samples is a lower bound for the metric.
    """

    mean: float
    maximum: float
    samples: int


@partial(jax.jit, static_argnames="samples")
def _deltas(key: PRNGKey, distances: Array, samples: int) -> tuple[Array, Array]:
    k = len(distances)
    four: list[Array] = []  # in ascending order
    for place, one in enumerate(random.split(key, 4)):  # uniform among those that are not taken yet
        drawn = random.randint(one, (samples,), 0, k - place)
        for taken in four:
            drawn = drawn + (drawn >= taken)
        for at, taken in enumerate(four):
            four[at] = jnp.minimum(taken, drawn)
            drawn = jnp.maximum(taken, drawn)
        four.append(drawn)

    w, x, y, z = four
    opposite = [
        distances[w, x] + distances[y, z],
        distances[w, y] + distances[x, z],
        distances[w, z] + distances[x, y],
    ]
    _, second, largest = jnp.sort(jnp.stack(opposite), axis=0)
    delta = 0.5 * (largest - second)
    return delta.mean(), delta.max()


def graph_delta(
    key: PRNGKey,
    edges: Numbers,
    num_nodes: int,
    *,
    nodes: int = 1000,
    samples: int = 50_000,
) -> Delta:
    """Four-point deltas of ``nodes`` random nodes of a graph's largest connected component."""
    validate.threefry(key)
    num_nodes = validate.whole(4, num_nodes=num_nodes)
    nodes = validate.whole(4, nodes=nodes)
    samples = validate.whole(1, samples=samples)
    pairs = validate.pairs(num_nodes, edges=edges)
    ones = np.ones(len(pairs), np.int8)
    shape = (num_nodes, num_nodes)
    adjacency = scipy.sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=shape)

    _, component = csgraph.connected_components(adjacency, directed=False)
    largest = np.flatnonzero(component == np.bincount(component).argmax())
    validate.require(
        len(largest) > 3, f"edges must connect four nodes at least, and connect {len(largest)}"
    )
    node_key, key = random.split(key)
    order = np.argsort(np.asarray(random.bits(node_key, (len(largest),))), kind="stable")
    chosen = largest[order[:nodes]]

    paths = np.empty((len(chosen), len(chosen)), np.float32)
    for start in range(0, len(chosen), _BLOCK):
        part = chosen[start : start + _BLOCK]
        steps = csgraph.shortest_path(adjacency, directed=False, unweighted=True, indices=part)
        paths[start : start + _BLOCK] = steps[:, chosen]
    mean, most = _deltas(key, jnp.asarray(paths), samples)
    return Delta(float(mean), float(most), samples)
