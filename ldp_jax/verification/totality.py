"""Is every value a record? NaN, infinities and numbers beyond the ends are reported as what they are taken for."""

from typing import Any

import jax
import numpy as np

from ldp_jax.core.types import PRNGKey
from ldp_jax.verification.empirical import report_each
from ldp_jax.verification.exact import spaces
from ldp_jax.verification.statistics import Fit


def is_total(mechanism: Any, key: PRNGKey) -> Fit:
    """Whether values that are not records are reported as the record that ``clip`` takes them for.

    NaN, infinities, 1e30 and numbers just beyond the ends are privatised with the keys of the clipped records:
    reports must be the same and inside the codomain. Each is also privatised by a plain call, which must not raise.

    Args:
      mechanism: epsilon one number.
      key: a typed threefry key.

    Returns:
      A :class:`Fit` whose statistic is how many reports differ or are impossible.

    >>> from ldp_jax.features import Laplace
    >>> is_total(Laplace(1.0), jax.random.key(0)).fits
    True
    """
    domain, codomain = spaces(mechanism)
    bad, good = domain.outside()
    n = len(jax.tree.leaves(bad)[0])
    words = jax.random.key_data(jax.random.split(key, n))
    reports, meant = (report_each(words, mechanism, x) for x in (bad, good))
    for place, key in enumerate(jax.random.wrap_key_data(words)):
        mechanism.privatize(key, jax.tree.map(lambda leaf, at=place: leaf[at], bad))
    wrong = ~np.asarray(codomain.contains(reports, rounding=2))
    for one, other in zip(jax.tree.leaves(reports), jax.tree.leaves(meant), strict=True):
        same = (one == other) | ((one != one) & (other != other))  # NaN stands for what is not sent
        wrong = wrong | ~same.reshape(n, -1).all(1)
    return Fit(not wrong.any(), "reports of no records", float(wrong.sum()), 0.0, 1 / n, n)
