"""Data that are asked for in every round: what shows of a history, and what it costs."""

import itertools
import math

import jax
import numpy as np
import pytest

from ldp_jax.accounting.composition import advanced, over_rounds
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, Guarantee, metric
from ldp_jax.bench.classes import AskClass
from ldp_jax.core.mechanism import SMALLEST
from ldp_jax.deployment import Device, Session, decode
from ldp_jax.deployment.store import ReportStore
from ldp_jax.edges import NeighbourList
from ldp_jax.features import GeneralizedRR, GridSquareWave
from ldp_jax.servers import (
    Ask,
    DeviceUsers,
    ListQuestion,
    RoundsServer,
    StoredUsers,
    User,
    Users,
    simulate,
)
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.rounds import RoundQuestion
from tests.stats import assert_g

N = 4000
ROUNDS = 3
K = 3
MECHANISM = GeneralizedRR(1.0, K)
LAW = np.asarray(MECHANISM.table().masses) / 2.0**32


def collected(records, permanent=""):
    """The reports of histories [rounds, n] under one key, [rounds, n]."""
    server = RoundsServer(MECHANISM, N, ROUNDS, permanent=permanent)
    return simulate(jax.random.key(0), server, Users(records=records.T)).value


def test_a_permanent_answer_is_the_first_record_s_and_no_later_one_shows():
    records = np.random.default_rng(0).integers(0, K, (ROUNDS, N))
    changed = records.copy()
    changed[1:] = (changed[1:] + 1) % K
    kept = collected(records, permanent="class")
    np.testing.assert_array_equal(kept, np.broadcast_to(kept[0], kept.shape))
    np.testing.assert_array_equal(kept, collected(changed, permanent="class"))
    first = np.bincount(kept[0][records[0] == 1], minlength=K)
    assert_g(first, LAW[1])  # finds a probability 10 points off
    far = np.where(
        records == K - 1, 2**33, records
    )  # the nearest record; one that wrapped would be 0
    np.testing.assert_array_equal(kept, collected(far, permanent="class"))


def test_histories_of_another_number_of_rounds_are_refused():
    """JAX would read the last round again and again."""
    records = np.zeros((ROUNDS, N), int)
    for server in (RoundsServer(MECHANISM, N, ROUNDS + 2), RoundsServer(MECHANISM, N, 1)):
        with pytest.raises(ValueError, match="records must be histories of"):
            simulate(jax.random.key(0), server, Users(records=records.T))


def test_a_stack_of_one_s_own_mechanism_is_refused_by_every_question_that_draws_by_it():
    """A report of one user would be as many as there are budgets, at the cost of one."""
    made = {}
    exec(SMALLEST, made)
    stack = made["Flip"](np.ones(3, np.float32))
    everybody = np.ones(3, bool)
    user = User(np.zeros(2), 0, NeighbourList.of([1], 3), jax.numpy.asarray(0))
    classifier = DeviceClassifier(
        *map(jax.numpy.asarray, (np.eye(2), np.zeros(2), np.zeros((0, 2)))), 1.0
    )
    questions = [
        RoundQuestion(stack, everybody, np.asarray(0), 2),
        Ask(stack, everybody),
        AskClass(classifier, stack, everybody),
        ListQuestion(stack, everybody, np.zeros(3, np.int32), size=3),
    ]
    for question in questions:
        with pytest.raises(ValueError, match="Flip holds a stack"):
            question.answer(jax.random.key(0), user)
    with pytest.raises(ValueError, match="Flip holds a stack"):
        simulate(jax.random.key(0), RoundsServer(stack, 3, 2), Users(records=np.zeros((3, 2))))


def test_fresh_answers_follow_their_own_record_with_noise_of_their_own():
    records = np.ones((ROUNDS, N), np.int32)
    changed = records.copy()
    changed[1] = 2
    fresh = collected(records)
    other = collected(changed)
    np.testing.assert_array_equal(fresh[[0, 2]], other[[0, 2]])
    assert (fresh[1] != other[1]).mean() > 0.2
    pairs = np.bincount(fresh[0] * K + fresh[2], minlength=K * K)
    assert_g(
        pairs, np.outer(LAW[1], LAW[1]).ravel()
    )  # finds a tenth of the users with the noise of round 0


def supremum(law):
    """The largest loss between two histories of two rounds, of laws [history, reports]."""
    worst = 0.0
    for p, q in itertools.permutations(law, 2):
        worst = max(
            worst, math.inf if (q[p > 0] == 0).any() else float(np.log(p[p > 0] / q[p > 0]).max())
        )
    return worst


def test_the_cost_is_the_supremum_over_histories_and_an_answer_anew_has_none():
    histories = list(itertools.product(range(K), repeat=2))
    fresh = [np.outer(LAW[a], LAW[b]).ravel() for a, b in histories]
    kept = [np.diag(LAW[a]).ravel() for a, _ in histories]
    anew = [
        np.diag(LAW[a]).ravel() if a == b else np.outer(LAW[a], LAW[b]).ravel()
        for a, b in histories
    ]
    once = MECHANISM.guarantee()
    for law, answers in ((fresh, "fresh"), (kept, "permanent")):
        said = over_rounds(once, 2, answers=answers)
        assert supremum(law) == pytest.approx(said.epsilon, rel=1e-6)
        assert "histories of 2 rounds" in said.adjacency
    assert supremum(anew) == math.inf
    many = over_rounds(once, 50, answers="fresh", delta=1e-6)
    assert many.epsilon == advanced(once, 50, 1e-6).epsilon < 50.0
    bit = over_rounds(Guarantee(0.5, unit=NEIGHBOUR_LIST), 4, answers="fresh")
    assert (bit.epsilon, bit.unit) == (2.0, NEIGHBOUR_LIST)


