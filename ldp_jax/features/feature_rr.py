"""HeteroRR's randomised response on features.

Near bins likelier than far ones, a budget a feature.
"""

import sys

import jax.numpy as jnp
import numpy as np

from ldp_jax.accounting.guarantee import Guarantee
from ldp_jax.core import integer_tables, validate
from ldp_jax.core.mechanism import check_single, one_record
from ldp_jax.core.pytree import pytree, static
from ldp_jax.core.rounding import add_up
from ldp_jax.core.spaces import Box, Finite, Product, as_records
from ldp_jax.core.types import Array, Numbers, PRNGKey, Record, Report, Scalar
from ldp_jax.features.discrete import Discrete


@pytree
class RandomizedFeatures:
    r"""Report a bin for each feature in [0, 1], near bins with more mass than far ones.

    Made by :func:`FeatureRR`.

    Law: feature i in bin t, (t - 1)/k < x <= t/k, is reported as bin u with mass proportional to
    :math:`e^{-\epsilon_i |u - t| / (k - 1)}`, independently of the others, at
    :math:`\epsilon_i = \epsilon \theta_i`. The paper's scale
    :math:`\sigma_i = (k-1) / (k \epsilon_i)` is the exact bound.
    Guarantee: the sum of the features' exact losses, at most epsilon a record.
    Utility: the estimate u / k is *biased* towards the middle; mean and variance are those of the
    table.
    Numerics: exact in integers; one 32-bit word a feature.
    Reference: HeteroRR eq. 7-9, 16-17 and Algorithm 1.

    ``inner`` has a table for each distinct budget; its level [dim] says which is each feature's.

    >>> m = FeatureRR(4.0, bins=10, dim=3)
    >>> m.guarantee().epsilon <= 4.0
    True
    """

    inner: Discrete
    dim: int = static()

    def __post_init__(self) -> None:
        self._check_levels()
        validate.require(
            self.inner.encoding == "bins",
            f"inner must be a table on bins of [0, 1], got one on a {self.inner.encoding}",
        )

    def _check_levels(self) -> None:
        """A level a feature, by shape: features that broadcast would share a word."""
        validate.shaped(*self.stack_shape(), self.dim, **{"the level of inner": self.inner.level})

    def privatize(self, key: PRNGKey, x: Record) -> Array:
        """The bins reported for one record [dim]: int32 [dim], 0 for the lowest."""
        self._check_levels()
        check_single(self)
        return self.inner.draw(key, one_record(x, self.dim))

    def stack_shape(self) -> tuple[int, ...]:
        """() for one mechanism: its level has one entry a feature."""
        return jnp.shape(self.inner.level)[:-1]

    def coordinate(self, j: int) -> Discrete:
        """Feature j alone."""
        return self.inner.at(jnp.asarray(self.inner.level)[j])

    def log_density(self, y: Report, x: Record) -> Array:
        """log P(y | x) of all features together."""
        return self.inner.log_density(y, as_records(x)).sum(-1)

    def domain(self) -> Box:
        """[0, 1]^dim; coordinates are clipped, NaN goes to 1/2."""
        return Box(self.dim, 0.0, 1.0)

    def codomain(self) -> Product:
        """One bin a feature."""
        inner = self.inner.codomain()
        assert isinstance(inner, Finite)
        return Product(self.dim, inner)

    def guarantee(self) -> Guarantee:
        """The sum of the features' losses; the largest where users have different levels."""
        worst = self.inner.guarantee()  # also refuses what is traced
        levels, place = np.unique(np.asarray(self.inner.level), return_inverse=True)
        losses = np.array([self.inner.table(level).epsilon for level in levels.tolist()])
        self._check_levels()
        totals = [add_up(user) for user in losses[place].reshape(-1, self.dim).tolist()]
        return Guarantee(
            max(totals),
            adjacency=f"any two vectors in [0, 1]^{self.dim}",
            arithmetic="exact",
            status="proved",
            reason=f"{self.dim} independent reports compose; each: {worst.reason}",
        )

    def estimate(self, y: Report) -> Array:
        """u / k, the upper end of the bin, as in the paper."""
        return self.inner.estimate(y)

    def mean(self, x: Record) -> Array:
        """Mean of the estimate, by feature: biased."""
        return self.inner.mean(as_records(x))

    def variance(self, x: Record) -> Array:
        """Variance of the estimate, by feature."""
        return self.inner.variance(as_records(x))


