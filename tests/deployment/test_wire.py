"""Report bytes, their vectors, and what is done to them on the way."""

import itertools
import json
import re
from hashlib import blake2b, sha256

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.core.integer_tables import Table
from ldp_jax.deployment import codecs, wire
from ldp_jax.deployment.codecs import REPORT, FieldReports, NeighbourReports
from tests.deployment.vectors import (
    ASKED,
    GRID,
    PATH,
    TABLES,
    device,
    list_session,
    make_vectors,
    session,
)

KEY = bytes(range(100, 132))
FIELDS = FieldReports(GRID)
COUNTS = NeighbourReports(ASKED)
PAIRS = NeighbourReports(deployment.Pairs(3, 40, 1.0))
every_codec = pytest.mark.parametrize(
    "codec", [FIELDS, COUNTS, PAIRS], ids=["fields", "counts", "pairs"]
)
every_key = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])


def reports(codec, n, key=None):
    """n distinct reports."""
    if isinstance(codec, NeighbourReports):
        held = list_session(key=key)
        return [held.report_neighbours(codec.question, [1, 2, 5], user=user) for user in range(n)]
    data = session(key=key).report_many(GRID, np.linspace(-1, 1, n), user=3, round=1)
    return [data[at : at + REPORT.itemsize] for at in range(0, len(data), REPORT.itemsize)]


def read(codec, data, key=None):
    """The reports that are found, as bytes, and how many others were."""
    found, damaged, _ = codecs.read(data, codec, key)
    return [report.tobytes() for report in found], damaged


@pytest.fixture(scope="module")
def vectors():
    return json.loads(PATH.read_text())


def test_the_vectors_are_reproduced(vectors):
    assert vectors == make_vectors()


