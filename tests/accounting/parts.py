"""What the tests of accounting make guarantees of, and hold sums to."""

import math
from fractions import Fraction

from ldp_jax.accounting.guarantee import Guarantee


def proved(epsilon, delta=0.0, **more):
    return Guarantee(epsilon, delta, status="proved", reason="a proof", **more)


def least_at_or_above(value, exact):
    return Fraction(value) >= exact and (
        value == 0.0 or Fraction(math.nextafter(value, 0.0)) < exact
    )
