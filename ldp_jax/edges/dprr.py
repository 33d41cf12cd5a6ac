"""Degree-preserving randomised response on neighbour lists."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
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
from ldp_jax.edges.neighbour_lists import (
    REPORTINGS,
    ListMechanism,
    Reporting,
    check_bit_epsilon,
    concrete_budgets,
    flip_rate,
    per_bit,
    per_edge,
    rest_of,
    summed,
)


@mechanism
class DPRR(ListMechanism):
    r"""Randomised response on each bit, thinned so that the number of reported edges is close to the degree.

    Law: the noisy degree is :math:`d^* = d + \mathrm{Lap}(1/\epsilon_1)` clipped to [0, n - 1]; with :math:`p =
    e^{\epsilon_2} / (e^{\epsilon_2} + 1)` and :math:`q = \min(1, d^* / (d^* (2p - 1) + (n - 1)(1 - p)))` (eq. 6) a
    neighbour is reported with probability :math:`pq`, any other node with :math:`(1 - p) q` (eq. 7), independently.
    The report is :math:`d^*` and the list. ``noise="geometric"`` draws whole noise, :math:`P(z) \propto
    e^{-\epsilon_1 |z|}`. With a public ``prior`` over degrees, q is computed from the posterior mean of the degree
    given :math:`d^*`.

    Guarantee: :math:`\epsilon_1 + \epsilon_2` per bit of a list, attained where q = 1; per edge seen through both
    ends twice that (:meth:`relationship`). It is that of ideal arithmetic: Laplace noise in float32 leaks (see
    :class:`~ldp_jax.features.Laplace`).

    Utility: given :math:`d^*` the reported degree has mean :math:`(d (2p - 1) + (n - 1)(1 - p)) q`, close to
    :math:`d^*` in sparse graphs. Clipping at 0 biases :math:`d^*` by :meth:`degree_bias`, about 3 for a true 6 at
    :math:`\epsilon_1 = 0.1`; a public prior mends it.

    Numerics: (1 - p) q and 1 - p q are written without cancellation and drawn from 64 bits: float32's probability,
    rounded up to a whole number of 2^-64. Noise comes from a sign and 224 bits. Degrees are exact up to 2^24.

    Reference: Hidano & Murakami, 2022, Algorithm 1, eq. 6-8; Proposition 2. The paper clips q alone; here
    :math:`d^*` is clipped first, because eq. 6 has a pole at negative :math:`d^*`.

    Args:
      epsilon_degree: :math:`\epsilon_1`, in (0, 100]; a number, or one a user for whole graphs.
      epsilon_edges: :math:`\epsilon_2`, in (0, 40]; likewise.
      prior: weights of the degrees 0, 1, ..., public; None for the paper's q.
      n: nodes of the graph, for one user's view.
      noise: ``laplace`` or ``geometric``.
      reporting: who reports a pair: see :func:`ldp_jax.edges.privatize_graph`.

    >>> m = DPRR(0.25, 0.75)
    >>> m.guarantee().epsilon, m.relationship("half").epsilon, m.relationship("full").epsilon
    (1.0, 1.0, 2.0)
    """

    epsilon_degree: Scalar
    epsilon_edges: Scalar
    prior: Any = None
    n: int | None = static(default=None)
    noise: Noise = static(default="laplace")
    reporting: Reporting = static(default="full")

    def _check(self) -> None:
        validate.positive(epsilon_degree=self.epsilon_degree)
        validate.in_range(0.0, MAX_EPSILON, open_lower=True, epsilon_degree=self.epsilon_degree)
        check_bit_epsilon(epsilon_edges=self.epsilon_edges)
        validate.one_of(NOISES, noise=self.noise)
        validate.one_of(REPORTINGS, reporting=self.reporting)
        if self.n is not None:
            validate.integer_in(1, n=self.n)
        if self.prior is not None and validate.concrete(self.prior):
            prior = np.asarray(self.prior)
            if prior.ndim != 1 or not (np.isfinite(prior).all() and (prior >= 0).all() and prior.sum() > 0):
                raise ValueError("prior must be weights >= 0 of the degrees 0, 1, ..., with a sum > 0")

    def stack_shape(self) -> tuple[int, ...]:
        """() for one budget: the prior is not a stack."""
        return np.broadcast_shapes(jnp.shape(self.epsilon_degree), jnp.shape(self.epsilon_edges))

    def of_users(self, choose: Callable[[Scalar], Scalar]) -> "DPRR":
        """The same with ``choose`` applied to the budgets that users have of their own."""
        return dataclasses.replace(
            self, epsilon_degree=choose(self.epsilon_degree), epsilon_edges=choose(self.epsilon_edges)
        )

    @classmethod
    def from_epsilon(cls, epsilon: float, n_max: int, alpha: float = 0.9, **options: Any) -> "DPRR":
        """The paper's allocation (eq. 8) made sound: what the degree does not get is the edges'.

        epsilon_1 = max(sqrt(8 / (n_max - 1)), (1 - alpha) epsilon) and epsilon_2 = epsilon - epsilon_1. (With the
        paper's epsilon_2 = alpha epsilon the two exceed epsilon where the first term wins: :meth:`as_published`.)

        Args:
          epsilon: per bit of a list, in total.
          n_max: the most nodes that any graph has; public.
          alpha: about the share of the edges, in (0, 1).
          **options: as for the class.

        Raises:
          ValueError: where nothing is left for the edges: graphs of at most n_max nodes need a larger epsilon.

        >>> round(DPRR.from_epsilon(1.0, n_max=3782).epsilon_edges, 3)
        0.9
        """
        first, _ = _published_split(epsilon, n_max, alpha)
        if epsilon <= first:
            raise ValueError(
                f"epsilon must be above {first:.4g}, which the degree takes in graphs of at most {n_max} nodes "
                f"(eq. 8), got {epsilon:g}: use a larger epsilon, or DPRR(epsilon_degree, epsilon_edges)"
            )
        return cls(first, rest_of(epsilon, first), **options)

    @classmethod
    def as_published(cls, epsilon: float, n_max: int, alpha: float = 0.9, **options: Any) -> "DPRR":
        """The paper's allocation as it is printed; ``guarantee()`` is its true sum, which may exceed epsilon.

        >>> round(DPRR.as_published(0.5, n_max=957).guarantee().epsilon, 4)
        0.5415
        """
        return cls(*_published_split(epsilon, n_max, alpha), **options)

    @property
    def flip(self) -> Array:
        """1 - p."""
        return flip_rate(self.epsilon_edges)

    def rates(self, key: PRNGKey, degree: Any, owned: Any) -> tuple[Array, Array, Array]:
        """d*, p q and (1 - p) q; elementwise."""
        noisy = _degree_noise.draw(key, self.noise, self.epsilon_degree, jnp.asarray(degree), owned)
        return noisy, *self.bit_rates(noisy, owned)

    def bit_rates(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """p q and (1 - p) q given d*."""
        flip, (kept, _) = self.flip, self._thinning(noisy, owned)
        return (1 - flip) * kept, flip * kept

    def drop_rate(self, noisy: Any, owned: Any) -> Array:
        """1 - p q given d*, without cancellation: 1 - p where q = 1."""
        flip, (_, dropped) = self.flip, self._thinning(noisy, owned)
        return flip + (1 - flip) * dropped

    def _thinning(self, noisy: Any, owned: Any) -> tuple[Array, Array]:
        """q and 1 - q given d*."""
        flip, owned, degree = self.flip, jnp.asarray(owned), self.estimate_degree(noisy)
        unclipped = jnp.tanh(jnp.asarray(self.epsilon_edges, flip.dtype) / 2)  # 2p - 1
        below = degree * unclipped + owned * flip
        known, below = below > 0, jnp.where(below > 0, below, 1.0)
        kept = jnp.clip(jnp.where(known, degree / below, 0.0), 0.0, 1.0)
        return kept, jnp.clip(jnp.where(known, flip * (owned - 2 * degree) / below, 1.0), 0.0, 1.0)

    def estimate_degree(self, noisy: Any) -> Array:
        """The degree that q is computed from: d*, or the posterior mean under the public prior; elementwise."""
        noisy = jnp.asarray(noisy)
        if self.prior is None:
            return noisy
        return _posterior_mean(noisy, jnp.asarray(self.prior), jnp.asarray(self.epsilon_degree))

    def degree_bias(self, degree: Any, owned: Any) -> Array:
        """E[d* - d] after clipping to [0, owned], in closed form; elementwise.

        >>> round(float(DPRR(0.1, 0.9).degree_bias(6, 4000)), 2)
        2.74
        """
        return _degree_noise.bias(self.noise, self.epsilon_degree, degree, owned)

    def degree_if_none(self, owned: Any) -> Array:
        """E[d*] of a user without neighbours: what clipping at 0 leaves of the noise."""
        return self.degree_bias(0, owned)

    def degree_log_density(self, noisy: Any, degree: Any, owned: Any) -> Array:
        """log p(d* | d): a density inside (0, owned) and atoms at both ends; a mass for geometric noise."""
        return _degree_noise.log_density(self.noise, self.epsilon_degree, noisy, degree, owned)

    def degrees(self, owned: int) -> Finite | Mixture:
        """Atoms at 0 and ``owned`` and a density between; whole numbers for geometric noise."""
        return _degree_noise.support(self.noise, owned)

    def estimate(self, y: Any, own: Any = 0) -> Array:
        """:meth:`estimate_degree` of the noisy degree; the list says little more about the degree."""
        return self.estimate_degree(ListReport(*y).degree)

    def guarantee(self) -> Guarantee:
        """epsilon_1 + epsilon_2 per bit; the largest sum where users have their own."""
        reason = f"{self.noise.capitalize()} noise on the degree, then randomised response on each bit, compose"
        return per_bit(float(self.sums().max()), reason)

    def sums(self) -> np.ndarray:
        """epsilon_1 + epsilon_2."""
        return summed(*self._budgets())

    def _budgets(self) -> tuple[np.ndarray, np.ndarray]:
        """Both budgets, concrete and checked, of one shape; float64."""
        first, second = concrete_budgets(self, self.epsilon_degree, self.epsilon_edges)
        return first, second

    def relationship(self, reporting: Reporting | None = None) -> Guarantee:
        r"""Per edge, from one list or two, and one degree or two.

        ``full``: :math:`2 (\epsilon_1 + \epsilon_2)`; ``half``: :math:`\epsilon_1 + \epsilon_2`; ``half list``:
        :math:`2 \epsilon_1 + \epsilon_2`, since the pair is in one list and in both degrees.

        With personal budgets it is the largest over all pairs of users. In ``half list`` it is the owner's sum and
        the other's :math:`\epsilon_1` (of two equal sums, the larger one).
        """
        reporting = self.reporting if reporting is None else reporting
        if reporting == "half list":
            return per_edge(self._owner_and_other(), reporting)
        return super().relationship(reporting)

    def _owner_and_other(self) -> tuple[float, float]:
        """The largest, over pairs, of one user's sum and epsilon_1 of another of an equal or larger sum."""
        first, sums = np.ravel(self._budgets()[0]), np.ravel(self.sums())
        if len(sums) == 1:
            return float(sums[0]), float(first[0])
        order = np.lexsort((first, sums))
        later = np.maximum.accumulate(first[order][::-1])[::-1]
        worst = summed(sums[order][:-1], later[1:]).argmax()
        return float(sums[order][worst]), float(later[worst + 1])


def _published_split(epsilon: float, n_max: int, alpha: float) -> tuple[float, float]:
    """epsilon_1 and epsilon_2 of eq. 8."""
    validate.positive(epsilon=epsilon)
    validate.integer_in(2, n_max=n_max)
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    return max(math.sqrt(8 / (n_max - 1)), (1 - alpha) * epsilon), alpha * epsilon


def _posterior_mean(noisy: Array, prior: Array, epsilon: Array) -> Array:
    r"""E[d | d*] for weights [degrees] and noise :math:`e^{-\epsilon |d^* - d|}`, clipped or not.

    Sums over d <= k and over d > k follow from their neighbours, and are shifted by the fraction of d*. At the ends
    the atoms of the clipped law are proportional to the same exponentials. One epsilon has one table of sums; of
    several, each d* takes len(prior) passes.
    """
    degrees = jnp.arange(len(prior), dtype=prior.dtype)
    shrink = jnp.exp(-epsilon)
    place = jnp.clip(jnp.floor(noisy), 0, len(prior) - 1).astype(jnp.int32)
    # Beyond the last degree nothing is above, and the common factor of what is below cancels.
    part = jnp.where(place == len(prior) - 1, 0.0, noisy - place)

    # Of the two factors e^(-eps part) and e^(-eps (1 - part)) the larger is divided out: neither underflows alone.
    low, high = (jnp.exp(-epsilon * jnp.maximum(side * (2 * part - 1), 0.0)) for side in (1, -1))
    if jnp.ndim(epsilon) == 0:
        sums = (_tables(weights, shrink, place) for weights in (prior, prior * degrees))
    else:
        sums = (_passes(weights, shrink, place, noisy) for weights in (prior, prior * degrees))
    mass, mean = (below * low + above * high for below, above in sums)
    return jnp.where(mass > 0, mean / jnp.where(mass > 0, mass, 1.0), noisy)


@jax.jit  # an eager loop would be compiled anew at each call
def _tables(weights: Array, shrink: Array, place: Array) -> tuple[Array, Array]:
    """What is at or below ``place``, and what is above, of one table for all."""

    def forward(total: Array, weight: Array) -> tuple[Array, Array]:
        total = total * shrink + weight
        return total, total

    def backward(total: Array, weight: Array) -> tuple[Array, Array]:
        return total * shrink + weight, total

    zero = jnp.zeros_like(shrink * weights[0])
    return (
        jax.lax.scan(forward, zero, weights)[1][place],
        jax.lax.scan(backward, zero, weights, reverse=True)[1][place],
    )


@jax.jit
def _passes(weights: Array, shrink: Array, place: Array, noisy: Array) -> tuple[Array, Array]:
    """The same of sums of their own."""

    def forward(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        return jnp.where(at[0] <= place, total * shrink + at[1], total), None

    def backward(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        return jnp.where(at[0] > place, total * shrink + at[1], total), None

    steps = jnp.arange(len(weights)), weights
    zero = jnp.zeros_like(shrink * weights[0] * noisy)
    return jax.lax.scan(forward, zero, steps)[0], jax.lax.scan(backward, zero, steps, reverse=True)[0]
