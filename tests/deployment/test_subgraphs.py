"""Stars and triangles from devices: their bytes, their law beside that of the simulation, and a
protocol that is served.
"""

import dataclasses
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget
from ldp_jax.core.checksum import sealed
from ldp_jax.core.rounding import log_up
from ldp_jax.deployment import Stars, Triangles
from ldp_jax.deployment.store import ReportStore
from ldp_jax.servers import StarServer, TriangleServer, Users, serve, simulate
from ldp_jax.servers.stars import StarQuestion
from ldp_jax.servers.triangles import TriangleQuestion
from tests.deployment.vectors import list_session
from tests.servers.planted import blocks

N = 40
GRAPH, _, _ = blocks(n=N, degree=8.0)
USERS = Users(lists=GRAPH)
FRIENDS = [np.asarray(GRAPH.senders)[np.asarray(GRAPH.receivers) == user] for user in range(N)]
EVERYBODY = np.ones(N, bool)
LINKED = np.random.default_rng(0).integers(0, 2**32, (N, 2), np.uint32)
LINKED[:, 1] >>= 24
KNOWN = np.arange(N) % 7 > 0
ASKED = TriangleQuestion(LINKED, KNOWN, EVERYBODY, 0.25, 3, 2.0, round=4)
SHIPPED = ASKED.shipped()


def test_a_range_of_too_many_steps_is_refused_by_its_bound():
    """A larger epsilon rounds more finely: here it is the larger one that does not fit."""
    assert Stars(0, 5000, 1.0, 6000).guarantee().epsilon <= 1.0
    with pytest.raises(ValueError, match="bound must be smaller, or epsilon: at epsilon 40"):
        Stars(0, 5000, 40.0, 6000).guarantee()


def test_the_bytes_are_those_of_the_docstring():
    header = b'{"bound": 3, "epsilon": 2.0, "flips": 1073741824, "num_nodes": 40, "round": 4}\n'
    body = LINKED.astype("<u4").tobytes() + np.packbits(KNOWN).tobytes()
    body += np.arange(N).astype("<i2").tobytes() + bytes(5)
    data = sealed(b"ldp-triangles 1\n" + header + body)
    assert SHIPPED.to_bytes() == data
    assert Triangles.from_bytes(data) == SHIPPED
    assert len(data) == ASKED.download_bytes()
    for wrong in (data[:-9], data[:-9] + b"\x01\x00", data[:-8].replace(b"40", b"41")):
        with pytest.raises(ValueError, match="a damaged triangles"):
            Triangles.from_bytes(sealed(wrong))
    stars = StarQuestion(EVERYBODY, 5, 1.0, 3)
    header = b'{"bound": 5, "epsilon": 1.0, "k": 3, "num_nodes": 40, "round": 0}\n'
    assert stars.shipped().to_bytes() == sealed(b"ldp-stars 1\n" + header)
    assert Stars.from_bytes(stars.shipped().to_bytes()) == stars.shipped()
    with pytest.raises(ValueError, match="a damaged stars: 1 bytes of arrays more"):
        Stars.from_bytes(sealed(b"ldp-stars 1\n" + header + b"\0"))
    for asked in (ASKED, stars):
        sent = list_session().report_neighbours(asked.shipped(), FRIENDS[0], user=0)
        assert len(sent) == asked.upload_bytes() == 36


