"""A posterior of classes through randomised response: what forward correction compares with reported labels."""

import jax.numpy as jnp

from ldp_jax.core.types import Array


def log_reported(log_p: Array, keep: Array) -> Array:
    """log P(report) of each class from log P(class), [..., C].

    Args:
      log_p: of the true class.
      keep: [...], the probability in (1 / C, 1] that the report is the true class; each other class is reported
        with probability (1 - keep) / (C - 1).

    >>> p = jnp.array([[0.75, 0.25]])
    >>> [round(float(share), 4) for share in jnp.exp(log_reported(jnp.log(p), jnp.array([0.8])))[0]]
    [0.65, 0.35]
    """
    other = ((1.0 - keep) / (log_p.shape[-1] - 1))[..., None]
    # log 0 of a channel without noise is no trouble: logaddexp passes the other term, and its gradient, on.
    return jnp.logaddexp(jnp.log(other), jnp.log(keep[..., None] - other) + log_p)
