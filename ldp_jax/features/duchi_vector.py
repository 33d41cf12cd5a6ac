"""Duchi, Jordan and Wainwright's mechanism on the hypercube: one sign per coordinate, one budget for all."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln, logsumexp

from ldp_jax import _validate
from ldp_jax._pytree import mechanism, static
from ldp_jax.guarantee import Guarantee
from ldp_jax.mechanism import Box, Finite, Product, check_epsilon, check_single, clip, largest
from ldp_jax.types import Array, PRNGKey, Scalar

# A power of two, so that scaling is exact: it keeps Poisson-binomial tails down to 1e-57 out of float32's
# underflow, which e^100 would bring back into sight.
_SCALE = 2.0**64
_LOG_SCALE = 64 * math.log(2.0)


class _Constants(NamedTuple):
    """What depends on d alone, from exact integers on the host.

    Attributes:
      share: C_d / 2^d, the part of the cube in the open half-space of v.
      gain: 2^d / binom(d - 1, floor(d / 2)).
      few_agree: the law of the number of agreements on the half s.v <= 0, as cumulative 32-bit words.
      few_differ: the law of the number of disagreements on the half s.v > 0, likewise.
    """

    share: float
    gain: float
    few_agree: np.ndarray
    few_differ: np.ndarray


def _words(log_mass: np.ndarray) -> np.ndarray:
    """K - 1 thresholds of a law on 0..K-1: a uniform 32-bit word falls below the k-th with mass P(value <= k)."""
    cumulative = np.cumsum(np.exp(log_mass - logsumexp(log_mass)))[:-1]
    return np.minimum(np.floor(2.0**32 * cumulative), 2.0**32 - 1).astype(np.uint32)


@functools.lru_cache(maxsize=64)
def _constants(dim: int) -> _Constants:
    cube, half = 2**dim, dim // 2
    ties = math.comb(dim, half) if dim % 2 == 0 else 0
    k = np.arange(half + 1.0)
    log_subsets = gammaln(dim + 1.0) - gammaln(k + 1) - gammaln(dim - k + 1)
    return _Constants(
        share=(cube - ties) // 2 / cube,
        gain=cube / math.comb(dim - 1, half),
        few_agree=_words(log_subsets),
        few_differ=_words(log_subsets[: dim - half]),
    )


@mechanism
class DuchiVector:
    r"""Report one of the 2^d sign vectors, e^epsilon times likelier on the record's side of the cube.

    Law: each coordinate is rounded to a sign, :math:`P(v_j = 1) = (1 + x_j)/2`; the report is
    :math:`s \in \{-1, 1\}^d` with probability :math:`e^\epsilon / Z` if :math:`s \cdot v > 0` and
    :math:`1/Z` if :math:`s \cdot v \le 0`, where :math:`Z = (e^\epsilon - 1) C_d + 2^d` and
    :math:`C_d = 2^{d-1}` for odd d, :math:`2^{d-1} - \frac{1}{2}\binom{d}{d/2}` for even d. Hence
    :math:`P(s \mid x) = (1 + (e^\epsilon - 1) P(A > d/2)) / Z`, A the number of agreements of s and v, which
    is Poisson-binomial with :math:`p_j = (1 + s_j x_j)/2`. With d = 1 this is
    :class:`~ldp_jax.features.Duchi`.

    Guarantee: epsilon per record, attained between any corner of the cube and the opposite one. The form first
    published puts the ties s.v = 0 into both half-spaces: for even d a tie is then reported with more than
    either branch's probability, and the loss is :math:`\log(1 + e^\epsilon)`, more than epsilon.

    Utility: the estimate :math:`B s`, :math:`B = Z / ((e^\epsilon - 1) \binom{d-1}{\lfloor d/2 \rfloor})`, is
    unbiased; variance :math:`B^2 - x_j^2`, the worst at x_j = 0. For large d,
    :math:`B \approx \sqrt{\pi d / 2} \coth(\epsilon/2)`. Coordinates of one report are correlated.

    Numerics: the side of the cube is drawn first, the rare one by its own probability without cancellation;
    then the number of agreements by one 32-bit word, which rounds its law to 2^-32; then which coordinates
    agree, by a permutation. All that depends on d alone comes from exact integers on the host. The density
    takes O(d^2) operations and keeps both tails as sums of positive terms; in float32 it is a number near
    -d log 2, rounded as such (3e-5 at d = 500). The guarantee is that of ideal arithmetic.

    Reference: Duchi, Jordan & Wainwright, JASA 2018; corrected by Wang et al., ICDE 2019,
    Algorithm 3.

    Args:
      epsilon: the budget of a record; may be traced or a stack.
      dim: d, the length of a record.

    Raises:
      ValueError: for an epsilon outside (0, 100] or a dim that is not a whole number >= 1.

    >>> m = DuchiVector(1.0, dim=4)
    >>> m.privatize(jax.random.key(0), jnp.zeros(4)).shape
    (4,)
    >>> round(m.variance(jnp.zeros(4))[0].item(), 1)
    22.8
    """

    epsilon: Scalar
    dim: int = static()

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        _validate.integer_in(1, dim=self.dim)

    def _one(self, name: str, value: Any) -> Array:
        value = jnp.asarray(value)
        if value.shape != (self.dim,):
            raise ValueError(f"{name} must be one record of shape ({self.dim},), got {value.shape}")
        return value

    @property
    def _gain(self) -> Array:
        """B, from 1 / (e^eps - 1) in a form that neither cancels nor overflows."""
        epsilon, constants = jnp.asarray(self.epsilon), _constants(self.dim)
        return constants.gain * (jnp.exp(-epsilon) / -jnp.expm1(-epsilon) + constants.share)

    def privatize(self, key: PRNGKey, x: Any) -> Array:
        """The signs [dim], float32, of one record [dim].

        Raises:
          ValueError: for another shape, or a stack of mechanisms: ``vmap`` over users. (Shapes are no data.)
        """
        _validate.threefry(key)
        check_single(self)
        x = clip(self._one("x", x))
        constants = _constants(self.dim)
        v_key, side_key, count_key, place_key = jax.random.split(key, 4)
        v = jnp.where(jax.random.bernoulli(v_key, (1 + x) / 2), 1.0, -1.0).astype(jnp.float32)
        log_odds = jnp.asarray(self.epsilon, jnp.float32) + math.log(constants.share / (1 - constants.share))
        other_side = jax.random.bernoulli(side_key, jax.nn.sigmoid(-log_odds), mode="high")
        word = jax.random.bits(count_key, (), jnp.uint32)
        few_agree, few_differ = ((word >= words).sum() for words in (constants.few_agree, constants.few_differ))
        agreements = jnp.where(other_side, few_agree, self.dim - few_differ)
        agree = jax.random.permutation(place_key, self.dim) < agreements
        return jnp.where(agree, v, -v)

    def log_density(self, y: Any, x: Any) -> Array:
        """log P(y | x); ``-inf`` for a y that is not a vector of signs.

        Raises:
          ValueError: for y or x that is not one vector [dim].
        """
        x, y = clip(self._one("x", x)), self._one("y", y)
        possible = (jnp.abs(y) == 1.0).all()
        towards = jnp.where(possible, y, 1.0).astype(x.dtype) * x
        few, most = _agreements(towards)
        share = _constants(self.dim).share
        log_z = _log_mixture(self.epsilon, jnp.asarray(1 - share, x.dtype), jnp.asarray(share * _SCALE, x.dtype))
        log_mass = _log_mixture(self.epsilon, few, most) - log_z - self.dim * math.log(2.0)
        return jnp.where(possible, log_mass, -jnp.inf)

    def domain(self) -> Box:
        """[-1, 1]^dim; other records are clipped, NaN goes to 0, coordinate by coordinate."""
        return Box(self.dim)

    def codomain(self) -> Product:
        """Vectors of ``dim`` signs."""
        return Product(self.dim, Finite((-1.0, 1.0)))

    def guarantee(self) -> Guarantee:
        """epsilon per record; the largest one where epsilon is a stack of personal budgets, one a user."""
        if _validate.concrete(self.epsilon):
            self._check()
        return Guarantee(
            largest(self.epsilon),
            adjacency=f"any two vectors in [-1, 1]^{self.dim}",
            status="proved",
            reason="given the rounded record each sign vector has probability 1/Z or e^eps/Z, "
            "and Z is the same for all records",
        )

    def estimate(self, y: Any) -> Array:
        """B y, by coordinate."""
        return self._gain * jnp.asarray(y)

    def mean(self, x: Any) -> Array:
        """x: unbiased."""
        return clip(x)

    def variance(self, x: Any) -> Array:
        """B^2 - x^2, by coordinate."""
        return self._gain**2 - clip(x) ** 2


def _agreements(towards: Array) -> tuple[Array, Array]:
    """P(A <= d/2), and P(A > d/2) times _SCALE, for A a sum of independent signs with means ``towards`` [d]."""
    dim = len(towards)

    def add(mass: Array, mean: Array) -> tuple[Array, None]:
        shifted = jnp.concatenate([jnp.zeros(1, mass.dtype), mass[:-1]])
        return 0.5 * (1 - mean) * mass + 0.5 * (1 + mean) * shifted, None

    start = jnp.zeros(dim + 1, towards.dtype).at[0].set(_SCALE)
    mass, _ = jax.lax.scan(add, start, towards)
    return mass[: dim // 2 + 1].sum() / _SCALE, mass[dim // 2 + 1 :].sum()


def _log_mixture(epsilon: Any, few: Array, most: Array) -> Array:
    """log(few + e^eps most / _SCALE), where either may be 0; its gradient is finite wherever that is.

    The larger term is taken out as a constant, so that no logarithm of 0 is differentiated.
    """
    epsilon = jnp.asarray(epsilon, few.dtype)
    level = jax.lax.stop_gradient(jnp.maximum(jnp.log(few), epsilon + (jnp.log(most) - _LOG_SCALE)))
    # Beyond e^44 the scale is taken from the exponent, where it cannot overflow; below, from the mass, exactly.
    rest, switch = epsilon - level, 44.0
    near = jnp.exp(jnp.minimum(rest, switch)) * (most / _SCALE)
    far = jnp.exp(jnp.maximum(rest, switch) - _LOG_SCALE) * most
    return level + jnp.log(few * jnp.exp(-level) + jnp.where(rest <= switch, near, far))
