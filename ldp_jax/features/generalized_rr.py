"""Generalised (k-ary) randomised response on categories."""

import numpy as np

from ldp_jax.core import integer_tables, validate
from ldp_jax.core.types import Scalar
from ldp_jax.features.discrete import Discrete


def GeneralizedRR(epsilon: Scalar, categories: int) -> Discrete:
    r"""Report the category with probability e^epsilon / (e^epsilon + k - 1), else another one, each alike.

    Guarantee: at most epsilon, exact in integers (:class:`Discrete`). Two categories give Warner's randomised
    response.

    Utility: the estimate [k] of the category's indicator is unbiased: the inverse of the integer table itself, so
    that the rounding to integers is undone too. Category j of a user who holds j has variance about
    :math:`\frac{p (1-p)}{(p-q)^2}`, any other :math:`\frac{q (1-q)}{(p-q)^2}`, with p, q the two probabilities.

    Args:
      epsilon: one concrete number in (0, 20].
      categories: k, in [2, 512]; records are 0, ..., k - 1.

    Reference: Kairouz, Oh & Viswanath, NeurIPS 2014; Warner, JASA 1965.

    >>> GeneralizedRR(2.0, 4).mean(3).round(4).tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    validate.integer_in(2, integer_tables.MAX_INPUTS, categories=categories)
    law = np.ones((categories, categories)) + np.diag(np.full(categories, np.expm1(epsilon)))
    masses = integer_tables.integer_masses(law / law.sum(1, keepdims=True), epsilon)
    return Discrete.of(integer_tables.Table("GeneralizedRR", masses, integer_tables.unbiased(masses), "category"))
