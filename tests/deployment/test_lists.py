"""A device that holds a neighbour list: its noise, its budget, its memory, and what a server reads."""

import bisect
import dataclasses
import itertools
import json
import math
import subprocess
import sys
from fractions import Fraction
from hashlib import blake2b, sha256

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Budget
from ldp_jax.core.checksum import sealed
from ldp_jax.core.whole_noise import law, whole_noise
from ldp_jax.deployment import question as questions
from ldp_jax.deployment import wire
from ldp_jax.deployment.codecs import CountReports
from ldp_jax.edges import NeighbourCounts, privatize_counts
from ldp_jax.graph import graphs
from tests.deployment.vectors import GRID, SECRET, device
from tests.deployment.vectors import session as record_session
from tests.stats import assert_g

GROUPS = np.array([0, 1, 2, 3, 4, -1] * 2)
ASKED = deployment.Question(3, GROUPS, num_groups=5, epsilon=1.0, most=20)
MINE = [1, 2, 5, 8, 11]
TRUE = [0, 1, 2, 0, 0]
SIZE = 52


def of_lists(epsilon):
    return Budget(epsilon, unit=NEIGHBOUR_LIST)


def session(of=None, budget=1e9, **changes):
    budget = budget if isinstance(budget, Budget) else of_lists(budget)
    return deployment.Session(of or device(), budget=budget, **changes)


def pack(counts, user, key):
    return CountReports(ASKED).pack(range(5), counts, user, ASKED.round, key)


def report(user=0, asked=ASKED, neighbours=MINE, **changes):
    return session(**changes).report_neighbours(asked, neighbours, user=user)


# The law.


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 40.0])
def test_noise_is_that_of_the_simulated_mechanism_word_for_word(epsilon):
    """Random words, and both sides of every threshold: the last words of one magnitude, the first of the next."""
    m = NeighbourCounts(epsilon, 1, most=6)
    noise = whole_noise(epsilon, 6)
    edges = [w for total in noise.cumulative for w in (total - 1, total)] + [0, 2**96 - 1]
    words = np.array([[w >> 64, w >> 32 & 2**32 - 1, w & 2**32 - 1] for w in edges], np.uint32).T
    words = np.concatenate([words, np.random.default_rng(0).integers(0, 2**32, (3, 500), np.uint32)], 1)
    for sign in (0, 2**32 - 1):
        word = np.concatenate([np.full((1, words.shape[1]), sign, np.uint32), words])
        counts = (np.arange(words.shape[1]) % 7).astype(np.int32)
        found = noise.report(word, counts)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, np.asarray(m.from_words(word, counts)))
    beyond = noise.report(word[:, :3], [-5, 99, 6])
    np.testing.assert_array_equal(beyond, noise.report(word[:, :3], [0, 6, 6]))


def test_a_report_is_the_simulated_one_under_the_devices_words():
    found = deployment.decode(report(), ASKED)
    words = device().count_words(ASKED.digest, 5, user=0, round=3)
    m = NeighbourCounts(1.0, 5, n=12, groups=GROUPS, most=20)
    assert found.output.tolist() == [np.asarray(m.from_words(words, np.array(TRUE))).tolist()]
    assert m.guarantee().epsilon == ASKED.guarantee().epsilon <= 1.0
    assert ASKED.guarantee().unit == NEIGHBOUR_LIST


