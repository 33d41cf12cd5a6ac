"""Rules of numbers that other rooms build on, by fractions and loops: rounding, quadrature, long
sums, owners, channels and whole noise.
"""

import itertools
import math
import sys
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core import quadrature, rounding, whole_noise
from ldp_jax.core.label_channel import log_reported, other_share
from ldp_jax.core.ownership import ownership


def test_sums_are_rounded_up_and_shares_down_by_less_than_one_step():
    rng = np.random.default_rng(0)
    for times in (1, 2, 7):
        for epsilons in rng.exponential(size=(30, 4)).tolist():
            exact = times * sum(map(Fraction, epsilons))
            found = rounding.add_up(epsilons, times)
            assert math.nextafter(found, 0) < exact <= found
            part = rounding.share(found, times + 2)
            assert part <= Fraction(found) / (times + 2) < math.nextafter(part, math.inf)
    assert rounding.add_up([0.25, math.inf]) == rounding.share(math.inf, 3) == math.inf
    assert rounding.add_up([0.25, 0.5], 3) == 2.25
    assert rounding.share(1.5, 2) == 0.75
    assert rounding.rounded_up(Fraction(10) ** 400) == math.inf
    assert rounding.rounded_down(Fraction(10) ** 400) == sys.float_info.max
    assert rounding.exactly("x", np.int64(7)) == 7
    assert rounding.exactly("x", np.float32(0.1)) == Fraction(float(np.float32(0.1)))
    for wrong, why in ((True, "a number"), ("1", "a number"), (-1.0, ">= 0"), (10**400, "at most")):
        with pytest.raises(ValueError, match=why):
            rounding.exactly("x", wrong)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_rules_integrate_polynomials_of_their_degree_and_no_more(order):
    edges = [-1.0, 0.5, 3.0]
    np.testing.assert_allclose(
        quadrature.subdivide(edges, 3), [-1, -0.5, 0, 0.5, 0.5 + 2.5 / 3, 0.5 + 5 / 3, 3]
    )
    points, weights = quadrature.panel_rule(edges, order, panels=2)
    assert points.shape == (2 * 2 * order,)
    one, of_one = quadrature.unit_rule(order)
    for power in range(2 * order):
        exact = (3.0 ** (power + 1) - (-1.0) ** (power + 1)) / (power + 1)
        assert weights @ points**power == pytest.approx(exact, rel=1e-12)
        assert of_one @ one**power == pytest.approx(1 / (power + 1), rel=1e-12)
    assert abs(of_one @ one ** (2 * order) - 1 / (2 * order + 1)) > 1e-7
    assert not one.flags.writeable
    assert not of_one.flags.writeable


def test_one_of_two_owns_a_pair_and_nobody_that_of_two_who_are_silent():
    rng = np.random.default_rng(0)
    confidence = rng.integers(0, 3, 9) / 4
    silent = rng.random(9) < 0.4
    public = ownership(confidence, silent)
    pairs = np.array(list(itertools.product(range(9), repeat=2)))
    mine = []
    for one, other in pairs.tolist():
        by_parity = (other > one) == ((one + other) % 2 == 0)
        first = (confidence[one], not by_parity) < (confidence[other], by_parity)
        mine.append(one != other and not silent[one] and bool(silent[other] or first))
    assert public.owns(*pairs.T).tolist() == mine
    found = public.owned(int(np.flatnonzero(~silent)[0]), [8, 3, 9, -1, 3, 5])
    assert set(found.tolist()) <= {3, 5, 8}
    for user, wrong in ((9, "must"), (-1, "must")):
        with pytest.raises(ValueError, match=wrong):
            public.owned(user, [1])


def test_a_reported_class_is_the_true_one_or_another_alike():
    p = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    keep = np.array([0.6, 1.0])
    other = (1 - keep) / 2
    np.testing.assert_allclose([other_share(k, 3) for k in keep], other)
    expected = keep[:, None] * p + other[:, None] * (1 - p)
    found = np.exp(log_reported(jnp.log(jnp.asarray(p)), jnp.asarray(keep)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("epsilon", "most"), [(0.7, 1), (2.0, 5)])
def test_whole_noise_is_the_law_of_its_words(epsilon, most):
    """Its loss is the largest ratio of two neighbouring counts' reports, by fractions."""
    noise = whole_noise.whole_noise(epsilon, most)
    assert (sum(noise.masses), noise.reach) == (2**96, most + noise.margin)
    half = {0: Fraction(noise.masses[0], 2**96)}
    for k, mass in enumerate(noise.masses[1:], 1):
        half[k] = half[-k] = Fraction(mass, 2**97)
    law = [half[k] for k in range(-noise.reach, noise.reach + 1)]
    np.testing.assert_allclose(whole_noise.law(noise), np.array(law, float), rtol=1e-15)
    a = math.exp(-epsilon)
    assert float(half[0]) == pytest.approx((1 - a) / (1 + a), rel=1e-9)

    def reports(count):
        found = dict.fromkeys(range(-noise.margin, most + noise.margin + 1), Fraction(0))
        for z, share in half.items():
            found[min(max(count + z, -noise.margin), most + noise.margin)] += share
        return found

    laws = list(map(reports, range(most + 1)))
    assert noise.ratio == noise.ratio_over(1)
    for steps in range(1, most + 2):  # of counts that are no more than so far apart
        assert noise.ratio_over(steps) == max(
            max(one[y] / other[y], other[y] / one[y])
            for low, one in enumerate(laws)
            for other in laws[low + 1 : low + steps + 1]
            for y in one
        )
    assert epsilon - 1e-9 < noise.loss <= epsilon
    inside, beyond = (np.exp(part) for part in noise.log_masses)
    one_side = [float(half[0])] + [float(half[k]) for k in range(1, noise.reach + 1)]
    np.testing.assert_allclose(inside, one_side, rtol=1e-12)
    np.testing.assert_allclose(beyond, np.cumsum(one_side[::-1])[::-1], rtol=1e-12)
    for k, total in ((0, 0), (1, noise.masses[0]), (2, sum(noise.masses[:2]))):
        for sign, number in ((0, total), (1, total), (0, total + noise.masses[k] - 1)):
            words = [[sign], *([number >> shift & (2**32 - 1)] for shift in (64, 32, 0))]
            found = noise.report(np.array(words, np.uint32), [most + 3])
            assert found.tolist() == [most - k if sign else most + k]
    steps = sum(total < (2**32 - 1) << 64 for total in noise.cumulative)
    assert noise.near == steps.bit_length()
    assert noise.thresholds.shape == (3, 2 ** (len(noise.masses) - 1).bit_length() - 1)
