"""Link stealing: nodes that a model answers alike are joined.

Compared directly, or by a trained attacker.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.attacks._classifier import CLASSIFICATION, Perceptron, Rows, trained_answers
from ldp_jax.attacks._result import (
    Attack,
    Targets,
    check_targets,
    codes,
    evaluate,
    rows_of,
)
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.types import Array, Numbers, PRNGKey
from ldp_jax.core.validate import require
from ldp_jax.edges.draws import padded

Distance = Literal[
    "cosine",
    "euclidean",
    "correlation",
    "chebyshev",
    "braycurtis",
    "canberra",
    "cityblock",
    "sqeuclidean",
]
"""The distances of two posteriors, by SciPy's names."""

_TINY = np.finfo(np.float64).tiny


def _cosine(a: Array, b: Array) -> Array:
    lengths = jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1)
    return 1.0 - (a * b).sum(-1) / jnp.maximum(lengths, _TINY)


_DISTANCES = {
    "cosine": _cosine,
    "euclidean": lambda a, b: jnp.sqrt(((a - b) ** 2).sum(-1)),
    "correlation": lambda a, b: _cosine(
        a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    ),
    "chebyshev": lambda a, b: jnp.abs(a - b).max(-1),
    "braycurtis": lambda a, b: jnp.abs(a - b).sum(-1) / jnp.maximum(jnp.abs(a + b).sum(-1), _TINY),
    "canberra": lambda a, b: (jnp.abs(a - b) / jnp.maximum(jnp.abs(a) + jnp.abs(b), _TINY)).sum(-1),
    "cityblock": lambda a, b: jnp.abs(a - b).sum(-1),
    "sqeuclidean": lambda a, b: ((a - b) ** 2).sum(-1),
}

_BLOCK = 2**23  # numbers of the records of pairs that are compared at a time, about: 64 MB


