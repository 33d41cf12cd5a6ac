"""The degree alone, with noise: no edge leaves the device."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.mechanism import MAX_EPSILON
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Finite
from ldp_jax.core.types import Array, Scalar, Values
from ldp_jax.edges.degree_noise import Noise, SendsDegree
from ldp_jax.edges.lists import ListReport
from ldp_jax.edges.neighbour_lists import Reporting
from ldp_jax.edges.spaces import ListReports


@mechanism
class NoisyDegree(SendsDegree):
    r"""Report the noisy number of neighbours, and no neighbour.

    Law: :math:`d^* = d + \mathrm{Lap}(1/\epsilon)` clipped to [0, n - 1]; ``noise="geometric"``
    draws discrete Laplace noise, :math:`P(z) \propto e^{-\epsilon |z|}`. The report is :math:`d^*`
    and a list that is always empty. In ``half`` d counts the owned pairs, and n - 1 is their
    number.
    Guarantee: epsilon per bit of a list, attained; per edge 2 epsilon, and epsilon in ``half``
    (:meth:`relationship`). Ideal arithmetic: Laplace noise in float32 leaks.
    Utility: before it is clipped the noise has variance :math:`2/\epsilon^2`, or :math:`2a/(1-a)^2`
    with :math:`a = e^{-\epsilon}`; clipping adds :meth:`degree_bias`.
    Numerics: noise comes from a sign and 224 bits, and reaches 155 scales. Degrees are exact up to
    2^24.
    Reference: Dwork et al., TCC 2006; Hidano & Murakami, 2022, Algorithm 1; discrete Laplace
    noise: Ghosh et al., STOC 2009.

    Epsilon is in (0, 100]; a number, or one a user for whole graphs.

    >>> m = NoisyDegree(1.0, noise="geometric")
    >>> (
    ...     m.guarantee().epsilon,
    ...     m.relationship().epsilon,
    ...     m.relationship("half").epsilon,
    ... )
    (1.0, 2.0, 1.0)
    """

    epsilon: Scalar
    n: int | None = static(default=None)
    noise: Noise = static(default="laplace")
    reporting: Reporting = static(default="full")

    budgets: ClassVar[dict[str, float]] = {"epsilon": MAX_EPSILON}
    reportings: ClassVar[tuple[Reporting, ...]] = ("full", "half")

    @property
    def degree_epsilon(self) -> Scalar:
        """The whole budget."""
        return self.epsilon

    def bit_rates(self, noisy: Any, owned: Scalar) -> tuple[Array, Array, Array]:
        """0, 1 and 0."""
        never = jnp.zeros(jnp.shape(noisy), jnp.result_type(float))
        return never, never + 1, never

    def codomain(self, own: int = 0) -> ListReports:
        """A noisy degree and an empty list."""
        return dataclasses.replace(super().codomain(own), bit=Finite((0.0,)))

    def add_noise(self, unit: Values, degree: Values, owned: Values) -> np.ndarray:
        """Compute d* of many users, on the host, from noise of epsilon 1 that the caller has drawn.

        ``unit`` is Laplace noise of scale 1, independent of the true degrees among ``owned`` pairs.

        >>> NoisyDegree(0.5).add_noise([0.5, -2.0], [1, 3], 5).tolist()
        [2.0, 0.0]
        """
        validate.one_of(("laplace",), noise=self.noise)  # the only noise that scales
        return np.clip(np.asarray(degree) + np.asarray(unit) / self.epsilon, 0, owned)

    def estimate(self, y: ListReport, own: Scalar = 0) -> Array:
        """The noisy degree, with the bias that clipping leaves."""
        return jnp.asarray(ListReport(*y).degree)

    def proof(self) -> str:
        """The noise of one number."""
        law = {
            "laplace": "Laplace noise of scale 1 / epsilon",
            "geometric": "geometric noise of rate epsilon",
        }
        return f"{law[self.noise]} on the degree"