def test_rounds_by_a_server_cost_as_stated_and_a_permanent_answer_once():
    records = np.ones((N, ROUNDS), np.int32)
    users = Users(records=records)
    key = jax.random.key
    fresh = simulate(key(0), RoundsServer(MECHANISM, N, ROUNDS), users)
    kept = simulate(key(1), RoundsServer(MECHANISM, N, ROUNDS, permanent="class"), users)
    for found, answers in ((fresh, "fresh"), (kept, "permanent")):
        said = over_rounds(MECHANISM.guarantee(), ROUNDS, answers=answers)
        assert found.guarantee[RECORD].epsilon == said.epsilon
        assert found.value.shape == (ROUNDS, N)
    assert [len(found.rounds) for found in (fresh, kept)] == [ROUNDS, 1]

    other = RoundsServer(MECHANISM, N, ROUNDS, permanent="another")
    both = simulate(key(3), other, users, history=kept.statement).guarantee[RECORD].epsilon
    assert both == pytest.approx(2 * kept.guarantee[RECORD].epsilon)
    many = simulate(
        key(9), RoundsServer(MECHANISM, N, 50, delta=1e-6), Users(records=np.ones((N, 50), int))
    )
    assert many.guarantee[RECORD].epsilon == advanced(MECHANISM.guarantee(), 50, 1e-6).epsilon


def epsilon_of(made):
    return made.guarantee()[RECORD].epsilon


def test_simulated_users_who_draw_a_permanent_answer_anew_are_charged_anew():
    users = Users(records=np.ones((N, ROUNDS), np.int32))
    server = RoundsServer(MECHANISM, N, ROUNDS, permanent="class")
    once = epsilon_of(server.statement())
    found = simulate(jax.random.key(0), server, users)
    for times in (2, 3):
        later = simulate(jax.random.key(times), server, users, history=found.statement)
        assert (later.value[0] != found.value[0]).mean() > 0.2  # the record shows through both
        assert later.guarantee[RECORD].epsilon == pytest.approx(times * once)
        found = later


def test_devices_that_repeat_a_permanent_answer_are_charged_once():
    server = RoundsServer(MECHANISM, 2, ROUNDS, permanent="class")
    table = MECHANISM.table()
    sessions = [Session(Device.new(), budget=1.0) for _ in range(2)]

    def arrived(question):
        sent = [s.report_permanently(table, 1, user=u, round=u) for u, s in enumerate(sessions)]
        return [decode(b"".join(sent), table)]

    users = DeviceUsers(2, arrived)
    found = simulate(jax.random.key(0), server, users)
    later = simulate(jax.random.key(1), server, users, history=found.statement)
    np.testing.assert_array_equal(later.value, found.value)
    assert later.guarantee[RECORD].epsilon == epsilon_of(server.statement())
    assert [session.counter for session in sessions] == [1, 1]


@pytest.mark.parametrize("round", [0, None])
def test_stored_reports_of_one_round_are_no_answers_of_the_others(tmp_path, round):
    """The result would be that nobody's record has changed."""
    table = MECHANISM.table()
    store = ReportStore(tmp_path)
    for user in range(2):
        sent = Session(Device.new(), budget=1.0).report(table, user, user=user, round=0)
        store.add(sent, table)
    users = StoredUsers(store, 2, round)
    assert simulate(jax.random.key(0), RoundsServer(MECHANISM, 2, 1), users).value.shape == (1, 2)
    kept = RoundsServer(MECHANISM, 2, ROUNDS, permanent="class")
    assert simulate(jax.random.key(0), kept, users).value.shape == (ROUNDS, 2)
    with pytest.raises(ValueError, match="stored rows answer one question"):
        simulate(jax.random.key(0), RoundsServer(MECHANISM, 2, ROUNDS), users)


def test_a_permanent_answer_by_another_mechanism_is_another_one():
    """Of the same name and epsilon; a device draws it by another table."""
    one, other = (
        RoundsServer(made, N, ROUNDS, permanent="class").statement()
        for made in (MECHANISM, GridSquareWave(1.0))
    )
    assert epsilon_of(one.after(one)) == epsilon_of(one)
    assert epsilon_of(one.after(other)) == pytest.approx(2 * epsilon_of(one), rel=1e-6)


def test_what_is_wrong_is_refused():
    with pytest.raises(ValueError, match="delta must be None for permanent answers"):
        RoundsServer(MECHANISM, N, ROUNDS, permanent="class", delta=1e-6)
    for sizes in ({"num_users": 0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(sizes))} must be a whole number"):
            RoundsServer(**{"mechanism": MECHANISM, "num_users": 3, "rounds": 2} | sizes)
    with pytest.raises(ValueError, match="rounds must be a whole number"):
        over_rounds(Guarantee(1.0), 0, answers="fresh")
    with pytest.raises(ValueError, match=r"over_rounds cannot add metric\(2\)"):
        over_rounds(Guarantee(2.0, unit=metric(2.0)), 3, answers="fresh")
