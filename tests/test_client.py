"""The device and the server's decoder. ``python -m tests.test_client`` writes the test vectors anew."""

import copy
import dataclasses
import itertools
import json
import math
import pickle
import subprocess
import sys
import threading
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ldp_jax import client
from ldp_jax._tables import WORDS, Table, integer_masses, split
from tests.stats import assert_g

VECTORS = Path(__file__).parent / "vectors" / "client.json"
SECRET = bytes(range(32))
LOG3, LOG8 = 1.0986122886681098, 2.0794415416798357  # literals: a libm must not change the vectors

GRID = Table(
    "two levels on a grid",
    integer_masses(np.where(np.eye(5) > 0, 3 / 7, 1 / 7), LOG3),
    np.array([-3.5, -1.75, 0.0, 1.75, 3.5], np.float32),
    "grid",
)
_powers = 0.5 ** np.abs(np.arange(4)[:, None] - np.arange(4))  # exp(-eps |u - t| / (k - 1)) at eps = log 8
BINS = Table(
    "HeteroRR",
    integer_masses(_powers / _powers.sum(1, keepdims=True), LOG8),
    np.array([0.0, 0.25, 0.75, 1.0], np.float32),
    "bins",
)
CATEGORY = Table(
    "generalised randomised response",
    integer_masses(np.where(np.eye(3) > 0, 0.6, 0.2), LOG3),
    np.array([[1.0, -0.5], [-0.5, 1.0], [-0.5, -0.5]], np.float32),
    "category",
)
TABLES = {"grid": GRID, "bins": BINS, "category": CATEGORY}
SECOND = Table("warner", integer_masses(np.array([[0.75, 0.25], [0.25, 0.75]]), LOG3), np.float32([-1, 1]), "grid")


def device():
    return client.Device.from_secret(SECRET)


def session():
    return client.Session(device())


# The test vectors.


def make_vectors():
    records = {
        "grid": [-1.0, -0.9, -0.3, 0.0, 0.1, 0.62, 1.0, 2.0, "nan", "inf", "-inf", 1e30],
        "bins": [0.0, 0.1, 0.25, 0.26, 0.5, 0.75, 0.76, 1.0, "nan", "inf", -3.0, 1e30],
        "category": [0.0, 1.0, 2.0, 0.4, 1.6, 3.0, "nan", "inf", "-inf", -1e30],
    }
    triples = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (7, 3, 8), (2**64 - 1, 2**32 - 1, 2**32 - 1)]
    triples += [(10**12 + n, n, 1000 * n) for n in range(6)]
    reports = []
    for (name, table), held in zip(TABLES.items(), [session() for _ in TABLES], strict=True):
        for x, (user, round, field) in zip(records[name], triples, strict=False):
            word, rounding = device().words(table, [field], user=user, round=round)[0].tolist()
            row, part = split(np, float(x), table.inputs, table.encoding)
            reports.append(
                {
                    "table": name,
                    "user": user,
                    "round": round,
                    "field": field,
                    "x": x,
                    "row": int(row),
                    "part": int(part),
                    "word": word,
                    "rounding": rounding,
                    "output": int(table.report([float(x)], word, rounding)[0]),
                    "report": held.report(table, float(x), user=user, round=round, field=field).hex(),
                }
            )
    samples = [
        {"table": "grid", "user": 5, "round": n, "k": k, "dim": dim}
        for n, (k, dim) in enumerate([(1, 1), (1, 2), (2, 4), (10, 1000), (40, 50), (6, 6), (3, 2**32 - 1)])
    ]
    for sample in samples:
        user, round = sample["user"], sample["round"]
        sample["fields"] = device().sample(GRID, sample["dim"], sample["k"], user=user, round=round)
    return {
        "about": "x is a number or nan, inf, -inf; row and part: the row at or below x, and 2^-23 steps above it; "
        "rounding >> 9 < part goes to the next row; word picks the output of that row; all byte strings in hex",
        "version": client.VERSION,
        "secret": SECRET.hex(),
        "tables": {
            name: {"bytes": table.to_bytes().hex(), "digest": table.digest.hex()} for name, table in TABLES.items()
        },
        "reports": reports,
        "samples": samples,
    }


