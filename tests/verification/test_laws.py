"""Where laws are asked: the reports at which a loss may be largest, and those far out."""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.spaces import Disc, Finite, Interval, Mixture, Sphere, Turned, Vectors
from ldp_jax.verification._laws import law_of
from ldp_jax.verification.statistics import g_test

BREAKS = Interval(-1.0, 2.0, lambda x: jnp.stack([x - 0.25, x + 0.25]))
ENDLESS = Interval(-math.inf, 2.0)


@pytest.mark.parametrize("space", [BREAKS, ENDLESS])
def test_a_line_is_asked_on_both_sides_of_each_break_at_its_ends_and_between(space):
    """Also of records whose breaks lie beyond an end."""
    records = np.array([-0.9, 0.3, 1.9])
    with float64_on_cpu():
        found = np.sort(np.asarray(law_of(space).critical_reports(records), np.float64))
    places = np.sort(np.append(records - 0.25, records + 0.25)) if space.breaks else records
    inside = places[(places > -1.0) & (places < 2.0)]
    ends = [-1.0, 2.0] if space.breaks else [2.0]
    for place in [*inside, *ends]:
        assert np.abs(found - place).min() < 1e-7
    for place in inside:
        assert ((found < place) & (found > place - 1e-6)).any()
        assert ((found > place) & (found < place + 1e-6)).any()
    if not space.breaks:
        assert found[0] < -1.0  # well beyond the lowest record
    cuts = np.unique(np.concatenate([inside, ends, found[:1]]))
    for low, high in zip(cuts[:-1], cuts[1:], strict=True):
        width = high - low
        assert ((found > low + 0.1 * width) & (found < high - 0.1 * width)).any(), (low, high)
    assert space.contains(found.astype(np.float32), rounding=1).all()


@pytest.mark.parametrize("ends", [(-1.0, 2.0), (-1.0, math.inf), (-math.inf, 2.0)])
def test_panels_of_a_line_double_towards_an_infinite_end_until_nothing_is_left(ends):
    """From a point beyond all breaks, until a density has fallen by e^-50."""
    beyond = 1.0 + 2 * 0.7
    starts = [
        sign * beyond if math.isinf(end) else end for sign, end in zip((-1, 1), ends, strict=True)
    ]
    steps = np.array([1.0, 3.0, 7.0, 15.0, 31.0])
    tails = [
        start + sign * steps
        for sign, end, start in zip((-1, 1), ends, starts, strict=True)
        if math.isinf(end)
    ]
    law = law_of(Interval(*ends, lambda x: jnp.stack([x - 0.2, x + 0.2])))
    found = law._edges(np.array([0.5, -0.5]), lambda y: -2.0 * np.abs(y))
    due = np.unique(np.concatenate([starts, [-0.7, -0.3, 0.3, 0.7], *tails]))
    np.testing.assert_allclose(found, due, rtol=1e-6)


def test_parts_are_asked_where_each_is():
    branch, value = law_of(Mixture((Finite((0.0, 9.0)), ENDLESS))).critical_reports(np.array([0.5]))
    assert value[branch == 0].tolist() == [0.0, 9.0]
    alone = law_of(ENDLESS).critical_reports(np.array([0.5]))
    np.testing.assert_array_equal(value[branch == 1], alone)


def turned(rng, dim, cut, of_sphere):
    """Points of a sphere or of Gaussian noise, twice as likely beyond the cut, and their law."""
    towards = np.arange(1.0, dim + 1)
    towards /= np.linalg.norm(towards)
    y = rng.normal(size=(200_000, dim))
    if of_sphere:
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        area = 2 * math.pi ** (dim / 2) / math.gamma(dim / 2)
        beyond = {2: math.acos(cut) / math.pi, 3: (1 - cut) / 2}[dim]
    else:
        area = (2 * math.pi) ** (dim / 2)
        beyond = stats.norm.sf(cut)
    drawn = y[rng.random(len(y)) < np.where(y @ towards > cut, 1.0, 0.5)]

    def density(y):
        bell = 1.0 if of_sphere else np.exp(-(y**2).sum(-1) / 2)
        return bell * np.where(y @ towards > cut, 2.0, 1.0) / (area * (1 + beyond))

    return 0.7 * towards, density, drawn


def on_a_disc(rng):
    """Points of a disc of radius 3, more of them to the right."""
    y = rng.uniform(-3, 3, (200_000, 2))
    inside = np.linalg.norm(y, axis=1) < 3
    drawn = y[inside & (12 * rng.random(len(y)) < 6 + y[:, 0])]
    return np.array([0.3, -1.1]), lambda y: (1 + y[..., 0] / 6) / (9 * math.pi), drawn


