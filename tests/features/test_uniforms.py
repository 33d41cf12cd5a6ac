"""Reports from uniforms: inverse distribution functions, whose slope is one over the density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.spaces import Interval
from ldp_jax.features import Laplace, Piecewise, SquareWave
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
UNIFORMS = (np.arange(400) + 0.5) / 400


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