@partial(jax.jit, static_argnames="distances")
def _compared(rows: Array, pairs: Array, distances: tuple[str, ...]) -> Float[Array, "p distances"]:
    rows = jnp.asarray(rows)  # an array of NumPy where nothing is compiled

    def one(pair: Array) -> Array:
        return jnp.stack(
            [_DISTANCES[distance](rows[pair[0]], rows[pair[1]]) for distance in distances]
        )

    return jax.lax.map(one, pairs, batch_size=max(1, _BLOCK // rows.shape[1]))


def _apart(
    rows: np.ndarray, pairs: np.ndarray, distances: tuple[str, ...]
) -> Float[np.ndarray, "p distances"]:
    """Distances in float64: float32 has too few of them for answers that are nearly alike."""
    with float64_on_cpu():
        found = _compared(rows, padded(np.asarray(pairs, np.int32)), distances)
        return np.asarray(found)[: len(pairs)]


@implicit_promotion()
def link_stealing(
    posteriors: Numbers, targets: Targets, *, distance: Distance = "correlation"
) -> Attack:
    """Score pairs of nodes by how alike the model's answers are, which are all the attacker has.

    ``posteriors``, float [n, classes], are the answer for each node; logits do as well. The score
    is the negative of ``distance``, one of the paper's, as ``scipy.spatial.distance`` has them. The
    correlation of two numbers, and the cosine of one, is a sign alone. It is refused:
    ``euclidean`` compares such posteriors.

    Reference: He et al., Stealing links from graph neural networks (USENIX Security 2021), attack
    0.

    >>> from ldp_jax.attacks import all_pairs
    >>> answers = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [0.3, 0.7]])
    >>> secret = all_pairs(np.arange(4), [[0, 1], [2, 3]])
    >>> link_stealing(answers, secret, distance="cosine").auc.mean
    1.0
    """
    return by_distance(f"link stealing ({distance})", posteriors, targets, distance, "posteriors")


def by_distance(name: str, rows: Numbers, targets: Targets, distance: str, what: str) -> Attack:
    """Pairs scored by how alike their rows are."""
    validate.one_of(get_args(Distance), distance=distance)
    known = rows_of(what, rows, np.float64)
    least = {"correlation": 3, "cosine": 2}.get(distance, 1)
    require(
        known.shape[1] >= least,
        f"{what} must have at least {least} columns for the {distance}, which says no more than a "
        f"sign of fewer, got {known.shape[1]}: distance='euclidean' compares any number",
    )
    units, _ = check_targets(targets, len(known))
    return evaluate(name, -_apart(known, units, (distance,))[:, 0], targets)


def _pair_features(known: Sequence[np.ndarray], pairs: np.ndarray) -> Float[np.ndarray, "p k"]:
    """The features of a pair for the trained attacker; the same for {u, v} and {v, u}.

    ``known`` are the posteriors of all nodes, and their records if the attacker has them.
    """
    posteriors = known[0]
    low = posteriors.min()
    high = posteriors.max()
    # Other numbers have no entropy.
    require(
        low >= 0 and high <= 1 + 1e-5,
        f"posteriors must be probabilities, got {low:g} to {high:g}",
    )
    distances = [_apart(rows, pairs, tuple(_DISTANCES)) for rows in known]
    entropy = -(posteriors * np.log(np.maximum(posteriors, _TINY))).sum(-1)
    first, second = entropy[pairs].T
    apart = first - second
    mixed = [first * second, (first + second) / 2, np.abs(apart), apart**2]
    return np.concatenate([*distances, np.stack(mixed, 1)], 1)


_PERCEPTRON = Perceptron(layers=2, hidden=32)


@implicit_promotion()
def trained_link_stealing(
    key: PRNGKey,
    posteriors: Numbers,
    targets: Targets,
    *,
    known: Targets,
    known_posteriors: Numbers | None = None,
    x: Numbers | None = None,
    known_x: Numbers | None = None,
    perceptron: Perceptron = _PERCEPTRON,
) -> Attack:
    """Score pairs by an attacker that was trained on pairs whose truth is public.

    It reads distances between the answers for two nodes, both entropies and, where given, distances
    of records.

    Args:
      key: a threefry key.
      posteriors: float [n, classes], probabilities that the model answered.
      targets: pairs of its rows.
      known: pairs with a public truth, at least 10 of each kind, such as
        :func:`ldp_jax.attacks.balanced_pairs` of the public edges; a fifth of them chooses the
        epoch. No target of the same nodes may be among them.
      known_posteriors: float [m, classes], the answers for ``known``: those of a shadow model on
        another graph, against inductive models. By default ``posteriors``.
      x: float [n, d], records that the attacker has, too.
      known_x: float [m, d], the records of ``known``, where ``known_posteriors`` are given with
        ``x``.
      perceptron: the attacker.

    Reference: He et al., Stealing links from graph neural networks (USENIX Security 2021), attacks
    1, 3 and 4; Wu et al., Link stealing attacks against inductive graph neural networks (PoPETs
    2024).
    """
    validate.threefry(key)
    inductive = known_posteriors is not None
    require(
        (known_x is not None) == (inductive and x is not None),
        "known_x must be given where x and known_posteriors both are, and only there",
    )
    asked = _of_nodes(posteriors=posteriors, x=x)
    seen = asked
    if inductive:
        seen = _of_nodes(known_posteriors=known_posteriors, known_x=known_x)
    n = len(asked[0])
    units, _ = check_targets(targets, n)
    known_units, truth = check_targets(known, len(seen[0]))
    kinds = (truth.sum(), (~truth).sum())
    require(
        min(kinds) >= 10,
        f"known must have at least 10 pairs of each kind, got {kinds[0]} and {kinds[1]}",
    )
    seen_pairs = codes(known_units, len(seen[0]))
    one_truth = len(np.unique(2 * seen_pairs + truth)) == len(np.unique(seen_pairs))
    require(one_truth, "known must give one truth of each pair, and calls one linked and not")
    shared = np.isin(codes(units, n), codes(known_units, n))
    require(inductive or not shared.any(), "known must have no pair that is among the targets")

    split_key, fit_key = random.split(key)
    order = np.asarray(random.permutation(split_key, len(truth)))
    order = np.concatenate([order[truth[order]], order[~truth[order]]])
    validates = np.arange(len(order)) % 5 == 0  # each fifth pair of either kind
    rows = Rows(_pair_features(seen, known_units), truth[:, None].astype(np.float32))
    features = _pair_features(asked, units)
    parts = (order[~validates], order[validates])
    scores = trained_answers(fit_key, perceptron, CLASSIFICATION, rows, parts, features)[:, 0]
    name = "trained link stealing"
    if x is not None:
        name += " with records"
    return evaluate(name, scores, targets)


def _of_nodes(**given: Any) -> list[np.ndarray]:
    """The arrays that are given, checked: a row a node."""
    found = []
    for name, rows in given.items():
        if rows is not None or not found:
            found.append(rows_of(name, rows, np.float64))
            validate.finite_array(len(found[0]), "d", **{name: found[-1]})
    return found
