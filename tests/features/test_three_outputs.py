"""The three-outputs mechanism's own corners: where 0 is never reported, and where 1 - a is tiny."""

import math

import jax
import numpy as np
import pytest

from ldp_jax.features import Duchi, ThreeOutputs

ENDS = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
WORDS = np.stack([np.repeat(ENDS, len(ENDS)), np.tile(ENDS, len(ENDS))])
RECORDS = np.float32([-1.0, -0.5, 0.0, 1e-7, 0.3, 1.0])

# One program each for all budgets.
reports_of_words = jax.jit(jax.vmap(lambda m, word, x: m.from_word64(word, x), in_axes=(None, None, 0)))
log_densities = jax.jit(lambda m, y, x: m.log_density(y, x))
slopes = jax.jit(jax.vmap(jax.grad(lambda e, x: ThreeOutputs(e).log_density(1.0, x)), in_axes=(None, 0)))


@pytest.mark.parametrize("epsilon", [1e-6, 0.5, math.log(2.0) - 1e-6])
def test_nothing_is_never_reported_up_to_log_2(epsilon):
    """a = 0 there: no word gives a 0, its density is 0 and not NaN, and the law is Duchi's."""
    m, duchi = ThreeOutputs(epsilon), Duchi(epsilon)
    assert m.a == 0.0
    reports = [np.asarray(reports_of_words(one, WORDS, RECORDS)) for one in (m, duchi)]
    np.testing.assert_array_equal(*reports)
    assert all(set(row.tolist()) == {-1.0, 1.0} for row in reports[0])
    assert (np.asarray(log_densities(m, 0.0, RECORDS)) == -np.inf).all()
    assert np.isfinite(slopes(epsilon, RECORDS)).all()
    one = log_densities(m, 1.0, RECORDS)
    np.testing.assert_allclose(one, log_densities(duchi, 1.0, RECORDS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 1.715, 1.73, 30.0])
def test_the_rest_of_a_is_precise(epsilon):
    """float32 against float64, 1e-6 of 1 - a: in float32 alone 1 - a is 0 from epsilon 18 on."""
    a, rest = (float(v) for v in ThreeOutputs(epsilon)._chances())
    with jax.enable_x64(True):
        exact, exact_rest = (float(v) for v in ThreeOutputs(np.array([epsilon], np.float64)[0])._chances())
    assert a == pytest.approx(exact, rel=1e-6)
    assert rest == pytest.approx(exact_rest, rel=2e-6)
    if epsilon > 1.72:
        assert rest == pytest.approx(2 / (math.exp(epsilon) + 2), rel=1e-6)
