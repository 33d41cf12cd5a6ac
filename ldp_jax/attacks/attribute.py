"""Attribute inference.

The attributes of a node's neighbours reveal its own, once the edges are known.
"""

import jax.numpy as jnp
import numpy as np

from ldp_jax.attacks._result import Attack, Targets, check_targets, distinct, evaluate
from ldp_jax.core import validate
from ldp_jax.core.types import Numbers
from ldp_jax.core.validate import require
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator, ppr

_SHRINKAGE = 0.02  # the weight of the prior beside that of the known nodes in reach


def inferred_edges(attack: Attack, *, known: Numbers = ()) -> np.ndarray:
    """The pairs that an attack takes for edges, with the ``known`` ones.

    They are the ``believed`` share of the largest scores.
    Equal scores are taken in a fixed random order. Integers [m, 2], each pair once with u < v,
    sorted.

    >>> from ldp_jax.attacks import all_pairs, evaluate
    >>> asked = all_pairs([0, 1, 2], [[0, 1]], known=[[1, 2]])
    >>> inferred_edges(
    ...     evaluate("a guess", [2.0, 1.0], asked), known=[[2, 1]]
    ... ).tolist()
    [[0, 1], [1, 2]]
    """
    units = np.asarray(attack.targets.units)
    require(
        units.shape[1] == 2,
        f"attack must be on pairs of nodes, got units of shape {units.shape}",
    )
    count = round(attack.believed * len(units))
    # The places of targets may tell their truth.
    order = np.random.default_rng(0).permutation(len(units))
    top = order[np.argsort(-attack.scores[order], kind="stable")][:count]
    pairs = np.concatenate([units[top], validate.pairs(known=known)])
    return np.unique(np.sort(pairs, 1), axis=0)


def attribute_inference(
    edges: Numbers,
    num_nodes: int,
    known_nodes: Numbers,
    known_values: Numbers,
    targets: Targets,
    *,
    alpha: float = 0.3,
) -> Attack:
    r"""Score nodes by how common an attribute is among those near them whose attribute is public.

    With M the known nodes, P the walk to a random neighbour and a the share of M that has the
    attribute, the score of v is a plus :math:`\sum_l \alpha (1-\alpha)^l [P^l (y - a) 1_M]_v` over
    :math:`0.02 + \sum_l \alpha (1-\alpha)^l [P^l 1_M]_v`. Once with public edges alone and once
    with :func:`inferred_edges`, :meth:`Attack.minus` is the leak of the latter.

    Args:
      edges: integers [m, 2], undirected: the graph as the attacker knows it.
      num_nodes: n.
      known_nodes: distinct integers [k], at least one, whose attribute is public.
      known_values: bool [k].
      targets: other nodes, units [p, 1], and whether they have the attribute.
      alpha: in (0, 1], small to look far.

    Reference: Gong & Liu, Attribute inference attacks in online social networks (ACM TOPS 2018),
    and HeteroRR, Figure 1 (the stage between edges and records).

    >>> asked = Targets(np.array([[1], [2], [4]]), np.array([True, False, False]))
    >>> attribute_inference(
    ...     [[0, 1], [2, 3], [3, 4]], 5, [0, 3], [True, False], asked
    ... ).auc.mean
    1.0
    """
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    graph = graphs.from_edges(edges, num_nodes, pairs_in="rows")
    units = check_targets(targets, num_nodes, 1)[0][:, 0]
    nodes = distinct("known_nodes", known_nodes, num_nodes)
    values = validate.mask(len(nodes), known_values=known_values)
    require(not np.isin(units, nodes).any(), "targets must not be among the known nodes")
    prior = values.mean()
    start = np.zeros((num_nodes, 2), np.float32)
    start[nodes] = np.stack([values - prior, np.ones(len(nodes))], 1)
    reached = ppr(operator(graph, "segment"), jnp.asarray(start), alpha, 0.0)
    value, weight = np.asarray(reached, np.float64)[units].T
    return evaluate("attribute inference", prior + value / (weight + _SHRINKAGE), targets)
