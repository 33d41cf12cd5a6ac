"""Degree-preserving randomised response on neighbour lists."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.mechanism import MAX_EPSILON
from ldp_jax.core.pytree import mechanism, static
from ldp_jax.core.types import Array, Scalar, Values
from ldp_jax.edges.degree_noise import Noise, SendsDegree
from ldp_jax.edges.lists import ListReport
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON, Reporting, flip_rate, rest_of


@mechanism
class DPRR(SendsDegree):
    r"""Randomised response on each bit, thinned to about as many reported edges as true ones.

    Law: the noisy degree is :math:`d^* = d + \mathrm{Lap}(1/\epsilon_1)` clipped to [0, n - 1];
    with :math:`p = e^{\epsilon_2} / (e^{\epsilon_2} + 1)` and
    :math:`q = \min(1, d^* / (d^* (2p - 1) + (n - 1)(1 - p)))` (eq. 6) a neighbour is reported with
    probability :math:`pq`, any other node with :math:`(1 - p) q` (eq. 7), independently. The report
    is :math:`d^*` and the list. ``noise="geometric"`` draws discrete Laplace noise,
    :math:`P(z) \propto e^{-\epsilon_1 |z|}`. A public ``prior`` over degrees computes q from the
    degree's posterior mean.
    Guarantee: :math:`\epsilon_1 + \epsilon_2` per bit of a list, attained where q = 1. Per edge
    (:meth:`relationship`) twice that in ``full``, the same in ``half``, and
    :math:`2 \epsilon_1 + \epsilon_2` in ``half list``: the pair is in one list and in both degrees.
    Ideal arithmetic: Laplace noise in float32 leaks.
    Utility: given :math:`d^*` the reported degree has mean :math:`(d (2p - 1) + (n - 1)(1 - p)) q`,
    close to :math:`d^*` in sparse graphs. Clipping at 0 biases :math:`d^*` (:meth:`degree_bias`); a
    public prior mends it.
    Numerics: (1 - p) q and 1 - p q do not cancel, and have 64 bits; noise has 225. Degrees are
    exact up to 2^24.
    Reference: Hidano & Murakami, 2022, Algorithm 1, eq. 6-8; Proposition 2. Eq. 6 has a pole at
    negative :math:`d^*`, which is therefore clipped; the paper clips q alone.

    ``epsilon_degree`` is :math:`\epsilon_1` in (0, 100], ``epsilon_edges`` :math:`\epsilon_2` in
    (0, 40]; numbers, or one a user for whole graphs. The ``prior`` weighs the degrees 0, 1, ...,
    by at most 1e20; None is the paper's q.

    >>> m = DPRR(0.25, 0.75)
    >>> (
    ...     m.guarantee().epsilon,
    ...     m.relationship("half").epsilon,
    ...     m.relationship("full").epsilon,
    ... )
    (1.0, 1.0, 2.0)
    """

    epsilon_degree: Scalar
    epsilon_edges: Scalar
    prior: Values | None = None
    n: int | None = static(default=None)
    noise: Noise = static(default="laplace")
    reporting: Reporting = static(default="full")

    budgets: ClassVar[dict[str, float]] = {
        "epsilon_degree": MAX_EPSILON,
        "epsilon_edges": MAX_BIT_EPSILON,
    }

    def _check(self) -> None:
        super()._check()
        if self.prior is not None and validate.concrete(self.prior):
            # Sums of weights times degrees stay far below the end of float32.
            validate.in_range(0.0, 1e20, prior=self.prior)
            validate.require(
                np.ndim(self.prior) == 1 and np.sum(self.prior) > 0,
                "prior must be weights of the degrees 0, 1, ..., with a sum > 0",
            )

    @property
    def degree_epsilon(self) -> Scalar:
        """epsilon_1."""
        return self.epsilon_degree

    def stack_shape(self) -> tuple[int, ...]:
        """() for one budget: the prior is not a stack."""
        return np.broadcast_shapes(jnp.shape(self.epsilon_degree), jnp.shape(self.epsilon_edges))

    @classmethod
    def from_epsilon(cls, epsilon: float, n_max: int, alpha: float = 0.9, **options: Any) -> "DPRR":
        """The paper's allocation (eq. 8) made sound: what the degree does not get is the edges'.

        epsilon_1 = max(sqrt(8 / (n_max - 1)), (1 - alpha) epsilon) and epsilon_2 = epsilon -
        epsilon_1; the paper's alpha epsilon (:meth:`as_published`) may exceed that. ``n_max`` is
        the public bound on the nodes of a graph; ``alpha`` about the share of the edges, in (0, 1].

        >>> round(DPRR.from_epsilon(1.0, n_max=3782).epsilon_edges, 3)
        0.9
        """
        first, _ = _published_split(epsilon, n_max, alpha)
        validate.require(
            epsilon > first,
            f"epsilon must be above {first:.4g}, which the degree takes in graphs of at most "
            f"{n_max} nodes (eq. 8), got {epsilon:g}: use a larger epsilon, or "
            "DPRR(epsilon_degree, epsilon_edges)",
        )
        return cls(first, rest_of(epsilon, first), **options)

    @classmethod
    def as_published(cls, epsilon: float, n_max: int, alpha: float = 0.9, **options: Any) -> "DPRR":
        """The paper's allocation as printed; ``guarantee()`` is its sum, which may exceed epsilon.

        >>> round(DPRR.as_published(0.5, n_max=957).guarantee().epsilon, 4)
        0.5415
        """
        return cls(*_published_split(epsilon, n_max, alpha), **options)

    @property
    def flip(self) -> Array:
        """1 - p."""
        return flip_rate(self.epsilon_edges)

    def bit_rates(self, noisy: Scalar | None, owned: Scalar) -> tuple[Array, Array, Array]:
        """p q, 1 - p q and (1 - p) q given d*."""
        assert noisy is not None  # every report has one
        flip = self.flip
        degree = self.estimate_degree(noisy)
        owned = jnp.asarray(owned, flip.dtype)
        difference = jnp.tanh(jnp.asarray(self.epsilon_edges, flip.dtype) / 2)  # 2p - 1
        below = degree * difference + owned * flip
        known = below > 0
        below = jnp.where(known, below, 1.0)

        q = jnp.clip(jnp.where(known, degree / below, 0.0), 0.0, 1.0)
        rest = jnp.where(known, flip * (owned - 2 * degree) / below, 1.0)
        rest = jnp.clip(rest, 0.0, 1.0)  # 1 - q
        return (1 - flip) * q, flip + (1 - flip) * rest, flip * q

    def estimate_degree(self, noisy: Scalar) -> Array:
        """The degree that q is computed from: d*, or its posterior mean; elementwise."""
        noisy = jnp.asarray(noisy)
        if self.prior is None:
            return noisy
        # E[d | d*] for noise e^(-epsilon |d* - d|), clipped or not. Sums over d <= k and over d > k
        # follow from their neighbours, and are shifted by the fraction of d*; atoms are
        # proportional to the same.
        prior = jnp.asarray(self.prior)
        epsilon = jnp.asarray(self.epsilon_degree)
        last = len(prior) - 1
        place = jnp.clip(jnp.floor(noisy), 0, last).astype(jnp.int32)
        # Beyond the last degree nothing is above, and the common factor of what is below cancels.
        part = jnp.where(place == last, 0.0, noisy - place.astype(noisy.dtype))
        # The larger one of the factors e^(-eps part) and e^(-eps (1 - part)) is divided out:
        # neither underflows alone.
        shrink = jnp.exp(-epsilon)
        low = jnp.exp(-epsilon * jnp.maximum(2 * part - 1, 0.0))
        high = jnp.exp(-epsilon * jnp.maximum(1 - 2 * part, 0.0))

        def total(weights: Array) -> Array:
            below, above = sums(weights, shrink, place)
            return below * low + above * high

        # One epsilon has one table of sums; of several, each d* has passes of its own.
        sums = _tables if jnp.ndim(epsilon) == 0 else _passes
        degrees = jnp.arange(last + 1, dtype=prior.dtype)
        mass = total(prior)
        mean = total(prior * degrees)
        return jnp.where(mass > 0, mean / jnp.where(mass > 0, mass, 1.0), noisy)

    def estimate(self, y: ListReport, own: Scalar = 0) -> Array:
        """:meth:`estimate_degree` of the noisy degree alone.

        The list is not read, whose length says more where epsilon_2 is large and epsilon_1 small.
        """
        return self.estimate_degree(ListReport(*y).degree)

    def proof(self) -> str:
        """Composition of the degree's noise and of one bit's flip."""
        noise = self.noise.capitalize()
        return f"{noise} noise on the degree, then randomised response on each bit, compose"


def _published_split(epsilon: float, n_max: int, alpha: float) -> tuple[float, float]:
    """epsilon_1 and epsilon_2 of eq. 8."""
    validate.positive(epsilon=epsilon)
    validate.integer_in(2, n_max=n_max)
    validate.in_range(0.0, 1.0, open_lower=True, alpha=alpha)
    first = max(math.sqrt(8 / (n_max - 1)), (1 - alpha) * epsilon)
    return first, alpha * epsilon


@jax.jit  # an eager loop would be compiled anew at each call
def _tables(weights: Array, shrink: Array, place: Array) -> tuple[Array, Array]:
    """The sums at or below ``place``, and above it, from one table for all."""

    def add(total: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
        after = total * shrink + weight
        return after, (after, total)

    zero = jnp.zeros_like(shrink * weights[0])
    _, (below, _) = jax.lax.scan(add, zero, weights)
    _, (_, above) = jax.lax.scan(add, zero, weights, reverse=True)
    return below[place], above[place]


@jax.jit
def _passes(weights: Array, shrink: Array, place: Array) -> tuple[Array, Array]:
    """The same of sums of their own."""

    def total(above: bool) -> Array:
        def add(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
            degree, weight = at
            counts = (degree > place) == above
            return jnp.where(counts, total * shrink + weight, total), None

        zero = jnp.zeros_like(shrink * weights[0] * place.astype(weights.dtype))
        return jax.lax.scan(add, zero, (jnp.arange(len(weights)), weights), reverse=above)[0]

    return total(False), total(True)
