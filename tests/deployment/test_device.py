"""One device: its secret, its words, its reports, its budget and its memory."""

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
from hashlib import blake2b

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget, Guarantee
from ldp_jax.core.integer_tables import WORDS, Table, split
from tests.deployment.vectors import BINS, CATEGORY, GRID, LOG3, SECOND, SECRET, TABLES, device, session
from tests.stats import assert_g

SIZE = 36

# Secrets.


def test_new_devices_differ_and_a_stored_secret_is_the_same_device():
    first, second = deployment.Device.new(), deployment.Device.new()
    assert first.secret != second.secret
    assert len(first.secret) == 32
    again = deployment.Device.from_secret(first.secret)
    assert again.name == first.name != second.name
    where = {"user": 1, "round": 2}
    assert deployment.Session(again, budget=9).report(GRID, 0.3, **where) == deployment.Session(
        first, budget=9
    ).report(GRID, 0.3, **where)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("secrets", "match"),
    [
        ((0, 42, 2**255, True, None, "a" * 32, bytearray(SECRET), 1.5), "entropy.*seed can be guessed"),
        ((b"", b"seed", SECRET[:15], SECRET[:31], SECRET + b"\0"), "32 bytes of entropy"),
        (tuple(s.to_bytes(32, o) for s in (0, 1, 123456789, 2**48) for o in ("little", "big")), "padded"),
    ],
    ids=["no bytes", "another length", "padded seeds"],
)
def test_what_can_be_guessed_is_no_secret(secrets, match):
    for secret in secrets:
        for make in (deployment.Device, deployment.Device.from_secret):
            with pytest.raises(ValueError, match=match):
                make(secret)


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
    lists = deployment.Session(held.device, budget=Budget(1.0, unit=NEIGHBOUR_LIST))
    for careless, one in itertools.product((pickle.dumps, copy.copy, copy.deepcopy), (held, lists)):
        with pytest.raises(
            TypeError, match="a session is neither pickled nor copied, or its budget is spent twice"
        ):
            careless(one)
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.device.secret = bytes(32)


# Words.


class Forgets(deployment.Device):
    """A device whose words are those of another field, user, round or table."""

    def __init__(self, part):
        super().__init__(SECRET)
        object.__setattr__(self, "part", part)

    def words(self, table, fields, *, user, round):
        given = {"table": table, "fields": fields, "user": user, "round": round}
        other = {"table": GRID, "fields": 0 * np.asarray(fields), "user": 0, "round": 0}
        return super().words(**given | {self.part: other[self.part]})


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


@pytest.mark.parametrize("part", ["fields", "round", "user", "table"])
def test_a_device_that_forgets_a_part_is_caught(part):
    assert repeated_words(device()) == 0
    assert repeated_words(Forgets(part)) > 0


def joint_counts(device, n=4000):
    """Outputs of two fields of one user, jointly."""
    held = deployment.Session(device, budget=1e9)
    data = b"".join(held.report_many(SECOND, [1.0, 1.0], user=u, round=0) for u in range(n))
    found = deployment.vectors(deployment.decode(data, SECOND), 2, 2)
    return np.bincount(2 * found.output[:, 0] + found.output[:, 1], minlength=4)


def test_the_fields_of_one_user_are_independent():
    law = SECOND.masses[1] / WORDS
    joint = np.outer(law, law).ravel()
    assert_g(joint_counts(device()), joint)
    with pytest.raises(AssertionError, match="G test"):
        assert_g(joint_counts(Forgets("fields")), joint)


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
    other = deployment.Device.from_secret(SECRET[::-1])
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
    [
        *(("grid", 0.37), ("bins", 0.3), ("category", 2)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("grid", -1.0), ("bins", 1.0), ("category", 0))),
    ],
)
def test_reports_of_many_users_fit_the_table(name, x):
    table, held = TABLES[name], session()
    xs = np.full(1000, x)
    data = b"".join(held.report_many(table, xs, user=user, round=9) for user in range(200))
    decoded = deployment.decode(data, table)
    assert len(decoded.output) == 200_000
    assert_g(np.bincount(decoded.output, minlength=table.outputs), law(table, x))


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


