"""Duchi, Jordan and Wainwright's mechanism on the cube: a sign for each coordinate, one budget."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import random, random_words, validate
from ldp_jax.core.mechanism import (
    check_epsilon,
    check_single,
    largest,
    mechanism,
    one_record,
    static,
)
from ldp_jax.core.spaces import Box, Finite, Product, clip
from ldp_jax.core.types import Array, PRNGKey, Record, Report, Scalar

# A power of two, so that scaling is exact: it keeps Poisson-binomial tails down to 1e-57 out of
# float32's underflow, which e^100 would bring back into sight.
_SCALE = 2.0**64
_LOG_SCALE = 64 * math.log(2.0)

_TIED = 1e-12  # the probability that all candidates of a draw are ties


@functools.lru_cache(maxsize=64)
def _constants(dim: int) -> tuple[float, float, int]:
    """C_d / 2^d, 2^d / binom(d - 1, floor(d / 2)), and the draws of a half-space.

    They come from exact integers.
    """
    cube = 2**dim
    half = dim // 2
    gain = cube / math.comb(dim - 1, half)
    if dim % 2:
        return cube // 2 / cube, gain, 1
    ties = math.comb(dim, half)
    candidates = math.ceil(math.log(_TIED) / math.log(ties / cube))
    return (cube - ties) // 2 / cube, gain, candidates


@mechanism
class DuchiVector:
    r"""Report a vector of d signs, e^epsilon times likelier on the record's side of the cube.

    Law: each coordinate is rounded to a sign, :math:`P(v_j = 1) = (1 + x_j)/2`; the report s has
    probability :math:`e^\epsilon / Z` if :math:`s \cdot v > 0`, else :math:`1/Z`, with
    :math:`Z = (e^\epsilon - 1) C_d + 2^d` and :math:`C_d = 2^{d-1}` for odd d,
    :math:`2^{d-1} - \frac{1}{2}\binom{d}{d/2}` for even d. So
    :math:`P(s \mid x) = (1 + (e^\epsilon - 1) P(A > d/2)) / Z`, A the Poisson-binomial number of
    agreements of s and v.
    Guarantee: epsilon per record, attained between opposite corners. The form first published puts
    ties into both half-spaces and loses :math:`\log(1 + e^\epsilon)` for even d.
    Utility: :math:`B s`, :math:`B = Z / ((e^\epsilon - 1) \binom{d-1}{\lfloor d/2 \rfloor})`, is
    unbiased; variance :math:`B^2 - x_j^2`; :math:`B \approx \sqrt{\pi d / 2} \coth(\epsilon/2)` for
    large d. Coordinates correlate.
    Numerics: with probability :math:`2^d / Z`, by a 64-bit number, the report is uniform on the
    cube, else on the half-space. The loss is epsilon to 1e-6 of it up to epsilon 35, and less
    beyond; no report is impossible. The density takes O(d^2) operations; in float32 it is good to
    3e-5 at d = 500.
    Reference: Duchi, Jordan & Wainwright, JASA 2018; corrected by Wang et al., ICDE 2019, Algorithm
    3.

    >>> m = DuchiVector(1.0, dim=4)
    >>> x = jnp.zeros(4)
    >>> m.privatize(jax.random.key(0), x).shape, round(m.variance(x)[0].item(), 1)
    ((4,), 22.8)
    """

    epsilon: Scalar
    dim: int = static()

    def _check(self) -> None:
        check_epsilon(self.epsilon)
        validate.integer_in(1, dim=self.dim)

    @property
    def _gain(self) -> Array:
        """B, without cancellation or overflow."""
        share, gain, _ = _constants(self.dim)
        return gain * (jnp.exp(-self.epsilon) / -jnp.expm1(-self.epsilon) + share)

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The signs [dim], float32, of one record [dim]."""
        validate.threefry(key)
        check_single(self)
        x = clip(one_record(x, self.dim)).astype(jnp.float32)  # else 64-bit mode draws otherwise
        v_key, side_key, sign_key = random.split(key, 3)

        # v is the record, rounded to signs: a bit for each coordinate, in words of 32.
        words = -(-self.dim // 32)
        signs = random.bernoulli(v_key, (1 + x) / 2)
        bits = jnp.pad(signs, (0, 32 * words - self.dim)).reshape(-1, 32).astype(jnp.uint32)
        places = jnp.arange(32, dtype=jnp.uint32)[None]
        v = (bits << places).sum(1, dtype=jnp.uint32)

        anywhere = random_words.bernoulli(side_key, *self._whole_cube())
        _, _, draws = _constants(self.dim)
        candidates = random_words.words(sign_key, v.shape, draws)

        # The first candidate that is no tie, or its opposite, is on the record's side.
        differ = self._count(candidates ^ v[None])
        first = jnp.argmax(2 * differ != self.dim)  # 0 where all are ties
        near = candidates[first]
        untied = near.at[0].set(near[0] ^ 1)
        near = jnp.where(2 * differ[first] == self.dim, untied, near)
        is_opposite = 2 * self._count(near ^ v) > self.dim
        near = jnp.where(is_opposite, ~near, near)

        chosen = jnp.where(anywhere, candidates[0], near)
        place = jnp.arange(self.dim)
        shift = (place % 32).astype(jnp.uint32)
        up = (chosen[place // 32] >> shift) & 1
        return jnp.where(up == 1, 1.0, -1.0).astype(jnp.float32)

    def _whole_cube(self) -> tuple[Array, Array]:
        """2^d / Z and the rest to 1."""
        epsilon = jnp.asarray(self.epsilon, jnp.float32)
        few = jnp.exp(-epsilon)
        more = -jnp.expm1(-epsilon) * _constants(self.dim)[0]
        total = more + few
        return jnp.maximum(few, jnp.finfo(jnp.float32).tiny) / total, more / total

    def _count(self, words: Array) -> Array:
        """The number of set bits among the first ``dim``, along the last axis."""
        place = 32 * jnp.arange(words.shape[-1])
        unused = jnp.clip(place + 32 - self.dim, 0, 31).astype(jnp.uint32)
        used = words << jnp.broadcast_to(unused, words.shape)
        return jax.lax.population_count(used).sum(-1, dtype=jnp.uint32).astype(jnp.int32)

    def log_density(self, y: Report, x: Record) -> Array:
        """log P(y | x); ``-inf`` for a y that is no vector of signs."""
        x = clip(one_record(x, self.dim))
        y = one_record(y, self.dim, "y")
        possible = (jnp.abs(y) == 1.0).all()
        signs = jnp.where(possible, y, 1.0).astype(x.dtype)

        # The law of A, the number of agreements, times _SCALE.
        mass = _convolved(signs * x)
        half = self.dim // 2 + 1
        few = mass[:half].sum() / _SCALE
        most = mass[half:].sum()

        share, _, _ = _constants(self.dim)
        outside, inside = jnp.array([1 - share, share * _SCALE], x.dtype)
        log_z = _log_mixture(self.epsilon, outside, inside)
        log_mass = _log_mixture(self.epsilon, few, most) - log_z - self.dim * math.log(2.0)
        return jnp.where(possible, log_mass, -jnp.inf)

    def critical_points(self) -> tuple[np.ndarray, np.ndarray]:
        """A corner for each number of signs that agree with a report: masses are linear in x."""
        agreements = np.arange(self.dim + 1)[:, None]
        corners = np.where(np.arange(self.dim) < agreements, 1.0, -1.0)
        return corners, np.ones((1, self.dim))

    def domain(self) -> Box:
        """[-1, 1]^dim; coordinates are clipped, NaN goes to 0."""
        return Box(self.dim)

    def codomain(self) -> Product:
        """Vectors of ``dim`` signs."""
        return Product(self.dim, Finite((-1.0, 1.0)))

    def guarantee(self) -> Guarantee:
        """epsilon per record; the largest of a stack."""
        check_epsilon(self.epsilon)
        return Guarantee(
            largest(self.epsilon),
            adjacency=f"any two vectors in [-1, 1]^{self.dim}",
            status="proved",
            reason="given the rounded record each sign vector has probability 1/Z or e^eps/Z, "
            "and Z is the same for all records",
        )

    def estimate(self, y: Report) -> Array:
        """B y, by coordinate."""
        return self._gain * jnp.asarray(y)

    def mean(self, x: Record) -> Array:
        """x: unbiased."""
        return clip(x)

    def variance(self, x: Record) -> Array:
        """B^2 - x^2, by coordinate."""
        return self._gain**2 - clip(x) ** 2


@jax.jit  # an eager loop is compiled at each call
def _convolved(towards: Array) -> Array:
    """The law times _SCALE, [d + 1], of how many signs with means ``towards`` [d] are 1."""

    def add(mass: Array, mean: Array) -> tuple[Array, None]:
        shifted = jnp.concatenate([jnp.zeros(1, mass.dtype), mass[:-1]])
        return 0.5 * (1 - mean) * mass + 0.5 * (1 + mean) * shifted, None

    start = jnp.zeros(len(towards) + 1, towards.dtype).at[0].set(_SCALE)
    return jax.lax.scan(add, start, towards)[0]


def _log_mixture(epsilon: Scalar, few: Array, most: Array) -> Array:
    """log(few + e^eps most / _SCALE), where either may be 0, with a finite gradient."""
    epsilon = jnp.asarray(epsilon, few.dtype)
    # The larger term is taken out as a constant: no logarithm of 0 is differentiated.
    log_most = epsilon + (jnp.log(most) - _LOG_SCALE)
    level = jax.lax.stop_gradient(jnp.maximum(jnp.log(few), log_most))

    # Beyond e^44 the scale is taken from the exponent, where it cannot overflow; below, from the
    # mass, exactly.
    switch = 44.0
    rest = epsilon - level
    near = jnp.exp(jnp.minimum(rest, switch)) * (most / _SCALE)
    far = jnp.exp(jnp.maximum(rest, switch) - _LOG_SCALE) * most
    of_most = jnp.where(rest <= switch, near, far)
    return level + jnp.log(few * jnp.exp(-level) + of_most)
