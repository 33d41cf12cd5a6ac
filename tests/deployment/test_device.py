"""One device: its secret, its words, its samples, and the law of its reports."""

import copy
import dataclasses
import itertools
import math
import pickle
import warnings

import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.core.integer_tables import WORDS, split
from tests.deployment.vectors import (
    ASKED,
    BINS,
    GRID,
    SECOND,
    SECRET,
    TABLES,
    Forgets,
    device,
    list_session,
    session,
)
from tests.stats import assert_g


def test_new_devices_differ_and_a_stored_secret_is_the_same_device():
    first = deployment.Device.new()
    second = deployment.Device.new()
    again = deployment.Device.from_secret(first.secret)
    assert again.name == first.name != second.name
    assert len({first.secret, second.secret, first.shared_key, second.shared_key}) == 4
    where = {"user": 1, "round": 2}
    assert session(again).report(GRID, 0.3, **where) == session(first).report(GRID, 0.3, **where)


def test_nothing_shows_or_copies_the_secret():
    held = session()
    held.report(GRID, 0.5, user=1, round=0)
    shown = [repr(held), str(held), repr(held.device), f"{held.device}", held.to_bytes().decode()]
    for text in shown:
        assert SECRET.hex() not in text
        assert repr(SECRET)[2:-1] not in text
        assert "secret" not in text
    for careless in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key store"):
            careless(held.device)
        for one in (held, list_session()):
            with pytest.raises(TypeError, match="a session is neither pickled nor copied"):
                careless(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.device.secret = bytes(32)


def table_words(of, fields=50, users=5, rounds=4):
    """Pairs of words over all tables, users, rounds and fields."""
    where = itertools.product(TABLES.values(), range(users), range(rounds))
    drawn = [
        of.words(table, np.arange(fields), user=user, round=round) for table, user, round in where
    ]
    return np.concatenate(drawn)


def count_words(of):
    """Numbers below 2^96 over questions, users, rounds and counts."""
    where = itertools.product((ASKED.digest, SECRET), range(40), range(4))
    drawn = [
        of.count_words(digest, 9, user=user, round=round)[1:].T for digest, user, round in where
    ]
    return np.concatenate(drawn)


@pytest.mark.parametrize(
    ("draw", "parts"),
    [
        (table_words, ("fields", "round", "user", "table")),
        (count_words, ("user", "round", "question", "count")),
    ],
)
def test_no_two_reports_share_words_and_a_device_that_forgets_a_part_is_caught(draw, parts):
    words = draw(device())
    assert len(np.unique(words, axis=0)) == len(words)
    assert not (words == draw(deployment.Device.from_secret(SECRET[::-1]))).any()
    for part in parts:
        assert len(np.unique(draw(Forgets(part)), axis=0)) < len(words)


def test_words_of_any_selection_are_the_same():
    where = {"user": 3, "round": 4}
    every = device().words(BINS, np.arange(100), **where)
    for chosen in ([99, 0, 17, 16, 15, 17], [0], [7], [8], [99]):
        np.testing.assert_array_equal(
            device().words(BINS, np.array(chosen), **where), every[chosen]
        )
    last = 2**32 - 1
    assert device().words(BINS, np.array([last]), user=2**64 - 1, round=last).shape == (1, 2)
    assert every.dtype == np.uint32


def joint_counts(of, n=400):
    """Outputs of two fields of one user, jointly."""
    held = session(of)
    data = b"".join(held.report_many(SECOND, [1.0, 1.0], user=u, round=0) for u in range(n))
    found = deployment.vectors(deployment.decode(data, SECOND), 2, 2)
    return np.bincount(2 * found.output[:, 0] + found.output[:, 1], minlength=4)


def test_the_fields_of_one_user_are_independent():
    law = SECOND.masses[1] / WORDS
    joint = np.outer(law, law).ravel()
    assert_g(joint_counts(device()), joint)
    with pytest.raises(AssertionError, match="G test"):
        assert_g(joint_counts(Forgets("fields")), joint)


def test_reports_of_many_users_fit_the_table():
    """20 000 reports: a law that is off by 0.03 in total variation would be seen."""
    held = session()
    row, part = split(np, 0.37, GRID.inputs, "grid")
    share = int(part) / 2**23
    law = ((1 - share) * GRID.masses[row] + share * GRID.masses[row + 1]) / WORDS
    data = b"".join(
        held.report_many(GRID, np.full(1000, 0.37), user=user, round=9) for user in range(20)
    )
    assert_g(np.bincount(deployment.decode(data, GRID).output, minlength=GRID.outputs), law)


def test_one_and_many_give_the_same_bytes():
    xs = np.linspace(-1.2, 1.2, 21)
    held = session()
    many = session().report_many(GRID, xs, user=5, round=6)
    one = [
        held.report(GRID, x, user=5, round=6, field=field) for field, x in enumerate(xs.tolist())
    ]
    assert b"".join(one) == many
    assert many == session().report_many(GRID, list(xs), user=np.uint64(5), round=np.int32(6))


NUMBERS = [
    5e-324,
    1e-300,
    -1e-40,
    np.float32(1e-45),
    np.float64(1e300),
    np.longdouble("1e-4900"),
    np.float16(6e-8),
    10**400,
    -(10**5000),
    2**63,
    2**64,
    True,
    np.int8(-3),
    np.uint64(2**64 - 1),
    1e30,
    -1e30,
    math.nan,
    -math.nan,
    math.inf,
    -math.inf,
    np.longdouble("1e4000"),
    -0.0,
]


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_reported_whatever_numpy_does_about_errors(name):
    """5e-324 is 0 in float32: an underflow told small records from others under ``np.seterr``."""
    table = TABLES[name]
    where = {"user": 1, "round": 0}
    calm = session().report_many(table, NUMBERS, **where)
    assert len(deployment.decode(calm, table).output) == len(NUMBERS)
    for mode in ({}, {"all": "raise"}):
        held = session()
        with warnings.catch_warnings(), np.errstate(**mode):
            warnings.simplefilter("error")
            one = [held.report(table, x, field=field, **where) for field, x in enumerate(NUMBERS)]
            assert b"".join(one) == calm
            for vector in (NUMBERS, np.array([5e-324, 1e300, math.nan]), np.float32([1e-45, 1e38])):
                assert session().report_many(table, vector, **where)
                assert session().report_sampled(table, vector, 2, **where)
    for low, high in (
        (-1.0, -math.inf),
        (1.0, math.inf),
        (1.0, 10**400),
        (0.0, math.nan),
        (1.0, 1e300),
    ):
        assert session().report(GRID, low, **where) == session().report(GRID, high, **where)


@pytest.mark.usefixtures("untyped")
def test_no_refusal_says_that_a_number_is_beyond_64_bits():
    for other in (np.True_, np.array(1.0), np.array(1)):
        low, high = (session().report_many(GRID, [other, x], user=1, round=1) for x in (1, 10**30))
        assert low == high
    for other in (1j, "7", b"7", np.timedelta64(1)):
        for x in (1, 10**30):
            with pytest.raises(TypeError, match="^records must be real numbers$"):
                session().report_many(GRID, [other, x], user=1, round=1)


def test_sampled_coordinates_are_uniform():
    """6 000 subsets: one that is drawn 0.4 as often as it should be, or more rarely, would be
    seen.
    """
    subsets = {subset: n for n, subset in enumerate(itertools.combinations(range(4), 2))}
    drawn = [
        subsets[tuple(device().sample(GRID, 4, 2, user=user, round=0))] for user in range(6_000)
    ]
    assert_g(np.bincount(drawn, minlength=6), np.full(6, 1 / 6))


@pytest.mark.parametrize(("k", "dim"), [(1, 1), (5, 5), (17, 40)])
def test_sampled_reports_are_those_of_their_fields_and_say_nothing_of_the_records(k, dim):
    xs = np.linspace(-1, 1, dim)
    held = session()
    sent = session().report_sampled(GRID, xs, k, user=1, round=dim)
    fields = deployment.decode(sent, GRID).field.tolist()
    assert fields == sorted(set(fields))
    assert (len(fields), max(fields) < dim) == (k, True)
    assert sent == b"".join(held.report(GRID, xs[f], user=1, round=dim, field=f) for f in fields)
    other = session().report_sampled(GRID, np.full(dim, np.nan), k, user=1, round=dim)
    assert deployment.decode(other, GRID).field.tolist() == fields


def test_words_that_would_bias_a_draw_are_skipped(monkeypatch):
    """d = 3, k = 1 takes one word modulo 3: 2^32 - 1 is the one word too many."""
    words = [2**32 - 1, 2**32 - 2] + [0] * 14
    monkeypatch.setattr(deployment.Device, "_hash", lambda *_: np.array(words, "<u4").tobytes())
    assert device().sample(GRID, 3, 1, user=0, round=0) == [(2**32 - 2) % 3]
