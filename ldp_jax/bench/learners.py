"""Classes from numbers of nodes and public labels: by a logistic regression, or by a model."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import log_softmax

from ldp_jax.core import random
from ldp_jax.core.types import AnyArray, Array, PRNGKey
from ldp_jax.graph.propagation import Operator
from ldp_jax.learning import training
from ldp_jax.learning.models import Model, NodeInputs
from ldp_jax.servers.parts.rows import DenseRows
from ldp_jax.servers.parts.self_training import features_posterior, folds

_FOLDS = 10
_MIXES = np.linspace(0.1, 1.0, 10)
_PARTS = 5  # of public labels, of which one chooses a model's epoch


def classified(
    key: PRNGKey,
    z: Float[Array, "n d"],
    labels: Int[np.ndarray, " n"],
    alone: Float[np.ndarray, "n classes"],
) -> Float[np.ndarray, "n classes"]:
    """The mix of a classifier of z with what is known without it that held-out labels bear out.

    It is what is known alone where no mix is better by a standard error.
    """
    classes = alone.shape[1]
    fold = folds(key, labels, _FOLDS)
    known = labels >= 0
    of_label = lambda scores: scores[known, labels[known]]
    mixes = []
    for rows in _prepared(z):
        found = features_posterior(rows, labels, fold, num_classes=classes, num_folds=_FOLDS)
        for weight in _MIXES:
            mix = (1 - weight) * alone + weight * np.asarray(found.log_q)
            mixes.append(log_softmax(mix, axis=1))
    best = max(mixes, key=lambda mix: of_label(mix).mean())
    gains = of_label(best) - of_label(alone)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return best if gains.mean() > error else alone


def modelled(
    key: PRNGKey,
    model: Model,
    op: Operator,
    rows: Float[AnyArray, "n d"],
    labels: Int[np.ndarray, " n"],
    classes: int,
) -> Float[np.ndarray, "n classes"]:
    """The log posterior by a model of nodes that is trained on public labels.

    A fifth of them chooses the epoch. Columns have mean 0 and one size. ``ValueError`` for a model
    of another number of outputs.
    """
    fold_key, fit_key = random.split(key)
    fold = folds(fold_key, labels, _PARTS)

    def examples(chosen: Bool[np.ndarray, " n"]) -> training.Examples:
        nodes = np.flatnonzero((labels >= 0) & chosen).astype(np.int32)
        return training.Examples(nodes, labels[nodes])

    taught = examples(fold != 0)
    held = examples(fold == 0)
    inputs = NodeInputs(op, _prepared(jnp.asarray(rows))[1].values)
    objective = training.on_graph(training.node_classification)
    settings = training.Settings(training.adam(0.01), 200, len(taught.index), 50)
    fitted = training.fit(fit_key, model, objective, inputs, taught, held, held, settings)
    outputs, _ = model.apply(fitted.variables, inputs, key=None, train=False)
    if outputs.shape != (len(labels), classes):
        raise ValueError(
            f"outputs of a model must be of shape {(len(labels), classes)}, got {outputs.shape}"
        )
    return log_softmax(np.asarray(outputs), axis=1)


def _prepared(z: Array) -> list[DenseRows]:
    """Columns less their means; also of one size; both of a mean row length of 1."""
    centred = z - z.mean(0)
    size = jnp.sqrt((centred**2).mean(0))
    even = centred / jnp.where(size > 0, size, 1.0)
    return [DenseRows(rows / jnp.sqrt((rows**2).sum(1).mean())) for rows in (centred, even)]