NUMBERS = [5e-324, 1e-300, -1e-40, np.float32(1e-45), np.float64(1e300), np.longdouble("1e-4900"), np.float16(6e-8),
           10**400, -(10**5000), 2**63, 2**64, True, np.int8(-3), np.uint64(2**64 - 1), 1e30, -1e30,
           math.nan, -math.nan, math.inf, -math.inf, np.longdouble("1e4000"), -0.0]  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("mode", ["warnings", "all", "under", "over", "invalid"])
def test_every_number_is_reported_whatever_numpy_does_about_errors(name, mode):
    """5e-324 is 0 in float32: an underflow, which told small records from others under ``np.seterr``."""
    table, held = TABLES[name], session()
    calm = b"".join(session().report(table, x, user=1, round=round) for round, x in enumerate(NUMBERS))
    with warnings.catch_warnings(), np.errstate(**{} if mode == "warnings" else {mode: "raise"}):
        warnings.simplefilter("error")
        assert b"".join(held.report(table, x, user=1, round=round) for round, x in enumerate(NUMBERS)) == calm
        assert len(deployment.decode(calm, table).output) == len(NUMBERS)
        for vector in (NUMBERS, np.array([5e-324, 1e300, math.nan]), np.float32([1e-45, 1e38])):
            assert session().report_many(table, vector, user=2, round=0)
            assert session().report_sampled(table, vector, 2, user=2, round=0)
            table.report(np.asarray([5e-324, 1e-300, 1e300, math.nan]), 0, 0)
    for low, high in [(-1.0, -math.inf), (1.0, math.inf), (1.0, 10**400), (0.0, math.nan), (1.0, 1e300)]:
        assert session().report(GRID, low, user=1, round=1) == session().report(GRID, high, user=1, round=1)


def test_threads_cannot_report_one_field_twice_nor_exceed_the_budget():
    def together(held, rounds, same_user):
        sent, refused = [], []

        def work(user):
            for round in range(rounds):
                try:
                    sent.append(held.report(GRID, float(user - 1), user=1 if same_user else user, round=round))
                except (deployment.ReplayError, deployment.BudgetError) as error:
                    refused.append(error)

        threads = [threading.Thread(target=work, args=(user,)) for user in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(sent), len(refused)

    assert together(session(), 200, True) == (200, 400)
    held = session(budget=100.5 * GRID.epsilon)
    assert together(held, 100, False) == (100, 200)
    assert held.counter == 100


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
    monkeypatch.setattr(deployment.Device, "_hash", lambda *_: pytest.fail("drawn"))
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
                with pytest.raises(ValueError, match=f"{name} must be a whole number"):
                    call(**good | {name: wrong})
    for k in (0, 3, -1, True, 1.0):
        with pytest.raises(ValueError, match="k must be a whole number"):
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
        with pytest.raises(deployment.ReplayError) as error:
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


def test_vectors_are_released_whole_or_not_at_all():
    held = session()
    held.report(GRID, 0.5, user=1, round=0, field=2)
    before = held.to_bytes()
    with pytest.raises(deployment.ReplayError, match="1 fields of user 1, round 0"):
        held.report_many(GRID, np.zeros(4), user=1, round=0)
    with pytest.raises(deployment.ReplayError, match="1 fields of user 1, round 0"):
        held.report_sampled(GRID, np.zeros(4), 1, user=1, round=0)
    assert held.to_bytes() == before
    sent = held.report_many(GRID, np.zeros(4), user=1, round=1)
    with pytest.raises(deployment.ReplayError, match="4 fields"):
        held.report_sampled(GRID, np.zeros(9), 1, user=1, round=1)
    assert held.resend(GRID, user=1, round=1) == sent
    assert held.resend(GRID, user=1, round=1, field=3) == sent[-SIZE:]
    assert held.spent(1).epsilon == pytest.approx(5 * GRID.epsilon)


def test_an_error_while_reporting_spends_nothing(monkeypatch):
    held = session()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "report", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            held.report(GRID, 0.5, user=1, round=0)
    assert held.spent(1).epsilon == 0
    assert held.report(GRID, 0.5, user=1, round=0) == session().report(GRID, 0.5, user=1, round=0)


def test_a_session_goes_on_from_its_memory():
    held = session()
    held.report_many(GRID, np.zeros(3), user=1, round=0)
    held.report(CATEGORY, 2, user=2**64 - 1, round=2**32 - 1, field=2**32 - 1)
    again = deployment.Session.from_bytes(device(), held.to_bytes())
    assert again.to_bytes() == held.to_bytes()
    assert again.spent(1) == held.spent(1)
    assert again.resend(GRID, user=1, round=0) == held.resend(GRID, user=1, round=0)
    with pytest.raises(deployment.ReplayError):
        again.report(GRID, 0.5, user=1, round=0, field=1)
    with pytest.raises(ValueError, match="another device"):
        deployment.Session.from_bytes(deployment.Device.new(), held.to_bytes())
    assert deployment.Session.from_bytes(device(), session().to_bytes()).spent(1).epsilon == 0


def kept():
    """A session with three releases, in two tables and under two pseudonyms."""
    held = session(budget=8.0)
    held.report_many(GRID, [0.1, -0.9], user=1, round=0)
    held.report(BINS, 0.4, user=2**64 - 1, round=0, field=7)
    return held


def written(body, of=None):
    """Memory with a right tag, whatever it says: the layout of the module's docstring, written twice."""
    of = of or device()
    head = b"ldp-session 2\n" + of.name.encode() + b"\n"
    key = blake2b(b"ldp_jax 2 memory", key=of.secret).digest()[:32]
    return head + blake2b(head + body, key=key, digest_size=32).hexdigest().encode() + b"\n" + body


@pytest.mark.slow
def test_every_flipped_bit_of_the_memory_is_refused():
    """One bit in the digits of a release once made 291 of 4 000 memories forget it."""
    data = kept().to_bytes()
    assert len(data) > 300
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="no session's memory"):
            deployment.Session.from_bytes(device(), bytes(damaged))