def test_the_vectors_follow_from_the_module_docstrings_alone(vectors):
    """Another implementation: derivation, layout and checksums in plain integers, no function of
    the library.
    """
    secret = bytes.fromhex(vectors["secret"])
    key = blake2b(b"ldp_jax 2 shared", key=secret).digest()[:32]
    assert key.hex() == vectors["shared_key"]
    for name, table in vectors["tables"].items():
        shipped = bytes.fromhex(table["bytes"])
        assert shipped[-8:] == blake2b(b"ldp_jax 1 public" + shipped[:-8], digest_size=8).digest()
        assert (
            sha256(shipped[:-8].replace(b"ldp-table 2", b"ldp-table 1")).hexdigest()
            == table["digest"]
        )
        masses = Table.from_bytes(shipped).masses.tolist()
        digest = bytes.fromhex(table["digest"])
        for case in (case for case in vectors["reports"] if case["table"] == name):
            user = case["user"]
            round = case["round"]
            field = case["field"]
            message = (
                b"ldp_jax 1 words."
                + digest
                + user.to_bytes(8, "little")
                + round.to_bytes(4, "little")
            )
            block = blake2b(
                message + (field // 8).to_bytes(4, "little"), key=secret, digest_size=64
            ).digest()
            word, rounding = (
                int.from_bytes(block[8 * (field % 8) + at :][:4], "little") for at in (0, 4)
            )
            assert (word, rounding) == (case["word"], case["rounding"])
            row = case["row"] + ((rounding >> 9) < case["part"])
            output = sum(word >= threshold for threshold in itertools.accumulate(masses[row][:-1]))
            assert output == case["output"]
            expected = (2).to_bytes(2, "little") + digest[:8] + user.to_bytes(8, "little")
            expected += (
                round.to_bytes(4, "little")
                + field.to_bytes(4, "little")
                + output.to_bytes(2, "little")
            )
            plain = blake2b(b"ldp_jax 2 report" + expected, digest_size=8).digest()
            keyed = blake2b(b"ldp_jax 2 report" + expected, key=key, digest_size=8).digest()
            assert case["report"] == (expected + plain).hex()
            assert case["keyed"] == (expected + keyed).hex()
    start, name, tag, body = vectors["memory"].encode().split(b"\n")
    assert start == b"ldp-session 2"
    assert (
        name.decode()
        == vectors["name"]
        == blake2b(b"ldp_jax 1 device", key=secret).digest()[:8].hex()
    )
    memory_key = blake2b(b"ldp_jax 2 memory", key=secret).digest()[:32]
    signed = start + b"\n" + name + b"\n" + body
    assert tag.decode() == blake2b(signed, key=memory_key, digest_size=32).hexdigest()
    assert json.loads(body)["budget"] == 8.0


def test_memory_and_reports_of_the_vectors_are_read(vectors):
    kept = deployment.Session.from_bytes(device(), vectors["memory"].encode())
    assert (kept.budget, kept.counter) == (8.0, 3)
    sent = b"".join(bytes.fromhex(case["keyed"]) for case in vectors["reports"])
    for name, table in TABLES.items():
        assert Table.from_bytes(bytes.fromhex(vectors["tables"][name]["bytes"])) == table
        cases = [case for case in vectors["reports"] if case["table"] == name]
        decoded = deployment.decode(sent, table, key=device().shared_key)
        for attribute in ("user", "round", "field", "output"):
            assert getattr(decoded, attribute).tolist() == [case[attribute] for case in cases]
        assert decoded.rejected == (0, len(vectors["reports"]) - len(cases), 0, 0)


@every_codec
@every_key
def test_every_flipped_bit_of_a_report_is_refused_and_the_rest_is_read(codec, key):
    """Every bit, each in a copy of its own that has whole reports on both sides."""
    good, other = reports(codec, 2, key)
    bits = 8 * len(good)
    flips = [
        (int.from_bytes(good, "big") ^ 1 << bit).to_bytes(len(good), "big") for bit in range(bits)
    ]
    found, damaged = read(codec, other + b"".join(flip + other for flip in flips), key)
    assert found == [other] * (bits + 1)
    assert damaged == bits


@every_codec
def test_every_truncation_leaves_the_whole_reports(codec):
    whole = reports(codec, 4)
    data = b"".join(whole)
    size = len(whole[0])
    for length in range(len(data) + 1):
        many, rest = divmod(length, size)
        assert read(codec, data[:length]) == (whole[:many], int(rest > 0))
        assert read(codec, data[len(data) - length :]) == (whole[4 - many :], int(rest > 0))


@every_codec
def test_bytes_cut_out_never_join_two_reports(codec):
    """Cuts at every place of five reports: all that were not touched are read, in their order, and
    no others.

    (Where a cut takes as many bytes as it leaves of the same value, a report that it touched may be
    whole all the same: the first bytes of two reports are equal.)
    """
    whole = reports(codec, 5)
    data = b"".join(whole)
    width = len(whole[0])
    assert len(set(whole)) == 5
    for size in (1, 28, 36):
        for start in range(len(data) - size + 1):
            found, damaged = read(codec, data[:start] + data[start + size :])
            kept = [
                r
                for n, r in enumerate(whole)
                if width * (n + 1) <= start or width * n >= start + size
            ]
            rest = iter(whole)
            assert all(report in rest for report in found)
            assert set(found) >= set(kept)
            assert damaged or size % width == 0


_PIECES = [
    *reports(FIELDS, 2),
    *reports(COUNTS, 2),
    b"\x02\x00",
    reports(FIELDS, 2)[1] + b"\x01\x00",
]
_PIECES += [reports(COUNTS, 2)[0][:30]]


@every_codec
@hypothesis.settings(max_examples=50)
@hypothesis.given(st.lists(st.binary(max_size=80) | st.sampled_from(_PIECES)))
def test_whatever_the_bytes_nothing_is_raised_and_nothing_made_up(codec, parts):
    data = b"".join(parts)
    sent = set(reports(codec, 2))
    size = codec.layout.itemsize
    for key in (None, KEY):
        found, damaged, foreign = codecs.read(data, codec, key)
        assert {one.tobytes() for one in found} <= (sent if key is None else set())
        assert size * (len(found) + damaged) + 72 * foreign >= len(data)
        assert (damaged + foreign > 0) == (len(data) > size * len(found))


def test_reading_takes_linear_time_whatever_the_bytes(monkeypatch):
    """Of reports of 131 KB, 1 MB of the first bytes alone is hashed once; what stands behind it is
    read.
    """
    asked = deployment.Question(0, [0, 1], num_groups=2**15 - 1, epsilon=1.0, most=20)
    sent = list_session().report_neighbours(asked, [1], user=0)
    mark = sent[:12]
    hashed = []
    tag = wire.tag
    monkeypatch.setattr(
        wire, "tag", lambda start, signed: hashed.append(len(signed)) or tag(start, signed)
    )
    million = 10**6
    for before in (
        mark * (million // 12),
        (mark + bytes(100)) * 9000,
        sent[:70_000] * 15,
        mark + bytes(million),
        sent[:-1],
    ):
        hashed.clear()
        found = deployment.decode(before + sent, asked)
        assert (found.user.tolist(), found.rejected.replayed) == ([0], 0)
        assert found.rejected.damaged == -(-len(before) // len(sent))
        assert sum(hashed) <= 2 * len(before + sent)


@every_codec
def test_a_key_is_asked_for_where_there_is_one(codec):
    plain, keyed, other = (reports(codec, 3, key) for key in (None, KEY, KEY[::-1]))
    assert [a[0][:-8] for a in (keyed, other)] == [
        plain[0][:-8]
    ] * 2  # the law does not change with it
    for sent, key, good in (
        (plain, None, 1),
        (keyed, KEY, 1),
        (plain, KEY, 0),
        (keyed, None, 0),
        (other, KEY, 0),
    ):
        assert read(codec, b"".join(sent), key) == (sent * good, 3 * (1 - good))
    signed = bytes([*plain[0][:-9], plain[0][-9] ^ 1])
    forged = signed + blake2b(codec.tag + signed, digest_size=8).digest()
    assert read(codec, forged)[0] == [
        forged
    ]  # what a plain checksum does not do, as the documentation says
    assert read(codec, forged, KEY)[0] == []


def test_the_docstring_lists_the_fields_of_both_reports():
    """Offset, name and size of each field; the page of the wire format includes the docstring."""
    row = r"^ +(\d+)( \+ 4 K)? +(\w+) +(\d+)( K)? bytes"
    listed = re.findall(row, codecs.__doc__, re.MULTILINE)
    found = [
        (int(at) + 8 * bool(more), name, int(size) * (2 if each else 1))
        for at, more, name, size, each in listed
    ]
    kinds = (REPORT, codecs.layout(2))
    assert found == [
        (kind.fields[name][1], name, kind[name].itemsize) for kind in kinds for name in kind.names
    ]