@pytest.fixture(scope="module")
def vectors():
    return json.loads(VECTORS.read_text())


def test_the_vectors_are_reproduced(vectors):
    assert vectors == make_vectors()


def test_the_vectors_follow_from_the_module_docstring_alone(vectors):
    """Another implementation: the derivation and the layout in plain integers, no function of the library."""
    from hashlib import blake2b, sha256

    secret = bytes.fromhex(vectors["secret"])
    for name, table in vectors["tables"].items():
        assert sha256(bytes.fromhex(table["bytes"])).hexdigest() == table["digest"]
        masses = Table.from_bytes(bytes.fromhex(table["bytes"])).masses.tolist()
        digest = bytes.fromhex(table["digest"])
        for case in (case for case in vectors["reports"] if case["table"] == name):
            user, round, field = case["user"], case["round"], case["field"]
            message = b"ldp_jax 1 words." + digest + user.to_bytes(8, "little") + round.to_bytes(4, "little")
            block = blake2b(message + (field // 8).to_bytes(4, "little"), key=secret, digest_size=64).digest()
            word, rounding = (int.from_bytes(block[8 * (field % 8) + at :][:4], "little") for at in (0, 4))
            assert (word, rounding) == (case["word"], case["rounding"])
            row = case["row"] + ((rounding >> 9) < case["part"])
            output = sum(word >= threshold for threshold in itertools.accumulate(masses[row][:-1]))
            assert output == case["output"]
            expected = (1).to_bytes(2, "little") + digest[:8] + user.to_bytes(8, "little")
            expected += round.to_bytes(4, "little") + field.to_bytes(4, "little") + output.to_bytes(2, "little")
            assert case["report"] == expected.hex()


def test_the_decoder_reads_the_vectors(vectors):
    data = b"".join(bytes.fromhex(case["report"]) for case in vectors["reports"])
    assert client.REPORT.itemsize == 28
    for name, table in TABLES.items():
        assert client.Table.from_bytes(bytes.fromhex(vectors["tables"][name]["bytes"])) == table
        cases = [case for case in vectors["reports"] if case["table"] == name]
        decoded = client.decode(data, table)
        for attribute in ("user", "round", "field", "output"):
            assert getattr(decoded, attribute).tolist() == [case[attribute] for case in cases]
        np.testing.assert_array_equal(decoded.estimate, table.values[decoded.output])
        assert decoded.rejected == (0, len(vectors["reports"]) - len(cases), 0, 0)


# Secrets.


def test_new_devices_differ_and_a_stored_secret_is_the_same_device():
    first, second = client.Device.new(), client.Device.new()
    assert first.secret != second.secret
    assert len(first.secret) == 32
    again = client.Device.from_secret(first.secret)
    assert again.name == first.name != second.name
    where = {"user": 1, "round": 2}
    assert client.Session(again).report(GRID, 0.3, **where) == client.Session(first).report(GRID, 0.3, **where)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("secret", [0, 42, 2**255, True, None, "a" * 32, bytearray(SECRET), 1.5])
def test_seeds_are_no_secrets(secret):
    with pytest.raises(ValueError, match="entropy.*seed can be guessed"):
        client.Device.from_secret(secret)
    with pytest.raises(ValueError, match="entropy"):
        client.Device(secret)


@pytest.mark.parametrize("secret", [b"", b"seed", SECRET[:15], SECRET[:31], SECRET + b"\0"])
def test_secrets_of_another_length_are_refused(secret):
    with pytest.raises(ValueError, match="32 bytes of entropy"):
        client.Device.from_secret(secret)


@pytest.mark.parametrize("seed", [0, 1, 123456789, 2**48])
def test_padded_seeds_are_refused(seed):
    for order in ("little", "big"):
        with pytest.raises(ValueError, match="padded"):
            client.Device.from_secret(seed.to_bytes(32, order))


def test_nothing_shows_or_copies_the_secret():
    held = session()
    held.report(GRID, 0.5, user=1, round=0)
    for text in (repr(held), str(held), repr(held.device), f"{held.device}", repr([held.device])):
        assert SECRET.hex() not in text
        assert repr(SECRET)[2:-1] not in text
        assert "secret" not in text
    stored = held.to_bytes()
    assert SECRET.hex().encode() not in stored
    assert SECRET not in stored
    for careless in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="key store"):
            careless(held.device)
    for careless in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            careless(held)
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.device.secret = bytes(32)


# Words.


class NoField(client.Device):
    def words(self, table, fields, *, user, round):
        return super().words(table, 0 * np.asarray(fields), user=user, round=round)


class NoRound(client.Device):
    def words(self, table, fields, *, user, round):
        return super().words(table, fields, user=user, round=0)


class NoUser(client.Device):
    def words(self, table, fields, *, user, round):
        return super().words(table, fields, user=0, round=round)


class NoTable(client.Device):
    def words(self, table, fields, *, user, round):
        return super().words(GRID, fields, user=user, round=round)


def repeated_words(device, fields=50, users=5, rounds=4):
    """How many pairs of words occur again, over all tables, users, rounds and fields."""
    drawn = [
        device.words(table, np.arange(fields), user=user, round=round)
        for table, user, round in itertools.product(TABLES.values(), range(users), range(rounds))
    ]
    words = np.concatenate(drawn).astype(np.uint64)
    words = words[:, 0] << np.uint64(32) | words[:, 1]
    return len(words) - len(np.unique(words))


def test_no_two_reports_share_words():
    assert repeated_words(device(), fields=4000, users=10, rounds=9) == 0  # 1.08 million draws of 64 bits


@pytest.mark.parametrize("broken", [NoField, NoRound, NoUser, NoTable])
def test_a_device_that_forgets_a_part_is_caught(broken):
    assert repeated_words(device()) == 0
    assert repeated_words(broken(SECRET)) > 0


def joint_counts(device, n=4000):
    """Outputs of two fields of one user, jointly."""
    data = b"".join(client.Session(device).report_many(SECOND, [1.0, 1.0], user=u, round=0) for u in range(n))
    found = client.vectors(client.decode(data, SECOND), 2, 2)
    return np.bincount(2 * found.output[:, 0] + found.output[:, 1], minlength=4)


def test_the_fields_of_one_user_are_independent():
    law = SECOND.masses[1] / WORDS
    joint = np.outer(law, law).ravel()
    assert_g(joint_counts(device()), joint)
    with pytest.raises(AssertionError, match="G test"):
        assert_g(joint_counts(NoField(SECRET)), joint)


def test_words_of_any_selection_are_the_same():
    where = {"user": 3, "round": 4}
    every = device().words(BINS, np.arange(100), **where)
    chosen = np.array([99, 0, 17, 16, 15, 17])
    np.testing.assert_array_equal(device().words(BINS, chosen, **where), every[chosen])
    for field in (0, 7, 8, 99):
        np.testing.assert_array_equal(device().words(BINS, np.array([field]), **where), every[[field]])
    last = 2**32 - 1
    assert device().words(BINS, np.array([last]), user=2**64 - 1, round=last).shape == (1, 2)
    assert every.dtype == np.uint32


def test_other_secrets_other_words():
    other = client.Device.from_secret(SECRET[::-1])
    assert not (
        device().words(GRID, np.arange(1000), user=0, round=0)
        == other.words(GRID, np.arange(1000), user=0, round=0)
    ).any()


# Reports follow the table.


def law(table, x):
    row, part = split(np, x, table.inputs, table.encoding)
    above = min(int(row) + 1, table.inputs - 1)
    share = int(part) / 2**23
    return ((1 - share) * table.masses[row] + share * table.masses[above]) / WORDS


@pytest.mark.parametrize(
    ("name", "x"),
    [("grid", -1.0), ("grid", 0.37), ("grid", 1.0), ("bins", 0.3), ("bins", 1.0), ("category", 0), ("category", 2)],
)
def test_reports_of_many_users_fit_the_table(name, x):
    table, held = TABLES[name], session()
    xs = np.full(1000, x)
    data = b"".join(held.report_many(table, xs, user=user, round=9) for user in range(200))
    decoded = client.decode(data, table)
    assert len(decoded.output) == 200_000
    assert_g(np.bincount(decoded.output, minlength=table.outputs), law(table, x))


def test_single_reports_of_many_users_fit_the_table():
    held = session()
    data = b"".join(held.report(GRID, 0.37, user=user, round=user % 7) for user in range(20_000))
    assert_g(np.bincount(client.decode(data, GRID).output, minlength=5), law(GRID, 0.37))


def test_a_record_is_rounded_to_the_grid_with_its_exact_probability():
    """Every rounding word there is: 2^23 classes of 2^9."""
    x = 0.3
    _, part = split(np, x, SECOND.inputs, "grid")
    words = np.arange(2**23, dtype=np.uint32) << np.uint32(9)
    up = SECOND.report(x, np.uint32(2**31), words)  # at this word, row 0 gives output 0 and row 1 output 1
    assert int(up.sum()) == int(part) == 2**22 + round(x * 2**22)


def test_one_and_many_give_the_same_bytes():
    xs = np.linspace(-1.2, 1.2, 21)
    many = session().report_many(GRID, xs, user=5, round=6)
    held = session()
    one = [held.report(GRID, x, user=5, round=6, field=field) for field, x in enumerate(xs.tolist())]
    assert b"".join(one) == many
    assert held.to_bytes() != session().to_bytes()
    assert many == session().report_many(GRID, list(xs), user=np.uint64(5), round=np.int32(6))
    assert session().report_many(GRID, [0.5], user=1, round=1) == session().report(GRID, 0.5, user=1, round=1)


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_reported(name):
    table, held = TABLES[name], session()
    numbers = [
        math.nan,
        -math.nan,
        math.inf,
        -math.inf,
        1e30,
        -1e30,
        1e300,
        5e-324,
        10**400,
        -(10**400),
        2**63,
        2**64,
    ]
    numbers += [
        True,
        np.float16(0.5),
        np.float64(1e300),
        np.longdouble("1e4000"),
        np.int8(-3),
        np.uint64(2**64 - 1),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = b"".join(held.report(table, x, user=1, round=round) for round, x in enumerate(numbers))
        decoded = client.decode(data, table)
        assert len(decoded.output) == len(numbers)
        many = held.report_many(table, numbers, user=2, round=0)
        assert len(many) == 28 * len(numbers)
        held.report_many(table, np.array([1e300, math.nan], np.float64), user=2, round=1)


def test_out_of_range_is_the_end_of_the_range():
    for low, high in [(-1.0, -math.inf), (1.0, math.inf), (1.0, 10**400), (0.0, math.nan), (1.0, 1e300)]:
        assert session().report(GRID, low, user=1, round=1) == session().report(GRID, high, user=1, round=1)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    "x", [None, "0.5", 1j, b"1", [None], object(), Fraction(1, 2), np.datetime64("2020-01-01")]
)
def test_what_is_no_number_is_a_type_error(x):
    held = session()
    with pytest.raises(TypeError, match="real numbers"):
        held.report(GRID, x, user=1, round=0)
    with pytest.raises(TypeError, match="real numbers"):
        held.report_many(GRID, [x, x], user=1, round=0)
    assert held.spent(1).epsilon == 0


@pytest.mark.usefixtures("untyped")
def test_wrong_integers_are_refused_before_anything_is_drawn(monkeypatch):
    held = session()
    monkeypatch.setattr(client.Device, "_hash", lambda *_: pytest.fail("drawn"))
    good = {"user": 1, "round": 1, "field": 1}
    for name, bound in (("user", 2**64), ("round", 2**32), ("field", 2**32)):
        for wrong in (-1, bound, 1.0, "1", None, True, np.True_, np.float32(1), [1]):
            if name == "field":
                calls = [lambda **where: held.report(GRID, 0.5, **where)]
            else:
                calls = [
                    lambda field, **where: held.report(GRID, 0.5, **where),
                    lambda field, **where: held.report_many(GRID, [0.5], **where),
                    lambda field, **where: held.report_sampled(GRID, [0.5], 1, **where),
                    lambda field, **where: held.resend(GRID, **where),
                ]
            for call in calls:
                with pytest.raises(ValueError, match=f"{name} must be an integer"):
                    call(**good | {name: wrong})
    for k in (0, 3, -1, True, 1.0):
        with pytest.raises(ValueError, match="k must be an integer"):
            held.report_sampled(GRID, [0.5, 0.5], k, user=1, round=1)
    for xs in ([], [[0.5]], 0.5):
        with pytest.raises(ValueError, match="vector"):
            held.report_many(GRID, xs, user=1, round=1)
    with pytest.raises(ValueError, match="one number"):
        held.report(GRID, np.zeros(2), user=1, round=1)
    for user in (-1, True, 2**64):
        with pytest.raises(ValueError, match="user"):
            held.spent(user)
    assert held.spent(1).epsilon == 0


# One field, one release.


def test_a_second_record_is_refused_and_a_retry_gives_the_same_bytes():
    held = session()
    sent = held.report(GRID, -1.0, user=1, round=0, field=4)
    before = held.to_bytes()
    messages = set()
    for x in (1.0, -1.0, math.nan):  # the same record too: what is raised must not say which
        with pytest.raises(client.ReplayError) as error:
            held.report(GRID, x, user=1, round=0, field=4)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert held.to_bytes() == before
    assert held.resend(GRID, user=1, round=0) == held.resend(GRID, user=1, round=0, field=4) == sent
    with pytest.raises(ValueError, match="nothing to resend"):
        held.resend(GRID, user=1, round=0, field=5)
    with pytest.raises(ValueError, match="nothing to resend"):
        held.resend(BINS, user=1, round=0)
    for other in ({"user": 2}, {"round": 1}, {"field": 5}):
        held.report(GRID, 1.0, **{"user": 1, "round": 0, "field": 4} | other)
    held.report(BINS, 1.0, user=1, round=0, field=4)
    assert held.spent(1).epsilon == pytest.approx(3 * GRID.epsilon + BINS.epsilon)
    assert held.spent(2).epsilon == GRID.epsilon


def test_the_same_records_give_the_same_bytes_after_the_memory_was_lost():
    xs = [0.1, 0.9]
    assert session().report_many(GRID, xs, user=1, round=2) == session().report_many(GRID, xs, user=1, round=2)


def test_vectors_are_released_whole_or_not_at_all():
    held = session()
    held.report(GRID, 0.5, user=1, round=0, field=2)
    before = held.to_bytes()
    with pytest.raises(client.ReplayError, match="1 fields of user 1, round 0"):
        held.report_many(GRID, np.zeros(4), user=1, round=0)
    with pytest.raises(client.ReplayError, match="1 fields of user 1, round 0"):
        held.report_sampled(GRID, np.zeros(4), 1, user=1, round=0)
    assert held.to_bytes() == before
    sent = held.report_many(GRID, np.zeros(4), user=1, round=1)
    with pytest.raises(client.ReplayError, match="4 fields"):
        held.report_sampled(GRID, np.zeros(9), 1, user=1, round=1)
    assert held.resend(GRID, user=1, round=1) == sent
    assert held.resend(GRID, user=1, round=1, field=3) == sent[-28:]
    assert held.spent(1).epsilon == pytest.approx(5 * GRID.epsilon)


def test_an_error_while_reporting_spends_nothing(monkeypatch):
    held = session()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "report", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            held.report(GRID, 0.5, user=1, round=0)
    assert held.spent(1).epsilon == 0
    assert held.report(GRID, 0.5, user=1, round=0) == session().report(GRID, 0.5, user=1, round=0)


def test_threads_cannot_report_one_field_twice():
    held, sent, refused = session(), [], []

    def work(x):
        for round in range(200):
            try:
                sent.append(held.report(GRID, x, user=1, round=round))
            except client.ReplayError:
                refused.append(round)

    threads = [threading.Thread(target=work, args=(x,)) for x in (-1.0, 0.0, 1.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(sent), len(refused)) == (200, 400)


def test_a_session_goes_on_from_its_memory():
    held = session()
    held.report_many(GRID, np.zeros(3), user=1, round=0)
    held.report(CATEGORY, 2, user=2**64 - 1, round=2**32 - 1, field=2**32 - 1)
    again = client.Session.from_bytes(device(), held.to_bytes())
    assert again.to_bytes() == held.to_bytes()
    assert again.spent(1) == held.spent(1)
    assert again.resend(GRID, user=1, round=0) == held.resend(GRID, user=1, round=0)
    with pytest.raises(client.ReplayError):
        again.report(GRID, 0.5, user=1, round=0, field=1)
    with pytest.raises(ValueError, match="another device"):
        client.Session.from_bytes(client.Device.new(), held.to_bytes())
    assert client.Session.from_bytes(device(), session().to_bytes()).spent(1).epsilon == 0


def test_damaged_memory_is_refused():
    held = session()
    held.report(GRID, 0.5, user=1, round=0)
    good = json.loads(held.to_bytes())
    digest, user, round, fields, outputs = good["released"][0]
    bad = [
        {"format": "ldp-session 2"},
        {"device": None},
        {"epsilons": {}},
        {"epsilons": {digest: math.nan}},
        {"epsilons": {digest: -1.0}},
        {"epsilons": [1]},
        {"released": [[digest, -1, round, fields, outputs]]},
        {"released": [[digest, user, 2**32, fields, outputs]]},
        {"released": [[digest, user, round, [-1], outputs]]},
        {"released": [[digest, user, round, fields, [2**16]]]},
        {"released": [[digest, user, round, fields, []]]},
        {"released": [[digest, user, round, fields]]},
        {"released": good["released"] * 2},
    ]
    for change in bad:
        with pytest.raises(ValueError, match="no session's memory"):
            client.Session.from_bytes(device(), json.dumps(good | change).encode())
    for data in (b"", b"{}", b"[]", b"null", b"\xff", held.to_bytes()[:-1]):
        with pytest.raises(ValueError, match="no session's memory"):
            client.Session.from_bytes(device(), data)


# What it costs.


def test_the_guarantee_is_the_tables_and_never_rounds_down():
    one = client.guarantee(GRID)
    assert one.epsilon == GRID.epsilon <= LOG3
    assert (one.delta, one.arithmetic, one.status, one.unit.name) == (0.0, "exact", "proved", "record")
    for k in (2, 3, 7, 10, 1000, 12345):
        many = client.guarantee(BINS, k)
        assert Fraction(many.epsilon) >= k * Fraction(BINS.epsilon)
        assert many.epsilon <= math.nextafter(k * BINS.epsilon, math.inf)
        assert f"{k} fields" in str(many)
    held = session()
    held.report_many(BINS, np.zeros(7), user=1, round=0)
    held.report_sampled(BINS, np.zeros(7), 3, user=1, round=1)
    assert held.spent(1).epsilon == client.guarantee(BINS, 10).epsilon
    assert "releases: 10" in str(held.spent(1))
    assert held.spent(2).epsilon == 0


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("k", [0, -1, 1.0, True, None])
def test_a_guarantee_of_no_fields_is_refused(k):
    with pytest.raises(ValueError, match="k must be an integer"):
        client.guarantee(GRID, k)


# Sampled coordinates.


def test_sampled_coordinates_are_uniform():
    subsets = {subset: n for n, subset in enumerate(itertools.combinations(range(4), 2))}
    drawn = [subsets[tuple(device().sample(GRID, 4, 2, user=user, round=0))] for user in range(60_000)]
    assert_g(np.bincount(drawn, minlength=6), np.full(6, 1 / 6))


@pytest.mark.parametrize(("k", "dim"), [(1, 1), (1, 5), (3, 5), (5, 5), (17, 40), (100, 101)])
def test_sampled_reports_are_those_of_their_fields(k, dim):
    xs = np.linspace(-1, 1, dim)
    sent = session().report_sampled(GRID, xs, k, user=1, round=dim)
    decoded = client.decode(sent, GRID)
    fields = decoded.field.tolist()
    assert len(set(fields)) == k
    assert fields == sorted(fields)
    assert max(fields) < dim
    held = session()
    assert sent == b"".join(held.report(GRID, xs[f], user=1, round=dim, field=f) for f in fields)
    assert sent == session().report_sampled(GRID, xs, k, user=1, round=dim)


def test_which_coordinates_says_nothing_of_the_records():
    fields = {
        tuple(client.decode(session().report_sampled(GRID, xs, 3, user=1, round=0), GRID).field.tolist())
        for xs in (np.zeros(9), np.ones(9), np.full(9, np.nan), np.linspace(-1, 1, 9))
    }
    assert len(fields) == 1


def test_words_that_would_bias_a_draw_are_skipped(monkeypatch):
    """d = 3, k = 1 takes one word modulo 3: 2^32 - 1 is the one word too many."""
    words = [2**32 - 1, 2**32 - 2] + [0] * 14
    monkeypatch.setattr(client.Device, "_hash", lambda *_: np.array(words, "<u4").tobytes())
    assert device().sample(GRID, 3, 1, user=0, round=0) == [(2**32 - 2) % 3]
    assert (2**32 - 2) % 3 != (2**32 - 1) % 3


# The server.


def reports(n=10, table=GRID, user=1, round=0):
    return session().report_many(table, np.linspace(-1, 1, n), user=user, round=round)


def test_foreign_reports_are_counted_and_left_out():
    good = np.frombuffer(reports(), client.REPORT)
    wrong = good.copy()
    wrong["version"][0] = 2
    wrong["version"][1], wrong["table"][1], wrong["output"][1] = 0, 0, 65535  # the first reason counts
    wrong["table"][2] ^= 1
    wrong["output"][3] = GRID.outputs
    wrong["output"][4] = 65535
    decoded = client.decode(wrong.tobytes(), GRID)
    assert decoded.rejected == client.Rejected(version=2, table=1, output=2, replayed=0)
    assert decoded.field.tolist() == [5, 6, 7, 8, 9]
    assert len(decoded.seen) == 5
    # What was refused has not been seen: the true report still counts.
    later = client.decode(good.tobytes(), GRID, seen=decoded.seen)
    assert later.field.tolist() == [0, 1, 2, 3, 4]
    assert later.rejected == (0, 0, 0, 5)
    assert client.decode(reports(table=BINS), GRID).rejected == (0, 10, 0, 0)


@pytest.mark.parametrize("length", [1, 27, 29, 279])
def test_truncated_data_is_refused(length):
    with pytest.raises(ValueError, match="28 bytes each"):
        client.decode(reports()[:length], GRID)


def test_nothing_decodes_to_nothing():
    decoded = client.decode(b"", CATEGORY)
    assert decoded.estimate.shape == (0, 2)
    assert decoded.seen.dtype == client.TRIPLE
    assert len(decoded.seen) == len(client.vectors(decoded, 2, 4).user) == 0
    assert client.vectors(decoded, 2, 4).index.shape == (0, 2)


def test_replays_are_dropped_within_and_across_batches():
    rng = np.random.default_rng(0)
    data = np.zeros(3000, client.REPORT)
    data["version"], data["table"] = 1, int.from_bytes(GRID.digest[:8], "little")
    data["user"] = rng.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), 3000)
    data["round"] = rng.choice(np.array([0, 1, 2**32 - 1], np.uint32), 3000)
    data["field"] = rng.choice(np.array([0, 1, 5, 2**31, 2**32 - 1], np.uint32), 3000)
    data["output"] = rng.integers(0, 5, 3000)
    expected, first = [], {}
    for report in data.tolist():
        if report[2:5] not in first:
            first[report[2:5]] = report[5]
            expected.append(report[2:6])
    whole = client.decode(data.tobytes(), GRID)
    found = zip(*(a.tolist() for a in (whole.user, whole.round, whole.field, whole.output)), strict=True)
    assert list(found) == expected
    assert whole.rejected == (0, 0, 0, 3000 - len(expected))
    assert whole.seen.tolist() == sorted(first)

    seen, kept = None, 0
    for batch in np.array_split(data, 7):
        earlier = None if seen is None else seen.copy()
        part = client.decode(batch.tobytes(), GRID, seen=seen)
        if earlier is not None:
            np.testing.assert_array_equal(seen, earlier)  # pure
        seen, kept = part.seen, kept + len(part.output)
    assert kept == len(expected)
    np.testing.assert_array_equal(seen, whole.seen)
    assert len(client.decode(data.tobytes(), GRID, seen=seen).output) == 0


