"""A device that holds a neighbour list: its noise, the lists that it takes, and the questions that
it answers.
"""

import bisect
import dataclasses
import itertools
import math
from hashlib import blake2b, sha256

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP
from ldp_jax.core.checksum import sealed
from ldp_jax.core.ownership import Ownership
from ldp_jax.core.whole_noise import law, whole_noise
from ldp_jax.deployment.codecs import NeighbourReports
from ldp_jax.edges import NeighbourCounts, privatize_counts
from ldp_jax.graph import graphs
from tests.deployment.vectors import (
    ASKED,
    GROUPS,
    MINE,
    OWNED,
    RULE,
    SECRET,
    Forgets,
    device,
    list_session,
)
from tests.stats import assert_g

TRUE = [0, 1, 2, 0, 0]
SIZE = 52


def report(user=0, asked=ASKED, neighbours=MINE, **changes):
    return list_session(**changes).report_neighbours(asked, neighbours, user=user)


@pytest.mark.parametrize("epsilon", [0.3, 40.0])
def test_noise_is_that_of_the_simulated_mechanism_word_for_word(epsilon):
    """Random words, and both sides of every threshold: the last words of one magnitude, the first
    of the next.
    """
    m = NeighbourCounts(epsilon, 1, most=6)
    noise = whole_noise(epsilon, 6)
    edges = [w for total in noise.cumulative for w in (total - 1, total)] + [0, 2**96 - 1]
    words = np.array([[w >> 64, w >> 32 & 2**32 - 1, w & 2**32 - 1] for w in edges], np.uint32).T
    words = np.concatenate(
        [words, np.random.default_rng(0).integers(0, 2**32, (3, 500), np.uint32)], 1
    )
    for sign in (0, 2**32 - 1):
        word = np.concatenate([np.full((1, words.shape[1]), sign, np.uint32), words])
        counts = (np.arange(words.shape[1]) % 7).astype(np.int32)
        np.testing.assert_array_equal(
            noise.report(word, counts), np.asarray(m.from_words(word, counts)), strict=True
        )
    beyond = noise.report(word[:, :3], [-5, 99, 6])
    np.testing.assert_array_equal(beyond, noise.report(word[:, :3], [0, 6, 6]))


