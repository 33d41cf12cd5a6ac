"""A class through randomised response: how likely a report is."""

import jax.numpy as jnp

from ldp_jax.core.types import Array, Scalar


def other_share(keep: Scalar, num_classes: int) -> Scalar:
    """P(report of one given class | another class).

    ``keep`` in (1 / C, 1] is P(report of a class | that class).
    """
    return (1.0 - keep) / (num_classes - 1)


def log_reported(log_p: Array, keep: Array) -> Array:
    """log P(report) of each class from log P(class), [..., C].

    What forward correction compares with reports.

    >>> p = jnp.array([[0.75, 0.25]])
    >>> [round(float(share), 4) for share in jnp.exp(log_reported(jnp.log(p), jnp.array([0.8])))[0]]
    [0.65, 0.35]
    """
    other = jnp.asarray(other_share(keep, log_p.shape[-1]))[..., None]
    # log 0 of a channel without noise is no trouble: logaddexp passes the other term, and its
    # gradient, on.
    return jnp.logaddexp(jnp.log(other), jnp.log(keep[..., None] - other) + log_p)
