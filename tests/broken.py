"""Broken twins: mechanisms that promise what they do not keep, each in a way that has happened.

They are here to test the tests: every twin must be rejected by the check that is there for its defect.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments._published import DuchiVectorWithTies, ReleasedSquareWave
from ldp_jax._pytree import mechanism, static
from ldp_jax.accounting import gaussian_sigma
from ldp_jax.features import Duchi, Laplace, Sampled, SparseReport, SquareWave
from ldp_jax.features.sampled import _subset
from ldp_jax.guarantee import Guarantee
from ldp_jax.mechanism import Box, Interval, uniform

__all__ = [
    "DuchiVectorWithTies",
    "HonestDensityOnly",
    "Overspent",
    "ReleasedSquareWave",
    "ReusedKey",
    "StretchedNoise",
    "SwappedBranch",
    "Unclipped",
    "data_fitted",
]


@mechanism
class Overspent(SquareWave):
    """Runs at an epsilon 5 % larger than the one it claims; sampler and density agree."""

    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon / 1.05)


@mechanism
class HonestDensityOnly(SquareWave):
    """The density is that of epsilon, the draws are those of 1.05 epsilon."""

    def from_uniform(self, u: Any, x: Any) -> Any:
        return SquareWave(1.05 * self.epsilon).from_uniform(u, x)


@mechanism
class SwappedBranch(Duchi):
    """The probability of the flip is used for the keep."""

    def from_word64(self, word: Any, x: Any) -> Any:
        return -super().from_word64(~word, x)


@mechanism
class ReusedKey(Sampled):
    """One key draws the coordinates and the values."""

    def privatize(self, key: Any, x: Any) -> SparseReport:
        indices = _subset(key, self.dim, self.k)
        return SparseReport(indices, self.inner.from_uniform(uniform(key, (self.k,)), jnp.asarray(x)[indices]))


@mechanism
class Unclipped(Laplace):
    """Adds noise for records in [-1, 1] to whatever it is given."""

    def from_uniform(self, u: Any, x: Any) -> Any:
        return jnp.asarray(x) + super().from_uniform(u, 0.0)

    def log_density(self, y: Any, x: Any) -> Any:
        return super().log_density(jnp.asarray(y) - x, 0.0)


@mechanism
class StretchedNoise:
    """Gaussian noise for (epsilon, delta) on records of the unit disc, stretched threefold along the record.

    A spherical sigma would do; the direction of the stretch is the record's own, and the report shows it.
    """

    epsilon: float = static()
    delta: float = static()
    stretch: float = static(default=3.0)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta)

    def domain(self) -> Box:
        return Box(2)

    def codomain(self) -> Interval:
        return Interval(-np.inf, np.inf)  # of each coordinate

    @property
    def sigma(self) -> float:
        return gaussian_sigma(self.epsilon, self.delta, 2.0)

    def privatize(self, key: Any, x: Any) -> Any:
        x = jnp.asarray(x)
        noise = self.sigma * jax.random.normal(key, (2,))
        along = x / jnp.maximum(jnp.linalg.norm(x), 1e-6)
        return x + noise + (self.stretch - 1) * (noise @ along) * along

    def estimate(self, y: Any) -> Any:
        return jnp.asarray(y)


def data_fitted(keys: Any, xs: Any, epsilon: float = 1.0) -> Any:
    """Scales the records to [-1, 1] with their own minimum and maximum, which are private."""
    low, high = jnp.min(xs), jnp.max(xs)
    m = Laplace(epsilon)
    return jax.vmap(m.privatize)(keys, 2 * (xs - low) / (high - low) - 1)
