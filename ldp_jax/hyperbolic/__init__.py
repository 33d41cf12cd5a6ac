"""Hyperbolic geometry: two charts of one space, and distributions on it.

>>> import jax.numpy as jnp
>>> from ldp_jax.hyperbolic import poincare
>>> round(float(poincare.distance(jnp.zeros(2), jnp.array([0.5, 0.0]))), 4)
1.0986
"""

from ldp_jax.hyperbolic import lorentz, poincare, wrapped_normal

__all__ = ["lorentz", "poincare", "wrapped_normal"]


def __dir__() -> list[str]:
    return __all__
