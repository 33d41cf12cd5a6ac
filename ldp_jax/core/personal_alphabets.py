"""The candidate set of each user, chosen from public facts, and the table of each size.

NumPy only.
"""

from typing import NamedTuple

import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.integer_tables import MAX_INPUTS, Table, checked_epsilon, integer_masses, unbiased
from ldp_jax.core.shown import by_shapes

_SUM = 1e-3  # how far a row of float32 probabilities may be from 1


class Alphabets(NamedTuple):
    """All classes of each user, the likeliest first, int32 [n, C].

    The first ``sizes`` [n] are the user's candidate set.
    """

    order: np.ndarray
    sizes: np.ndarray

    __repr__ = by_shapes

    @property
    def mask(self) -> np.ndarray:
        """Which classes are in each user's candidate set, bool [n, C].

        >>> alphabets([[0.1, 0.6, 0.3]], epsilon=1.0).mask.tolist()
        [[False, True, True]]
        """
        inside = np.arange(self.order.shape[1]) < self.sizes[:, None]
        found = np.zeros(inside.shape, bool)
        np.put_along_axis(found, self.order.astype(np.intp), inside, 1)
        return found


def alphabets(prior: object, epsilon: object) -> Alphabets:
    r"""Choose the candidate set of each user: the k likeliest classes, by a public posterior.

    k >= 2 maximises :math:`\sum_{c \le k} q_c \cdot (e^\epsilon - 1) / (e^\epsilon + k - 1)`: the
    mass inside, times the advantage of the true class in randomised response on k. It is the
    smaller of two that are as good. ``prior`` is q [n, C], from public facts alone; epsilon one
    concrete number in (0, 20].
    Reference: Ghazi et al., Deep learning with label differential privacy, NeurIPS 2021, Algorithm
    2, where k >= 1.

    >>> found = alphabets(
    ...     [[0.5, 0.4, 0.05, 0.05], [0.25, 0.25, 0.25, 0.25]], epsilon=2.0
    ... )
    >>> found.sizes.tolist(), found.order[0].tolist()
    ([2, 4], [0, 1, 2, 3])
    """
    epsilon = checked_epsilon(epsilon)
    prior = checked_prior(prior)
    validate.require(prior.ndim == 2, "prior must be [n, C]", prior)
    order = np.argsort(-prior, axis=1, kind="stable").astype(np.int32)
    falling = np.take_along_axis(prior, order, 1)
    inside = np.cumsum(falling, axis=1)[:, 1:]
    k = np.arange(2, prior.shape[1] + 1)
    advantage = -np.expm1(-epsilon) / (1 + (k - 1) * np.exp(-epsilon))
    sizes = 2 + (inside * advantage).argmax(1)
    return Alphabets(order, sizes.astype(np.int32))


def checked_prior(prior: object) -> np.ndarray:
    """Rows of probabilities [..., C] in float64, each of sum 1."""
    validate.require(
        validate.concrete(prior), "prior must be concrete: candidate sets are chosen on the host"
    )
    rows = validate.numbers(prior=prior)
    validate.require(
        rows.size and rows.ndim and 2 <= rows.shape[-1] <= MAX_INPUTS,
        f"prior must have 2 to {MAX_INPUTS} classes, got shape {rows.shape}",
    )
    validate.require(np.isfinite(rows).all() and (rows >= 0).all(), "prior must be finite and >= 0")
    total = rows.sum(-1, keepdims=True)
    sums = f"got sums from {total.min():.6g} to {total.max():.6g}"
    validate.require(np.abs(total - 1).max() <= _SUM, f"rows of prior must sum to 1, {sums}")
    return rows / total


def table(epsilon: object, size: int, classes: int) -> Table:
    r"""Make the table of randomised response on the first ``size`` of ``classes`` places.

    A place below k = ``size`` is reported with probability e^epsilon / (e^epsilon + k - 1); for a
    record beyond, each with 1/k. The values [k, classes] are unbiased estimates of a place's
    indicator.

    >>> made = table(1.0, 2, 3)
    >>> made.masses.shape, made.epsilon <= 1.0, made.masses[2].tolist()
    ((3, 2), True, [2147483648, 2147483648])
    """
    epsilon = checked_epsilon(epsilon)
    validate.integer_in(2, MAX_INPUTS, classes=classes)
    validate.integer_in(2, classes, size=size)
    law = np.ones((size + 1, size))
    np.fill_diagonal(law, np.exp(epsilon))
    masses = integer_masses(law / law.sum(1, keepdims=True), epsilon)
    values = np.zeros((size, classes), np.float32)
    values[:, :size] = unbiased(masses[:size])
    rows = np.minimum(np.arange(classes), size)
    return Table("PersonalAlphabet", masses[rows], values, "category")
