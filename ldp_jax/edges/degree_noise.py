"""The law of a noisy degree, clipped to what a degree can be."""

import abc
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import random_words, validate
from ldp_jax.core.integer_tables import sum_up
from ldp_jax.core.spaces import Finite, Interval, Mixture
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges.neighbour_lists import ListMechanism, Reporting

Noise = Literal["laplace", "geometric"]
"""Laplace noise of density epsilon e^(-epsilon |z|) / 2, or discrete Laplace noise of mass
proportional to e^(-epsilon |z|).
"""

NOISES: tuple[Noise, ...] = get_args(Noise)


def laplace(key: PRNGKey, epsilon: Scalar, shape: tuple[int, ...]) -> Array:
    """Draw Laplace noise of scale 1 / epsilon, the counterpart of ``random_words.geometric``."""
    return random_words.laplace(key, shape) / epsilon


DRAWS = {"laplace": laplace, "geometric": random_words.geometric}


class SendsDegree(ListMechanism):
    """Sends the degree with noise, clipped to [0, pairs]; abstract.

    A subclass has a static field ``noise``.
    """

    @property
    @abc.abstractmethod
    def noise(self) -> Noise:
        """The kind of noise."""

    @property
    @abc.abstractmethod
    def degree_epsilon(self) -> Scalar:
        """The budget of the degree."""

    def _check(self) -> None:
        super()._check()
        validate.one_of(NOISES, noise=self.noise)

    def _ends(self, reporting: Reporting) -> tuple[float, ...]:
        """In ``half list`` the worst pair: a whole sum, and epsilon_1 of an equal or larger sum."""
        if reporting != "half list":
            return super()._ends(reporting)
        sums = np.ravel(self.sums())
        of_degree = np.asarray(self.degree_epsilon, np.float64)
        first = np.broadcast_to(of_degree.ravel(), sums.shape)
        if len(sums) == 1:
            return float(sums[0]), float(first[0])
        order = np.lexsort((first, sums))
        sums = sums[order]
        later = np.maximum.accumulate(first[order][::-1])[::-1]  # the largest from here on
        worst = sum_up(np.stack([sums[:-1], later[1:]])).argmax()
        return float(sums[worst]), float(later[worst + 1])

    def noisy_degree(self, key: PRNGKey, degree: Array, owned: Scalar) -> Array:
        """d*; elementwise, from one key."""
        drawn = DRAWS[self.noise](key, jnp.asarray(self.degree_epsilon), degree.shape)
        noisy = (degree.astype(drawn.dtype) + drawn).astype(jnp.float32)
        return jnp.clip(noisy, 0.0, jnp.asarray(owned, jnp.float32))

    def degree_log_density(self, noisy: Scalar, degree: Scalar, owned: Scalar) -> Array:
        """log p(d* | d): a density inside (0, owned) and atoms at both ends, or a mass."""
        epsilon = jnp.asarray(self.degree_epsilon)
        kind = jnp.result_type(float)
        noisy, degree, owned = (jnp.asarray(count, kind) for count in (noisy, degree, owned))
        gap = jnp.abs(noisy - degree)
        end = (noisy <= 0) | (noisy >= owned)
        possible = (noisy >= 0) & (noisy <= owned)
        if self.noise == "laplace":
            inside = jnp.log(epsilon / 2) - epsilon * gap
            atom = -epsilon * gap - jnp.log(2.0)
        else:
            a = jnp.exp(-epsilon)
            inside = jnp.log(-jnp.expm1(-epsilon) / (1 + a)) - epsilon * gap
            atom = -epsilon * gap - jnp.log1p(a)
            possible = possible & (noisy == jnp.round(noisy))
        log = jnp.where(end, atom, inside)
        log = jnp.where(possible, log, -jnp.inf)
        return jnp.where(owned == 0, 0.0, log)  # of one node the degree is 0

    def degree_bias(self, degree: Scalar, owned: Scalar) -> Array:
        r"""E[d* - d], which clipping leaves; elementwise.

        For Laplace noise :math:`(e^{-\epsilon d} - e^{-\epsilon (n - 1 - d)}) / (2 \epsilon)`; for
        geometric noise :math:`1/(2 \epsilon)` becomes :math:`a / (1 - a^2)`, a = e^-epsilon.

        >>> from ldp_jax.edges import DPRR
        >>> round(float(DPRR(0.1, 0.9).degree_bias(6, 4000)), 2)
        2.74
        """
        epsilon = jnp.asarray(self.degree_epsilon)
        degree, owned = (jnp.asarray(count, jnp.result_type(float)) for count in (degree, owned))
        scale = 1 / (2 * epsilon)
        if self.noise == "geometric":
            scale = jnp.exp(-epsilon) / -jnp.expm1(-2 * epsilon)
        at_zero = jnp.exp(-epsilon * degree)
        at_most = jnp.exp(-epsilon * (owned - degree))
        return scale * (at_zero - at_most)

    def degree_if_none(self, owned: Scalar) -> Array:
        """E[d*] of a user without neighbours: what clipping at 0 leaves of the noise."""
        return self.degree_bias(0, owned)

    def degrees(self, owned: int) -> Finite | Mixture:
        """Atoms at 0 and ``owned`` and a density between; whole numbers for geometric noise."""
        if self.noise == "geometric" or owned == 0:
            return Finite(tuple(map(float, range(owned + 1))))
        # The density bends at the degree, DPRR's rate at owned / 2, its estimate under a prior at
        # whole numbers.
        breaks = lambda degree: jnp.arange(2 * owned + 1) / 2
        most = float(owned)
        return Mixture((Finite((0.0, most)), Interval(0.0, most, breaks)))
