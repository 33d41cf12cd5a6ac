"""What the last bits of a float32 report say about the record."""

import math
from typing import Any

import numpy as np

from ldp_jax import _validate
from ldp_jax.domains import NotApplicable
from ldp_jax.types import PRNGKey
from ldp_jax.verification import _law, statistics
from ldp_jax.verification.statistics import SIGNIFICANCE, Fit

TRIALS = 1 << 18
LAST = 8
"""How many of the last bits of a float32 number are asked, alone and in parity with the one above."""

ROUNDING = 1.0
"""What the rounding of a float32 sampler may say in one bit, in nats: a report of small size is a difference of
larger numbers and ends in zeros."""


def record_in_bits(
    mechanism: Any, key: PRNGKey, *, trials: int = TRIALS, significance: float = SIGNIFICANCE
) -> Fit:
    """Whether a bit of a report's float32 numbers tells the lower half of the domain from the upper.

    Random records of random bits are reported; each of the last eight bits of the report, and its parity with the
    next, is counted among the records of either half. A lower bound of the loss (Clopper and Pearson) above the
    claim and :data:`ROUNDING` is a report that carries the record where rounding would be.

    Power at 2^18 reports: a bit that is the sign of the record, where epsilon is at most 7; at larger epsilon
    draws cannot show more than the claim. A bit that follows the record less than epsilon + 1 allows is not told
    from rounding: what float32 gives away of a continuous law is measured by
    :func:`~ldp_jax.verification.float_audit`, and only whole numbers give nothing away.

    Args:
      mechanism: on numbers, or vectors of independent coordinates, whose reports are of a continuum.
      key: a typed threefry key.
      trials: reports.
      significance: how often a sampler that keeps to this is rejected.

    Raises:
      ValueError: for finite reports, which have no bits to spare.

    >>> import jax
    >>> from ldp_jax.features import Laplace
    >>> record_in_bits(Laplace(1.0), jax.random.key(0)).fits
    True
    """
    _validate.integer_in(1000, trials=trials)
    parts = _law.numbers(mechanism, key, trials)
    claim = max(part.mechanism.guarantee().epsilon for part in parts)
    worst = 0.0
    for x, values in ((part.x, _values(part)) for part in parts):
        mask, numbers = values
        raw = np.ascontiguousarray(numbers[mask], np.float32).view(np.uint32)
        share = parts[0].mechanism.domain().share(x[mask])
        if share is None:
            raise NotApplicable(f"records of {parts[0].mechanism.domain()} have no order")
        upper = share > 0.5
        bits = np.stack([raw >> place & 1 for place in range(LAST)])
        bits = np.concatenate([bits, bits[:-1] ^ bits[1:]])
        sizes = [int((~upper).sum()), int(upper.sum())]
        ones = np.stack([bits[:, ~upper].sum(1), bits[:, upper].sum(1)])
        alpha = significance / (8 * len(bits) * len(parts))
        for event in (ones, np.array(sizes)[:, None] - ones):
            bounds = [statistics.clopper_pearson(event[half], sizes[half], alpha) for half in (0, 1)]
            for (low, _), (_, high) in (bounds, bounds[::-1]):
                with np.errstate(divide="ignore"):
                    worst = max(worst, float(np.log(low / high).max()))
    limit = claim + ROUNDING
    return Fit(worst <= limit, "last bits", worst, limit, 1 - math.exp(-limit), trials)


def _values(part: _law.Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Which reports are numbers of a continuum, and the numbers."""
    found = part.mechanism.codomain().continuum(part.y)
    if found is None:
        name = type(part.mechanism).__name__
        raise NotApplicable(f"the reports of {name} are finite: they have no bits to spare")
    return found