def test_a_report_follows_from_the_docstrings_alone():
    """Another implementation in plain integers, no function of the library but the masses of the noise."""
    text = b'{"epsilon": 1.0, "most": 20, "num_groups": 5, "num_nodes": 12, "round": 3}\n'
    digest = sha256(b"ldp-question 1\n" + text + GROUPS.astype(np.int8).tobytes()).digest()
    assert digest == ASKED.digest
    cumulative = list(itertools.accumulate(whole_noise(1.0, 20).masses))
    counts = b""
    for k, true in enumerate(TRUE):
        message = b"ldp_jax 1 counts" + digest + (7).to_bytes(8, "little") + (3).to_bytes(4, "little")
        block = blake2b(message + (k // 4).to_bytes(4, "little"), key=SECRET, digest_size=64).digest()
        a, b, c, d = (int.from_bytes(block[16 * (k % 4) + at :][:4], "little") for at in (0, 4, 8, 12))
        size = bisect.bisect_right(cumulative, b * 2**64 + c * 2**32 + d)
        counts += (true + (-size if a % 2 else size)).to_bytes(4, "little", signed=True)
    signed = (257).to_bytes(2, "little") + (5).to_bytes(2, "little") + digest[:8]
    signed += (7).to_bytes(8, "little") + (3).to_bytes(4, "little") + counts
    key = device().shared_key
    for sent, mark in ((report(7), b""), (report(7, key=key), key)):
        assert sent == signed + blake2b(b"ldp_jax 1 answer" + signed, key=mark, digest_size=8).digest()
    assert len(sent) == CountReports(ASKED).layout.itemsize == SIZE


class Forgets(deployment.Device):
    """A device whose words are those of another user, round, question, or count."""

    def __init__(self, part):
        super().__init__(SECRET)
        object.__setattr__(self, "part", part)

    def count_words(self, question, num_groups, *, user, round):
        given = {"question": question, "num_groups": num_groups, "user": user, "round": round}
        if self.part == "count":
            return np.repeat(super().count_words(**given | {"num_groups": 1}), num_groups, 1)
        return super().count_words(**given | {self.part: bytes(32) if self.part == "question" else 0})


def repeated_words(of):
    """How many numbers below 2^96 occur again, over questions, users, rounds and counts."""
    drawn = [
        of.count_words(digest, 9, user=user, round=round)[1:].T.tolist()
        for digest, user, round in itertools.product((ASKED.digest, SECRET), range(40), range(4))
    ]
    found = [tuple(number) for numbers in drawn for number in numbers]
    return len(found) - len(set(found))


@pytest.mark.parametrize("part", ["user", "round", "question", "count"])
def test_no_two_counts_share_words_and_a_device_that_forgets_a_part_is_caught(part):
    assert repeated_words(device()) == 0
    assert repeated_words(Forgets(part)) > 0


def noise_of_many(of, users=4000):
    """What 3 900 users add to five counts; int [3900, 5]."""
    asked = deployment.Question(0, np.resize(GROUPS, users), num_groups=5, epsilon=1.0, most=20)
    held = session(of)
    sent = b"".join(held.report_neighbours(asked, [0, 6, 7], user=user) for user in range(100, 100 + users // 2))
    sent += b"".join(held.report_neighbours(asked, {0, 6, 7}, user=user) for user in range(users // 2 + 100, users))
    return deployment.decode(sent, asked).output - [2, 1, 0, 0, 0]


def test_reports_fit_the_law_and_counts_are_independent():
    """A law that is off by 0.04 in total variation would be seen, and noise that two counts share."""
    drawn = noise_of_many(device())
    expected = law(whole_noise(1.0, 20))
    reach = len(expected) // 2
    assert_g(np.bincount((drawn + reach).ravel(), minlength=len(expected)), expected)
    joint = np.array([1 - expected[reach], expected[reach]])
    joint = np.outer(joint, joint).ravel()

    def both(noise):
        return np.bincount(2 * (noise[:, 0] == 0) + (noise[:, 4] == 0), minlength=4)

    assert_g(both(drawn), joint)
    with pytest.raises(AssertionError, match="G test"):
        assert_g(both(noise_of_many(Forgets("count"))), joint)


# Lists.


@pytest.mark.parametrize(
    "neighbours",
    [
        (11, 8, 5, 2, 1),
        set(MINE),
        np.array(MINE, np.uint8),
        np.array(MINE, np.float64),
        [*MINE, 0, *MINE],  # her own id, and repeats
        [*MINE, 12, -1, 2**40, 2**70, -(10**400)],
        [*MINE, None, "7", math.nan, math.inf, 2.5, [3], 1j],
        np.array([[1, 2, 5], [8, 11, 2]]),
        dict.fromkeys(MINE),
        dict.fromkeys(MINE).keys(),
        jnp.array(MINE),
    ],
)
@pytest.mark.usefixtures("untyped")
def test_what_is_no_neighbour_is_dropped(neighbours):
    with np.errstate(all="raise"):
        assert report(neighbours=neighbours) == report()


def test_an_empty_list_is_a_list_and_every_list_has_a_report_of_one_size():
    sizes = {len(report(neighbours=neighbours)) for neighbours in ([], (), set(), range(12), [2**70], np.zeros(0))}
    assert sizes == {SIZE}
    assert len({report(neighbours=some) for some in ([], (), [0], [5, 11], "12")}) == 1


def test_by_one_rule_each_pair_is_on_one_device_as_it_is_simulated():
    rng = np.random.default_rng(0)
    friends = np.triu(rng.random((12, 12)) < 0.4, 1)
    friends |= friends.T
    rule = deployment.ownership(rng.integers(0, 3, 12) / 2, silent=np.arange(12) < 3)  # ties and silent users
    mine = [rule.owned(user, [*np.flatnonzero(friends[user]), user, -1, 12, None]) for user in range(12)]
    held = np.zeros((12, 12), int)
    for user, ids in enumerate(mine):
        np.add.at(held, (user, ids), 1)
    between = friends & ~((np.arange(12) < 3)[:, None] & (np.arange(12) < 3))
    np.testing.assert_array_equal(held + held.T, between)  # nobody has a pair of two silent users
    assert not held[:3].any()
    sure = dataclasses.replace(ASKED, epsilon=40.0)
    graph = graphs.from_edges(np.argwhere(np.triu(friends)), 12)
    simulated = privatize_counts(jax.random.key(0), graph, NeighbourCounts(40.0, 5), GROUPS, owners=rule).counts
    for user in range(3, 12):
        sent = session().report_neighbours(sure, mine[user], user=user)
        np.testing.assert_array_equal(deployment.decode(sent, sure).output[0], simulated[user])


@pytest.mark.usefixtures("untyped")
def test_what_is_no_list_is_an_empty_one_and_what_is_no_user_is_refused():
    """Whether a device reports at all is seen by the server: no list may keep it from reporting."""
    for nothing in (None, 99, 1.5, object()):
        assert report(neighbours=nothing) == report(neighbours=[])
    assert report(neighbours=(number for number in MINE)) == report()
    held = session()
    for user in (-1, 12, 2**64, True, 1.0, None):
        with pytest.raises(ValueError, match=r"user must be a whole number in \[0, 11\]"):
            held.report_neighbours(ASKED, MINE, user=user)
        with pytest.raises(ValueError, match="user must be a whole number"):
            held.resend(ASKED, user=user)
    assert (held.counter, held.spent().epsilon) == (0, 0.0)


# One question, one release.


def test_a_second_list_is_refused_and_a_retry_gives_the_same_bytes():
    held = session()
    sent = held.report_neighbours(ASKED, MINE, user=0)
    before = held.to_bytes()
    messages = set()
    for neighbours in (MINE, [], [3]):
        with pytest.raises(deployment.ReplayError) as error:
            held.report_neighbours(ASKED, neighbours, user=0)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert held.to_bytes() == before
    same = deployment.Question.from_bytes(ASKED.to_bytes())
    assert held.resend(same, user=0) == sent
    with pytest.raises(deployment.ReplayError):
        held.report_neighbours(same, MINE, user=0)
    with pytest.raises(ValueError, match="nothing to resend for user 1, round 3"):
        held.resend(ASKED, user=1)
    # Another round, budget, clip, user, or group of a single node: a release of its own.
    moved = np.where(np.arange(12) == 9, 1, GROUPS)
    for changes in ({"round": 4}, {"epsilon": 1.5}, {"most": 21}, {"groups": moved}):
        held.report_neighbours(dataclasses.replace(ASKED, **changes), MINE, user=0)
    held.report_neighbours(ASKED, MINE, user=1)
    assert held.counter == 6
    assert held.spent().epsilon == pytest.approx(6.5, rel=1e-6)
    assert held.spent(1).epsilon == ASKED.guarantee().epsilon
    assert "differ in one neighbour; releases: 6" in str(held.spent())


# The budget.


class Untouched:
    """A list that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(f"the list was touched: {name}")

    __len__ = __getitem__ = __array__ = __iter__ = __bool__ = __contains__ = lambda *_: pytest.fail("touched")


@pytest.mark.usefixtures("untyped")
def test_a_budget_is_met_to_the_last_bit_and_refusals_come_before_the_list():
    loss = ASKED.guarantee().epsilon
    rounds = [dataclasses.replace(ASKED, round=round) for round in range(4)]
    enough = float(3 * Fraction(loss))
    enough = enough if Fraction(enough) >= 3 * Fraction(loss) else math.nextafter(enough, 9)
    for budget, fits in ((enough, 3), (math.nextafter(enough, 0), 2)):
        held = session(budget=Budget(budget, unit=NEIGHBOUR_LIST))
        for asked in rounds[:fits]:
            held.report_neighbours(asked, MINE, user=0)
        for user in (0, 5):  # nor under another name
            with pytest.raises(
                deployment.BudgetError, match="1 reports at epsilon .* do not fit: the device accepts"
            ):
                held.report_neighbours(rounds[3], Untouched(), user=user)
        assert held.counter == fits
        assert held.remaining >= 0
    with pytest.raises(deployment.BudgetError, match="refused, whatever it is called: this question loses epsilon"):
        session(budget=math.nextafter(loss, 0)).report_neighbours(ASKED, Untouched(), user=0)
    with pytest.raises(deployment.ReplayError):
        held.report_neighbours(rounds[0], Untouched(), user=0)


@pytest.mark.usefixtures("untyped")
def test_the_loss_is_computed_from_the_integers_that_are_drawn_from(monkeypatch):
    strong = whole_noise(3.0, 20)
    lies = dataclasses.replace(strong, epsilon=0.001)
    monkeypatch.setattr(questions, "whole_noise", lambda *_: lies)
    asked = dataclasses.replace(ASKED, epsilon=0.001)
    with pytest.raises(deployment.BudgetError, match="loses epsilon"):
        session(budget=2.0).report_neighbours(asked, Untouched(), user=0)
    held = session(budget=3.0)
    held.report_neighbours(asked, MINE, user=0)
    assert held.spent().epsilon == strong.loss

    class Talks(deployment.Question):
        noise = dataclasses.make_dataclass("Quiet", ["ratio"])(Fraction(1))

    with pytest.raises(deployment.BudgetError, match="loses epsilon"):
        session(budget=2.0).report_neighbours(Talks(3, GROUPS, 5, 0.001, 20), Untouched(), user=0)


def test_a_budget_is_of_neighbour_lists():
    assert session(budget=2.0).budget == 2.0
    for other in (Budget(2.0, unit=RELATIONSHIP), Budget(2.0, delta=1e-6, unit=NEIGHBOUR_LIST)):
        with pytest.raises(ValueError, match="of records or neighbour-lists and without delta"):
            session(budget=other)
    with pytest.raises(ValueError, match="a question needs a budget of neighbour-lists, and .* one of records"):
        record_session().report_neighbours(ASKED, MINE, user=0)
    with pytest.raises(ValueError, match="a table needs a budget of records, and .* one of neighbour-lists"):
        session().report(GRID, 0.1, user=0, round=0)
    with pytest.raises(ValueError, match="round must be that of the question, 3, got 4"):
        kept().resend(ASKED, user=0, round=4)
    with pytest.raises(ValueError, match="key is the device's secret"):
        session(key=SECRET)
    assert record_session().spent().unit == RECORD


# The memory.


def kept():
    held = session(budget=8.0)
    held.report_neighbours(ASKED, MINE, user=0)
    held.report_neighbours(dataclasses.replace(ASKED, round=4), MINE, user=11)
    return held


def test_memory_is_read_and_where_damaged_or_foreign_refused():
    """Every bit of it: tests/deployment/test_device.py, by the same code."""
    held, data = kept(), kept().to_bytes()
    read = deployment.Session.from_bytes(device(), data, at_least=2)
    assert (read.to_bytes(), read.budget, read.counter, read.spent()) == (data, 8.0, 2, held.spent())
    assert read.resend(ASKED, user=0) == held.resend(ASKED, user=0)
    with pytest.raises(deployment.ReplayError):
        read.report_neighbours(ASKED, [], user=0)
    other = data.replace(b"ldp-lists 1", b"ldp-session 2")
    for part in (data[:-1], data + b" ", data[:150] + bytes([data[150] ^ 1]) + data[151:], other):
        with pytest.raises(ValueError, match="no session's memory"):
            deployment.Session.from_bytes(device(), part)
    with pytest.raises(ValueError, match="another device"):
        deployment.Session.from_bytes(deployment.Device.new(), data)


def written(body):
    head = b"ldp-lists 1\n" + device().name.encode() + b"\n"
    return head + device().memory_tag(head + body) + b"\n" + body


def test_memory_of_every_other_form_is_a_value_error():
    good = json.loads(kept().to_bytes().split(b"\n")[3])
    digest, user, round, counts = good["released"][0]
    plain = json.dumps(good, separators=(",", ":")).encode()
    assert deployment.Session.from_bytes(device(), written(plain)).counter == 2
    rows = [
        [digest, -1, round, counts],
        [digest, user, 2**32, counts],
        [digest, user, round, []],
        [digest, user, round],
    ]
    rows += [[digest, user, round, [*counts[1:], wrong]] for wrong in (True, 1.0, 2**31, None)]
    rows += [[digest, user, round, 7], [digest, user, round, "12345"], ["00" * 32, user, round, counts]]
    changes = [{"released": [row]} for row in rows] + [
        {"released": good["released"] * 2},
        {"budget": 0},
        {"more": 1},
    ]
    changes += [{"losses": [[digest, *pair]]} for pair in ((1, 2), (2**98, 1), (4, 2), (1.0, 1))]
    for change in changes:
        with pytest.raises(ValueError, match="no session's memory"):
            deployment.Session.from_bytes(
                device(), written(json.dumps(good | change, separators=(",", ":")).encode())
            )


# What is sent and read.


def test_every_flipped_bit_is_refused_and_the_rest_is_read():
    key = device().shared_key
    good, other = report(1, key=key), report(9, key=key)
    flips = [
        good[: bit // 8] + bytes([good[bit // 8] ^ 1 << bit % 8]) + good[bit // 8 + 1 :] for bit in range(8 * SIZE)
    ]
    found = deployment.decode(other + b"".join(flip + other for flip in flips), ASKED, key=key)
    assert found.user.tolist() == [9]
    assert found.rejected == (8 * SIZE, 0, 0, 0, 8 * SIZE)
    assert found.output.tolist() == deployment.decode(other, ASKED, key=key).output.tolist()


@pytest.mark.slow
def test_what_is_cut_or_put_in_costs_the_reports_that_it_touches():
    """None is made up. (Of a report whose bytes are cut where others are the same, all may be left.)"""
    whole = [report(user) for user in range(4)]
    data = b"".join(whole)
    true = deployment.decode(data, ASKED).output
    for start in range(len(data) + 1):
        for noise in (b"\x01\x01", data[:30], b"\x01" * SIZE):
            found = deployment.decode(data[:start] + noise + data[start:], ASKED)
            assert set(found.user.tolist()) >= set(range(4)) - {start // SIZE if start % SIZE else -1}
            assert found.rejected.damaged
        for size in (1, 12, SIZE - 1, SIZE, SIZE + 1):
            found = deployment.decode(data[:start] + data[start + size :], ASKED)
            rest = {n for n in range(4) if SIZE * (n + 1) <= start or SIZE * n >= start + size}
            assert rest <= set(found.user.tolist())
            assert found.output.tolist() == true[found.user].tolist()


def test_reading_takes_linear_time_whatever_the_bytes(monkeypatch):
    """Of reports of 131 KB, 1 MB of the first bytes alone is hashed once; what stands behind it is read."""
    asked = deployment.Question(0, [0, 1], num_groups=2**15 - 1, epsilon=1.0, most=20)
    sent = session().report_neighbours(asked, [1], user=0)
    mark, hashed = sent[:12], []
    tag = wire.tag
    monkeypatch.setattr(wire, "tag", lambda start, signed: hashed.append(len(signed)) or tag(start, signed))
    for before in (
        mark * (10**6 // 12),
        (mark + bytes(100)) * 9000,
        sent[:70_000] * 15,
        mark + bytes(10**6),
        sent[:-1],
    ):
        hashed.clear()
        data = before + sent
        read = deployment.decode(data, asked)
        assert (read.user.tolist(), read.rejected.replayed) == ([0], 0)
        assert read.rejected.damaged == -(-len(before) // len(sent))
        assert sum(hashed) <= 2 * len(data)


def test_reports_that_count_for_nothing_are_counted_apart():
    other = [
        dataclasses.replace(ASKED, round=9),
        deployment.Question(0, [0, 1], num_groups=2, epsilon=1.0, most=20),
    ]
    foreign = report(1, other[0]) + report(1, other[1], [0])
    margin = ASKED.noise.margin
    wrong = [
        pack([0, 0, 0, 0, -margin - 1], 3, None),
        pack([0, 0, 0, 0, 21 + margin], 3, None),
        pack([0] * 5, 12, None),
        pack([0] * 5, 2**64 - 1, None),
    ]
    edge = pack([0, 0, 0, -margin, 20 + margin], 3, None)
    sent = foreign + report(2) + foreign + b"".join(wrong) + edge + report(2) + b"junk"
    found = deployment.decode(sent, ASKED)
    assert found.user.tolist() == [2, 3]
    assert found.rejected == deployment.Rejected(damaged=1, version=0, foreign=4, impossible=4, replayed=1)
    assert found.rejected.total == 10
    for part in ("10 reports refused", "1 damaged", "4 about another", "4 that no device", "1 replayed"):
        assert part in str(found.rejected)
    second = deployment.decode(report(2) + report(0), ASKED, seen=found.seen)
    assert (second.user.tolist(), second.rejected.replayed, second.seen["user"].tolist()) == ([0], 1, [0, 2, 3])
    counts, reported = found.by_node(12)
    assert np.flatnonzero(reported).tolist() == [2, 3]
    np.testing.assert_array_equal(counts[[2, 3]], found.output)
    assert counts.sum() == found.output.sum()
    with pytest.raises(ValueError, match="num_nodes"):
        found.by_node(3)
    assert deployment.decode(b"", ASKED).output.shape == (0, 5)
    for seen in (np.zeros(3), np.zeros((2, 2), np.int64)):
        with pytest.raises(ValueError, match="seen must be TRIPLE"):
            deployment.decode(b"", ASKED, seen=seen)


def test_a_collector_with_a_key_takes_nothing_else():
    key = device().shared_key
    plain, keyed = report(1), report(2, key=key)
    assert deployment.decode(plain + keyed, ASKED, key=key).user.tolist() == [2]
    assert deployment.decode(plain + keyed, ASKED).user.tolist() == [1]
    with pytest.raises(ValueError, match="a key is 32 bytes of entropy"):
        deployment.decode(plain, ASKED, key=b"key")
    mixed = deployment.decode(plain, GRID)
    assert len(mixed.output) == 0  # no report of records
    assert mixed.rejected.damaged
    sent = record_session().report(GRID, 0.1, user=0, round=0)
    assert deployment.decode(sent, ASKED).rejected == (1, 0, 0, 0, 0)


@hypothesis.settings(max_examples=100)
@hypothesis.given(
    st.lists(st.one_of(st.binary(max_size=80), st.sampled_from([report(1), report(2)[:30], report(3)])))
)
def test_whatever_the_bytes_nothing_is_raised_and_nothing_made_up(parts):
    data = b"".join(parts)
    found = deployment.decode(data, ASKED)
    assert set(found.user.tolist()) <= {1, 3}
    accounted = len(found.user) + found.rejected.total
    assert SIZE * accounted >= len(data)
    assert len(wire.whole_messages(data, report(1)[:12], SIZE, wire.tag_start(b"ldp_jax 1 answer", None))) >= len(
        found.user
    )


# Questions.


def test_a_question_has_one_spelling_and_stays_as_it_is():
    for kind in (np.int8, np.int64, np.int16):
        assert dataclasses.replace(ASKED, groups=GROUPS.astype(kind)) == ASKED
    groups = np.zeros(3, np.int8)
    asked = deployment.Question(0, groups, num_groups=128, epsilon=1.0, most=9)
    groups[0] = 1
    assert asked.groups.tolist() == [0, 0, 0]
    assert not asked.groups.flags.writeable
    wide = deployment.Question(0, [128, -1], num_groups=129, epsilon=1.0)
    assert (asked.groups.dtype, wide.groups.dtype) == (np.int8, np.int16)
    assert deployment.Question.from_bytes(wide.to_bytes()) == wide != asked
    million = deployment.Question(0, np.zeros(10**6, np.int8), num_groups=128, epsilon=1.0)
    assert len(million.to_bytes()) < 10**6 + 200


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"round": -1}, "round"),
        ({"round": 2**32}, "round"),
        ({"num_groups": 4}, r"groups must be in \[-1, 4\), got -1 to 4"),
        ({"num_groups": 0}, "num_groups"),
        ({"num_groups": 2**15}, "num_groups"),
        ({"groups": [0, -2]}, "groups must be in"),
        ({"groups": [0.0]}, "whole numbers"),
        ({"groups": [True]}, "whole numbers"),
        ({"groups": []}, "whole numbers"),
        ({"groups": [[0]]}, "whole numbers"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 41}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"most": 0}, "most"),
        ({"most": 2**20 + 1}, "most"),
    ],
)
def test_questions_that_are_none_are_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        dataclasses.replace(ASKED, **changes)


def test_damaged_questions_are_refused():
    """Of a right checksum too."""
    data = ASKED.to_bytes()[:-8]
    changes = ((b'"round": 3', b'"round": 3.0'), (b": 5,", b": 4,"), (b": 12,", b": 13,"), (b"{", b"["))
    bad = [data.replace(*change) for change in (*changes, (b"1.0", b"1"))] + [data[:-1], data + b"\0", b"junk"]
    for part in bad:
        with pytest.raises(ValueError, match=r"a damaged question|not a question"):
            deployment.Question.from_bytes(sealed(part))


def test_a_device_needs_no_jax():
    code = """
import sys
from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
asked = deployment.Question.from_bytes(deployment.Question(0, [0, 1, -1], num_groups=2, epsilon=1.0).to_bytes())
sent = deployment.Session(deployment.Device.new(), budget=Budget(1.0, unit=NEIGHBOUR_LIST)).report_neighbours(
    asked, deployment.ownership([0.1, 0.2, 0.3]).owned(0, [1, 2]), user=0
)
print(deployment.decode(sent, asked).output.shape)
print(sorted({name.split(".")[0] for name in sys.modules if "jax" in name or name == "scipy"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(1, 2)", "['ldp_jax']"]
