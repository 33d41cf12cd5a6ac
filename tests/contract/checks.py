"""What every mechanism must satisfy, as functions that a correct mechanism passes and a broken twin
fails.

A check takes a mechanism on a number or on a vector (:class:`Sampled`) and reads the rest from its
domain and codomain. Laws are integrated in float64; draws are those of float32, as users make them.
"""

from typing import Any

import jax
import numpy as np

from ldp_jax import verification
from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.spaces import Ball, Box, Enumerated
from ldp_jax.features import Sampled
from ldp_jax.verification._programs import draws, log_grid, report_each
from ldp_jax.verification.empirical import fit_of
from ldp_jax.verification.exact import _closed_forms, integrals, law, moments_of
from ldp_jax.verification.statistics import SIGNIFICANCE

# Exact in float32, so that float64 laws and float32 draws are about the same record.
SCALARS = np.array([-1.0, -0.6, 0.0, 0.3, 1.0], np.float32).astype(np.float64)
SHARES = np.array([0.0, 0.2, 0.5, 0.65, 1.0], np.float32).astype(np.float64)


def numbers(m: Any) -> np.ndarray:
    """Numbers to try, for one coordinate."""
    domain = m.domain()
    if isinstance(domain, Enumerated):
        return np.resize(np.asarray(domain.members(), np.float64), 5)
    return SCALARS if domain.lower == -1.0 else SHARES


def records(m: Any) -> np.ndarray:
    """Records to try: numbers, vectors that mix them, or six of a ball, the ends of a diameter
    among them.
    """
    domain = m.domain()
    if isinstance(domain, Ball):
        inside = domain.sample(np.random.default_rng(0), 2)
        return np.stack([*domain.extremes(), domain.typical(), domain.centre(), *inside])
    values = numbers(m)
    if isinstance(domain, Box):
        return np.stack([np.resize(values[start:], domain.dim) for start in range(len(values))])
    return values


def draw_each(m: Any, keys: Any, x: Any) -> Any:
    """The report of each record by a key of its own, from the one program that verification asks
    for any number.
    """
    return report_each(jax.random.key_data(keys), m, x)


def moments_of_many(m: Any, x: Any) -> Any:
    """Mean and variance of each record, from the program that the quadrature is compared with."""
    found = [_closed_forms(m, np.float32(record)) for record in x]
    return tuple(np.stack([np.asarray(pair[part]) for pair in found]) for part in (0, 1))


def assert_documented(m: Any) -> None:
    for section in ("Guarantee", "Utility", "Numerics", "Reference"):
        assert f"{section}:" in type(m).__doc__, f"{type(m).__name__} has no section {section}"


def assert_proved(g: Any, arithmetic: str = "ideal") -> None:
    """Of a record of one user."""
    assert (g.status, g.arithmetic, str(g.unit)) == ("proved", arithmetic, "record")
    assert g.reason
    assert g.adjacency.startswith("any two")


def assert_fits(fit: Any) -> None:
    assert fit.fits, str(fit)


def assert_in_codomain(codomain: Any, reports: Any) -> None:
    """Finite, and inside up to two float32 roundings of the bound."""
    assert codomain.contains(reports, rounding=2).all()


def check_density_and_moments(m: Any) -> None:
    """The density sums to 1; closed forms in float64 equal quadrature, to 1e-8, and in float32
    themselves.
    """
    for x in records(m):
        for fit in integrals(m, x):
            assert_fits(fit)


def joint_loss(m: Any) -> float:
    """The largest loss of the density of a whole vector between corners, at the points of its
    quadrature.

    :func:`ldp_jax.verification.privacy_loss_supremum` takes such a mechanism for its coordinates;
    here is what the density of the whole says, of every subset and every value.
    """
    with float64_on_cpu():
        corners = m.domain().critical_records()
        logs = log_grid(m, law(m, np.asarray(m.domain().centre(), np.float64))[0], corners)
    assert not np.isnan(logs).any()
    high = logs.max(0)
    low = logs.min(0)
    possible = np.isfinite(high)
    return float((high[possible] - low[possible]).max())


def check_loss(m: Any, x_grid: Any = None, *, tight: bool = True) -> float:
    """Rung 1: the largest privacy loss is the claim: no more (smallest defect: 1e-9 of epsilon),
    not much less.

    Of the joint density of a vector, 1e-6. Returns what
    :func:`ldp_jax.verification.privacy_loss_supremum` found.
    """
    claimed = m.guarantee().epsilon
    records = None if x_grid is None else np.asarray(x_grid, np.float64)
    found = [(verification.privacy_loss_supremum(m, records).epsilon, 1e-9)]
    if isinstance(m, Sampled):
        found.append((joint_loss(m), 1e-6))
    for loss, slack in found:
        assert loss <= claimed * (1 + slack), f"claims epsilon {claimed:.6g}, loses {loss:.6g}"
        if tight:
            assert loss >= 0.99 * claimed, f"claims epsilon {claimed:.6g}, loses only {loss:.6g}"
    return found[0][0]


def check_draws(m: Any, x: Any) -> None:
    """One batch of draws follows the density, and its estimates have the closed forms' moments.

    On a line by KS: the smallest defect is 0.012 in the distribution function. Finite, pairs and
    vectors by G: 0.02 of total variation for the vectors of this suite. Moments are within five
    standard errors.
    """
    x = m.domain().given(x)
    draw_key, pick_key = jax.random.split(jax.random.key(2))
    y = draws(m, draw_key, x, 200_000)
    assert_fits(fit_of(m, pick_key, x, y, SIGNIFICANCE))
    assert_fits(moments_of(m, x, y))
