"""Noisy neighbour lists from devices: their bytes, their law, who reports a pair, and the server's
graph of them.
"""

import dataclasses
from hashlib import blake2b, sha256

import jax
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget
from ldp_jax.core.checksum import sealed
from ldp_jax.deployment import Pairs
from ldp_jax.deployment.store import ReportStore
from ldp_jax.edges import DPRR, LocalLap, RandomizedResponse
from ldp_jax.graph import graphs
from ldp_jax.servers import ListServer, Users, serve, simulate
from ldp_jax.servers.lists import PublicLists
from tests.deployment.vectors import SECRET, device, list_session
from tests.stats import assert_g

MINE = [1, 2, 5, 8, 11, 39]
ASKED = Pairs(3, 40, 1.0)
SILENT = np.arange(40) < 2
OWNED = dataclasses.replace(
    ASKED, owners=deployment.ownership(np.arange(40) % 5 / 3, silent=SILENT)
)


def report(user=0, asked=ASKED, neighbours=MINE, **changes):
    return list_session(**changes).report_neighbours(asked, neighbours, user=user)


def read(data, asked=ASKED):
    """The bits of every user who reported, bool [m, n]."""
    found = deployment.decode(data, asked)
    bits = np.zeros((len(found.user), asked.num_nodes), bool)
    bits[asked.entries(found.output)] = True
    return found.user.astype(int), bits