def test_truncated_and_joined_memory_is_refused():
    data = kept().to_bytes()
    for length in range(0, len(data), 7):
        flipped = data[:length] + bytes([data[length] ^ 1 << length % 8]) + data[length + 1 :]
        for part in (data[:length], data[length + 1 :], data[:length] + data[length + 1 :], flipped):
            with pytest.raises(ValueError, match="no session's memory"):
                deployment.Session.from_bytes(device(), part)
    for more in (b"\n", b" ", data):
        with pytest.raises(ValueError, match="no session's memory"):
            deployment.Session.from_bytes(device(), data + more)


def test_edited_and_foreign_memory_is_refused():
    data = kept().to_bytes()
    for old, new in ((b'"budget":8.0', b'"budget":9.0'), (b"[0,1]", b"[0,2]"), (b'"losses":', b'"Losses":')):
        assert data.count(old) == 1
        with pytest.raises(ValueError, match="damaged or edited, its tag is not this device's"):
            deployment.Session.from_bytes(device(), data.replace(old, new))
    other = deployment.Device.from_secret(SECRET[::-1])
    with pytest.raises(ValueError, match="another device's"):
        deployment.Session.from_bytes(other, data)
    renamed = data.replace(device().name.encode(), other.name.encode())
    with pytest.raises(ValueError, match="damaged or edited"):
        deployment.Session.from_bytes(other, renamed)
    for tag in (b"0" * 64, data[31:95].upper()):
        with pytest.raises(ValueError, match="damaged or edited"):
            deployment.Session.from_bytes(device(), data[:31] + tag + data[95:])


def test_memory_of_version_1_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match="of version 1, which anybody could edit: begin anew, with a new device"):
        deployment.Session.from_bytes(
            device(), b'{"format":"ldp-session 1","device":"00","epsilons":{},"released":[]}'
        )


