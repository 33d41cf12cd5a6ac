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
