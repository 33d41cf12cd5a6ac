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


def _two_level(
    name: str, epsilon: float, inputs: int, reach: int, spacing: float, unbiased: bool
) -> Discrete:
    r"""Outputs within ``reach`` places of the record's place have e^epsilon times the mass of the others."""
    # Row i of n has its window at outputs i, ..., i + 2 reach of n + 2 reach: all rows have the
    # same two masses, and the mean position is (2r + 1)(E - 1) / ((2r + 1) E + n - 1) times the
    # window's centre, exactly linear.
    outputs, window = inputs + 2 * reach, 2 * reach + 1
    offset = np.arange(outputs) - np.arange(inputs)[:, None]
    law = np.where((offset >= 0) & (offset < window), 1.0, math.exp(-epsilon))
    masses = integer_tables.integer_masses(law / law.sum(1, keepdims=True), epsilon)
    places = (np.arange(outputs) - (outputs - 1) / 2) * spacing
    if unbiased:
        first = (masses[0].astype(np.float64) @ places) / integer_tables.WORDS
        places = places / -first  # the mean at record -1 becomes -1; it is linear in the record
    return Discrete.of(integer_tables.Table(name, masses, places.astype(np.float32), "grid"))


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
    spacing = 2 / (inputs - 1)
    reach = max(
        0, round(float(SquareWave(epsilon).b) / spacing - 0.5)
    )  # 2 reach + 1 places are 2b wide
    return _two_level("GridSquareWave", epsilon, inputs, reach, spacing, debias)


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
    spacing = 2 / (inputs - 1)
    nearest = max(0, round(1 / (float(made.t) * spacing) - 0.5))
    near = [nearest] if t is not None else [r for r in range(nearest - 1, nearest + 2) if r >= 0]
    reach = min(near, key=lambda r: _worst_variance(epsilon, inputs, r))
    return _two_level("GridPiecewise", epsilon, inputs, min(reach, 4 * inputs), spacing, True)


def _worst_variance(epsilon: float, inputs: int, reach: int) -> float:
    """The worst variance of the unbiased estimate over records on and between grid points."""
    window = 2 * reach + 1
    h = 2 / (inputs - 1)
    low = math.exp(-epsilon)
    mass = window + (inputs - 1) * low
    gain = mass / (window * (1 - low))  # one over the contraction
    places = h * (np.arange(inputs + 2 * reach) - (inputs + 2 * reach - 1) / 2)
    near = h * (np.arange(window) - reach)
    x = np.linspace(-1.0, 1.0, inputs)
    second = (
        ((1 - low) * (window * x**2 + (near**2).sum()) + low * (places**2).sum()) * gain**2 / mass
    )
    middle = (x[1:] + x[:-1]) / 2
    return float(max((second - x**2).max(), ((second[1:] + second[:-1]) / 2 - middle**2).max()))
