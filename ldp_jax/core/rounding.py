"""Round losses up and remaining budgets down, so that what is printed holds.

Sums and shares are fractions, logarithms and exponentials decimals of 60 digits. Standard library
alone.
"""

import decimal
import math
import numbers
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from ldp_jax.core.shown import shown
from ldp_jax.core.validate import whole

_TOLERANCE = Fraction(1, 10**12)  # relative; some thousand roundings of float64
_LARGEST = Fraction(sys.float_info.max)
_CONTEXT = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

ABOVE = 1 + Fraction(1, 10**40)
"""A factor that brings a number above the truth: more than all roundings of 60 digits."""


def exactly(name: str, value: object) -> Fraction | float:
    """Return a real number >= 0 as an exact fraction, or ``math.inf``.

    >>> exactly("epsilon", 0.5)
    Fraction(1, 2)
    """
    # np.bool_ is no numbers.Real, and is refused as well.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"{name} must be a number, got {shown(value)}")
    number: Any = value
    if not number >= 0:
        raise ValueError(f"{name} must be >= 0, got {number}")
    if number == math.inf:
        return math.inf
    if isinstance(number, numbers.Rational):  # NumPy's integers would overflow
        exact = Fraction(int(number.numerator), int(number.denominator))
    else:
        exact = Fraction(*number.as_integer_ratio())
    if exact > _LARGEST:
        raise ValueError(
            f"{name} must be infinite or at most {sys.float_info.max:g}, got a larger number"
        )
    return exact


def rounded_up(exact: Fraction | float) -> float:
    """Return the least float at or above a fraction >= 0; infinity beyond the largest.

    >>> rounded_up(Fraction(1, 10)) == 0.1, rounded_up(Fraction(1, 10**400))
    (True, 5e-324)
    """
    if isinstance(exact, float):
        return exact
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < exact else nearest


def rounded_down(exact: Fraction | float) -> float:
    """The largest float at or below a fraction >= 0.

    >>> (
    ...     rounded_down(Fraction(1, 10)) < 0.1,
    ...     rounded_down(Fraction(10**400)) == sys.float_info.max,
    ... )
    (True, True)
    """
    if isinstance(exact, float):
        return exact
    nearest = float(min(exact, _LARGEST))
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def add_up(epsilons: Iterable[float], times: int = 1) -> float:
    """Return the least float that is not below the exact sum of epsilons, ``times`` over.

    >>> add_up([0.1] * 3) > 0.3, add_up([0.5], times=3), add_up([0.1, 0.9])
    (True, 1.5, 1.0000000000000002)
    """
    many = whole(1, times=times)
    total = Fraction(0)
    for exact in [exactly("epsilon", epsilon) for epsilon in epsilons]:
        if isinstance(exact, float):
            return math.inf
        total += exact
    return rounded_up(many * total)


def share(epsilon: float, parts: int) -> float:
    """Divide a budget: return the largest float of which ``parts`` are at most epsilon.

    >>> share(1.0, 20) < 0.05, add_up([share(1.0, 20)], times=20)
    (True, 1.0)
    """
    exact = exactly("epsilon", epsilon)
    return exact if isinstance(exact, float) else rounded_down(exact / whole(1, parts=parts))


def exponential(power: Fraction | float) -> Fraction:
    """e^power to 60 digits.

    >>> exponential(0.0), 2.718281828 < exponential(1.0) < 2.718281829
    (Fraction(1, 1), True)
    """
    if isinstance(power, float):
        return Fraction(_CONTEXT.exp(decimal.Decimal(power)))
    numerator, denominator = (decimal.Decimal(part) for part in power.as_integer_ratio())
    return Fraction(_CONTEXT.exp(_CONTEXT.divide(numerator, denominator)))


def log_up(ratio: Fraction) -> float:
    """The logarithm of a ratio >= 1, rounded up: a privacy loss that is printed must hold."""
    if ratio == 1:
        return 0.0
    exact = _CONTEXT.ln(
        _CONTEXT.divide(decimal.Decimal(ratio.numerator), decimal.Decimal(ratio.denominator))
    )
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if decimal.Decimal(nearest) < exact else nearest


def digits_up(value: float) -> str:
    """Six significant digits, rounded up: what is printed must hold, to 1e-12 of it.

    >>> (
    ...     digits_up(0.1),
    ...     digits_up(1.00000149),
    ...     digits_up(3 * (1.1 / 3)),
    ...     digits_up(1e-320),
    ... )
    ('0.1', '1.00001', '1.1', '9.99989e-321')
    """
    return _digits(value, decimal.ROUND_CEILING)


def digits_down(value: float) -> str:
    """Six significant digits, rounded down: what is said to remain must be there, to 1e-12 of it.

    >>> digits_down(0.1), digits_down(1.99999999), digits_down(math.inf)
    ('0.1', '1.99999', 'inf')
    """
    return _digits(value, decimal.ROUND_FLOOR)


def _digits(value: float, rounding: str) -> str:
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exact = decimal.Decimal(value)
    shown = decimal.Context(prec=6).plus(exact)
    if abs(Fraction(shown) - Fraction(exact)) > _TOLERANCE * Fraction(exact):
        shown = decimal.Context(prec=6, rounding=rounding).plus(exact)
    shown = shown.normalize()
    power = shown.adjusted()
    if -5 < power < 6:
        return f"{shown:f}"
    return f"{shown.scaleb(-power):f}e{power:+03d}"
