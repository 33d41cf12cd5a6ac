"""What the server takes, and what it refuses and why."""

import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import REPORT, FieldReports
from ldp_jax.deployment.collector import TRIPLE
from tests.deployment.vectors import BINS, CATEGORY, GRID, device, session

SIZE = 36


def reports(n=10, table=GRID, user=1, round=0, **keys):
    return session(**keys).report_many(table, np.linspace(-1, 1, n), user=user, round=round)


def sealed(found):
    """Reports with right checksums, whatever they say: what a broken or hostile device can send."""
    parts = [FieldReports(GRID).pack([0], [0], 0, 0, None)[:2] + row.tobytes()[2:28] for row in found]
    return b"".join(part + wire.tag(wire.tag_start(b"ldp_jax 2 report", None), part) for part in parts)


def test_foreign_reports_are_counted_and_left_out():
    good = np.frombuffer(reports(), REPORT)
    wrong = good.copy()
    wrong["table"][1], wrong["output"][1] = 0, 65535  # the first reason counts
    wrong["table"][2] ^= 1
    wrong["output"][3] = GRID.outputs
    wrong["output"][4] = 65535
    data = bytearray(sealed(wrong))
    data[5] ^= 1
    decoded = deployment.decode(bytes(data), GRID)
    assert decoded.rejected == deployment.Rejected(damaged=1, version=0, foreign=2, impossible=2, replayed=0)
    assert decoded.rejected.total == 5
    assert decoded.field.tolist() == [5, 6, 7, 8, 9]
    assert len(decoded.seen) == 5
    # What was refused has not been seen: the true report still counts.
    later = deployment.decode(good.tobytes(), GRID, seen=decoded.seen)
    assert later.field.tolist() == [0, 1, 2, 3, 4]
    assert later.rejected == (0, 0, 0, 0, 5)
    assert deployment.decode(reports(table=BINS), GRID).rejected == (0, 0, 10, 0, 0)


def test_what_is_refused_is_said():
    assert str(deployment.Rejected(0, 0, 0, 0, 0)) == "0 reports refused"
    said = str(deployment.Rejected(1, 2, 3, 4, 5))
    for part in (
        "15 reports refused",
        "1 damaged",
        "2 of version 1",
        "3 about another",
        "4 that no device",
        "5 replayed",
    ):
        assert part in said


@pytest.mark.parametrize("length", [1, 35, 37, 359])
def test_truncated_data_is_read_as_far_as_it_goes(length):
    decoded = deployment.decode(reports()[:length], GRID)
    assert len(decoded.output) == length // SIZE
    assert decoded.rejected == (1, 0, 0, 0, 0)


def test_a_damaged_report_counts_when_it_is_sent_again():
    data = bytearray(reports())
    data[3 * SIZE + 26] ^= 1  # its output
    first = deployment.decode(bytes(data), GRID)
    assert first.field.tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    second = deployment.decode(reports(), GRID, seen=first.seen)
    assert second.field.tolist() == [3]
    assert second.rejected == (0, 0, 0, 0, 9)


def test_a_collector_with_a_key_takes_nothing_else():
    key = device().shared_key
    keyed, plain = reports(key=key), reports()
    assert deployment.decode(keyed, GRID, key=key).rejected.total == 0
    mixed = deployment.decode(plain[:SIZE] + keyed[SIZE:], GRID, key=key)
    assert mixed.field.tolist() == list(range(1, 10))
    assert mixed.rejected == (1, 0, 0, 0, 0)
    assert deployment.decode(keyed, GRID).rejected == (10, 0, 0, 0, 0)
    assert deployment.decode(keyed, GRID, key=key[::-1]).rejected == (10, 0, 0, 0, 0)


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("key", [b"", b"key", bytes(32), bytes(range(31)), "a" * 32, 7])
def test_what_can_be_guessed_is_no_key(key):
    with pytest.raises(ValueError, match="a key is 32 bytes of entropy"):
        deployment.decode(reports(), GRID, key=key)
    with pytest.raises(ValueError, match="a key is 32 bytes of entropy"):
        session(key=key)


