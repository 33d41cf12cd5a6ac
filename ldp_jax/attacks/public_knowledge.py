"""Attackers with public knowledge alone: no model, no release.

Their finds are no leakage of a mechanism.
"""

import numpy as np
import scipy.sparse

from ldp_jax.attacks._result import Attack, Targets, check_targets, evaluate
from ldp_jax.attacks.link_stealing import Distance, by_distance
from ldp_jax.core import validate
from ldp_jax.core.types import Numbers

_BLOCK = 2**16  # pairs whose neighbours are compared at a time


def _adjacency(public_edges: Numbers, num_nodes: int) -> scipy.sparse.csr_array:
    validate.integer_in(1, num_nodes=num_nodes)
    edges = validate.pairs(num_nodes, public_edges=public_edges)
    edges = edges[edges[:, 0] != edges[:, 1]]  # nobody is their own neighbour
    ends = np.concatenate([edges, edges[:, ::-1]])
    ones = np.ones(len(ends), np.float32)
    adjacency = scipy.sparse.csr_array((ones, tuple(ends.T)), shape=(num_nodes, num_nodes))
    adjacency.data[:] = 1.0  # an edge that is given twice is one
    return adjacency


def common_neighbours(public_edges: Numbers, num_nodes: int, targets: Targets) -> Attack:
    """Score pairs of nodes by their number of common neighbours.

    ``public_edges`` are integers [m, 2], undirected.

    >>> from ldp_jax.attacks import all_pairs
    >>> square = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> secret = all_pairs(np.arange(5), [[0, 2], [1, 3]], known=square)
    >>> common_neighbours(square, 5, secret).auc.mean
    1.0
    """
    adjacency = _adjacency(public_edges, num_nodes)
    units, _ = check_targets(targets, num_nodes)
    scores = []
    for block in np.split(units, np.arange(_BLOCK, len(units), _BLOCK)):
        one, other = block.T
        scores.append(adjacency[one].multiply(adjacency[other]).sum(1))
    return evaluate("common neighbours", np.concatenate(scores), targets)


def degree_product(public_edges: Numbers, num_nodes: int, targets: Targets) -> Attack:
    """Score pairs by the product of their public degrees; arguments as :func:`common_neighbours`.

    >>> from ldp_jax.attacks import all_pairs
    >>> secret = all_pairs(np.arange(4), [[0, 1]], known=[[0, 2], [1, 3]])
    >>> degree_product([[0, 2], [1, 3], [0, 3]], 4, secret).name
    'degree product'
    """
    degree = _adjacency(public_edges, num_nodes).sum(1)
    units, _ = check_targets(targets, num_nodes)
    return evaluate("degree product", degree[units].prod(1), targets)


def feature_similarity(x: Numbers, targets: Targets, *, distance: Distance = "cosine") -> Attack:
    """Score pairs by how alike their records ``x`` are, float [n, d].

    LinkTeller's attackers have these records too.
    """
    return by_distance(f"feature similarity ({distance})", x, targets, distance, "x")