def FeatureRR(
    epsilon: Scalar, bins: int, weights: Numbers | None = None, *, dim: int | None = None
) -> RandomizedFeatures:
    """HeteroRR's FeatureRR: :class:`RandomizedFeatures` at budgets epsilon * theta_i.

    ``epsilon`` is one concrete number, at most 20 a feature; ``bins`` k in [2, 512]. ``weights``
    theta [d] are public numbers > 0, normalised to sum to 1 (without which Theorem 3 fails);
    ``dim`` stands for equal ones.

    >>> homogeneous, heterogeneous = (
    ...     FeatureRR(3.0, 8, dim=3),
    ...     FeatureRR(3.0, 8, [1.0, 1.0, 4.0]),
    ... )
    >>> [len(m.inner.names) for m in (homogeneous, heterogeneous)]
    [1, 2]
    """
    validate.integer_in(2, integer_tables.MAX_INPUTS, bins=bins)
    validate.require(
        (weights is None) != (dim is None), "give either weights, one a feature, or dim"
    )
    if weights is None:
        weights = np.ones(validate.whole(1, dim=dim))
    theta = np.asarray(weights)
    validate.positive(weights=theta)
    validate.shaped("d", weights=theta)
    most = integer_tables.MAX_EPSILON * len(theta)
    total = validate.number(0.0, most, open_lower=True, epsilon=epsilon)

    theta = theta.astype(np.float64)
    budgets, level = np.unique(total * (theta / theta.sum()), return_inverse=True)
    # In floating point the shares may add up to a hair more than epsilon.
    spent = sum(np.bincount(level) * budgets)
    budgets = budgets * min(1.0, total / spent) * (1 - 2.0**-50)

    place = np.arange(bins)
    distance = np.abs(place - place[:, None])
    values = ((place + 1) / bins).astype(np.float32)
    tables = []
    for budget in budgets.tolist():
        budget = integer_tables.checked_epsilon(budget)
        law = np.exp(-budget * distance / (bins - 1))
        masses = integer_tables.integer_masses(law / law.sum(1, keepdims=True), budget)
        tables.append(integer_tables.Table("FeatureRR", masses, values, "bins"))
    return RandomizedFeatures(Discrete.of(*tables).at(level), len(theta))


def importance_weights(alpha: Numbers, beta: Numbers, gamma: float = 0.5) -> np.ndarray:
    r"""HeteroRR's share of the budget for each feature; float64 [d], summing to 1.

    :math:`\theta_i = \gamma \alpha_i + (1-\gamma)[\beta_{min} + (\beta_{max} - \beta_i)]`,
    normalised, of *public* scores [d], finite and >= 0: ``alpha`` is the importance, such as
    absolute SHAP values (eq. 6), ``beta`` the sensitivity (eq. 5); ``gamma`` in [0, 1] is the
    weight of importance.
    Reference: HeteroRR eq. 7 and Algorithm 1, lines 4-5.

    >>> importance_weights([0.5, 0.25, 0.25], [0.2, 0.4, 0.4]).round(3).tolist()
    [0.5, 0.25, 0.25]
    """
    validate.aligned(alpha=alpha, beta=beta)
    alpha = validate.numbers(alpha=alpha)
    beta = validate.numbers(beta=beta)
    validate.shaped("d", alpha=alpha)
    validate.shaped(len(alpha), beta=beta)
    validate.in_range(0.0, sys.float_info.max, alpha=alpha, beta=beta)
    gamma = validate.number(0.0, 1.0, gamma=gamma)
    theta = gamma * alpha + (1 - gamma) * (beta.min() + (beta.max() - beta))
    validate.require(
        (theta > 0).all(),
        f"features {np.flatnonzero(theta <= 0).tolist()} would get no budget: drop them from "
        "the record, or choose another gamma",
    )
    return theta / theta.sum()
