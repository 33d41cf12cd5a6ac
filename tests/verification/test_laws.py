"""Where laws are asked: the reports at which a loss may be largest, and those far out."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core.float64 import float64_on_cpu
from ldp_jax.core.spaces import Disc, Finite, Interval, Mixture, Turned, Vectors
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


def test_parts_are_asked_where_each_is():
    branch, value = law_of(Mixture((Finite((0.0, 9.0)), ENDLESS))).critical_reports(np.array([0.5]))
    assert value[branch == 0].tolist() == [0.0, 9.0]
    alone = law_of(ENDLESS).critical_reports(np.array([0.5]))
    np.testing.assert_array_equal(value[branch == 1], alone)


def test_vectors_are_asked_at_records_between_them_and_beyond():
    records = np.array([[1.0, 0.0], [0.0, -2.0]])
    found = set(map(tuple, law_of(Vectors(2)).critical_reports(records).tolist()))
    between = {(0.5, -1.0)}
    assert found == between | {
        (size * one, size * other) for one, other in records.tolist() for size in (1, 3, 10)
    }
    disc = np.asarray(law_of(Disc(3.0)).critical_reports(records))
    for place in [*records, (0.5, -1.0)]:
        assert np.abs(disc - place).max(1).min() < 1e-9
    assert Disc(3.0).contains(disc.astype(np.float32), rounding=1).all()


def test_round_laws_are_asked_along_and_against_each_record_on_both_sides_of_the_cut():
    records = np.array([[0.0, 2.0], [3.0, 4.0]])
    found = np.asarray(law_of(Turned(2, 0.5)).critical_reports(records))
    for direction in ([0.0, 1.0], [0.6, 0.8]):
        along = found @ direction
        straight = np.abs(np.abs(along) - np.linalg.norm(found, axis=1)) < 1e-9
        for side in (-1.0, 1.0):
            sizes = side * along[straight]
            assert ((sizes > 0) & (sizes < 0.5)).any()
            assert ((sizes > 0.5) & (sizes < 0.51)).any()
            assert (sizes > 1).any()