def test_memory_that_was_rolled_back_is_found_by_its_counter():
    held = session(budget=8.0)
    old = held.to_bytes()
    held.report_many(GRID, [0.1, 0.2], user=1, round=0)
    newer = held.to_bytes()
    assert held.counter == 2
    held.resend(GRID, user=1, round=0)
    with pytest.raises(deployment.ReplayError):
        held.report(GRID, 0.3, user=1, round=0)
    assert held.counter == 2
    for at_least in (0, 1, 2):
        assert deployment.Session.from_bytes(device(), newer, at_least=at_least).counter == 2
    with pytest.raises(ValueError, match="rolled back: this memory knows of 0 releases where at least 2 were made"):
        deployment.Session.from_bytes(device(), old, at_least=2)
    with pytest.raises(ValueError, match="rolled back"):
        deployment.Session.from_bytes(device(), newer, at_least=3)
    # What cannot be found, as the documentation says: a whole older copy, where no counter is kept.
    assert deployment.Session.from_bytes(device(), old).remaining == 8.0


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("at_least", [-1, 2**64, 1.0, True, None, "1"])
def test_what_is_no_counter_is_refused(at_least):
    with pytest.raises(ValueError, match="at_least must be a whole number"):
        deployment.Session.from_bytes(device(), kept().to_bytes(), at_least=at_least)


