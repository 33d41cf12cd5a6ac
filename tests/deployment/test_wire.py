"""Report bytes, their vectors, and what is done to them on the way."""

import itertools
import json
from hashlib import blake2b, sha256

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.core.integer_tables import Table
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import REPORT, FieldReports
from tests.deployment.vectors import GRID, PATH, SECRET, TABLES, device, make_vectors, session

SIZE = 36
KEY = bytes(range(100, 132))


def bits(data):
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def read(data, key):
    return wire.read(data, FieldReports(GRID), key)


def stream(n=10, **keys):
    return session(**keys).report_many(GRID, np.linspace(-1, 1, n), user=3, round=1)


@pytest.fixture(scope="module")
def vectors():
    return json.loads(PATH.read_text())


def test_the_vectors_are_reproduced(vectors):
    assert vectors == make_vectors()


def test_the_vectors_follow_from_the_module_docstrings_alone(vectors):
    """Another implementation: derivation, layout and checksums in plain integers, no function of the library."""
    secret = bytes.fromhex(vectors["secret"])
    key = blake2b(b"ldp_jax 2 shared", key=secret).digest()[:32]
    assert key.hex() == vectors["shared_key"]
    for name, table in vectors["tables"].items():
        shipped = bytes.fromhex(table["bytes"])
        assert shipped[-8:] == blake2b(b"ldp_jax 1 public" + shipped[:-8], digest_size=8).digest()
        assert sha256(shipped[:-8].replace(b"ldp-table 2", b"ldp-table 1")).hexdigest() == table["digest"]
        masses = Table.from_bytes(shipped).masses.tolist()
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
            expected = (2).to_bytes(2, "little") + digest[:8] + user.to_bytes(8, "little")
            expected += round.to_bytes(4, "little") + field.to_bytes(4, "little") + output.to_bytes(2, "little")
            plain = blake2b(b"ldp_jax 2 report" + expected, digest_size=8).digest()
            keyed = blake2b(b"ldp_jax 2 report" + expected, key=key, digest_size=8).digest()
            assert case["report"] == (expected + plain).hex()
            assert case["keyed"] == (expected + keyed).hex()
    start, name, tag, body = vectors["memory"].encode().split(b"\n")
    assert start == b"ldp-session 2"
    assert name.decode() == vectors["name"] == blake2b(b"ldp_jax 1 device", key=secret).digest()[:8].hex()
    signed = start + b"\n" + name + b"\n" + body
    memory_key = blake2b(b"ldp_jax 2 memory", key=secret).digest()[:32]
    assert tag.decode() == blake2b(signed, key=memory_key, digest_size=32).hexdigest()
    assert json.loads(body)["budget"] == 8.0


def test_memory_and_reports_of_the_vectors_are_read(vectors):
    kept = deployment.Session.from_bytes(device(), vectors["memory"].encode())
    assert (kept.budget, kept.counter) == (8.0, 3)
    data = b"".join(bytes.fromhex(case["report"]) for case in vectors["reports"])
    keyed = b"".join(bytes.fromhex(case["keyed"]) for case in vectors["reports"])
    assert REPORT.itemsize == SIZE
    for name, table in TABLES.items():
        assert deployment.Table.from_bytes(bytes.fromhex(vectors["tables"][name]["bytes"])) == table
        cases = [case for case in vectors["reports"] if case["table"] == name]
        for sent, key in ((data, None), (keyed, device().shared_key)):
            decoded = deployment.decode(sent, table, key=key)
            for attribute in ("user", "round", "field", "output"):
                assert getattr(decoded, attribute).tolist() == [case[attribute] for case in cases]
            np.testing.assert_array_equal(decoded.estimate, table.values[decoded.output])
            assert decoded.rejected == (0, 0, len(vectors["reports"]) - len(cases), 0, 0)


# Damage.


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
def test_every_flipped_bit_of_a_report_is_refused_and_the_rest_is_read(key):
    """All 288 bits, each in a copy of its own that has whole reports on both sides."""
    good = stream(1, key=key)
    other = session(key=key).report(GRID, 0.0, user=9, round=9)
    data = other + b"".join(flipped(good, bit) + other for bit in range(8 * SIZE))
    found = read(data, key)
    assert found.reports.tobytes() == other * (8 * SIZE + 1)
    assert (found.damaged, found.old) == (8 * SIZE, 0)


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
def test_20_000_random_flips_are_refused(key):
    """A flip passes with probability 2^-64; without a checksum, 59 in 100 read as something else."""
    data = stream(20_000, key=key)
    at = np.arange(20_000) * 8 * SIZE + np.random.default_rng(0).integers(0, 8 * SIZE, 20_000)
    mask = np.zeros(8 * len(data), np.uint8)
    mask[at] = 1
    damaged = np.packbits(bits(data) ^ mask, bitorder="little").tobytes()
    found = read(damaged, key)
    assert len(found.reports) == 0
    assert found.damaged == 20_000
    # two flips in each: no checksum of their sum
    again = np.packbits(bits(damaged) ^ np.roll(mask, 5), bitorder="little").tobytes()
    assert len(read(again, key).reports) == 0


def test_every_truncation_leaves_the_whole_reports():
    data = stream(4)
    for length in range(len(data) + 1):
        many, rest = divmod(length, SIZE)
        for part, whole in (
            (data[:length], data[: SIZE * many]),
            (data[len(data) - length :], data[SIZE * (4 - many) :]),
        ):
            found = read(part, None)
            assert found.reports.tobytes() == whole
            assert (found.damaged, found.old) == (rest > 0, 0)


