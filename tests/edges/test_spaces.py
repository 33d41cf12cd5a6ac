"""Spaces of reports on neighbour lists: what is asked of them is in them."""

import numpy as np
import pytest

from ldp_jax.edges.spaces import CountReports, LapReports


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


def test_critical_degrees_reach_the_largest_one_and_bits_reach_1():
    """Each degree with each bit, and all bits alike; the two ends are far away."""
    degree, bit, other = LapReports(4, (0, 2)).critical_numbers(2).T
    assert np.unique(degree)[1:-1].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert np.unique(bit)[1:-1].tolist() == [0.0, 0.5, 1.0]
    assert len(set(zip(degree, bit, strict=True))) == 7 * 5
    np.testing.assert_array_equal(bit, other)