@pytest.mark.parametrize("epsilon", [0.02, 1.0, 40.0])
@pytest.mark.parametrize("bound", [3, 17])
def test_the_loss_is_that_of_the_integers_and_within_the_epsilon(epsilon, bound):
    """The largest ratio over all reports of two numbers that are as far apart as a bit moves them,
    whatever word rounds them.
    """
    asked = Stars(0, bound, epsilon, N, 3)
    noise = asked.noise
    assert 0.99 * epsilon < log_up(asked.loss) <= epsilon
    once = dataclasses.replace(SHIPPED, bound=bound, epsilon=epsilon)
    assert once.relationship().epsilon == log_up(once.loss) <= epsilon
    assert asked.relationship().epsilon == 2 * log_up(asked.loss)
    mass = [Fraction(2 * noise.masses[0]), *map(Fraction, noise.masses[1:])]
    beyond = np.cumsum(np.array(mass[::-1], object))[::-1]

    def chance(report, count):
        away = abs(report - count)
        ends = (-noise.margin, noise.most + noise.margin)
        return beyond[away] if report in ends else mass[away]

    low = [count for count in range(0, noise.most, max(1, noise.most // 9))]
    for count in low:
        for other in range(count, min(count + asked.steps, noise.most) + 1)[-2:]:
            for report in {-noise.margin, noise.most + noise.margin, count, other, other + 1}:
                one, two = chance(report, count), chance(report, other)
                assert max(one, two) <= asked.loss * min(one, two)
    words = np.array([0, 2**31, 2**32 - 1])
    stars = [Fraction(math.comb(min(friends, bound), 3)) for friends in range(bound + 3)]
    found = np.array([[asked._rounded(count, int(word)) for count in stars] for word in words])
    assert np.diff(found, axis=1).max() == asked.steps
    assert found.min() >= 0
    assert found.max() <= noise.most


def spread(values):
    """The mean and the variance of draws [many, n], and five standard deviations of both."""
    many = len(values)
    variance = values.var(0, ddof=1)
    return (
        values.mean(0),
        variance,
        5 * np.sqrt(variance / many),
        5 * variance * math.sqrt(6 / many),
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(ASKED, id="triangles"),
        pytest.param(StarQuestion(EVERYBODY, 6, 1.0, 2), id="stars"),
    ],
)
def test_devices_have_the_law_of_the_simulation(asked):
    """Mean and variance of two users' numbers, of 1000 devices and 150 simulations: a mean off by
    0.6 of a standard deviation is seen, and a variance off by 1.4 of it.
    """
    who = [0, 11]
    shipped = asked.shipped()
    known = [FRIENDS[user] for user in who]
    if shipped.owners is not None:
        known = [shipped.owners.owned(user, FRIENDS[user]) for user in who]
    sent = []
    for seed in range(1000):
        device = deployment.Device.from_secret(np.random.default_rng(seed).bytes(32))
        pairs = zip(known, who, strict=True)
        sent.append([shipped.report(device, friends, user)[0] for friends, user in pairs])
    told = shipped.estimate(np.array(sent))
    answers = (USERS.answer(jax.random.key(seed), asked).values for seed in range(150))
    drawn = np.array([np.asarray(values)[who] for values in answers])
    one, other = spread(told), spread(drawn)
    np.testing.assert_array_less(np.abs(one[0] - other[0]), one[2] + other[2])
    np.testing.assert_array_less(np.abs(one[1] - other[1]), one[3] + other[3])


def test_a_device_counts_what_the_simulation_counts_and_rounds_it_without_bias():
    """Lists that are not cut; the mean over 1024 words that are spread evenly."""
    exact = dataclasses.replace(ASKED, bound=20).exact()
    true = np.asarray(exact.answer_all(jax.random.key(0), USERS))
    shipped = exact.shipped()
    for user in range(N):
        known = shipped.owners.owned(user, FRIENDS[user])
        device = deployment.Device.from_secret(bytes(range(32)))
        count = shipped.counted(device, known, user)
        assert float(count) == pytest.approx(true[user], abs=1e-4)
        low = shipped._rounded(count, 0)
        up = sum(shipped._rounded(count, word << 22) - low for word in range(1024))
        mean = Fraction(low) + Fraction(up, 1024)
        assert abs(mean - count * Fraction(shipped.steps, shipped.most_moved)) < Fraction(1, 512)


def served(folder, server, who):
    """The result of devices that report by their own sessions, and the service."""
    service = serve(server, ReportStore(folder), users=N, key=jax.random.key(0))
    sessions = {
        user: list_session(
            deployment.Device.from_secret(np.random.default_rng(user).bytes(32)), budget=120.0
        )
        for user in who
    }
    while service.released is None:
        (form,) = service.question.forms()
        shipped = type(form).from_bytes(form.to_bytes())
        for user, session in sessions.items():
            sent = session.report_neighbours(shipped, FRIENDS[user], user=user)
            assert service.store.add(sent, shipped).accepted == 1
        service.close_round()
    return service.released


@pytest.mark.parametrize(
    "server",
    [
        TriangleServer(N, 20.0, 40.0, bound=N - 1),
        TriangleServer(N, 20.0, 40.0, epsilon_degree=20.0, round=3),
        StarServer(N, 40.0, bound=N - 1, k=3),
        StarServer(N, 40.0, epsilon_degree=40.0, round=3),
    ],
    ids=["triangles", "triangles of a private bound", "stars", "stars of a private bound"],
)
def test_a_served_count_is_the_true_one_up_to_its_error(tmp_path, server):
    found = served(tmp_path, server, range(N))
    true = simulate(jax.random.key(0), server, USERS.exact()).value.estimate
    assert abs(found.value.estimate - true) < 6 * found.value.error
    assert found.value.error < 0.4 * true
    stated = server.statement().guarantee()
    assert dict(found.guarantee) == dict(stated)
    assert found.guarantee[RELATIONSHIP].epsilon >= found.guarantee[NEIGHBOUR_LIST].epsilon


def test_a_device_spends_what_the_server_states_and_no_more(tmp_path):
    """A budget of the whole protocol is enough, and is used up; silent users are left out."""
    server = TriangleServer(N, 1.0, 2.0, epsilon_degree=0.5)
    service = serve(server, ReportStore(tmp_path), users=N, key=jax.random.key(0))
    budget = Budget(3.5, unit=NEIGHBOUR_LIST)
    session = deployment.Session(deployment.Device.new(), budget=budget)
    while service.released is None:
        (form,) = service.question.forms()
        service.store.add(session.report_neighbours(form, FRIENDS[5], user=5), form)
        service.close_round()
    assert session.remaining < 1e-6
    assert [one.reported for one in service.released.rounds] == [1, 1, 1]
    refused = {
        TriangleServer(N, 30.0, 1.0, bound=5): r"epsilon must be in \(0, 20\]",
        StarServer(N, 1e-5, bound=5): "epsilon is too small for discrete Laplace noise",
    }
    for number, (server, words) in enumerate(refused.items()):
        with pytest.raises(ValueError, match=words):
            serve(server, ReportStore(tmp_path / str(number)), users=N)
        simulate(jax.random.key(0), server, USERS)  # what no device can send can be simulated
