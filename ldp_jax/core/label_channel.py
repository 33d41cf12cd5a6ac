"""Probabilities of a class that is reported by randomised response."""

import jax.numpy as jnp

from ldp_jax.core.types import Array, Scalar


def other_share(keep: Scalar, num_classes: int) -> Scalar:
    """Return the probability that a class is reported as one given other class.

    ``keep`` in (1 / C, 1] is the probability that it is reported as it is.
    """
    return (1.0 - keep) / (num_classes - 1)


def log_reported(log_p: Array, keep: Array) -> Array:
    """Return log P(report of a class) from log P(class), [..., C], for forward correction.

    >>> p = jnp.array([[0.75, 0.25]])
    >>> [
    ...     round(float(share), 4)
    ...     for share in jnp.exp(log_reported(jnp.log(p), jnp.array([0.8])))[0]
    ... ]
    [0.65, 0.35]
    """
    other = jnp.asarray(other_share(keep, log_p.shape[-1]))[..., None]
    # log 0 of a channel without noise is no trouble: logaddexp passes the other term, and its
    # gradient, on.
    log_other = jnp.log(other)
    log_kept = jnp.log(keep[..., None] - other) + log_p
    return jnp.logaddexp(log_other, log_kept)
