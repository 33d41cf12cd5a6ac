"""One device: its secret, its words, its samples, and the law of its reports."""

import copy
import dataclasses
import itertools
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pytest

from ldp_jax import deployment, features
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
    first, second = deployment.Device.new(), deployment.Device.new()
    assert first.secret != second.secret
    assert len(first.secret) == len(first.shared_key) == 32
    again = deployment.Device.from_secret(first.secret)
    assert again.name == first.name != second.name
    assert first.shared_key not in (first.secret, second.shared_key)
    where = {"user": 1, "round": 2}
    assert session(again).report(GRID, 0.3, **where) == session(first).report(GRID, 0.3, **where)


@pytest.mark.usefixtures("untyped")
def test_what_can_be_guessed_is_no_secret_and_no_key():
    seeds = [s.to_bytes(32, order) for s in (0, 123456789, 2**48) for order in ("little", "big")]
    for secrets, match in (
        ((42, 2**255, True, None, "a" * 32, bytearray(SECRET)), "entropy.*seed can be guessed"),
        ((b"", b"seed", SECRET[:31], SECRET + b"\0"), "32 bytes of entropy"),
        (seeds, "padded"),
    ):
        for secret in secrets:
            with pytest.raises(ValueError, match=f"secret is .*{match}"):
                deployment.Device(secret)
            if secret is not None:
                for use in (
                    lambda key: session(key=key),
                    lambda key: deployment.decode(b"", GRID, key=key),
                ):
                    with pytest.raises(ValueError, match=f"key is .*{match}"):
                        use(secret)


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


NUMBERS = [5e-324, 1e-300, -1e-40, np.float32(1e-45), np.float64(1e300), np.longdouble("1e-4900"), np.float16(6e-8),
           10**400, -(10**5000), 2**63, 2**64, True, np.int8(-3), np.uint64(2**64 - 1), 1e30, -1e30,
           math.nan, -math.nan, math.inf, -math.inf, np.longdouble("1e4000"), -0.0]  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_reported_whatever_numpy_does_about_errors(name):
    """5e-324 is 0 in float32: an underflow, which told small records from others under
    ``np.seterr``.
    """
    table = TABLES[name]
    calm = b"".join(
        session().report(table, x, user=1, round=round) for round, x in enumerate(NUMBERS)
    )
    assert len(deployment.decode(calm, table).output) == len(NUMBERS)
    for mode in ({}, {"all": "raise"}):
        held = session()
        with warnings.catch_warnings(), np.errstate(**mode):
            warnings.simplefilter("error")
            assert (
                b"".join(
                    held.report(table, x, user=1, round=round) for round, x in enumerate(NUMBERS)
                )
                == calm
            )
            for vector in (NUMBERS, np.array([5e-324, 1e300, math.nan]), np.float32([1e-45, 1e38])):
                assert session().report_many(table, vector, user=2, round=0)
                assert session().report_sampled(table, vector, 2, user=2, round=0)
    for low, high in [
        (-1.0, -math.inf),
        (1.0, math.inf),
        (1.0, 10**400),
        (0.0, math.nan),
        (1.0, 1e300),
    ]:
        assert session().report(GRID, low, user=1, round=1) == session().report(
            GRID, high, user=1, round=1
        )


@pytest.mark.usefixtures("untyped")
def test_no_refusal_says_that_a_number_is_beyond_64_bits():
    for other in (np.True_, np.array(1.0), np.array(1)):
        low, high = (session().report_many(GRID, [other, x], user=1, round=1) for x in (1, 10**30))
        assert low == high
    for other in (1j, "7", b"7", np.timedelta64(1)):
        for x in (1, 10**30):
            with pytest.raises(TypeError, match="^records must be real numbers$"):
                session().report_many(GRID, [other, x], user=1, round=1)


@pytest.mark.usefixtures("untyped")
def test_wrong_arguments_are_refused_before_anything_is_drawn(monkeypatch):
    held = session()
    good = {"user": 1, "round": 1}
    monkeypatch.setattr(deployment.Device, "_hash", lambda *_: pytest.fail("drawn"))
    calls = [
        lambda where: held.report(GRID, 0.5, **where),
        lambda where: held.report_many(GRID, [0.5], **where),
        lambda where: held.report_sampled(GRID, [0.5], 1, **where),
        lambda where: held.resend(GRID, **where),
    ]
    for name, bound in (("user", 2**64), ("round", 2**32), ("field", 2**32)):
        for wrong in (-1, bound, 1.0, "1", None, True, np.float32(1), [1]):
            for call in calls[:1] if name == "field" else calls:
                with pytest.raises(ValueError, match=f"{name} must be a whole number"):
                    call(good | {name: wrong})
    for k in (0, 3, True, 1.0):
        with pytest.raises(ValueError, match="k must be a whole number"):
            held.report_sampled(GRID, [0.5, 0.5], k, **good)
    for xs in ([], [[0.5]], 0.5):
        with pytest.raises(ValueError, match="vector"):
            held.report_many(GRID, xs, **good)
    for x in (None, "0.5", 1j, b"1", [None], Fraction(1, 2), np.datetime64("2020-01-01")):
        for call, given in ((held.report, x), (held.report_many, [x, x])):
            with pytest.raises(TypeError, match="real numbers"):
                call(GRID, given, **good)
    for words in ("7", "1234567"):  # not how long they are
        with pytest.raises(TypeError, match="must be real numbers$"):
            held.report_many(GRID, [words, "0"], **good)
    with pytest.raises(ValueError, match="one number"):
        held.report(GRID, np.zeros(2), **good)
    with pytest.raises(TypeError, match="expected a Table, got str"):
        held.report("a table", 0.3, **good)
    with pytest.raises(TypeError, match=r"expected a Table, got Discrete: give its table\(\)"):
        held.report(features.GridSquareWave(1.0), 0.3, **good)
    with pytest.raises(TypeError, match="got SquareWave: a mechanism of whole numbers has one"):
        held.report(features.SquareWave(1.0), 0.3, **good)
    assert held.counter == 0


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
