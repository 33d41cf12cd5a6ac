"""Reports from uniforms and words: their law is the density, whose moments are the closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.spaces import Interval
from ldp_jax.features import Duchi, Laplace, Piecewise, SquareWave, ThreeOutputs
from ldp_jax.features.piecewise import GeneralPiecewise, OptimalPiecewise

MECHANISMS = [
    Laplace(0.7),
    Piecewise(0.5),
    Piecewise(4.0),
    GeneralPiecewise(1.0, 0.8),
    OptimalPiecewise(2.0),
    SquareWave(0.3),
    SquareWave(3.0, debias=True),
]
RECORDS = np.array([-1.0, -0.4, 0.0, 0.7, 1.0])
BEYOND = np.array([*RECORDS, -3.0, 7.0, np.nan])  # which are taken for -1, 1 and 0
UNIFORMS = (np.arange(400) + 0.5) / 400
NUMERIC = {
    "Laplace": Laplace,
    "Piecewise": Piecewise,
    "GeneralPiecewise": lambda epsilon: GeneralPiecewise(epsilon, 0.8),
    "OptimalPiecewise": OptimalPiecewise,
    "SquareWave": SquareWave,
    "debiased": lambda epsilon: SquareWave(epsilon, debias=True),
}
WORDED = {"Duchi": Duchi, "ThreeOutputs": ThreeOutputs}
DRAWS = 2**14
PLACES = 4001


@jax.jit
def asked_of_all(epsilon):
    """Places of reports, their densities under each record, and what is estimated and drawn."""
    found = {}
    x = jnp.asarray(BEYOND, jnp.float32)
    high = jnp.arange(DRAWS, dtype=jnp.uint32) * np.uint32(2**32 // DRAWS)
    for name, make in (NUMERIC | WORDED).items():
        m = make(epsilon)
        if name in WORDED:
            y = jnp.asarray(m.codomain().values)
            drawn = m.from_word64(jnp.stack([high, high])[..., None], x)
        else:
            drawn = m.from_uniform((jnp.arange(DRAWS)[:, None] + 0.5) / DRAWS, x)
            ends = 24 * m.scale if name == "Laplace" else m.codomain().upper
            y = jnp.linspace(-1.01 * ends, 1.01 * ends, PLACES)  # beyond its ends too
        log_density = m.log_density(y[:, None], x)
        moments = m.mean(x), m.variance(x)
        found[name] = y, log_density, m.estimate(y), m.estimate(drawn), *moments
    return found


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 1.7, 1.74, 3.0])
def test_densities_words_and_closed_forms_are_of_one_law(epsilon):
    """All mechanisms on a number in one program; a moment off by a hundredth would be seen."""
    for name, found in asked_of_all(epsilon).items():
        y, log_density, estimate, drawn, mean, variance = map(np.float64, found)
        mass = np.exp(log_density)
        if name in NUMERIC:
            mass *= y[1] - y[0]
            mass[[0, -1]] /= 2
        np.testing.assert_allclose(mass.sum(0), 1.0, rtol=5e-3, err_msg=name)
        mass /= mass.sum(0)
        size = np.sqrt(variance.max())
        at = (estimate[:, None] * mass).sum(0)
        np.testing.assert_allclose(at, mean, atol=5e-3 * size, err_msg=name)
        spread = ((estimate[:, None] - at) ** 2 * mass).sum(0)
        np.testing.assert_allclose(spread, variance, rtol=1e-2, err_msg=name)
        np.testing.assert_allclose(drawn.mean(0), mean, atol=5e-3 * size, err_msg=name)
        np.testing.assert_allclose(drawn.var(0), variance, rtol=1e-2, err_msg=name)
        possible = log_density[np.isfinite(log_density).any(1)]
        loss = (possible.max(1) - possible.min(1)).max()
        for part in (log_density.T, mean, variance):
            np.testing.assert_array_equal(part[[5, 6, 7]], part[[0, 4, 2]], err_msg=name)
        assert loss == pytest.approx(epsilon, rel=1e-4), name
        if name not in (*WORDED, "Laplace"):
            assert np.isneginf(log_density[[0, -1]]).all(), name


@pytest.mark.parametrize("name", list(NUMERIC)[1:])
def test_densities_jump_where_the_codomain_says(name):
    y, log_density = map(np.float64, asked_of_all(1.0)[name][:2])
    space = NUMERIC[name](1.0).codomain()
    step = y[1] - y[0]
    for x, levels in zip(BEYOND, log_density.T, strict=True):
        jumps = y[1:][levels[1:] != levels[:-1]] - step / 2
        cuts = np.array([space.lower, *space.breaks(np.float32(x)), space.upper], np.float64)
        assert np.abs(jumps[:, None] - cuts).min(1).max() < step
        assert np.abs(cuts[:, None] - jumps).min(1).max() < step


@pytest.mark.parametrize("m", MECHANISMS, ids=repr)
def test_the_slope_of_a_report_is_one_over_its_density(m):
    """In float64, at 400 uniforms between which the law has all of its mass."""
    with jax.enable_x64(True):
        m = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), m)
        space = m.codomain()
        assert isinstance(space, Interval)
        for x in RECORDS:
            report = lambda u, x=x: m.from_uniform(u, x)
            y, slope = jax.vmap(jax.value_and_grad(report))(UNIFORMS)
            assert space.contains(np.asarray(y)).all()
            assert (np.diff(y) > 0).all()
            np.testing.assert_allclose(slope * jnp.exp(m.log_density(y, x)), 1.0, rtol=1e-6)
            if np.isfinite(space.upper):
                ends = [report(u) for u in (1e-300, 1.0)]
                np.testing.assert_allclose(ends, [space.lower, space.upper], rtol=1e-9)


def test_words_become_uniforms_that_are_finer_in_both_tails():
    """Of 32 bits: the first and the last of 2^23 cells are divided by the bits that others drop."""
    ends = [0, 1, 5, 510, 511, 512, 1023, 2**31 - 1, 2**31, 2**31 + 512]
    word = np.uint32([*ends, *(2**32 - 1 - np.array(ends))])
    cell, low = np.divmod(word.astype(np.int64), 512)
    far = np.minimum(cell, 2**23 - 1 - cell)  # from the nearer end
    fine = np.where(cell == 0, low, 511 - low)
    size = np.where(far == 0, (fine + 0.5) / 2**32, (far + 0.5) / 2**23)
    below = cell < 2**22
    expected = 0.3 + 2.0 * np.where(below, 1, -1) * np.log(2 * size)
    found = jax.jit(Laplace(1.0).from_word32)(word, np.float32(0.3))
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-6)