def test_a_report_follows_from_the_docstrings_alone():
    """Another implementation in plain integers; the masses alone are the library's."""
    text = b'{"epsilon": 1.0, "num_nodes": 40, "owners": false, "round": 3}\n'
    signed = b"ldp-pairs 1\n" + text
    assert ASKED.to_bytes() == sealed(signed)
    digest = sha256(signed).digest()
    assert digest == ASKED.digest
    flip = round(2**32 * ASKED.flip)
    answer = 0
    for j in range(40):
        message = b"ldp_jax 1 bits.." + digest
        message += (7).to_bytes(8, "little") + (3).to_bytes(4, "little")
        message += (j // 16).to_bytes(4, "little")
        block = blake2b(message, key=SECRET, digest_size=64).digest()
        word = int.from_bytes(block[4 * (j % 16) :][:4], "little")
        answer |= int(j != 7 and (j in MINE) != (word < flip)) << j
    expected = (257).to_bytes(2, "little") + (2).to_bytes(2, "little") + digest[:8]
    expected += (7).to_bytes(8, "little") + (3).to_bytes(4, "little") + answer.to_bytes(8, "little")
    check = blake2b(b"ldp_jax 1 answer" + expected, digest_size=8).digest()
    assert report(7) == expected + check


def test_owners_are_in_the_bytes_as_the_docstring_says():
    data = OWNED.to_bytes()
    text = b'{"epsilon": 1.0, "num_nodes": 40, "owners": true, "round": 3}\n'
    ranks = np.resize([0, 1, 2, 3, 4], 40).astype("<i2").tobytes()
    assert data == sealed(b"ldp-pairs 1\n" + text + ranks + bytes([0b1100_0000, 0, 0, 0, 0]))
    assert Pairs.from_bytes(data) == OWNED != ASKED == Pairs.from_bytes(ASKED.to_bytes())
    for wrong in (data[:-9], data[:-9] + b"\x01\x00", data[:-8].replace(b"true", b"false")):
        with pytest.raises(ValueError, match="a damaged pairs"):
            Pairs.from_bytes(sealed(wrong))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_the_loss_is_that_of_the_integers_and_the_flip_that_of_the_law(epsilon):
    asked = Pairs(0, 3, epsilon)
    bit = asked.guarantee()
    assert (bit.unit, bit.arithmetic, bit.status) == (NEIGHBOUR_LIST, "exact", "proved")
    flips = round(2**32 * asked.flip)
    assert bit.epsilon == pytest.approx(np.log((2**32 - flips) / flips), abs=1e-12)
    assert 0.9 * epsilon < bit.epsilon <= epsilon
    assert abs(asked.flip - 1 / (1 + np.exp(epsilon))) <= 2**-31
    once = dataclasses.replace(asked, owners=deployment.ownership(np.zeros(3)))
    assert (once.relationship().epsilon, asked.relationship().epsilon) == (
        bit.epsilon,
        2 * bit.epsilon,
    )
    assert asked.relationship().unit == RELATIONSHIP


def test_bits_are_flipped_at_the_rate_and_independently():
    """62 400 bits: a rate that is off by 0.01 would be seen, and bits of two nodes, or of two
    users, that share a word.
    """
    asked = Pairs(0, 640, 1.0)
    held = list_session()
    sent = b"".join(held.report_neighbours(asked, [1, 2, 3], user=user) for user in range(120))
    user, bits = read(sent, asked)
    assert not bits[user, user].any()  # no bit is about oneself
    assert bits[5:, [1, 2, 3]].mean() > 0.6
    flipped = bits[:, 120:].astype(int)
    law = np.array([1 - asked.flip, asked.flip])
    both = np.outer(law, law).ravel()
    assert_g(np.bincount(flipped.ravel(), minlength=2), law)
    pairs = [(flipped[:, ::32], flipped[:, step::32]) for step in (1, 16)]
    pairs += [(flipped[::2], flipped[1::2]), (flipped[:, :-32:32], flipped[:, 32::32])]
    for one, other in pairs:
        many = min(one.shape[1], other.shape[1])
        assert_g(np.bincount((2 * one[:, :many] + other[:, :many]).ravel(), minlength=4), both)
    with pytest.raises(AssertionError, match="G test"):
        assert_g(np.bincount(flipped.ravel(), minlength=2), np.array([0.75, 0.25]))


def test_a_report_says_nothing_of_a_pair_that_the_other_end_owns():
    for user in (2, 8, 39):
        mine = OWNED.owners.owned(user, range(40))
        others = np.setdiff1d(np.arange(40), [user, *mine]).tolist()
        assert len(others) > 3
        assert report(user, OWNED, others) == report(user, OWNED, [])
        _, bits = read(report(user, OWNED, range(40)), OWNED)
        assert not bits[0][others].any()
        assert not bits[0][user]
    with pytest.raises(ValueError, match="user 1 is silent"):
        report(1, OWNED)


def test_bits_that_no_device_sends_are_refused():
    """About oneself, about a pair of another end, beyond the last node, of somebody silent."""
    codec = deployment.codecs.NeighbourReports(OWNED)
    other = np.setdiff1d(np.arange(40), [8, *OWNED.owners.owned(8, range(40))])[0]

    def forged(user, bit):
        numbers = np.zeros(2, np.int64)
        numbers[bit // 32] = np.array(1 << bit % 32, np.uint32).astype(np.int32)
        return codec.pack(range(2), numbers, user, 3, None)

    owned = int(OWNED.owners.owned(8, range(40))[0])
    sent = [forged(8, owned), forged(8, 8), forged(8, other), forged(8, 41), forged(1, owned)]
    found = deployment.decode(b"".join(sent), OWNED)
    assert (found.user.tolist(), found.rejected.impossible) == ([8], 4)


def test_whatever_is_looked_at_together_the_same_reports_are_possible(monkeypatch):
    sent = b"".join(report(user) for user in range(9))
    codec = deployment.codecs.NeighbourReports(ASKED)
    damaged = codec.pack(range(2), [0, -1], 9, 3, None)
    whole = deployment.decode(sent + damaged, ASKED)
    monkeypatch.setattr(deployment.pairs, "_BLOCK", 80)
    blocks = deployment.decode(sent + damaged, ASKED)
    assert whole.user.tolist() == blocks.user.tolist() == list(range(9))
    for one, other in zip(ASKED.entries(whole.output), _alone(whole.output), strict=True):
        np.testing.assert_array_equal(one, other)


def _alone(output):
    """Bit by bit."""
    found = [
        (row, 32 * k + j)
        for row, numbers in enumerate(output.tolist())
        for k, number in enumerate(numbers)
        for j in range(32)
        if number >> j & 1
    ]
    return np.array(found).T


def test_a_session_counts_a_whole_list_once_and_remembers_it():
    session = list_session(budget=2.5)
    counts = deployment.Question(0, np.zeros(40, int), num_groups=1, epsilon=1.0)
    sent = session.report_neighbours(ASKED, MINE, user=7)
    session.report_neighbours(counts, MINE, user=7)
    assert session.counter == 2
    assert session.remaining == pytest.approx(0.5, abs=1e-6)
    again = deployment.Session.from_bytes(device(), session.to_bytes())
    assert again.resend(ASKED, user=7) == sent
    with pytest.raises(deployment.BudgetError, match="do not fit"):
        again.report_neighbours(dataclasses.replace(ASKED, round=4), MINE, user=7)
    many = list_session(budget=40.5)  # 32 bits are any number of 32 bits, with a sign
    sent = [many.report_neighbours(ASKED, MINE, user=user) for user in range(40)]
    numbers = deployment.decode(b"".join(sent), ASKED).output[:, 0]
    assert numbers.min() < -(2**30) < 2**30 < numbers.max()
    again = deployment.Session.from_bytes(device(), many.to_bytes())
    assert [again.resend(ASKED, user=user) for user in range(40)] == sent
    with pytest.raises(ValueError, match="needs a budget of neighbour-lists, not of records"):
        deployment.Session(device(), budget=1.0).report_neighbours(ASKED, MINE, user=7)


# --- The server -----------------------------------------------------------------------------------

N = 24
RING = graphs.from_edges(np.stack([np.arange(N), (np.arange(N) + 1) % N], 1), num_nodes=N)
FRIENDS = [sorted({(user - 1) % N, (user + 1) % N}) for user in range(N)]


def served(folder, server, who=range(N)):
    """The result of devices that report by their own sessions."""
    service = serve(server, ReportStore(folder), users=N, key=jax.random.key(0))
    (form,) = service.question.forms()
    shipped = Pairs.from_bytes(form.to_bytes())
    for user in who:
        held = deployment.Session(
            deployment.Device.from_secret(np.random.default_rng(user).bytes(32)),
            budget=Budget(20.0, unit=NEIGHBOUR_LIST),
        )
        sent = held.report_neighbours(shipped, FRIENDS[user], user=user)
        assert service.store.add(sent, shipped).accepted == 1
    return service.close_round(), service


@pytest.mark.parametrize("reporting", ["full", "half"])
def test_the_graph_of_devices_is_that_of_their_lists(tmp_path, reporting):
    """At epsilon 20 a bit is flipped once in 5e8: the graph is the true one."""
    server = ListServer(RandomizedResponse(20.0, reporting=reporting), N)
    found, service = served(tmp_path, server)
    assert found.rounds[0].reported == N
    true = simulate(jax.random.key(0), server, Users(lists=RING)).value
    for one, other in zip(
        (found.value.graph.senders, found.value.graph.receivers),
        (true.graph.senders, true.graph.receivers),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    pair = found.guarantee[RELATIONSHIP].epsilon
    assert pair >= service.question.shipped().relationship().epsilon
    assert pair == pytest.approx(20.0 if reporting == "half" else 40.0)
    assert np.isnan(found.value.degree).all()


def test_devices_and_simulation_have_one_law_and_one_owner_of_each_pair(tmp_path):
    """Pairs by owner of 24 users, from both sides: the same ones may be set, none twice."""
    server = ListServer(RandomizedResponse(0.5, reporting="half"), N, round=5)
    question = server.question
    pairs = question.shipped()
    assert pairs.round == 5
    _, service = served(tmp_path, server, range(2, N))
    answers = question.read(np.arange(N), [service.store.all(pairs)])
    assert answers.reported.tolist() == [False, False] + [True] * (N - 2)
    allowed = pairs.owners.owns(np.arange(N)[:, None], np.arange(N))
    reporter, reported = answers.values.reporter, answers.values.reported
    assert allowed[reporter, reported].all()
    drawn = Users(lists=RING).answer(jax.random.key(1), question).values
    assert allowed[drawn.reporter, drawn.reported].all()
    assert len(reporter) / allowed[2:].sum() == pytest.approx(pairs.flip, abs=0.15)


@pytest.mark.parametrize(
    "server",
    [
        ListServer(DPRR(0.3, 0.7), N),
        ListServer(LocalLap(0.3, 0.7), N),
        ListServer(RandomizedResponse(np.full(N, 1.0, np.float32)), N),
        ListServer(
            RandomizedResponse(1.0), N, PublicLists(np.arange(N) == 0, np.array([[0, 1], [0, 23]]))
        ),
    ],
    ids=["dprr", "local_laplace", "personal", "public"],
)
def test_lists_that_devices_cannot_send_are_refused_before_anything_is_spent(tmp_path, server):
    store = ReportStore(tmp_path)
    with pytest.raises(ValueError, match="devices report lists by RandomizedResponse at one"):
        serve(server, store, users=N)
    assert store.kept() is None