def in_order(found, whole):
    """Whether the reports that were found are some of the whole ones, each once and in their order."""
    rest = iter(whole)
    return all(report.tobytes() in rest for report in found.reports)


@pytest.mark.parametrize(
    "sizes",
    [(1, 28, 36), pytest.param((2, 8, 27, 29, 35, 37, 44, 56, 72, 100), marks=pytest.mark.slow)],
    ids=["some", "more"],
)
def test_bytes_cut_out_never_join_two_reports(sizes):
    """Cuts of 13 lengths at every place of five reports: all that were not touched are read, and no others.

    (Where a cut takes as many bytes as it leaves of the same value, a report that it touched may be whole all the
    same: the first bytes of two reports are equal.)
    """
    data = stream(5)
    whole = [data[at : at + SIZE] for at in range(0, len(data), SIZE)]
    assert len(set(whole)) == 5
    for size in sizes:
        for start in range(len(data) - size + 1):
            found = read(data[:start] + data[start + size :], None)
            kept = [r for n, r in enumerate(whole) if SIZE * (n + 1) <= start or SIZE * n >= start + size]
            assert in_order(found, whole)
            assert {report.tobytes() for report in found.reports} >= set(kept)
            if size == 28:
                assert found.reports.tobytes() == b"".join(kept)
                assert found.damaged == 5 - len(kept)
            if size % SIZE:
                assert found.damaged


def test_bytes_put_in_cost_at_most_the_report_they_hit():
    data = stream(3)
    whole = [data[at : at + SIZE] for at in range(0, len(data), SIZE)]
    rng = np.random.default_rng(1)
    for start in range(len(data) + 1):
        for noise in (b"\x02\x00", data[:28], rng.bytes(7), b"\x02" * 36, data[8:43]):
            found = read(data[:start] + noise + data[start:], None)
            assert {report.tobytes() for report in found.reports} <= set(whole)  # one may be said twice
            assert len(found.reports) >= 3 - (start % SIZE > 0)
            assert found.damaged


def test_halves_of_two_reports_are_none():
    first, second = stream(2)[:SIZE], stream(2)[SIZE:]
    for cut in range(1, SIZE):
        assert len(read(first[:cut] + second[cut:], None).reports) == (first[:cut] == second[:cut])


@hypothesis.settings(max_examples=200)
@hypothesis.given(
    st.lists(
        st.one_of(st.binary(max_size=80), st.sampled_from([b"\x02\x00", stream(1), stream(2)[SIZE:] + b"\x01\x00"]))
    )
)
def test_whatever_the_bytes_nothing_is_raised_and_nothing_made_up(parts):
    data = b"".join(parts)
    for key in (None, KEY):
        found = read(data, key)
        sent = {stream(2)[:SIZE], stream(2)[SIZE:], stream(1)} if key is None else set()
        assert {report.tobytes() for report in found.reports} <= sent
        accounted = SIZE * len(found.reports) + SIZE * found.damaged + 28 * found.old
        assert accounted >= len(data)
        assert (found.damaged + found.old > 0) == (len(data) > SIZE * len(found.reports))


# Keys.


def test_a_key_is_asked_for_where_there_is_one():
    plain, keyed = stream(), stream(key=KEY)
    other = stream(key=KEY[::-1])
    assert [a[:28] for a in (plain, keyed, other)] == [plain[:28]] * 3  # the law does not change with it
    for data, key, good in ((plain, None, True), (keyed, KEY, True), (plain, KEY, False), (keyed, None, False)):
        found = read(data, key)
        assert (len(found.reports), found.damaged) == ((10, 0) if good else (0, 10))
    assert len(read(other, KEY).reports) == 0


def test_an_edited_report_with_a_plain_checksum_made_anew_passes_and_a_keyed_one_does_not():
    """What a plain checksum does not do, as the documentation says."""
    for key, passes in ((None, True), (KEY, False)):
        report = np.frombuffer(stream(1, key=key), REPORT).copy()
        report["output"] = (report["output"] + 1) % GRID.outputs
        signed = report.tobytes()[:28]
        forged = signed + blake2b(b"ldp_jax 2 report" + signed, digest_size=8).digest()
        assert len(read(forged, key).reports) == passes


def test_a_shared_key_says_nothing_of_secret_or_words():
    key = device().shared_key
    assert len(key) == 32
    assert key not in (SECRET, device().secret)
    assert key.hex() != device().name
    assert deployment.Device.from_secret(SECRET[::-1]).shared_key != key
    words = device().words(GRID, np.arange(1000), user=0, round=0)
    assert not set(np.frombuffer(key, "<u4").tolist()) & set(words.ravel().tolist())


# Version 1.


def version_1(n=4):
    """Reports as they were: 28 bytes, no checksum."""
    return b"".join(b"\x01\x00" + stream(n)[SIZE * at + 2 : SIZE * at + 28] for at in range(n))


def test_reports_of_version_1_are_counted_apart_and_refused():
    for data, old, kept in (
        (version_1(), 4, 0),
        (version_1() + stream(), 4, 10),
        (stream() + version_1(7), 7, 10),
        (stream(1) + version_1(1) + stream(1), 1, 2),
    ):
        found = read(data, None)
        assert (len(found.reports), found.damaged, found.old) == (kept, 0, old)
    assert read(version_1()[:-1], None)[1:] == (4, 0, 0)  # 111 bytes: four of 36 were begun
    rejected = deployment.decode(version_1(), GRID).rejected
    assert rejected == (0, 4, 0, 0, 0)
    assert "4 of version 1, which has no checksum (this reads version 2: update the devices)" in str(rejected)
