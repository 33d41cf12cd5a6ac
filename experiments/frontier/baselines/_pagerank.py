"""Personalized PageRank of classes over links, weighed against the features on the labels."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from experiments.frontier.baselines._features import FOLDS, posterior, regression, standardised
from experiments.frontier.baselines._released import Asked
from ldp_jax.core.types import Array
from ldp_jax.pipeline.self_training import folds
from ldp_jax.pipeline.stack import combine, stack

ALPHAS = (0.1, 0.6)
"""Decay factors: far and near. The labels weigh them."""

STEPS = 10
"""Products with the links, as Gasteiger et al. (ICLR 2019) have them."""


def pagerank(key: Any, links: Any, asked: Asked) -> Float[np.ndarray, "n classes"]:
    """Log posterior, float32 [n, C], of a regression on the features' posterior and on propagated classes.

    A user starts at their label, else at the features' posterior. Propagation to labelled users leaves out the
    labels of their fold. The regression has one weight for each source, or is a logistic regression with free
    weights: whichever gives the labels more likelihood, out of fold (the former less one for a weight).
    """
    log_q, labels = posterior(asked), asked.labels
    propagate_key, fit_key = jax.random.split(key)
    fold = np.asarray(folds(propagate_key, labels, FOLDS))
    reached = np.array(_reaches(links, log_q, jnp.asarray(labels, jnp.int32)))
    for part in range(FOLDS):
        hidden = jnp.asarray(np.where(fold == part, -1, labels), jnp.int32)
        mine = (fold == part) & (labels >= 0)
        reached[mine] = np.asarray(_reaches(links, log_q, hidden))[mine]
    sources = jnp.stack([log_q, *jnp.split(jnp.asarray(standardised(reached)), len(ALPHAS), 1)], -1)
    weights = stack(sources, jnp.asarray(labels), (1.0, *(0.0 for _ in ALPHAS)), ridge=1.0)
    shared = np.asarray(combine(sources, weights))
    free = regression(fit_key, np.concatenate([np.asarray(log_q), reached], 1), labels, asked.classes)
    known = np.flatnonzero(labels >= 0)
    of_shared, of_free = (each[known, labels[known]].sum() for each in (shared, free))
    return shared if of_shared - len(weights) > of_free else free


@jax.jit
def _reaches(links: Any, log_q: Array, labels: Array) -> Float[Array, "n columns"]:
    """Logarithms of what reaches each user from others, all decay factors side by side: one product serves them."""
    classes = log_q.shape[1]
    start = jnp.where((labels >= 0)[:, None], jax.nn.one_hot(labels, classes), jnp.exp(log_q))
    start = jnp.tile(start, (1, len(ALPHAS)))
    alpha = jnp.repeat(jnp.asarray(ALPHAS), classes)
    share = 1.0 / jnp.maximum(links.degree, 1e-6)[:, None]
    alone = links.degree[:, None] <= 1e-6

    def around(h: Array) -> Array:
        return jnp.where(alone, start, share * links.sum(h))

    h = jax.lax.fori_loop(0, STEPS - 1, lambda _, h: alpha * start + (1 - alpha) * around(h), start)
    return jnp.log(jnp.maximum(around(h), 1e-3))
