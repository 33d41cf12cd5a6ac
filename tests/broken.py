"""Broken twins: mechanisms that promise what they do not keep, each in a way that has happened.

They are here to test the tests: every twin must be rejected by the check that is there for its defect.
"""

from typing import Any

import jax
import jax.numpy as jnp

from experiments._published import DuchiVectorWithTies, ReleasedSquareWave
from ldp_jax._pytree import mechanism
from ldp_jax.features import Duchi, Laplace, Sampled, SparseReport, SquareWave
from ldp_jax.features.sampled import _subset
from ldp_jax.guarantee import Guarantee
from ldp_jax.mechanism import uniform

__all__ = [
    "DuchiVectorWithTies",
    "HonestDensityOnly",
    "Overspent",
    "ReleasedSquareWave",
    "ReusedKey",
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

    def from_uniform(self, u: Any, x: Any) -> Any:
        return -super().from_uniform(u, x)


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


def data_fitted(keys: Any, xs: Any, epsilon: float = 1.0) -> Any:
    """Scales the records to [-1, 1] with their own minimum and maximum, which are private."""
    low, high = jnp.min(xs), jnp.max(xs)
    m = Laplace(epsilon)
    return jax.vmap(m.privatize)(keys, 2 * (xs - low) / (high - low) - 1)
