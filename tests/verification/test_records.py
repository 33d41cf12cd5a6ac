"""The records that verdicts ask about are of every kind that people hold."""

import numpy as np
import pytest

from ldp_jax.core.spaces import Box
from ldp_jax.edges.spaces import Lists
from ldp_jax.verification.records import natural

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
