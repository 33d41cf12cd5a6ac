"""Gauss-Legendre rules, the one place where they are made; float64, NumPy alone."""

import functools
from collections.abc import Sequence

import numpy as np


@functools.cache
def gauss_legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights [order] on [-1, 1], read-only; exact up to degree 2 order - 1."""
    return _fixed(*np.polynomial.legendre.leggauss(order))


def _fixed(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points.flags.writeable = False
    weights.flags.writeable = False
    return points, weights


@functools.cache
def unit_rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights [order] on [0, 1]; read-only.

    >>> points, weights = unit_rule(2)
    >>> round(float(weights @ points**3), 12)
    0.25
    """
    points, weights = gauss_legendre(order)
    return _fixed(points / 2 + 0.5, weights / 2)


def subdivide(edges: Sequence[float] | np.ndarray, panels: int) -> np.ndarray:
    """Edges of ``panels`` equal panels between any two edges that follow each other.

    >>> subdivide([0.0, 1.0, 3.0], 2).tolist()
    [0.0, 0.5, 1.0, 2.0, 3.0]
    """
    edges = np.asarray(edges, np.float64)
    steps = np.diff(edges)[:, None] * np.arange(panels) / panels
    inner = edges[:-1, None] + steps
    return np.append(inner.ravel(), edges[-1])


def panel_rule(
    edges: Sequence[float] | np.ndarray, order: int, panels: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return points and weights [(edges - 1) * panels * order] of a rule on each panel.

    >>> points, weights = panel_rule([0.0, 1.0, 3.0], 8)
    >>> round(float(weights @ np.exp(points)), 12) == round(
    ...     float(np.expm1(3.0)), 12
    ... )
    True
    """
    fine = subdivide(edges, panels)
    points, weights = gauss_legendre(order)
    half = np.diff(fine)[:, None] / 2
    places = fine[:-1, None] + half * (1 + points)
    return places.ravel(), (half * weights).ravel()