def test_a_report_follows_from_the_docstrings_alone():
    """Another implementation in plain integers, no function of the library but the masses of the
    noise.
    """
    assert ASKED.guarantee().unit == NEIGHBOUR_LIST
    text = b'{"epsilon": 1.0, "most": 20, "num_groups": 5, "num_nodes": 12, "round": 3}\n'
    digest = sha256(b"ldp-question 1\n" + text + GROUPS.astype(np.int8).tobytes()).digest()
    assert digest == ASKED.digest
    cumulative = list(itertools.accumulate(whole_noise(1.0, 20).masses))
    counts = b""
    for k, true in enumerate(TRUE):
        message = (
            b"ldp_jax 1 counts" + digest + (7).to_bytes(8, "little") + (3).to_bytes(4, "little")
        )
        block = blake2b(
            message + (k // 4).to_bytes(4, "little"), key=SECRET, digest_size=64
        ).digest()
        a, b, c, d = (
            int.from_bytes(block[16 * (k % 4) + at :][:4], "little") for at in (0, 4, 8, 12)
        )
        size = bisect.bisect_right(cumulative, b * 2**64 + c * 2**32 + d)
        counts += (true + (-size if a % 2 else size)).to_bytes(4, "little", signed=True)
    signed = (257).to_bytes(2, "little") + (5).to_bytes(2, "little") + digest[:8]
    signed += (7).to_bytes(8, "little") + (3).to_bytes(4, "little") + counts
    key = device().shared_key
    for sent, mark in ((report(7), b""), (report(7, key=key), key)):
        assert (
            sent == signed + blake2b(b"ldp_jax 1 answer" + signed, key=mark, digest_size=8).digest()
        )
    assert len(sent) == NeighbourReports(ASKED).layout.itemsize == SIZE


def noise_of_many(of, users=1000):
    """What users add to five counts; int [users, 5]."""
    asked = deployment.Question(
        0, np.resize(GROUPS, users + 12), num_groups=5, epsilon=1.0, most=20
    )
    held = list_session(of)
    sent = b"".join(
        held.report_neighbours(asked, [0, 6, 7], user=user) for user in range(12, users + 12)
    )
    return deployment.decode(sent, asked).output - [2, 1, 0, 0, 0]


def test_reports_fit_the_law_and_counts_are_independent():
    """5 000 counts: a law that is off by 0.07 in total variation would be seen, and noise that two
    counts share.
    """
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
        assert_g(both(noise_of_many(Forgets("count"), 200)), joint)


@pytest.mark.usefixtures("untyped")
def test_what_is_no_neighbour_is_dropped():
    for neighbours in (
        (11, 8, 5, 2, 1),
        set(MINE),
        np.array(MINE, np.uint8),
        np.array(MINE, np.float64),
        jnp.array(MINE),
        [
            *MINE,
            0,
            *MINE,
            12,
            -1,
            2**40,
            2**70,
            -(10**400),
            None,
            "7",
            math.nan,
            math.inf,
            2.5,
            [3],
            1j,
        ],
        np.array([[1, 2, 5], [8, 11, 2]]),
        dict.fromkeys(MINE).keys(),
        (number for number in MINE),
        np.ma.masked_equal([*MINE, 3], 3),
    ):
        with np.errstate(all="raise"):
            assert report(neighbours=neighbours) == report()


@pytest.mark.usefixtures("untyped")
def test_what_is_no_list_is_an_empty_one():
    """The server sees whether a device reports, and how much: no list may change it."""
    for nothing in (None, 99, 1.5, object(), (), set(), [0], [5, 11], "12", [2**70], np.zeros(0)):
        assert report(neighbours=nothing) == report(neighbours=[])
    assert len(report(neighbours=[])) == len(report(neighbours=range(12))) == SIZE


def test_by_one_rule_each_pair_is_on_one_device_as_it_is_simulated():
    rng = np.random.default_rng(0)
    friends = np.triu(rng.random((12, 12)) < 0.4, 1)
    friends |= friends.T
    rule = deployment.ownership(
        rng.integers(0, 3, 12) / 2, silent=np.arange(12) < 3
    )  # ties and silent users
    mine = [
        rule.owned(user, [*np.flatnonzero(friends[user]), user, -1, 12, None]) for user in range(12)
    ]
    held = np.zeros((12, 12), int)
    for user, ids in enumerate(mine):
        np.add.at(held, (user, ids), 1)
    between = friends & ~((np.arange(12) < 3)[:, None] & (np.arange(12) < 3))
    np.testing.assert_array_equal(held + held.T, between)  # nobody has a pair of two silent users
    assert not held[:3].any()
    sure = dataclasses.replace(ASKED, epsilon=40.0)
    graph = graphs.from_edges(np.argwhere(np.triu(friends)), 12)
    simulated = privatize_counts(
        jax.random.key(0), graph, NeighbourCounts(40.0, 5), GROUPS, owners=rule
    ).counts
    once = dataclasses.replace(sure, owners=rule)
    for user in range(3, 12):
        sent = report(user, sure, mine[user])
        np.testing.assert_array_equal(deployment.decode(sent, sure).output[0], simulated[user])
        sent = report(user, once, np.flatnonzero(friends[user]))  # the rule is in the question
        np.testing.assert_array_equal(deployment.decode(sent, once).output[0], simulated[user])


# --- A question that says who owns a pair ---------------------------------------------------------


def test_a_pair_costs_its_one_owner_one_epsilon_and_both_ends_two():
    bit = ASKED.guarantee().epsilon
    assert OWNED.guarantee().epsilon == bit
    assert (OWNED.relationship().epsilon, ASKED.relationship().epsilon) == (bit, 2 * bit)
    assert OWNED.relationship().unit == ASKED.relationship().unit == RELATIONSHIP
    assert "owner alone" in str(OWNED.relationship())
    assert "both its ends" in str(ASKED.relationship())


def test_a_report_says_nothing_of_a_pair_that_the_other_end_owns():
    others = np.setdiff1d(np.arange(12), [8, *RULE.owned(8, range(12))]).tolist()
    assert len(others) > 3
    assert report(8, OWNED, others) == report(8, OWNED, [])
    assert report(8, OWNED, [*MINE, *others]) == report(8, OWNED, RULE.owned(8, MINE))
    assert report(8, OWNED, RULE.owned(8, range(12))) != report(8, OWNED, [])


def test_owners_are_in_the_bytes_as_the_docstring_says():
    """Another reader: no function of the library but the checksum's hash."""
    data = OWNED.to_bytes()
    text = b'{"epsilon": 1.0, "most": 20, "num_groups": 5, "num_nodes": 12, "owners": true, '
    text += b'"round": 3}\n'
    ranks = np.array([0, 1, 2, 3, 4] * 3)[:12].astype("<i2").tobytes()
    body = GROUPS.astype(np.int8).tobytes() + ranks + bytes([0b1100_0000, 0])
    signed = b"ldp-question 3\n" + text + body
    assert data == signed + blake2b(b"ldp_jax 1 public" + signed, digest_size=8).digest()
    assert OWNED.digest == sha256(b"ldp-question 1\n" + text + body).digest()
    read = deployment.Question.from_bytes(data)
    assert read == OWNED != ASKED
    np.testing.assert_array_equal(read.owners.order, OWNED.owners.order)
    np.testing.assert_array_equal(read.owners.silent, RULE.silent)
    assert not read.owners.order.flags.writeable
    for order in (
        RULE.order,
        7 * RULE.order - 100,
        OWNED.owners.order.astype(np.int64),
    ):  # one rule, one spelling
        assert dataclasses.replace(ASKED, owners=Ownership(order, RULE.silent)).to_bytes() == data
    many = dataclasses.replace(
        ASKED, groups=np.zeros(40_000, int), owners=deployment.ownership(np.arange(40_000))
    )
    assert deployment.Question.from_bytes(many.to_bytes()) == many
    np.testing.assert_array_equal(many.owners.order, np.arange(40_000))


def test_a_question_without_owners_is_written_as_it_was():
    """Devices of version 2 read it; its digest, random words and memories are those that they
    were.
    """
    assert ASKED.to_bytes().startswith(b"ldp-question 2\n")
    assert deployment.Question.from_bytes(ASKED.to_bytes()) == ASKED
    for wrong in (
        ASKED.to_bytes()[:-8].replace(b"ldp-question 2", b"ldp-question 3"),
        OWNED.to_bytes()[:-8].replace(b"ldp-question 3", b"ldp-question 2"),
        OWNED.to_bytes()[:-9] + b"\x01",  # a bit of nobody
        OWNED.to_bytes()[:-8].replace(b"true", b"null"),
        OWNED.to_bytes()[:-9],
    ):
        with pytest.raises(ValueError, match="a damaged question"):
            deployment.Question.from_bytes(sealed(wrong))


def test_counts_of_silent_users_are_none_that_a_device_sends():
    codec = NeighbourReports(OWNED)
    forged = b"".join(codec.pack(range(5), [0] * 5, user, 3, None) for user in (7, 1))
    found = deployment.decode(forged, OWNED)
    assert (found.user.tolist(), found.rejected.impossible) == ([7], 1)


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
