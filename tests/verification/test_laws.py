"""Where laws are asked: the reports at which a loss may be largest, and those far out."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.spaces import Interval
from ldp_jax.verification._laws import law_of

BREAKS = Interval(-1.0, 2.0, lambda x: jnp.stack([x - 0.25, x + 0.25]))
ENDLESS = Interval(-math.inf, 2.0)


@pytest.mark.parametrize("space", [BREAKS, ENDLESS])
def test_a_line_is_asked_on_both_sides_of_each_break_at_its_ends_and_between(space):
    """Also of records whose breaks lie beyond an end."""
    records = np.array([-0.9, 0.3, 1.9])
    with float64_on_cpu():
        found = np.sort(np.asarray(law_of(space).critical_reports(records), np.float64))
    places = np.sort(np.append(records - 0.25, records + 0.25)) if space.breaks else records
    inside = places[(places > -1.0) & (places < 2.0)]
    ends = [-1.0, 2.0] if space.breaks else [2.0]
    for place in [*inside, *ends]:
        assert np.abs(found - place).min() < 1e-7
    for place in inside:
        assert ((found < place) & (found > place - 1e-6)).any()
        assert ((found > place) & (found < place + 1e-6)).any()
    if not space.breaks:
        assert found[0] < -1.0  # well beyond the lowest record
    cuts = np.unique(np.concatenate([inside, ends, found[:1]]))
    for low, high in zip(cuts[:-1], cuts[1:], strict=True):
        width = high - low
        assert ((found > low + 0.1 * width) & (found < high - 0.1 * width)).any(), (low, high)
    assert space.contains(found.astype(np.float32), rounding=1).all()
