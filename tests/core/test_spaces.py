"""What a space says is a member, on either side of each of its ends, and where others are taken."""

import itertools
import math

import numpy as np
import pytest

from ldp_jax.core.spaces import (
    Ball,
    Box,
    Disc,
    Finite,
    Interval,
    Mixture,
    Product,
    SparseReport,
    Sphere,
    Subset,
    Turned,
    Vectors,
)
from ldp_jax.core.spaces.space import spacings

UNIT = np.array([0.6, -0.8])
NO_NUMBERS = (math.nan, math.inf, -math.inf)


def beside(ends, by):
    """Values just within and just beyond the ends, by a share of their size."""
    (low, high), width = ends, ends[1] - ends[0]
    return [low + by * width, high - by * width], [low - by * width, high + by * width]


def vectors(numbers):
    """Of each number a vector that has it in one place, and 0 in the other."""
    return [vector for one in numbers for vector in ((one, 0.0), (0.0, one))]


WITHIN, BEYOND = beside((-2.0, 3.0), 1e-6)
MEMBERS = {
    "an interval": (Interval(-2.0, 3.0), [-2.0, 3.0, *WITHIN], [*BEYOND, *NO_NUMBERS]),
    "no lower end": (Interval(-math.inf, 3.0), [-1e30, 3.0], [BEYOND[1], *NO_NUMBERS]),
    "no upper end": (Interval(-2.0, math.inf), [1e30, -2.0], [BEYOND[0], *NO_NUMBERS]),
    "a finite set": (Finite((3.0, -1.0, 0.5)), [-1.0, 0.5, 3.0], [0.0, 0.500001, 4.0, *NO_NUMBERS]),
    "a box": (Box(2, -2.0, 3.0), vectors([*WITHIN, -2.0, 3.0]), vectors([*BEYOND, *NO_NUMBERS])),
    "a product": (
        Product(2, Finite((0.0, 2.0))),
        vectors([2.0, 0.0]),
        vectors([1.0, -2.0, *NO_NUMBERS]),
    ),
    "vectors": (Vectors(2), vectors([1e30, -1e30]), vectors(NO_NUMBERS)),
    "turned vectors": (Turned(2), vectors([1e30, -1e30]), vectors(NO_NUMBERS)),
    "a ball": (Ball(2, 5.0), [5 * UNIT, 0 * UNIT], [5.00001 * UNIT, *vectors(NO_NUMBERS)]),
    "a disc": (Disc(5.0), [5 * UNIT, 0 * UNIT], [5.00001 * UNIT, *vectors(NO_NUMBERS)]),
    "a sphere": (
        Sphere(2),
        [UNIT, -UNIT],
        [1.00001 * UNIT, 0.99999 * UNIT, 0 * UNIT, *vectors(NO_NUMBERS)],
    ),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_are_told_from_others_at_each_end(name):
    space, inside, outside = MEMBERS[name]
    assert space.contains(np.array(inside, np.float32)).all()
    for other in outside:
        assert not space.contains(np.array([other], np.float32)).any(), other
    if np.ndim(inside[0]):
        assert not space.contains(np.zeros((1, 3), np.float32)).any()


def test_members_of_mixtures_and_of_sampled_coordinates():
    parts = Mixture((Interval(-1.0, 1.0), Finite((2.0, 4.0))))
    branch, value = np.array([(0, 0.5), (1, 4.0), (0, 2.0), (1, 0.5), (2, 2.0), (-1, 0.5)]).T
    found = parts.contains((branch.astype(int), value.astype(np.float32)))
    assert found.tolist() == [True, True, False, False, False, False]
    space = Subset(4, 2, Finite((-1.0, 1.0)))
    rows = [(0, 3), (0, 4), (-1, 2), (3, 0), (2, 2), (1, 2)]
    values = np.float32([(1, -1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 0)])
    found = space.contains(SparseReport(np.array(rows, np.int32), values))
    assert found.tolist() == [True, False, False, False, False, False]


RECORDS = [
    Interval(-2.0, 3.0),
    Finite((3.0, -1.0, 0.5, 7.0)),
    Box(3, -2.0, 3.0),
    Ball(1, 5.0),
    Ball(3, 5.0),
]


@pytest.mark.parametrize("space", RECORDS, ids=repr)
def test_what_a_space_names_are_members_and_any_value_is_taken_for_one(space):
    rng = np.random.default_rng(0)
    named = [space.typical(), space.centre(), *space.extremes()]
    for some in (np.stack(named), space.sample(rng, 500), space.grid(7), space.critical_records()):
        assert space.contains(np.asarray(some, np.float32), rounding=1).all()
    assert len(space.sample(rng, 500)) == 500
    shape = np.shape(space.typical())
    values = 10 * rng.normal(size=(200, *shape))
    values.ravel()[::7] = math.nan
    values.ravel()[3::11] = math.inf
    taken = np.asarray(space.clip(values.astype(np.float32)))
    assert space.contains(taken).all()
    np.testing.assert_array_equal(space.clip(taken), taken)
    np.testing.assert_array_equal(space.clip(np.full(shape, np.nan, np.float32)), space.centre())


def test_the_nearest_member_is_taken_and_the_middle_one_for_none():
    members = np.array([-1.0, 0.5, 3.0, 7.0])
    space = Finite(tuple(members.tolist()))
    values = np.random.default_rng(0).uniform(-3, 9, 300).astype(np.float32)
    nearest = np.abs(values[:, None] - members).argmin(1)
    np.testing.assert_array_equal(space.clip(values), members[nearest].astype(np.float32))
    assert float(space.clip(np.float32(np.nan))) == 0.5
    np.testing.assert_array_equal(space.place(np.float32([7.0, 0.5, 0.6, -1.0])), [3, 1, -1, 0])
    np.testing.assert_array_equal(space.share(members.astype(np.float32)), [0, 0.25, 0.5, 0.75])


def test_shares_rise_from_zero_to_below_one():
    share = Interval(-2.0, 3.0).share(np.float32([-9.0, -2.0, 0.5, 3.0, 9.0]))
    np.testing.assert_allclose(share, [0, 0, 0.5, 1, 1], atol=1e-12)
    assert share.max() < 1


def test_a_member_of_a_ball_is_as_near_as_the_direction_allows():
    x = np.array([[3.0, 4.0], [6.0, -8.0], [1e30, 1e30], [0.0, np.nan]], np.float32)
    due = [[3.0, 4.0], [3.0, -4.0], [5 / math.sqrt(2)] * 2, [0.0, 0.0]]
    np.testing.assert_allclose(Ball(2, 5.0).clip(x), due, rtol=2e-6)


def test_volumes_are_four_spacings_of_numbers_not_below_those_of_one_or_the_largest():
    y = np.float32([3.0, -0.01, 0.0, 100.0])
    due = [4 * np.spacing(np.float32(max(abs(one), 1.0))) for one in y]
    np.testing.assert_array_equal(spacings(y), due)
    small = np.float32([0.001, -0.02])
    np.testing.assert_array_equal(spacings(small), [4 * np.spacing(np.float32(0.02))] * 2)


def test_critical_records_are_all_vectors_of_ends_and_centres():
    found = set(map(tuple, Box(2, -2.0, 3.0).critical_records().tolist()))
    assert found == set(itertools.product((-2.0, 0.5, 3.0), repeat=2))
    found = set(map(tuple, (Ball(3, 5.0).critical_records() + 0.0).tolist()))
    axes = {tuple(5.0 * sign * np.eye(3)[axis] + 0.0) for sign in (-1, 1) for axis in (0, 1)}
    assert found == axes | {(0.0, 0.0, 0.0)}
