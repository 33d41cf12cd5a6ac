"""Whether coordinates are independent: the statistics of all pairs, against loops."""

import itertools

import numpy as np

from ldp_jax.verification.places import _pair_means


def test_means_of_pairs_are_those_of_a_loop_over_reports_that_hold_both():
    """Characters of the sum and of the difference of places, and the product of sides."""
    rng = np.random.default_rng(0)
    place = rng.random((60, 5)).astype(np.float32)
    place[rng.random(place.shape) < 0.3] = np.nan
    place[:, 3] = np.nan
    sums = []
    differences = []
    sides = []
    counts = []
    for one, other in itertools.combinations(range(5), 2):
        both = [row for row in place[:, [one, other]].astype(float) if not np.isnan(row).any()]
        count = max(len(both), 1)
        counts.append(count)
        sums.append(abs(sum(np.exp(2j * np.pi * (a + b)) for a, b in both)) / count)
        differences.append(abs(sum(np.exp(2j * np.pi * (a - b)) for a, b in both)) / count)
        sides.append(abs(sum(np.sign(a - 0.5) * np.sign(b - 0.5) for a, b in both)) / count)
    means, asked = _pair_means(place)
    np.testing.assert_allclose(means, [*sums, *differences, *sides], atol=1e-6)
    np.testing.assert_array_equal(asked, counts * 3)
