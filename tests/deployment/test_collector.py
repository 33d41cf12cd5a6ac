"""What the server takes, and what it refuses and why."""

import dataclasses
import itertools

import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import REPORT, FieldReports, NeighbourReports
from ldp_jax.deployment.collector import TRIPLE
from tests.deployment.vectors import ASKED, BINS, CATEGORY, GRID, MINE, list_session, session

SIZE = 36


def reports(n=10, table=GRID, user=1, round=0, **keys):
    return session(**keys).report_many(table, np.linspace(-1, 1, n), user=user, round=round)


def counts(user=0, asked=ASKED, **keys):
    return list_session(**keys).report_neighbours(asked, MINE if asked is ASKED else [0], user=user)


def sealed(found):
    """Reports with right checksums, whatever they say: what a broken or hostile device can send."""
    parts = [
        FieldReports(GRID).pack([0], [0], 0, 0, None)[:2] + row.tobytes()[2:28] for row in found
    ]
    return b"".join(
        part + wire.tag(wire.tag_start(b"ldp_jax 2 report", None), part) for part in parts
    )


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
    assert decoded.rejected == deployment.Rejected(damaged=1, foreign=2, impossible=2, replayed=0)
    assert str(decoded.rejected).startswith("5 reports refused")
    assert decoded.field.tolist() == [5, 6, 7, 8, 9]
    # What was refused has not been seen: the true report still counts.
    later = deployment.decode(good.tobytes(), GRID, seen=decoded.seen)
    assert later.field.tolist() == [0, 1, 2, 3, 4]
    assert later.rejected == (0, 0, 0, 5)
    assert deployment.decode(reports(table=BINS), GRID).rejected == (0, 10, 0, 0)
    assert deployment.decode(counts(), GRID).rejected.damaged
    assert deployment.decode(reports(1), ASKED).rejected == (1, 0, 0, 0)


def test_counts_that_count_for_nothing_are_counted_apart():
    small = deployment.Question(0, [0, 1], num_groups=2, epsilon=1.0, most=20)
    foreign = counts(1, dataclasses.replace(ASKED, round=9)) + counts(1, small)
    wrong = NeighbourReports(ASKED).pack(range(5), [0] * 5, 12, 3, None)
    sent = foreign + counts(2) + foreign + wrong + counts(3) + counts(2) + b"junk"
    found = deployment.decode(sent, ASKED)
    assert found.user.tolist() == [2, 3]
    assert found.rejected == deployment.Rejected(damaged=1, foreign=4, impossible=1, replayed=1)
    second = deployment.decode(counts(2) + counts(0), ASKED, seen=found.seen)
    assert (second.user.tolist(), second.rejected.replayed) == ([0], 1)
    assert second.seen["user"].tolist() == [0, 2, 3]


def test_counts_are_possible_where_user_round_and_every_count_are():
    """Of 300 drawn reports with right checksums, each wrong in none, some or all of the three."""
    rng = np.random.default_rng(0)
    margin = ASKED.noise.margin
    for number in range(300):
        user, round, count = rng.random(3) < 0.3
        low = -margin
        high = ASKED.most + margin
        counts = rng.choice([low, 0, high, rng.integers(low, high)], 5)
        if count:
            counts[rng.integers(5)] = rng.choice([low - 1, high + 1, 2**31 - 1])
        who = int(rng.integers(12, 2**40)) if user else int(rng.integers(12))
        when = int(rng.choice([0, 2, 4, 2**32 - 1])) if round else 3
        data = NeighbourReports(ASKED).pack(range(5), counts, who, when, None)
        found = deployment.decode(data, ASKED)
        assert found.rejected.impossible == (user or round or count), number
        assert found.user.tolist() == ([] if user or round or count else [who])


@pytest.mark.parametrize(("asked", "shape"), [(CATEGORY, (0, 2)), (ASKED, (0, 5))])
def test_nothing_decodes_to_nothing(asked, shape):
    decoded = deployment.decode(b"", asked)
    assert (decoded.estimate.shape, decoded.seen.dtype, len(decoded.seen)) == (shape, TRIPLE, 0)
    if asked is CATEGORY:
        assert deployment.vectors(decoded, 2, 4).index.shape == (0, 2)