def two_numbers(rng):
    """One with Gaussian noise, and one with Laplace noise."""
    x = np.array([2.0, -0.5])
    noise = np.stack([rng.normal(0, 3, 100_000), rng.laplace(0, 0.1, 100_000)], 1)
    law = lambda y: stats.norm.pdf(y[:, 0], 2.0, 3.0) * stats.laplace.pdf(y[:, 1], -0.5, 0.1)
    return x, law, x + noise


# Each with a law that is written here, and how many cells it has.
INTEGRATED = {
    "a disc": (Disc(3.0), on_a_disc, 64),
    "two numbers": (Vectors(2), two_numbers, 16),
    "a circle": (Sphere(2, 0.3), partial(turned, dim=2, cut=0.3, of_sphere=True), 24),
    "a sphere": (Sphere(3, 0.3), partial(turned, dim=3, cut=0.3, of_sphere=True), 48),
    "turned in a plane": (Turned(2, 0.5), partial(turned, dim=2, cut=0.5, of_sphere=False), 120),
    "turned in space": (Turned(3, 0.5), partial(turned, dim=3, cut=0.5, of_sphere=False), 240),
}


@pytest.mark.parametrize("name", INTEGRATED)
def test_laws_of_vectors_are_integrated_and_cut_into_cells(name):
    """By 80 000 points and more: a total variation of 0.025 in the cells is seen."""
    space, make, cells = INTEGRATED[name]
    x, density, drawn = make(np.random.default_rng(0))
    log_density = lambda y: np.log(density(np.asarray(y)))
    with float64_on_cpu(), np.errstate(divide="ignore"):
        y, weights = law_of(space).quadrature(x[None], log_density)
        mass, cell = law_of(space).cells(x, log_density)
        place = cell(drawn)
    each = weights * density(np.asarray(y))
    assert each.sum() == pytest.approx(1.0, rel=1e-6)
    error = drawn.std(0) / np.sqrt(len(drawn))
    assert (np.abs(each @ y - drawn.mean(0)) < 5 * error).all()
    assert mass.sum() == pytest.approx(1.0, rel=1e-4)
    assert len(mass) == cells
    fit = g_test(np.bincount(place, minlength=len(mass)), mass)
    assert fit.fits, fit
    assert fit.smallest_defect < 0.025


@pytest.mark.parametrize("differing", [(0,), (2,), (0, 1), ()])
def test_a_rule_between_two_laws_integrates_both(differing):
    """Over the numbers whose laws differ; the others stay where they are likeliest."""
    centre = np.array([0.5, -2.0, 30.0])
    other = centre.copy()
    other[list(differing)] += [14.0, -4.0, 20.0][: len(differing)]
    scales = np.array([1.0, 0.3, 2.0])
    logs = [
        lambda y, x=x: stats.norm.logpdf(np.asarray(y), x, scales).sum(1) for x in (centre, other)
    ]
    for one, two in (logs, logs[::-1]):
        y, weights = law_of(Vectors(3)).between(one, two)
        for log in logs if differing else ():
            assert weights @ np.exp(log(y)) == pytest.approx(1.0, rel=1e-3)
        moved = np.flatnonzero(np.ptp(y, axis=0))
        assert tuple(moved) == differing
        rest = np.setdiff1d(np.arange(3), moved)
        np.testing.assert_allclose(y[0, rest], centre[rest], atol=1e-6)


def test_vectors_are_asked_at_records_between_them_and_beyond():
    records = np.array([[1.0, 0.0], [0.0, -2.0]])
    found = set(map(tuple, law_of(Vectors(2)).critical_reports(records).tolist()))
    between = {(0.5, -1.0)}
    assert found == between | {
        (size * one, size * other) for one, other in records.tolist() for size in (1, 3, 10)
    }
    disc = np.asarray(law_of(Disc(3.0)).critical_reports(records))
    for place in [*records, (0.5, -1.0)]:
        assert np.abs(disc - place).max(1).min() < 1e-9
    assert Disc(3.0).contains(disc.astype(np.float32), rounding=1).all()


def test_round_laws_are_asked_along_and_against_each_record_on_both_sides_of_the_cut():
    records = np.array([[0.0, 2.0], [3.0, 4.0]])
    found = np.asarray(law_of(Turned(2, 0.5)).critical_reports(records))
    for direction in ([0.0, 1.0], [0.6, 0.8]):
        along = found @ direction
        straight = np.abs(np.abs(along) - np.linalg.norm(found, axis=1)) < 1e-9
        for side in (-1.0, 1.0):
            sizes = side * along[straight]
            assert ((sizes > 0) & (sizes < 0.5)).any()
            assert ((sizes > 0.5) & (sizes < 0.51)).any()
            assert (sizes > 1).any()
