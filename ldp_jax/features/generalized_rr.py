"""Generalised (k-ary) randomised response on categories."""

import dataclasses

from ldp_jax.core import integer_tables, personal_alphabets, validate
from ldp_jax.core.types import Scalar
from ldp_jax.features.discrete import Discrete


def GeneralizedRR(epsilon: Scalar, categories: int) -> Discrete:
    r"""Report the category, or another one, by generalised (k-ary) randomised response.

    Law: the category has probability p = e^epsilon / (e^epsilon + k - 1), each other one
    q = (1-p) / (k-1).
    Guarantee: at most epsilon, exact in integers (:class:`Discrete`). Two categories are Warner's
    response.
    Utility: the estimate [k] of the indicator, by the inverse table, is unbiased; its variance is
    about :math:`\frac{p (1-p)}{(p-q)^2}` at the user's category, :math:`\frac{q (1-q)}{(p-q)^2}`
    elsewhere.

    ``epsilon`` is in (0, 20]; records are 0, ..., k - 1, k in [2, 512].
    Reference: Kairouz, Oh & Viswanath, NeurIPS 2014; Warner, JASA 1965.

    >>> GeneralizedRR(2.0, 4).mean(3).round(4).tolist()
    [0.0, 0.0, 0.0, 1.0]
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    validate.integer_in(2, integer_tables.MAX_INPUTS, categories=categories)
    table = personal_alphabets.table(epsilon, categories, categories)  # all are candidates
    return Discrete.of(dataclasses.replace(table, name="GeneralizedRR"))