def test_memory_of_every_other_form_is_a_value_error():
    """The same device wrote it, or somebody with its secret: no number and no nesting ends in another exception."""
    good = json.loads(kept().to_bytes().split(b"\n")[3])
    digest, high, low = good["losses"][0]
    _, user, round, fields, outputs = good["released"][0]
    assert (
        deployment.Session.from_bytes(device(), written(json.dumps(good, separators=(",", ":")).encode())).counter
        == 3
    )
    bad = [
        *({"budget": b} for b in (0, -1.0, math.nan, math.inf, 10**400, True, None, "8", [8.0], 8)),
        *({"losses": losses} for losses in ({}, None, 1, [1], [[digest]], [[digest, high, low, 1]])),
        *({"losses": [[name, high, low]]} for name in ("", digest[:-2], digest + "00", digest.upper(), 1, "zz")),
        *(
            {"losses": [[digest, *p]]}
            for p in ((low, high), (2**32, 1), (0, 1), (1, 0), (1.0, 1), (10**400, 1), (4, 2))
        ),
        {"losses": good["losses"] * 2},
        {"losses": good["losses"][:1]},
        {"released": [[digest, -1, round, fields, outputs]]},
        {"released": [[digest, 2**64, round, fields, outputs]]},
        {"released": [[digest, user, 2**32, fields, outputs]]},
        {"released": [[digest, user, round, [-1, 1], outputs]]},
        {"released": [[digest, user, round, [1, 1], outputs]]},
        {"released": [[digest, user, round, fields, [2**16, 1]]]},
        {"released": [[digest, user, round, fields, [True, 1]]]},
        {"released": [[digest, user, round, fields, [10**400, 1]]]},
        {"released": [[digest, user, round, fields, []]]},
        {"released": [[digest, user, round, [], []]]},
        {"released": [[digest, user, round, fields]]},
        {"released": [[None, user, round, fields, outputs]]},
        {"released": good["released"] * 2},
        {"released": None},
        {"more": 1},
    ]
    bodies = [json.dumps(good | change, separators=(",", ":")).encode() for change in bad]
    bodies += [json.dumps({n: v for n, v in good.items() if n != name}).encode() for name in good]
    bodies += [b"", b"{}", b"[]", b"null", b"1", b"\xff", b"[" * 100_000, b'{"budget":' * 50_000, b"9" * 10_000]
    bodies += [json.dumps(good).encode(), b'{"budget":1e999,"losses":[],"released":[]}']
    bodies += [
        b'{"budget":8.0,"budget":8.0,"losses":[],"released":[]}',
        b'{"budget":8.00,"losses":[],"released":[]}',
    ]
    for body in bodies:
        with pytest.raises(ValueError, match="no session's memory"):
            deployment.Session.from_bytes(device(), written(body))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2**70)
    | st.floats()
    | st.sampled_from([GRID.digest.hex(), BINS.digest.hex(), "", "zz"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["budget", "losses", "released", "x"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@hypothesis.settings(max_examples=300)
@hypothesis.given(
    st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode())), st.booleans()
)
def test_random_memory_is_a_value_error(body, sealed):
    with pytest.raises(ValueError, match="memory"):
        deployment.Session.from_bytes(device(), written(body) if sealed else body)


# The budget.


class Untouched:
    """A record that nobody may look at; as a vector, one of ``size`` numbers."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getattr__(self, name):
        raise AssertionError(f"the record was touched: {name}")

    def __getitem__(self, at):
        raise AssertionError("the record was touched")

    __float__ = __array__ = __index__ = __iter__ = __bool__ = lambda self, *_, **__: pytest.fail("touched")


def claims(table, name="epsilon 0.001, proved"):
    """The same masses under another name."""
    return dataclasses.replace(table, name=name)


@pytest.mark.usefixtures("untyped")
def test_a_table_that_loses_more_than_the_device_accepts_is_refused_whatever_it_is_called():
    """log 8 is lost where 2 is accepted; its name and header say otherwise, and the record is never looked at."""
    shipped = claims(BINS).to_bytes()
    assert deployment.Table.from_bytes(shipped).name == "epsilon 0.001, proved"
    for table in (BINS, claims(BINS), deployment.Table.from_bytes(shipped)):
        held = session(budget=2.0)
        for report in (
            lambda held=held, table=table: held.report(table, Untouched(1), user=1, round=0),
            lambda held=held, table=table: held.report_many(table, Untouched(1), user=1, round=0),
            lambda held=held, table=table: held.report_sampled(table, Untouched(3), 1, user=1, round=0),
        ):
            with pytest.raises(
                deployment.BudgetError, match="refused, whatever it is called.*loses epsilon 2.0794"
            ):
                report()
        assert held.counter == 0
        assert held.spent().epsilon == 0.0
        assert len(held.report(GRID, 0.3, user=1, round=0)) == SIZE  # log 3 fits


@pytest.mark.usefixtures("untyped")
def test_the_loss_is_computed_from_the_masses_and_not_from_what_is_stored():
    class Talks(Table):
        epsilon = 0.001
        loss = Fraction(1)
        digest = bytes(range(32))

    class Draws(Table):
        @property
        def thresholds(self):
            return np.zeros((4, 3), np.uint32)

        def report(self, x, word, rounding=None):
            return np.full(len(x), 3)

    kept = claims(BINS)
    vars(kept)["loss"] = Fraction(1)  # what a cached property keeps
    fields = (BINS.name, BINS.masses, BINS.values, BINS.encoding)
    for liar in (Talks(*fields), Draws(*fields), kept):
        with pytest.raises(deployment.BudgetError, match="2.0794"):
            session(budget=2.0).report(liar, 0.3, user=1, round=0)
        assert deployment.guarantee(liar).epsilon == BINS.epsilon
        held, honest = session(), session()
        sent = held.report_many(liar, [0.3, 0.4, 0.1], user=1, round=0)
        named = BINS if liar is not kept else kept
        assert sent == honest.report_many(named, [0.3, 0.4, 0.1], user=1, round=0)
        assert held.spent() == honest.spent()
        assert held.resend(liar, user=1, round=0) == sent
        with pytest.raises(deployment.ReplayError):  # another digest is no way round
            held.report(named, 0.3, user=1, round=0)
    with pytest.raises(TypeError, match="expected a Table, got str"):
        session().report("a table", 0.3, user=1, round=0)


@pytest.mark.usefixtures("untyped")
def test_the_budget_is_the_devices_over_pseudonyms_rounds_fields_and_tables():
    """Seven times log 3 fits in 8; no pseudonym, round, field, name or table begins anew."""
    held = session(budget=8.0)
    held.report(GRID, 0.1, user=1, round=0)
    held.report(GRID, 0.1, user=2, round=0)
    held.report(GRID, 0.1, user=1, round=1)
    held.report(GRID, 0.1, user=1, round=1, field=1)
    held.report_many(claims(GRID), [0.1, 0.2], user=3, round=3)
    held.report_sampled(CATEGORY, [0, 1, 2], 1, user=4, round=0)
    spent = 6 * Fraction(GRID.epsilon) + Fraction(CATEGORY.epsilon)
    assert held.spent().epsilon >= spent > math.nextafter(held.spent().epsilon, 0)
    assert held.remaining <= 8 - spent < math.nextafter(held.remaining, 9)
    before = held.to_bytes()
    for table in (GRID, claims(GRID, "another"), CATEGORY, SECOND):
        with pytest.raises(deployment.BudgetError, match="do not fit: the device accepts 8.0 in all and has 0.309"):
            held.report(table, Untouched(1), user=99, round=99)
    with pytest.raises(deployment.BudgetError):
        held.report_many(GRID, Untouched(2), user=99, round=99)
    assert held.to_bytes() == before
    # the memory keeps what is spent and what is accepted
    again = deployment.Session.from_bytes(device(), before)
    assert (again.budget, again.remaining, again.counter) == (8.0, held.remaining, 7)
    with pytest.raises(deployment.BudgetError):
        again.report(GRID, Untouched(1), user=99, round=99)
    assert again.resend(GRID, user=1, round=0) == held.resend(GRID, user=1, round=0)


def test_a_vector_fits_whole_or_not_at_all():
    held = session(budget=3.5)  # three times log 3
    with pytest.raises(deployment.BudgetError, match="4 fields"):
        held.report_many(GRID, np.zeros(4), user=1, round=0)
    with pytest.raises(deployment.BudgetError, match="4 fields"):
        held.report_sampled(GRID, np.zeros(9), 4, user=1, round=0)
    assert held.counter == 0
    held.report_many(GRID, np.zeros(3), user=1, round=0)


def test_a_budget_is_met_to_the_last_bit():
    """Ten times 0.1 in floats is below ten times the float 0.1: sums are fractions, and never below the truth."""
    for times in (1, 3, 7, 10, 1000):
        exact = times * Fraction(GRID.epsilon)
        enough = float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)
        for budget, fits in ((enough, True), (math.nextafter(enough, 0), False)):
            held = session(budget=budget)
            if times > 1:
                held.report_many(GRID, np.zeros(times - 1), user=1, round=0)
            if fits:
                held.report(GRID, 0.0, user=2, round=0)
                assert held.spent().epsilon == budget
                assert held.remaining >= 0
            else:
                with pytest.raises(deployment.BudgetError):
                    held.report(GRID, 0.0, user=2, round=0)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("budget", [0, -1.0, math.nan, math.inf, True, None, "1", 1j, 10**400, np.ones(2)])
def test_what_is_no_budget_is_refused(budget):
    with pytest.raises(ValueError, match="budget must be a finite epsilon > 0"):
        session(budget=budget)


def test_a_budget_is_asked_for_and_is_a_number_or_a_budget_of_records():
    with pytest.raises(TypeError, match="budget"):
        deployment.Session(device())
    for budget in (2, 2.0, np.float32(2), np.int64(2), Budget(2.0)):
        assert session(budget=budget).budget == 2.0
    for other in (Budget(2.0, unit=RELATIONSHIP), Budget(2.0, delta=1e-6)):
        with pytest.raises(ValueError, match="of records or neighbour-lists and without delta"):
            session(budget=other)
    with pytest.raises(ValueError, match="budget must be a finite epsilon"):
        session(budget=Guarantee(2.0))


def test_the_devices_secret_is_no_key():
    with pytest.raises(ValueError, match="device's secret"):
        session(key=SECRET)
    with pytest.raises(ValueError, match="key is the device's secret"):
        deployment.Session.from_bytes(device(), kept().to_bytes(), key=SECRET)
    key = device().shared_key
    again = deployment.Session.from_bytes(device(), kept().to_bytes(), key=key)
    assert deployment.decode(again.resend(GRID, user=1, round=0), GRID, key=key).rejected.total == 0


# What it costs.


@pytest.mark.usefixtures("untyped")
def test_the_guarantee_is_the_tables_and_never_rounds_down():
    one = deployment.guarantee(GRID)
    assert one.epsilon == GRID.epsilon <= LOG3
    assert (one.delta, one.arithmetic, one.status, one.unit.name) == (0.0, "exact", "proved", "record")
    for k in (2, 3, 7, 10, 1000, 12345):
        many = deployment.guarantee(BINS, k)
        assert Fraction(many.epsilon) >= k * Fraction(BINS.epsilon)
        assert many.epsilon <= math.nextafter(k * BINS.epsilon, math.inf)
        assert f"{k} fields" in str(many)
    for k in (0, -1, 1.0, True, None):
        with pytest.raises(ValueError, match="k must be a whole number"):
            deployment.guarantee(GRID, k)
    held = session()
    held.report_many(BINS, np.zeros(7), user=1, round=0)
    held.report_sampled(BINS, np.zeros(7), 3, user=1, round=1)
    assert held.spent(1).epsilon == deployment.guarantee(BINS, 10).epsilon
    assert "releases: 10" in str(held.spent(1))
    assert held.spent(2).epsilon == 0


# Sampled coordinates.


def test_sampled_coordinates_are_uniform():
    subsets = {subset: n for n, subset in enumerate(itertools.combinations(range(4), 2))}
    drawn = [subsets[tuple(device().sample(GRID, 4, 2, user=user, round=0))] for user in range(60_000)]
    assert_g(np.bincount(drawn, minlength=6), np.full(6, 1 / 6))


@pytest.mark.parametrize(("k", "dim"), [(1, 1), (1, 5), (3, 5), (5, 5), (17, 40), (100, 101)])
def test_sampled_reports_are_those_of_their_fields(k, dim):
    xs = np.linspace(-1, 1, dim)
    sent = session().report_sampled(GRID, xs, k, user=1, round=dim)
    decoded = deployment.decode(sent, GRID)
    fields = decoded.field.tolist()
    assert len(set(fields)) == k
    assert fields == sorted(fields)
    assert max(fields) < dim
    held = session()
    assert sent == b"".join(held.report(GRID, xs[f], user=1, round=dim, field=f) for f in fields)
    assert sent == session().report_sampled(GRID, xs, k, user=1, round=dim)


def test_which_coordinates_says_nothing_of_the_records():
    fields = {
        tuple(deployment.decode(session().report_sampled(GRID, xs, 3, user=1, round=0), GRID).field.tolist())
        for xs in (np.zeros(9), np.ones(9), np.full(9, np.nan), np.linspace(-1, 1, 9))
    }
    assert len(fields) == 1


def test_words_that_would_bias_a_draw_are_skipped(monkeypatch):
    """d = 3, k = 1 takes one word modulo 3: 2^32 - 1 is the one word too many."""
    words = [2**32 - 1, 2**32 - 2] + [0] * 14
    monkeypatch.setattr(deployment.Device, "_hash", lambda *_: np.array(words, "<u4").tobytes())
    assert device().sample(GRID, 3, 1, user=0, round=0) == [(2**32 - 2) % 3]
    assert (2**32 - 2) % 3 != (2**32 - 1) % 3


# Where it runs.


def test_a_device_needs_neither_jax_nor_a_network():
    code = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("network")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
from ldp_jax import deployment
import numpy as np
masses = np.array([[3 << 30, 1 << 30], [1 << 30, 3 << 30]], np.uint32)
table = deployment.Table.from_bytes(deployment.Table("t", masses, np.float32([0, 1]), "grid").to_bytes())
session = deployment.Session(deployment.Device.new(), budget=10.0)
data = session.report_many(table, [0.1, 0.2], user=1, round=0) + session.report(table, 0.5, user=2, round=0)
assert len(deployment.decode(data, table).output) == 3
print(session.spent(1))
print(sorted({name.split(".")[0] for name in sys.modules if "jax" in name or name in ("scipy", "socket")}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['ldp_jax', 'socket']"
