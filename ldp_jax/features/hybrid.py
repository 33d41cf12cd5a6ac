"""The hybrid mechanism: Piecewise or Duchi, by a public coin."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from ldp_jax.core import random_words
from ldp_jax.core.mechanism import Analytic, mechanism, report_shape
from ldp_jax.core.spaces import Mixture, as_records
from ldp_jax.core.types import AnyArray, Array, PRNGKey, Record, Report, Scalar
from ldp_jax.features._logs import log_mass
from ldp_jax.features.duchi import Duchi
from ldp_jax.features.piecewise import LARGEST_PIECEWISE, GeneralPiecewise, Piecewise

THRESHOLD = 0.61
"""The largest epsilon of Duchi's mechanism alone (Wang et al., ICDE 2019, eq. 7, eps*)."""


class BranchReport(NamedTuple):
    """A report of :class:`Hybrid`: the branch, 0 for Duchi's and 1 for piecewise, and its value."""

    branch: AnyArray
    value: AnyArray


@mechanism
class Hybrid(Analytic):
    r"""Toss a coin that ignores the record, and report through Piecewise or through Duchi.

    Law: branch 1 (:func:`Piecewise`) with probability :math:`\beta = 1 - e^{-\epsilon/2}` for
    epsilon > 0.61, else 0; branch 0 is :class:`Duchi`. The branch is part of the report.
    Guarantee: epsilon per record.
    Utility: unbiased; variance :math:`\beta V_{PM}(x) + (1 - \beta) V_{Duchi}(x)`, constant for
    epsilon > 0.61.
    Numerics: those of the two mechanisms; the coin is a 64-bit number.
    Reference: Wang et al., ICDE 2019, section III-C.

    >>> (
    ...     round(Hybrid(1.0).variance(0.0).item(), 2),
    ...     round(Hybrid(1.0).variance(1.0).item(), 2),
    ... )
    (4.29, 4.29)
    """

    epsilon: Scalar

    LARGEST: ClassVar[float] = LARGEST_PIECEWISE

    @property
    def piecewise(self) -> GeneralPiecewise:
        """Branch 1."""
        return Piecewise(self.epsilon)

    @property
    def duchi(self) -> Duchi:
        """Branch 0."""
        return Duchi(self.epsilon)

    @property
    def beta(self) -> Array:
        """The probability of branch 1."""
        epsilon = jnp.asarray(self.epsilon)
        return jnp.where(epsilon > THRESHOLD, -jnp.expm1(-epsilon / 2), 0.0)

    @property
    def _rest(self) -> Array:
        """The probability of branch 0."""
        epsilon = jnp.asarray(self.epsilon)
        return jnp.where(epsilon > THRESHOLD, jnp.exp(-epsilon / 2), 1.0)

    def draw(self, key: PRNGKey, x: Record) -> BranchReport:
        """A coin and a value for each number."""
        x = as_records(x)
        word = random_words.words(key, report_shape(self, x), 4)
        coin = random_words.bernoulli_from_words(word[:2], self.beta, self._rest)
        of_piecewise = self.piecewise.from_word32(word[2], x)
        of_duchi = self.duchi.from_word64(word[2:], x)
        return BranchReport(coin.astype(jnp.int32), jnp.where(coin, of_piecewise, of_duchi))

    def log_density(self, y: Report, x: Record) -> Array:
        """log of the branch's mass times the density (or mass) of its value."""
        branch, value = map(jnp.asarray, y)
        of_piecewise = log_mass(self.beta) + self.piecewise.log_density(value, x)
        of_duchi = jnp.log(self._rest) + self.duchi.log_density(value, x)
        otherwise = jnp.where(branch == 0, of_duchi, -jnp.inf)
        return jnp.where(branch == 1, of_piecewise, otherwise)

    def codomain(self) -> Mixture:
        """Signs on branch 0, an interval on branch 1."""
        return Mixture((self.duchi.codomain(), self.piecewise.codomain()))

    def estimate(self, y: Report) -> Array:
        """The estimate of the branch that was taken."""
        branch, value = map(jnp.asarray, y)
        of_piecewise = self.piecewise.estimate(value)
        return jnp.where(branch == 1, of_piecewise, self.duchi.estimate(value))

    def variance(self, x: Record) -> Array:
        """The mixture of the branches' variances."""
        return self.beta * self.piecewise.variance(x) + self._rest * self.duchi.variance(x)

    def proof(self) -> str:
        """Why the guarantee holds."""
        return "both branches keep epsilon and the coin between them is independent of the record"