def test_the_first_report_wins():
    first, second = np.frombuffer(reports(1), client.REPORT).copy(), np.frombuffer(reports(1), client.REPORT).copy()
    first["output"], second["output"] = 3, 1
    assert client.decode(first.tobytes() + second.tobytes(), GRID).output.tolist() == [3]
    assert client.decode(second.tobytes() + first.tobytes(), GRID).output.tolist() == [1]


def test_a_foreign_memory_is_refused():
    for seen in (np.zeros(3), np.zeros((2, 2), client.TRIPLE), np.zeros(3, client.REPORT)):
        with pytest.raises(ValueError, match="seen must be TRIPLE"):
            client.decode(reports(), GRID, seen=seen)


def test_vectors_are_put_together():
    held = session()
    xs = np.linspace(-1, 1, 20)
    sent = [
        held.report_sampled(GRID, xs, 3, user=user, round=round) for user in (9, 2**64 - 1, 4) for round in (1, 0)
    ]
    shuffled = np.random.default_rng(1).permutation(np.frombuffer(b"".join(sent), client.REPORT))
    lone = held.report(GRID, 0.0, user=5, round=0)
    many = held.report_many(GRID, xs[:4], user=6, round=0)
    far = session().report_many(GRID, np.zeros(21), user=7, round=0)[-3 * 28 :]  # three fields, one beyond
    found = client.vectors(client.decode(shuffled.tobytes() + lone + many + far, GRID), 3, 20)
    assert found.user.tolist() == [4, 4, 9, 9, 2**64 - 1, 2**64 - 1]
    assert found.round.tolist() == [0, 1] * 3
    assert found.incomplete == 3
    assert found.index.dtype == found.output.dtype == np.int32
    for user, round, index, output in zip(found.user, found.round, found.index, found.output, strict=True):
        expected = client.decode(held.resend(GRID, user=user, round=round), GRID)
        assert index.tolist() == expected.field.tolist()
        assert output.tolist() == expected.output.tolist()


@pytest.mark.parametrize(("k", "dim"), [(0, 4), (5, 4), (1, 2**31), (-1, 4)])
def test_vectors_of_impossible_sizes_are_refused(k, dim):
    with pytest.raises(ValueError, match="must be an integer"):
        client.vectors(client.decode(reports(), GRID), k, dim)


# Where it runs.


def test_a_device_needs_neither_jax_nor_a_network():
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("network")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from ldp_jax import client
import numpy as np
masses = np.array([[3 << 30, 1 << 30], [1 << 30, 3 << 30]], np.uint32)
table = client.Table.from_bytes(client.Table("t", masses, np.float32([0, 1]), "grid").to_bytes())
session = client.Session(client.Device.new())
data = session.report_many(table, [0.1, 0.2], user=1, round=0) + session.report(table, 0.5, user=2, round=0)
assert len(client.decode(data, table).output) == 3
print(session.spent(1))
print(sorted({name.split(".")[0] for name in sys.modules if "jax" in name or name in ("scipy", "socket")}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['ldp_jax', 'socket']"


if __name__ == "__main__":
    VECTORS.parent.mkdir(exist_ok=True)
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n")
