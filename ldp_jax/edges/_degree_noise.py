"""Noise on a degree, clipped to what a degree can be: the law that mechanisms on neighbour lists share."""

from typing import Any, Literal

import jax.numpy as jnp

from ldp_jax.core import random_words
from ldp_jax.core.spaces import Finite, Interval, Mixture
from ldp_jax.core.types import Array, PRNGKey, Scalar

Noise = Literal["laplace", "geometric"]
"""Real noise of density epsilon e^(-epsilon |z|) / 2, or whole noise of mass proportional to e^(-epsilon |z|)."""

NOISES: tuple[Noise, ...] = ("laplace", "geometric")


def draw(key: PRNGKey, noise: Noise, epsilon: Scalar, degree: Array, pairs: Any) -> Array:
    """The noisy degree, clipped to [0, pairs]; elementwise, from one key."""
    epsilon = jnp.asarray(epsilon)
    if noise == "laplace":
        drawn = random_words.laplace(key, degree.shape) / epsilon
    else:
        drawn = random_words.geometric(key, epsilon, degree.shape)
    return jnp.clip(degree + drawn, 0.0, jnp.asarray(pairs, jnp.float32))


def log_density(noise: Noise, epsilon: Scalar, noisy: Any, degree: Any, pairs: Any) -> Array:
    """log p of a noisy degree: a density inside (0, pairs) and atoms at both ends; a mass for geometric noise."""
    epsilon, noisy = jnp.asarray(epsilon), jnp.asarray(noisy)
    gap = jnp.abs(noisy - degree)
    end = (noisy <= 0) | (noisy >= pairs)
    possible = (noisy >= 0) & (noisy <= pairs)
    if noise == "laplace":
        inside, atom = jnp.log(epsilon / 2) - epsilon * gap, -epsilon * gap - jnp.log(2.0)
    else:
        a = jnp.exp(-epsilon)
        inside, atom = jnp.log(-jnp.expm1(-epsilon) / (1 + a)) - epsilon * gap, -epsilon * gap - jnp.log1p(a)
        possible = possible & (noisy == jnp.round(noisy))
    certain = jnp.asarray(pairs) == 0  # one node: the degree is 0
    return jnp.where(certain, 0.0, jnp.where(possible, jnp.where(end, atom, inside), -jnp.inf))


def bias(noise: Noise, epsilon: Scalar, degree: Any, pairs: Any) -> Array:
    r"""E[noisy - degree], which clipping leaves, in closed form; elementwise.

    For Laplace noise :math:`(e^{-\epsilon d} - e^{-\epsilon (n - 1 - d)}) / (2 \epsilon)`; for geometric noise
    :math:`1/(2 \epsilon)` becomes :math:`a / (1 - a^2)`, a = e^-epsilon.
    """
    epsilon, degree = jnp.asarray(epsilon), jnp.asarray(degree)
    scale = 1 / (2 * epsilon)
    if noise == "geometric":
        scale = jnp.exp(-epsilon) / -jnp.expm1(-2 * epsilon)
    return scale * (jnp.exp(-epsilon * degree) - jnp.exp(-epsilon * (pairs - degree)))


def support(noise: Noise, pairs: int) -> Finite | Mixture:
    """Atoms at 0 and ``pairs`` and a density between; whole numbers for geometric noise.

    The density bends at the degree, DPRR's sampling rate at ``pairs`` / 2, and its estimate under a prior at whole
    numbers.
    """
    if noise == "geometric" or pairs == 0:
        return Finite(tuple(map(float, range(pairs + 1))))
    breaks = lambda degree: jnp.arange(2 * pairs + 1) / 2
    return Mixture((Finite((0.0, float(pairs))), Interval(0.0, float(pairs), breaks)))
