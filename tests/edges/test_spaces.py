"""Spaces of reports on neighbour lists: what is asked of them is in them."""

import numpy as np
import pytest

from ldp_jax.edges.spaces import CountReports


@pytest.mark.parametrize("span", [(0, 1), (-1, 3), (-6, 9), (-40, 40)])
@pytest.mark.parametrize("most", [0, 1, 4, 9])
def test_critical_counts_are_those_near_possible_ones_and_both_ends(span, most):
    """Of all members, one by one: within 2 of a true count, or within 1 of an end."""
    low, high = span
    due = [
        count
        for count in range(low, high + 1)
        if -2 <= count <= most + 2 or min(count - low, high - count) <= 1
    ]
    space = CountReports(3, span)
    found = space.critical_numbers(most)
    np.testing.assert_array_equal(found, np.repeat(np.array(due)[:, None], 3, 1))
    assert space.contains(found).all()


def test_critical_counts_of_real_numbers_are_between_whole_ones_too_and_far_away():
    found = CountReports(2).critical_numbers(1)
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    near = found[np.abs(found[:, 0]) < 10, 0]
    np.testing.assert_array_equal(near, [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0])
    far = np.setdiff1d(found[:, 0], near)
    assert far.min() < -1e3
    assert far.max() > 1e3
    assert CountReports(2).contains(found).all()
