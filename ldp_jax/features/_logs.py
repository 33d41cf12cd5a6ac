"""Logarithms of masses that may be 0."""

import jax.numpy as jnp

from ldp_jax.core.types import Array


def log_mass(mass: Array) -> Array:
    """The logarithm of each mass, ``-inf`` of 0, with finite gradients."""
    some = mass > 0
    return jnp.where(some, jnp.log(jnp.where(some, mass, 1.0)), -jnp.inf)
