"""The degree alone, with noise: no edge leaves the device."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import validate
from ldp_jax.core.mechanism import MAX_EPSILON
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.spaces import Finite, Mixture
from ldp_jax.core.types import Array, PRNGKey, Scalar
from ldp_jax.edges import _degree_noise
from ldp_jax.edges._degree_noise import NOISES, Noise
from ldp_jax.edges.lists import ListReport
from ldp_jax.edges.neighbour_lists import ListMechanism, Reporting, concrete_budgets, per_bit
from ldp_jax.edges.spaces import ListReports


@mechanism
class NoisyDegree(ListMechanism):
    r"""Report how many neighbours there are, with noise, and none of them.

    Law: :math:`d^* = d + \mathrm{Lap}(1/\epsilon)` clipped to [0, n - 1]; ``noise="geometric"`` draws whole noise,
    :math:`P(z) \propto e^{-\epsilon |z|}`. The report is :math:`d^*` and a list that is always empty. In ``half``
    d counts the owned pairs, and n - 1 is their number.

    Guarantee: epsilon per bit of a list, attained; per edge 2 epsilon, and epsilon in ``half``
    (:meth:`relationship`). It is that of ideal arithmetic: Laplace noise in float32 leaks (see
    :class:`~ldp_jax.features.Laplace`).

    Utility: before it is clipped the noise has variance :math:`2/\epsilon^2`, or :math:`2a/(1-a)^2` with
    :math:`a = e^{-\epsilon}`; clipping adds :meth:`bias`.

    Numerics: noise comes from a sign and 224 bits, and reaches 155 scales. Degrees are exact up to 2^24.

    Reference: Dwork et al., TCC 2006; Hidano & Murakami, 2022, Algorithm 1, its first half; for whole noise Ghosh
    et al., STOC 2009.

    Args:
      epsilon: in (0, 100]; a number, or one a user for whole graphs.
      n: nodes of the graph, for one user's view.
      noise: ``laplace`` or ``geometric``.
      reporting: ``full`` or ``half``: see :func:`ldp_jax.edges.privatize_graph`.

    >>> m = NoisyDegree(1.0, noise="geometric")
    >>> m.guarantee().epsilon, m.relationship().epsilon, m.relationship("half").epsilon
    (1.0, 2.0, 1.0)
    """

    epsilon: Scalar
    n: int | None = static(default=None)
    noise: Noise = static(default="laplace")
    reporting: Reporting = static(default="full")

    reportings: ClassVar[tuple[Reporting, ...]] = ("full", "half")

    def _check(self) -> None:
        validate.positive(epsilon=self.epsilon)
        validate.in_range(0.0, MAX_EPSILON, open_lower=True, epsilon=self.epsilon)
        validate.one_of(NOISES, noise=self.noise)
        validate.one_of(self.reportings, reporting=self.reporting)
        if self.n is not None:
            validate.integer_in(1, n=self.n)

    def of_users(self, choose: Callable[[Scalar], Scalar]) -> "NoisyDegree":
        """The same with ``choose`` applied to budgets that users have of their own."""
        return dataclasses.replace(self, epsilon=choose(self.epsilon))

    def rates(self, key: PRNGKey, degree: Any, owned: Any) -> tuple[Array, Array, Array]:
        """d*, and 0 twice: no pair is reported."""
        noisy = _degree_noise.draw(key, self.noise, self.epsilon, jnp.asarray(degree), owned)
        return noisy, *self.bit_rates(noisy, owned)

    def bit_rates(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """0 and 0."""
        never = jnp.zeros(jnp.shape(noisy), jnp.result_type(float))
        return never, never

    def drop_rate(self, noisy: Any, owned: Any) -> Array:
        """1."""
        return jnp.ones(jnp.shape(noisy), jnp.result_type(float))

    def degree_if_none(self, owned: Any) -> Array:
        """E[d*] of a user without neighbours: what clipping at 0 leaves of the noise."""
        return self.bias(0, owned)

    def degree_log_density(self, noisy: Any, degree: Any, owned: Any) -> Array:
        """log p(d* | d): a density inside (0, owned) and atoms at both ends; a mass for geometric noise."""
        return _degree_noise.log_density(self.noise, self.epsilon, noisy, degree, owned)

    def degrees(self, owned: int) -> Finite | Mixture:
        """Atoms at 0 and ``owned`` and a density between; whole numbers for geometric noise."""
        return _degree_noise.support(self.noise, owned)

    def codomain(self, own: int = 0) -> ListReports:
        """A noisy degree and an empty list, of the user ``own``."""
        return dataclasses.replace(super().codomain(own), bit=Finite((0.0,)))

    def add_noise(self, unit: Any, degree: Any, owned: Any) -> np.ndarray:
        """d* of many users from noise of epsilon 1 that the caller has drawn, on the host; elementwise.

        For noise from another source than :meth:`privatize`'s: it has the law only if ``unit`` has, each entry
        independent of the others and of the degrees.

        Args:
          unit: Laplace noise of scale 1 (of ``geometric`` noise there is none that scales).
          degree: true degrees.
          owned: how many pairs there are for each.

        Raises:
          ValueError: for ``geometric`` noise.

        >>> NoisyDegree(0.5).add_noise([0.5, -2.0], [1, 3], 5).tolist()
        [2.0, 0.0]
        """
        if self.noise != "laplace":
            raise ValueError(f"noise must be laplace: {self.noise} noise of another budget is no multiple of it")
        return np.clip(np.asarray(degree) + np.asarray(unit) / self.epsilon, 0, owned)

    def bias(self, degree: Any, owned: Any) -> Array:
        """E[d* - d] after clipping to [0, owned], in closed form; elementwise.

        >>> round(float(NoisyDegree(0.1).bias(6, 4000)), 2)
        2.74
        """
        return _degree_noise.bias(self.noise, self.epsilon, degree, owned)

    def estimate(self, y: Any, own: Any = 0) -> Array:
        """The noisy degree (``half``: of the owned pairs), with the bias that clipping leaves."""
        return jnp.asarray(ListReport(*y).degree)

    def guarantee(self) -> Guarantee:
        """epsilon per bit; the largest one where users have their own."""
        law = {"laplace": "Laplace noise of scale 1 / epsilon", "geometric": "geometric noise of rate epsilon"}
        return per_bit(float(self.sums().max()), f"{law[self.noise]} on the degree")

    def sums(self) -> np.ndarray:
        """epsilon."""
        return concrete_budgets(self, self.epsilon)[0]
