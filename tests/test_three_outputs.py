"""The three-outputs mechanism's own corners: where 0 is never reported, and where 1 - a is tiny."""

import math

import jax
import numpy as np
import pytest

from ldp_jax.features import Duchi, ThreeOutputs

ENDS = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
WORDS = np.stack([np.repeat(ENDS, len(ENDS)), np.tile(ENDS, len(ENDS))])
RECORDS = np.float32([-1.0, -0.5, 0.0, 1e-7, 0.3, 1.0])


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 0.5, 0.69, math.log(2.0) - 1e-6])
def test_nothing_is_never_reported_up_to_log_2(epsilon):
    """a = 0 there: no word gives a 0, its density is 0 and not NaN, and the law is Duchi's."""
    m = ThreeOutputs(epsilon)
    assert m.a == 0.0
    for x in RECORDS:
        y = np.asarray(m.from_word64(WORDS, x))
        assert set(y.tolist()) == {-1.0, 1.0}
        np.testing.assert_array_equal(y, Duchi(epsilon).from_word64(WORDS, x))
        assert m.log_density(0.0, x) == -np.inf
        assert np.isfinite(jax.grad(lambda e, x=x: ThreeOutputs(e).log_density(1.0, x))(epsilon))
        np.testing.assert_allclose(m.log_density(1.0, x), Duchi(epsilon).log_density(1.0, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1.0, 1.715, 1.73, 5.0, 17.0, 30.0])
def test_the_rest_of_a_is_precise(epsilon):
    """float32 against float64, 1e-6 of 1 - a: in float32 alone 1 - a is 0 from epsilon 18 on."""
    a, rest = (float(v) for v in ThreeOutputs(epsilon)._chances())
    with jax.enable_x64(True):
        exact, exact_rest = (float(v) for v in ThreeOutputs(np.array([epsilon], np.float64)[0])._chances())
    assert a == pytest.approx(exact, rel=1e-6)
    assert rest == pytest.approx(exact_rest, rel=2e-6)
    if epsilon > 1.72:
        assert rest == pytest.approx(2 / (math.exp(epsilon) + 2), rel=1e-6)
