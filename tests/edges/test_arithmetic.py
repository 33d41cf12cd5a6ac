"""Rare sides in float32 are never lost, up to the largest budgets; lists of anything never
raise.
"""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core import random_words
from ldp_jax.core.list_ids import host_ids
from ldp_jax.edges import (
    DPRR,
    ListReport,
    LocalLap,
    NeighbourList,
    RandomizedResponse,
)
from ldp_jax.edges.lists import to_bits
from ldp_jax.edges.neighbour_lists import MAX_BIT_EPSILON

N = 5
LIST = NeighbourList.of([1, 2], N)
RARE = NeighbourList.of([3, 4], N)
ONES = 2**32 - 1


def with_words(monkeypatch, *first):
    """Every draw is made of these random bits, the most significant word first, and of zeros."""

    def words(key, shape=(), count=2):
        made = jnp.zeros(count, jnp.uint32).at[: len(first)].set(jnp.array(first, jnp.uint32))
        return jnp.broadcast_to(made.reshape(count, *[1] * len(shape)), (count, *shape))

    monkeypatch.setattr(random_words, "words", words)


def exact_rates(epsilon, noisy, owned):
    """1 - p q and (1 - p) q, in float64 and without cancellation."""
    flip = 1 / (math.exp(epsilon) + 1)
    below = noisy * (1 - 2 * flip) + owned * flip
    q, rest = noisy / below, flip * (owned - 2 * noisy) / below
    return (flip, flip) if 2 * noisy >= owned else (flip + (1 - flip) * rest, flip * q)


log_density = jax.jit(lambda m, y, x: m.log_density(y, x))


@pytest.mark.parametrize("epsilon", [1e-3, 17.0, MAX_BIT_EPSILON])
def test_rare_sides_keep_their_precision(epsilon):
    """P(a true pair is lost) and P(a false one is reported), to 1e-5 of themselves."""
    noisy = np.array([1e-6, 0.5, 3.0, 499.0, 500.0, 1000.0])
    due = np.array([exact_rates(epsilon, one, 1000) for one in noisy]).T
    m = DPRR(1.0, epsilon)
    noisy = noisy.astype(np.float32)
    np.testing.assert_allclose(m.bit_rates(noisy, 1000)[1:], due, rtol=1e-5)
    m = RandomizedResponse(epsilon)
    found = m.bit_rates(None, 1000)[1:]
    np.testing.assert_allclose(found, exact_rates(epsilon, 500, 1000), rtol=1e-5)
    # The rarest report.
    for m in (RandomizedResponse(epsilon, n=N), DPRR(1.0, epsilon, n=N)):
        rare, true = (
            log_density(m, ListReport(np.float32(4.0), sent), LIST) for sent in (RARE, LIST)
        )
        assert float(rare) - float(true) == pytest.approx(-4 * epsilon, rel=1e-4)


def test_the_estimate_has_a_scale_that_float32_has_not():
    """(bits - (n - 1)(1 - p)) / (2p - 1)."""
    y = ListReport(np.nan, NeighbourList.of([1, 2, 3], N))
    found = RandomizedResponse(1e-8, n=N).estimate(y)
    assert float(found) == pytest.approx(2e8, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1.0, MAX_BIT_EPSILON])
def test_one_users_rarest_reports_happen(monkeypatch, epsilon):
    """The flip's probability is the law's, in whole numbers of 2^-64."""
    m = RandomizedResponse(epsilon, n=N)
    # The first number that is no flip.
    number = int(2.0**64 / (math.exp(epsilon) + 1))
    above = int(number * (1.001 + 2 / number))
    for at, sent in ((0, RARE), (int(number * 0.999), RARE), (above, LIST), (2**64 - 1, LIST)):
        with_words(monkeypatch, at >> 32, at & ONES)
        found = m.privatize(jax.random.key(0), LIST).neighbours
        np.testing.assert_array_equal(found.ids, sent.ids)


# The nodes 1 and 2 among what is no id.
STRANGE = [
    [2**64, 1, 10**400, 2, -1, -(2**63)],
    [1.0, 2.0, 1.5, math.nan, math.inf, -math.inf, 5e-324],
    (2, 1, 2, 1),
    [1, None, "3", 2, 1j, b"4", [3], {}, np.timedelta64(3)],
    [1, np.ma.array(3, mask=True), 2],
    [True, 2, 1, False],
    [[1, 2], [2, 1]],
    [[1, "x"], [2, 2]],
    {1: "one", 2: "two"}.keys(),
    np.array([10**12, 1, 2, 2**32 + 3, -5]),
    np.array([2**63, 2**64 - 1, 1, 2], np.uint64),
    np.array([1, 2, 10**30, True], object),
    np.array([1.0, 2.0, np.nan, np.inf, 3.5], np.float32),
    np.array([1, 2, np.nan, np.finfo(np.longdouble).max], np.longdouble),
]
NOTHING = [
    [],
    None,
    np.array(["1", "2"]),
    np.array([1 + 0j]),
    "12",
    7,
    np.zeros(1, "datetime64[D]"),
]


@pytest.mark.usefixtures("untyped")
def test_lists_of_anything_are_taken_on_a_host():
    """Ids that are no node are dropped, with every warning and floating-point flag an error:
    nothing is raised.
    """
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids, known in [*((ids, [1, 2]) for ids in STRANGE), *((ids, []) for ids in NOTHING)]:
            made = NeighbourList.of(ids, N)
            assert made.ids.tolist() == known + [N] * (N - len(known)), ids
            assert int(made.count) == len(known)
            bits = np.asarray(to_bits(NeighbourList(ids, 2**63), N))
            assert np.flatnonzero(bits).tolist() == known, ids


@pytest.mark.usefixtures("untyped")
def test_the_row_of_a_matrix_is_no_list():
    """As ids its booleans would be nodes 0 and 1."""
    row = [False, True, True, False]
    for given in (row, np.array(row), np.array(row, object), jnp.array(row), [row, row]):
        for read in (NeighbourList.of, host_ids, lambda ids, n: to_bits(NeighbourList(ids, 2), n)):
            with pytest.raises(TypeError, match="ids, and these are booleans: .*flatnonzero"):
                read(given, 4)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("m", [DPRR(0.5, 0.5, n=N), LocalLap(0.5, 0.5, n=N)])
def test_one_user_takes_a_list_of_anything(m):
    """The report is that of the list of nodes, under the same key."""
    expected = m.privatize(jax.random.key(1), LIST)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids in STRANGE[:8]:
            y = m.privatize(jax.random.key(1), NeighbourList(ids, 2**63))
            jax.tree.map(np.testing.assert_array_equal, y, expected)
            assert np.isfinite(m.log_density(y, NeighbourList(ids, -1)))