def test_nothing_decodes_to_nothing():
    decoded = deployment.decode(b"", CATEGORY)
    assert decoded.estimate.shape == (0, 2)
    assert decoded.seen.dtype == TRIPLE
    assert len(decoded.seen) == len(deployment.vectors(decoded, 2, 4).user) == 0
    assert deployment.vectors(decoded, 2, 4).index.shape == (0, 2)


def test_replays_are_dropped_within_and_across_batches():
    rng = np.random.default_rng(0)
    data = np.zeros(3000, REPORT)
    data["table"] = int.from_bytes(GRID.digest[:8], "little")
    data["user"] = rng.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), 3000)
    data["round"] = rng.choice(np.array([0, 1, 2**32 - 1], np.uint32), 3000)
    data["field"] = rng.choice(np.array([0, 1, 5, 2**31, 2**32 - 1], np.uint32), 3000)
    data["output"] = rng.integers(0, 5, 3000)
    expected, first = [], {}
    for report in data.tolist():
        if report[2:5] not in first:
            first[report[2:5]] = report[5]
            expected.append(report[2:6])
    whole = deployment.decode(sealed(data), GRID)
    found = zip(*(a.tolist() for a in (whole.user, whole.round, whole.field, whole.output)), strict=True)
    assert list(found) == expected
    assert whole.rejected == (0, 0, 0, 0, 3000 - len(expected))
    assert whole.seen.tolist() == sorted(first)

    seen, kept = None, 0
    for batch in np.array_split(data, 7):
        earlier = None if seen is None else seen.copy()
        part = deployment.decode(sealed(batch), GRID, seen=seen)
        if earlier is not None:
            np.testing.assert_array_equal(seen, earlier)  # pure
        seen, kept = part.seen, kept + len(part.output)
    assert kept == len(expected)
    np.testing.assert_array_equal(seen, whole.seen)
    assert len(deployment.decode(sealed(data), GRID, seen=seen).output) == 0


def test_the_first_report_wins():
    first, second = (
        np.frombuffer(reports(1), REPORT).copy(),
        np.frombuffer(reports(1), REPORT).copy(),
    )
    first["output"], second["output"] = 3, 1
    assert deployment.decode(sealed(first) + sealed(second), GRID).output.tolist() == [3]
    assert deployment.decode(sealed(second) + sealed(first), GRID).output.tolist() == [1]


def test_a_foreign_memory_is_refused():
    for seen in (np.zeros(3), np.zeros((2, 2), TRIPLE), np.zeros(3, REPORT)):
        with pytest.raises(ValueError, match="seen must be TRIPLE"):
            deployment.decode(reports(), GRID, seen=seen)


def test_vectors_are_put_together():
    held = session()
    xs = np.linspace(-1, 1, 20)
    sent = [
        held.report_sampled(GRID, xs, 3, user=user, round=round) for user in (9, 2**64 - 1, 4) for round in (1, 0)
    ]
    shuffled = np.random.default_rng(1).permutation(np.frombuffer(b"".join(sent), REPORT))
    lone = held.report(GRID, 0.0, user=5, round=0)
    many = held.report_many(GRID, xs[:4], user=6, round=0)
    far = session().report_many(GRID, np.zeros(21), user=7, round=0)[-3 * SIZE :]  # three fields, one beyond
    found = deployment.vectors(deployment.decode(shuffled.tobytes() + lone + many + far, GRID), 3, 20)
    assert found.user.tolist() == [4, 4, 9, 9, 2**64 - 1, 2**64 - 1]
    assert found.round.tolist() == [0, 1] * 3
    assert found.incomplete == 3
    assert found.index.dtype == found.output.dtype == np.int32
    for user, round, index, output in zip(found.user, found.round, found.index, found.output, strict=True):
        expected = deployment.decode(held.resend(GRID, user=user, round=round), GRID)
        assert index.tolist() == expected.field.tolist()
        assert output.tolist() == expected.output.tolist()


@pytest.mark.parametrize(("k", "dim"), [(0, 4), (5, 4), (1, 2**31), (-1, 4)])
def test_vectors_of_impossible_sizes_are_refused(k, dim):
    with pytest.raises(ValueError, match="must be a whole number"):
        deployment.vectors(deployment.decode(reports(), GRID), k, dim)
