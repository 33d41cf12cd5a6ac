"""The records that verdicts ask about are of every kind that people hold."""

import numpy as np
import pytest

from ldp_jax.core.spaces import Box, Finite, Interval
from ldp_jax.edges.lists import nodes_of
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification._programs import natural, pairs_of, records_of
from tests import contributing

DIM = 8


@pytest.fixture(scope="module", params=[(-1.0, 1.0), (0.0, 1.0), (-2.0, 5.0)])
def vectors(request):
    """Natural vectors of a box, each once, and its ends."""
    lower, upper = request.param
    found = natural(Box(DIM, lower, upper), np.random.default_rng(0))
    return np.unique(found, axis=0), lower, upper


@pytest.mark.parametrize("kind", ["zeros and ones", "corners"])
def test_vectors_of_two_values_hold_both_of_them_in_every_place(vectors, kind):
    found, *ends = vectors
    values = [0.0, 1.0] if kind == "zeros and ones" else ends
    of_kind = found[np.isin(found, values).all(1)]
    for value in values:
        share = (of_kind == value).mean(0)
        assert (share > 0.25).all(), share
    mixed = (of_kind == values[0]).any(1) & (of_kind == values[1]).any(1)
    assert mixed.sum() > 30


def test_vectors_along_each_axis_have_each_size(vectors):
    found, lower, upper = vectors
    for place in range(DIM):
        rest = np.delete(found, place, 1)
        sizes = found[(rest == 0).all(1), place]
        assert {lower, 0.5, 1.0, upper} <= set(sizes.tolist())


def test_vectors_of_one_number_are_the_ends_the_centre_and_others(vectors):
    found, lower, upper = vectors
    constant = found[(found == found[:, :1]).all(1), 0]
    assert {lower, 0.0, np.float32(lower + upper) / 2, upper} <= set(constant.tolist())
    assert len(constant) > 10


def test_vectors_are_full_sparse_and_repeated_too(vectors):
    found, *_ = vectors
    values = np.array([len(np.unique(row)) for row in found])
    zeros = (found == 0).sum(1)
    assert (values == DIM).sum() > 10
    assert ((values > 2) & (values < DIM) & (zeros == 0)).sum() > 10
    assert ((zeros >= DIM - 2) & (zeros < DIM)).sum() > 10
    assert ((zeros > 0) & (zeros < DIM // 2)).sum() > 10


@pytest.mark.parametrize("own", [0, 2, 4])
def test_lists_are_empty_full_of_one_friend_and_of_all_but_one(own):
    n = 5
    domain = Lists(n, own)
    found = set(map(tuple, domain.bits(natural(domain, np.random.default_rng(0))).tolist()))
    others = np.arange(n) != own
    for friend in np.flatnonzero(others):
        one = np.arange(n) == friend
        assert tuple(one.tolist()) in found
        assert tuple((others & ~one).tolist()) in found
    assert {sum(bits) for bits in found} == set(range(n))
    assert not any(bits[own] for bits in found)


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 1.0), (0.0, 3.0), (-100.0, 60.0)])
def test_numbers_are_the_ends_those_of_lattices_and_nearly_nothing(lower, upper):
    """Tenths, quarters and whole numbers, where there are few of them; tenths and eighths of the
    width.
    """
    width = upper - lower
    due = {lower, upper, (lower + upper) / 2}
    due |= {sign * small * width for small in (1e-3, 1e-6) for sign in (-1, 1)}
    for step in (0.1, 0.25, 1.0, width / 10, width / 8):
        multiples = {step * i for i in range(-2000, 2001) if lower <= step * i <= upper}
        due |= multiples if len(multiples) < 129 else set()
    due = {np.float32(number) for number in due if lower <= number <= upper}
    found = natural(Interval(lower, upper), np.random.default_rng(0))
    assert set(found.tolist()) == due
    assert len(found) == len(due)
    assert found[:3].tolist() == [lower, upper, (lower + upper) / 2]


def test_members_of_a_large_space_are_its_ends_and_some_others():
    found = natural(Finite(tuple(range(300))), np.random.default_rng(0))
    assert found[:2].tolist() == [0.0, 299.0]
    assert len(found) == 258
    assert len(set(found.tolist())) > 150


def test_half_of_the_records_are_given_and_natural_ones():
    """Each once, the first four always; or again and again."""
    domain = Interval(-1.0, 1.0)
    given = np.float32([0.123, -0.456])
    known = np.append(given, natural(domain, np.random.default_rng(0)))
    for count in (12, 500):
        found = records_of(domain, np.random.default_rng(0), count, given)
        here = np.isin(found, known)
        assert len(found) == count
        assert here.sum() == min(count // 2, len(known))
        assert found[:4].tolist() == known[:4].tolist()
    found = records_of(domain, np.random.default_rng(0), 501, given, again=True)
    assert len(found) == 501
    assert found[:250].tolist() == np.resize(known, 250).tolist()
    assert not np.isin(found[250:], known).any()


def test_pairs_begin_with_the_ends_and_are_adjacent():
    """A quarter of the others is asked against an end, and both ends against each other."""
    rng = np.random.default_rng(0)
    owners, x, other = pairs_of(Interval(-1.0, 1.0), rng, 400)
    assert owners == ()
    assert (x[:2].tolist(), other[:2].tolist()) == ([-1.0, 1.0], [1.0, -1.0])
    assert len(x) == len(other) == 400
    assert np.isin(other, x).all()
    assert 0.25 < np.isin(other, [-1.0, 1.0]).mean() < 0.4

    clock = contributing.run("clock")["Clock"](24)
    _, x, other = pairs_of(clock, rng, 61, np.array([5.0]))
    assert len(x) == len(other) == 61
    assert (x[0], other[0]) == clock.extremes()
    assert clock.adjacent(x, other)[1:].all()
    assert len(set(zip(x[1:31].tolist(), other[1:31].tolist(), strict=True))) > 20


def test_pairs_of_lists_differ_in_one_bit_of_every_users():
    domain = Lists(5, own=2)
    given = domain.of_bits(np.array([[1, 1, 0, 0, 1], [0, 0, 0, 1, 0]], bool))
    (own,), x, other = pairs_of(domain, np.random.default_rng(0), 300, given)
    bits = domain.bits(x)
    flipped = bits != domain.bits(other)
    assert (flipped.sum(1) == 1).all()
    assert not flipped[np.arange(300), own].any()
    assert not bits[np.arange(300), own].any()
    assert (own[:3] == 2).all()
    np.testing.assert_array_equal(bits[1:3], domain.bits(given))
    for end, first in zip(domain.extremes(), (bits[0], bits[0] ^ flipped[0]), strict=True):
        assert nodes_of(end) == tuple(np.flatnonzero(first))
    assert {(user, friend) for user, friend in zip(own, flipped.argmax(1), strict=True)} == {
        (user, friend) for user in range(5) for friend in range(5) if user != friend
    }