def test_replays_are_dropped_within_and_across_batches():
    rng = np.random.default_rng(0)
    data = np.zeros(1000, REPORT)
    data["table"] = int.from_bytes(GRID.digest[:8], "little")
    data["user"] = rng.choice(np.array([0, 1, 2**63, 2**64 - 1], np.uint64), 1000)
    data["round"] = rng.choice(np.array([0, 1, 2**32 - 1], np.uint32), 1000)
    data["field"] = rng.choice(np.array([0, 1, 5, 2**31, 2**32 - 1], np.uint32), 1000)
    data["output"] = rng.integers(0, 5, 1000)
    first = {}
    for report in data.tolist():
        first.setdefault(report[2:5], report[5])  # the first report wins
    whole = deployment.decode(sealed(data), GRID)
    found = zip(
        *(a.tolist() for a in (whole.user, whole.round, whole.field, whole.output)), strict=True
    )
    assert list(found) == [(*triple, output) for triple, output in first.items()]
    assert whole.rejected == (0, 0, 0, 1000 - len(first))
    assert whole.seen.tolist() == sorted(first)

    seen = np.zeros(0, TRIPLE)
    kept = 0
    for batch in np.array_split(data, 7):
        earlier = seen.copy()
        part = deployment.decode(sealed(batch), GRID, seen=seen)
        np.testing.assert_array_equal(seen, earlier)  # pure
        seen = part.seen
        kept = kept + len(part.output)
    assert kept == len(first)
    np.testing.assert_array_equal(seen, whole.seen)
    assert len(deployment.decode(sealed(data), GRID, seen=seen).output) == 0


def test_vectors_are_put_together():
    held = session()
    xs = np.linspace(-1, 1, 20)
    sent = [
        held.report_sampled(GRID, xs, 3, user=user, round=round)
        for user in (9, 2**64 - 1, 4)
        for round in (1, 0)
    ]
    shuffled = np.random.default_rng(1).permutation(np.frombuffer(b"".join(sent), REPORT))
    lone = held.report(GRID, 0.0, user=5, round=0)
    many = held.report_many(GRID, xs[:4], user=6, round=0)
    far = session().report_many(GRID, np.zeros(21), user=7, round=0)[
        -3 * SIZE :
    ]  # three fields, one beyond
    found = deployment.vectors(
        deployment.decode(shuffled.tobytes() + lone + many + far, GRID), 3, 20
    )
    assert found.user.tolist() == [4, 4, 9, 9, 2**64 - 1, 2**64 - 1]
    assert found.round.tolist() == [0, 1] * 3
    assert found.incomplete == 3
    assert found.index.dtype == found.output.dtype == np.int32
    for user, round, index, output in zip(
        found.user, found.round, found.index, found.output, strict=True
    ):
        expected = deployment.decode(held.resend(GRID, user=user, round=round), GRID)
        assert index.tolist() == expected.field.tolist()
        assert output.tolist() == expected.output.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_uploads_changes_neither_what_was_seen_nor_any_vector(seed):
    """Shuffled reports are read in two calls; vectors come by user and round."""
    rng = np.random.default_rng(seed)
    held = session(budget=500.0)
    names = list(itertools.product((9, 2, 5), (1, 0, 7), (3, 0, 4)))
    sent = {
        (user, round, field): held.report(GRID, 0.1 * field, user=user, round=round, field=field)
        for user, round, field in names
    }
    order = [names[place] for place in rng.permutation(len(names))]
    first = deployment.decode(b"".join(sent[name] for name in order[:13]), GRID)
    second = deployment.decode(b"".join(sent[name] for name in order), GRID, seen=first.seen)
    assert second.rejected.replayed == 13
    columns = [second.user.tolist(), second.round.tolist(), second.field.tolist()]
    assert list(zip(*columns, strict=True)) == order[13:]
    assert second.seen.tolist() == sorted(names)
    every = deployment.decode(b"".join(sent[name] for name in order), GRID)
    made = deployment.vectors(every, 3, 5)
    rows = list(zip(made.user.tolist(), made.round.tolist(), made.output.tolist(), strict=True))
    assert [row[:2] for row in rows] == sorted({name[:2] for name in names})
    assert (made.index == [0, 3, 4]).all()
    by_name = dict(zip(order, every.output.tolist(), strict=True))
    for user, round, row in rows:
        assert row == [by_name[user, round, field] for field in (0, 3, 4)]
