"""The hyperboloid against float64, against the ball, and by identities."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_jax.hyperbolic import lorentz, poincare
from tests.hyperbolic import reference as ref
from tests.hyperbolic.reference import CURVATURES, SEEDS, several

COMPILED = {name: jax.jit(getattr(lorentz, name)) for name in lorentz.__all__ if name != "origin"}
BALL = {name: jax.jit(getattr(poincare, name)) for name in ("log_map", "exp_map", "parallel_transport")}
PUSH = jax.jit(lambda x, v, c: jax.jvp(lambda x: lorentz.from_ball(x, c), (x,), (v,))[1])


def call(name, *args):
    return np.asarray(COMPILED[name](*args))


@given(SEEDS, CURVATURES, st.sampled_from([1e-2, 1.0, 6.0]))
def test_the_two_charts_agree(seed, c, reach):
    x, y, a = several(seed, c, reach, 3)
    X, Y = call("from_ball", x, c), call("from_ball", y, c)
    wanted = ref.lift(x, c)
    np.testing.assert_allclose(X, wanted, rtol=1e-6, atol=1e-7 / np.sqrt(c))
    slack = ref.rounding(x, c) + ref.rounding(y, c)
    assert (ref.close_distance(call("to_ball", X, c), x, c) <= slack).all()
    d = ref.close_distance(x, y, c)
    # What rounding of the coordinates moves a point by, not less where both are the same.
    assert (np.abs(call("distance", X, Y, c) - d) <= 1e-6 * d + np.minimum(slack, 1e-5 * d + slack)).all()
    np.testing.assert_allclose(call("norm", X, c), ref.norm(x, c), rtol=1e-6)
    np.testing.assert_allclose(
        call("inner", X, Y), -np.cosh(np.sqrt(c) * d) / c, rtol=1e-5, atol=1e-6 * X[:, 0].max() * Y[:, 0].max()
    )
    if reach < 6:
        # Tangent vectors: the chart's derivative takes those of the ball to those of the hyperboloid.
        V = np.asarray(PUSH(x, BALL["log_map"](x, y, c), c))
        np.testing.assert_allclose(call("log_map", X, Y, c), V, atol=2e-5 * np.abs(V).max())
        v = (a * np.float32(0.3)).astype(np.float32)
        end = np.asarray(BALL["exp_map"](x, v, c))
        found = call("to_ball", call("exp_map", X, np.asarray(PUSH(x, v, c)), c), c)
        assert (ref.close_distance(found, end, c) <= 10 * ref.rounding(end, c)).all()
        carried = np.asarray(PUSH(y, BALL["parallel_transport"](x, y, v, c), c))
        found = call("parallel_transport", X, Y, np.asarray(PUSH(x, v, c)), c)
        np.testing.assert_allclose(found, carried, atol=2e-5 * np.abs(carried).max())


def test_far_from_the_origin():
    """Distances to the origin up to 80, where the ball has long ended; points on a ray keep their distance."""
    for c in (0.1, 1.0, 9.0):
        r = np.float32([0.0, 1e-12, 1e-4, 1.0, 15.0, 40.0, 79.0]) / np.float32(np.sqrt(c))
        v = r[:, None] * np.float32([0.6, -0.8])
        X = call("exp_0", v, c)
        np.testing.assert_allclose(call("norm", X, c), r, rtol=1e-6)
        np.testing.assert_allclose(call("log_0", X, c), v, rtol=1e-6)
        origin = np.asarray(lorentz.origin(2, c))
        np.testing.assert_allclose(call("distance", X, origin, c), r, rtol=1e-6)
        further = call("exp_0", v * np.float32(0.9), c)
        np.testing.assert_allclose(call("distance", X, further, c)[:4], 0.1 * r[:4], rtol=2e-6)
        np.testing.assert_allclose(call("exp_map", origin, np.pad(v, ((0, 0), (1, 0))), c)[:6], X[:6], rtol=2e-5)
        np.testing.assert_allclose(call("exp_0", v[-1] * 1e20, c), call("exp_0", v[-1] * 1e10, c), rtol=1e-5)


@pytest.mark.parametrize("name", ["distance", "exp_map", "log_map", "log_0"])
def test_of_finite_gradient_everywhere(name):
    c = 0.5
    at = np.float32([[0, 0], [1e-30, 0], [1e-15, 0], [0.3, 0.4], [20.0, -2.0], [-40.0, 3.0]])
    args = 1 if name == "log_0" else 2
    first, second = (index.reshape(-1) for index in np.meshgrid(*[np.arange(len(at))] * 2))

    def run(a, b):
        X = lorentz.exp_0(a, c)
        other = lorentz._from_origin(X, b, c) if name == "exp_map" else lorentz.exp_0(b, c)
        return getattr(lorentz, name)(*(X, other)[:args], c)

    small = np.minimum(at, 4.0) if name == "exp_map" else at
    weighed = lambda a, b: ((out := run(a, b)) * np.sqrt(np.arange(1, 1 + out.size)).reshape(out.shape)).sum()
    value, slope = jax.jit(jax.vmap(jax.value_and_grad(weighed, (0, 1))))(small[first], small[second])
    assert all(np.isfinite(part).all() for part in jax.tree.leaves((value, slope)))


@pytest.mark.parametrize("name", ["distance", "log_map"])
def test_slopes_at_equal_distances_from_the_origin_are_those_beside_them(name):
    """A choice of the nearer point that its denominator did not follow gave neither's: 0.35 off here."""
    x, y = np.float32([1 / 3, 0.0]), np.float32([0.0, 1 / 3])
    run = lambda scale: getattr(lorentz, name)(lorentz.from_ball(x), lorentz.from_ball(scale * y))
    slope, beside = (np.asarray(jax.jacfwd(run)(scale)) for scale in (1.0, 1.0 + 1e-4))
    np.testing.assert_allclose(slope, beside, atol=1e-3)


def test_the_logarithm_is_the_identity_to_first_order():
    at = np.float32([0.3, -0.4])
    run = lambda v: lorentz._log_at_origin(lorentz.exp_0(at), lorentz._exp_map(lorentz.exp_0(at), v, 1.0), 1.0)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(run))(0 * at), np.eye(2), atol=1e-6)


def test_project_keeps_the_space_like_coordinates():
    found = np.asarray(lorentz.project(np.float32([9.0, 0.5, 0.0])))
    np.testing.assert_allclose(found, [np.sqrt(1.25), 0.5, 0.0], rtol=1e-6)
