"""Square wave and piecewise on a grid: the same two levels, in whole numbers."""

import math

import numpy as np

from ldp_jax.core import integer_tables, validate
from ldp_jax.core.types import Scalar
from ldp_jax.features.discrete import Discrete
from ldp_jax.features.piecewise import GeneralPiecewise, OptimalPiecewise
from ldp_jax.features.square_wave import SquareWave

INPUTS = 129
"""Points of the default grid on [-1, 1]: rounding to it adds a variance of at most 6e-5."""


def _window(epsilon: float, inputs: int, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """The law of each input, and the positions of the outputs.

    Row i of n has its window at outputs i, ..., i + 2 reach of n + 2 reach: these places have
    e^epsilon times the mass of the others. All rows have the same two masses, so the mean position
    is exactly linear in i.
    """
    outputs = inputs + 2 * reach
    offset = np.arange(outputs) - np.arange(inputs)[:, None]
    inside = (offset >= 0) & (offset <= 2 * reach)
    law = np.where(inside, 1.0, math.exp(-epsilon))

    middle = (outputs - 1) / 2
    spacing = 2 / (inputs - 1)
    places = (np.arange(outputs) - middle) * spacing
    return law / law.sum(1, keepdims=True), places


def _unbiased(law: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Places whose mean at record -1 is -1; it is linear in the record."""
    return places / -(law[0] @ places)


def _made(name: str, epsilon: float, inputs: int, reach: int, unbiased: bool) -> Discrete:
    law, places = _window(epsilon, inputs, reach)
    masses = integer_tables.integer_masses(law, epsilon)
    if unbiased:
        law = masses / integer_tables.WORDS
        rule = f"epsilon is too small: at {epsilon:g} all records have the same masses of 2^-32"
        validate.require(law[0] @ places < 0, rule)
        places = _unbiased(law, places)
    return Discrete.of(integer_tables.Table(name, masses, places.astype(np.float32), "grid"))


def worst_variance(law: np.ndarray, places: np.ndarray, parts: int) -> float:
    """The largest variance over records on the grid, and between: ``parts`` a segment."""
    last = len(law) - 1
    at = np.linspace(0, last, parts * last + 1)
    x = 2 * at / last - 1
    second_moment = np.interp(at, np.arange(last + 1), law @ places**2)
    return float((second_moment - x**2).max())


def GridSquareWave(epsilon: Scalar, inputs: int = INPUTS, *, debias: bool = False) -> Discrete:
    """The square wave on a grid, exact in integers: the form for deployed clients.

    Law: records are rounded at random to ``inputs`` (2 to 512) points on [-1, 1] of spacing h.
    Outputs reach round(b / h - 1/2) places beyond; those within that reach of the point have
    e^epsilon times the mass of others.
    Guarantee: at most epsilon, in (0, 20], exact in integers (:class:`Discrete`).
    Utility: the estimate is the output's position, biased towards 0; ``debias`` divides it by the
    contraction.
    Reference: Li et al., SIGMOD 2020.

    >>> m = GridSquareWave(1.0)
    >>> m.guarantee().epsilon <= 1.0, round(float(m.mean(0.5)), 3)
    (True, 0.183)
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    validate.integer_in(2, integer_tables.MAX_INPUTS, inputs=inputs)
    half_width = float(SquareWave(epsilon).b) * (inputs - 1) / 2
    reach = max(0, round(half_width - 0.5))  # 2 reach + 1 places are 2b wide
    return _made("GridSquareWave", epsilon, inputs, reach, debias)


def GridPiecewise(epsilon: Scalar, inputs: int = INPUTS, *, t: float | None = None) -> Discrete:
    """The piecewise mechanism on a grid, exact in integers: the form for deployed clients.

    Law: that of :func:`GridSquareWave` with a window of 2r + 1 places, r = round(1 / (t h) - 1/2);
    without t, the r of least worst-case variance next to :func:`OptimalPiecewise`'s.
    Guarantee: at most epsilon, in (0, 20], exact in integers (:class:`Discrete`).
    Utility: unbiased to 1e-6; variance at most h^2 / 4 above :class:`GeneralPiecewise`'s at t = 2 /
    ((2r + 1) h).
    Reference: Wang et al., ICDE 2019; Zhao et al., IoT-J 2021.

    >>> round(float(GridPiecewise(1.0).variance(1.0)), 2)
    5.07
    """
    epsilon = integer_tables.checked_epsilon(epsilon)
    validate.integer_in(2, integer_tables.MAX_INPUTS, inputs=inputs)
    made = OptimalPiecewise(epsilon) if t is None else GeneralPiecewise(epsilon, t)
    half_width = (inputs - 1) / (2 * float(made.t))
    reach = min(max(0, round(half_width - 0.5)), 4 * inputs)
    if t is None:
        errors = {}  # on the grid and half-way between
        for near in range(max(0, reach - 1), reach + 2):
            law, places = _window(epsilon, inputs, near)
            errors[near] = worst_variance(law, _unbiased(law, places), 2)
        reach = min(errors, key=errors.__getitem__)
    return _made("GridPiecewise", epsilon, inputs, reach, True)
