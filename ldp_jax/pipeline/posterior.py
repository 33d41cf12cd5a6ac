"""The posterior of any classifier of public features, out of fold: in place of logistic regression."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from ldp_jax.core import random, validate
from ldp_jax.core.types import Array, PRNGKey
from ldp_jax.learning import training
from ldp_jax.learning.models import Model
from ldp_jax.pipeline.self_training import folds

_ADAM = training.adam(0.01, 5e-4)


def model_posterior(
    key: PRNGKey,
    model: Model,
    x: Float[Array | np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    *,
    num_folds: int = 5,
    optimizer: optax.GradientTransformation = _ADAM,
    epochs: int = 200,
    patience: int = 20,
) -> Float[Array, "n classes"]:
    """Log posterior of each user's class by a model that has not seen the label, for ``predict_from_counts``.

    One model a fold is trained on the labels of the other folds but one, which says when to stop. A labelled user
    is asked of the model of the own fold, any other of the mean of all. The key is of public randomness, ``x`` are
    public features, and ``model`` maps rows [b, d] to scores [b, C]. ``labels`` are in [0, C), -1 for none, at
    least ``num_folds`` >= 3 of them. Each fold is trained on all labels at once, for at most so many ``epochs``, or
    until ``patience`` of them had no better validation accuracy. ``ValueError`` for labels of another shape or kind
    or too few, and as :func:`ldp_jax.learning.training.fit`.

    >>> from ldp_jax.learning import models
    >>> x = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
    >>> labels = np.where(np.arange(40) % 2 == 0, np.arange(40) // 20, -1)
    >>> log_q = model_posterior(jax.random.key(0), models.mlp(2, 8, 2), x, labels, epochs=30)
    >>> (log_q.argmax(1) == np.arange(40) // 20).mean()
    Array(1., dtype=float32)
    """
    validate.threefry(key)
    validate.integer_in(3, num_folds=num_folds)
    labels = validate.complete(labels=labels)
    x = jnp.asarray(validate.complete(x=x) if validate.concrete(x) else x, jnp.float32)
    if labels.shape != (len(x),) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be int [{len(x)}], one a row of x, got {labels.dtype} {labels.shape}")
    known = np.flatnonzero(labels >= 0)
    if len(known) < num_folds:
        raise ValueError(f"labels must be at least {num_folds}, one a fold, got {len(known)}")
    fold_key, *keys = random.split(key, num_folds + 1)
    fold = np.asarray(folds(fold_key, np.where(labels >= 0, labels, labels.max() + 1), num_folds))
    # Every training of one size: those of a smaller fold see a label twice.
    size = -(-len(known) // num_folds)
    settings = training.Settings(optimizer, epochs, (num_folds - 2) * size, patience)

    def part(which: np.ndarray, wanted: int) -> training.Examples:
        index = np.resize(known[which], wanted).astype(np.int32)
        return training.Examples(index, labels[index].astype(np.int32))

    each = []
    for number, fit_key in enumerate(keys):
        held, stop = fold[known] == number, fold[known] == (number + 1) % num_folds
        if not held.any() or not stop.any():
            raise ValueError(f"labels must leave one for each of {num_folds} folds: give fewer folds")
        fitted = training.fit(
            fit_key, model, training.node_classification, x,
            part(~held & ~stop, (num_folds - 2) * size), part(stop, size), part(held, size),
            settings,
        )  # fmt: skip
        each.append(jax.nn.log_softmax(model.apply(fitted.variables, x, key=None, train=False)[0]))
    log_p = jnp.stack(each, 1)
    own = jnp.take_along_axis(log_p, jnp.asarray(fold)[:, None, None], axis=1)[:, 0]
    mean = jax.nn.logsumexp(log_p, axis=1) - np.log(num_folds)
    return jnp.where((labels >= 0)[:, None], own, mean)
