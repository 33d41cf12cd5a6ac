"""Liars: bounded by the codomain, never more than they are, and caught where the defence says
so.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import datasets, edges, servers
from ldp_jax.attacks import poisoning
from ldp_jax.core.mechanism import mechanism, static
from ldp_jax.core.spaces import Interval
from ldp_jax.features import (
    Duchi,
    GeneralizedRR,
    GridSquareWave,
    Laplace,
    MultiPiecewise,
    PersonalAlphabet,
    Piecewise,
)
from ldp_jax.graph import graphs
from tests.stats import SIGMAS

N = 400


@pytest.mark.parametrize(
    ("n", "share"),
    [(7, 0.0), (7, 0.1), (7, 0.25), (11, 0.2), (13, 0.35), (10, 0.28), (10, 0.99), (3, 0.5)],
)
def test_liars_are_of_those_who_are_asked_and_their_share_is_rounded(n, share):
    """To the nearest number: a share that is cut instead leaves out the half of them."""
    key = jax.random.key
    assert poisoning.choose_liars(key(0), n, share).sum() == round(share * n)
    asked = np.arange(2 * n) % 2 == 1
    liars = poisoning.choose_liars(key(0), 2 * n, share, asked)
    assert liars[asked].sum() == liars.sum() == round(share * n)


MECHANISMS = {
    "coordinates": (MultiPiecewise(5.0, 6), (N, 6)),
    "interval": (Piecewise(1.0), (N,)),
    "table": (GridSquareWave(1.0), (N,)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_lies_are_reports_and_those_of_the_honest_stay(name):
    """The worst is as far as any random report is, on either side."""
    m, shape = MECHANISMS[name]
    x = jnp.full(shape, 0.3)
    key = jax.random.key
    reports = jax.jit(jax.vmap(m.privatize))(jax.random.split(key(0), N), x)
    liars = poisoning.choose_liars(key(1), N, 0.1)
    up, down, anything = (
        poisoning.lying_reports(key(2), m, reports, liars, lie, jnp.full(shape, sign))
        for lie, sign in (("worst", 1.0), ("worst", -1.0), ("random", 1.0))
    )
    for lies in (up, down, anything, poisoning.false_records(key(3), m, reports, liars, -x)):
        assert np.asarray(m.codomain().contains(jax.tree.map(np.asarray, lies))).all()
        for honest, sent in zip(*map(jax.tree.leaves, (reports, lies)), strict=True):
            np.testing.assert_array_equal(honest[~liars], sent[~liars])
    estimate = jax.jit(jax.vmap(m.estimate))
    high, low, some = (
        np.asarray(estimate(lies)).reshape(N, -1)[liars].sum(1) for lies in (up, down, anything)
    )
    assert np.ptp(high) == np.ptp(low) == 0.0
    assert low[0] <= some.min() < some.max() <= high[0]
    assert np.ptp(some) > 0.5 * (high[0] - low[0])


@mechanism
class Within(Laplace):
    """Laplace noise in an interval of another kind."""

    lower: float = static(default=-math.inf)
    upper: float = static(default=math.inf)

    def codomain(self):
        return Interval(self.lower, self.upper)


NO_END = "reports must have ends"
SHARES = r"mechanism must report numbers, got estimates of shape \(4,\)"


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (Within(1.0), NO_END),
        (Within(1.0, -3.0), NO_END),
        (Within(1.0, -math.inf, 3.0), NO_END),
        (edges.NeighbourCounts(1.0, 2), "mechanism must report numbers"),
        # Shares of classes are no numbers: 0.2 was told, less than without privacy.
        (GeneralizedRR(1.0, 4), SHARES),
        (PersonalAlphabet(1.0, (0.1, 0.4, 0.2, 0.3)), SHARES),
        (Piecewise(np.array([0.5, 1.0])), "holds a stack"),
    ],
)
def test_reports_without_ends_or_numbers_have_no_leverage(mechanism, words):
    with pytest.raises(ValueError, match=words):
        poisoning.leverage(mechanism)


def test_harm_is_paired_and_that_without_privacy_is_taken_off():
    liars = np.arange(N) < 20
    nothing = np.zeros(N)
    lost = np.where(np.arange(N) % 4 == 0, 1.0, 0.0)
    much, little = (
        poisoning.harm(name, 1 + nothing, 1 - part, liars)
        for name, part in (("a", lost), ("b", 0.5 * lost))
    )
    assert much.harm.mean == pytest.approx(lost[20:].mean())
    assert much.honest.n == N - 20
    assert much.minus(little).harm.mean == pytest.approx(0.5 * lost[20:].mean())


def test_means_are_of_users_who_have_both_values():
    before = np.array([1.0, 0.0, np.nan, 1.0, 1.0])
    after = np.array([np.nan, 0.0, 1.0, 0.0, 1.0])
    found = poisoning.harm("part", before, after, np.arange(5) == 4)
    assert (found.honest.mean, found.poisoned.mean, found.harm.mean) == (0.5, 0.0, 0.5)
    assert found.honest.n == found.poisoned.n == found.harm.n == 2


def test_no_reports_are_none_that_are_believed():
    assert poisoning.believable_counts(np.zeros((0, 2), int), 1.0, np.ones(2, int)).shape == (0,)


# --- Counts and lists -----------------------------------------------------------------------------


def counted(epsilon=1.0):
    true = np.random.default_rng(0).poisson([6.0, 2.0, 1.0], (N, 3))
    noise = edges.NeighbourCounts(epsilon, 3, most=N - 1)
    return noise, true, np.asarray(noise.add_noise(jax.random.key(3), true))


def test_counts_that_no_degree_allows_are_told_and_a_response_is_not():
    noise, true, reports = counted()
    liars = poisoning.choose_liars(jax.random.key(4), N, 0.2)
    aimed = np.full(N, 2)
    sizes = np.array([200, 100, 100])
    kept = {}
    low = noise.span()[0]
    for lie in ("random", "worst", "friends", "classes", "response"):
        sent = poisoning.lying_counts(
            jax.random.key(5), noise, true, reports, liars, lie, aimed, fakes=18
        )
        assert noise.codomain().contains(sent).all()
        np.testing.assert_array_equal(sent[~liars], reports[~liars])
        kept[lie] = poisoning.believable_counts(sent, 1.0, sizes)
        assert kept[lie][~liars].mean() > 0.99
        if lie == "worst":
            assert (sent[liars] == [low, low, noise.span()[1]]).all()
        if lie == "response":
            assert (sent[liars] == true.sum(1, keepdims=True)[liars] * [0, 0, 1]).all()
        if lie == "friends":  # honest noise about a false record: 18 more, in the mean of 80 liars
            off = (sent[liars] - true[liars] - [0, 0, 18]).mean(0)
            assert (np.abs(off) < SIGMAS * np.sqrt(noise.noise_variance() / liars.sum())).all()
    assert not kept["worst"][liars].any()
    assert kept["random"][liars].mean() < 0.05
    assert kept["response"][liars].mean() > 0.99
    assert kept["classes"][liars].mean() > 0.99


def test_places_and_groups_follow_what_was_broadcast():
    sizes = np.array([2, 3, 5] * 100)
    honest = jnp.zeros(300, int)
    liars = np.arange(300) < 150
    sent = {
        lie: np.asarray(poisoning.lying_places(jax.random.key(6), sizes, honest, liars, lie))
        for lie in ("random", "worst", "response")
    }
    assert (sent["worst"][liars] == sizes[liars] - 1).all()
    assert (sent["response"][liars] == 1).all()
    assert all(
        np.bincount(sent["random"][liars & (sizes == size)]).size == size for size in (2, 3, 5)
    )
    assert not any(each[~liars].any() for each in sent.values())
    groups = poisoning.opposed_groups(
        np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]]), np.array([0, 2, -1]), 3
    )
    assert groups.tolist() == [2, 0, 0]  # nobody is in group 1


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_both_ends_are_asked_and_a_lie_moves_nothing_in_the_mean(epsilon):
    """Half of 8 standard errors is the smallest bias that is seen; the variances are those of the
    docstring.
    """
    n = 200
    ring = graphs.from_edges(np.stack([np.arange(n), (np.arange(n) + 1) % n], 1), num_nodes=n)
    flip, v = 1 / (1 + np.exp(epsilon)), np.exp(epsilon) / np.expm1(epsilon) ** 2
    claims = np.stack([np.repeat(np.arange(20), n), np.tile(np.arange(n), 20)], 1)
    claims = claims[claims[:, 0] != claims[:, 1]]
    found = {(checked, lied): [] for checked in (True, False) for lied in (True, False)}
    for key in jax.random.split(jax.random.key(7), 8):
        graph = edges.privatize_graph(key, ring, edges.RandomizedResponse(epsilon)).graph
        pairs = np.stack([np.asarray(graph.receivers), np.asarray(graph.senders)], 1)
        for checked, lied in found:
            sent = poisoning.lying_lists(jax.random.key(8), pairs, claims, n) if lied else pairs
            degrees = poisoning.degrees_by_both_ends(sent, n, flip, checked=checked)
            found[checked, lied].append(degrees[20:])
    spread = {how: np.var(each) for how, each in found.items()}
    assert spread[True, False] == pytest.approx(v**2 * n, rel=0.25)
    assert spread[False, False] == pytest.approx(v / 2 * n, rel=0.25)
    for (checked, lied), each in found.items():
        off = np.mean(each) - 2.0
        standard = np.sqrt(spread[checked, lied] / np.size(each)) * 2  # pairs are in two degrees
        added = 20 * (1 - flip) / (2 - 4 * flip) if lied and not checked else 0.0
        assert abs(off - added) < SIGMAS * standard


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([[0, 1], [0, 1], [4, 2]], "pairs of two users, each once"),
        ([[0, 1], [3, 3], [4, 2]], "pairs of two users, each once"),
        ([[0, 1], [0, N]], rf"in \[0, {N}\), of the users, got {N} at place 1, 1"),
    ],
)
def test_a_claim_counts_once_and_is_of_two_users(claims, words):
    """A friend claimed again was one of both ends, and one beyond the users that of another."""
    honest = np.array([[1, 0], [2, 3], [3, 2]])
    both = lambda pairs: poisoning.degrees_by_both_ends(pairs, N, 0.25, checked=True)
    for asked in (
        lambda: both(np.array(claims)),
        lambda: poisoning.lying_lists(jax.random.key(0), honest, np.array(claims), N),
        lambda: poisoning.lying_lists(jax.random.key(0), np.array(claims), honest, N),
    ):
        with pytest.raises(ValueError, match=words):
            asked()


def test_input_lies_on_lists_are_kept_as_often_as_true_bits():
    claims = np.stack([np.zeros(N, int), 1 + np.arange(N)], 1)
    sent = poisoning.lying_lists(jax.random.key(9), np.array([[3, 4]]), claims, N + 1, keep=0.75)
    assert abs(len(sent) - 1 - 0.75 * N) < SIGMAS * np.sqrt(0.1875 * N)
    assert [3, 4] in sent.tolist()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.7])
@pytest.mark.parametrize("doubt", [0.4, 1e-3, 1e-6])
def test_a_count_is_believable_as_far_as_noise_reaches_but_for_the_doubt(epsilon, doubt):
    """One user of ten has a count below 0 or above its group, and no larger total than others."""
    sizes = np.array([1000, 7])
    shrink = np.exp(-epsilon)
    reports = np.arange(60)
    beyond = 2 * shrink ** (reports + 1) / (1 + shrink)  # P(|z| > r) of whole noise
    others = [[500, 4]] * 9
    for count in (lambda r: [-r, 4], lambda r: [400, 7 + r]):
        asked = [np.array([count(r), *others]) for r in reports.tolist()]
        judged = [poisoning.believable_counts(one, epsilon, sizes, doubt=doubt) for one in asked]
        good = np.array(judged)[:, 0]
        tail = int(good.sum()) - 1
        assert good[: tail + 1].all()
        assert beyond[tail] <= doubt
        assert tail <= np.log(2 / doubt) / epsilon + 1


@pytest.mark.parametrize("groups", [1, 4])
def test_a_total_is_believable_within_three_quartile_ranges_and_the_noise(groups):
    """Of one user more than 400 honest ones, in logarithms."""
    rng = np.random.default_rng(groups)
    sizes = np.full(groups, 10**6)
    reports = rng.poisson(rng.gamma(2.0, 20.0, (400, 1)), (400, groups))
    low, high = np.percentile(np.log(1.0 + np.append(reports.sum(1), 10**6)), (25, 75))
    for epsilon in (0.2, 1.0, 8.0):
        noise = math.ceil(math.log(2 / 1e-3) / epsilon)
        most = math.exp(high + 3 * (high - low)) - 1 + noise * math.sqrt(groups)
        for total in (int(most), int(most) + 1):
            sent = total // groups + (np.arange(groups) < total % groups)
            every = np.concatenate([reports, [sent]])
            judged = poisoning.believable_counts(every, epsilon, sizes, doubt=1e-3)
            assert judged[-1] == (total <= most)


# --- In any protocol ------------------------------------------------------------------------------


def test_lies_in_a_protocol_of_two_questions_are_those_of_each_question():
    """The honest send what they send without lies, and counts are those of ``lying_counts``."""
    n = 120
    data = datasets.synthetic(
        jax.random.key(0), num_nodes=n, num_classes=3, num_features=9, mean_degree=8, homophily=0.8
    )
    users = servers.Users(labels=data.y, lists=data.graph)
    everybody = np.ones(n, bool)
    groups = data.y.astype(np.int32)
    questions = [
        servers.Ask(GeneralizedRR(1.0, 3), everybody, of="label"),
        servers.CountQuestion(groups, everybody, num_groups=3, epsilon=1.0),
    ]
    for place, question in enumerate(questions):
        malicious = users.lying(jax.random.key(10 + place), 0.3, poisoning.Lies("random"))
        honest, sent = (
            np.asarray(some.answer(jax.random.key(2 + place), question).values)
            for some in (users, malicious)
        )
        liars = malicious.liars
        np.testing.assert_array_equal(sent[~liars], honest[~liars])
        assert (sent[liars] != honest[liars]).any()
    known = np.eye(3)[data.y]
    lie = poisoning.Lies("friends", known, fakes=5)
    liars = malicious.liars
    sent = lie(jax.random.key(5), questions[1], honest, users, liars)
    wanted = poisoning.lying_counts(
        jax.random.key(5),
        questions[1].mechanism,
        edges.count_neighbours(users.lists, groups, 3),
        honest,
        liars,
        "friends",
        poisoning.opposed_groups(known, groups, 3),
        fakes=5,
    )
    np.testing.assert_array_equal(sent, wanted)


@pytest.mark.parametrize(
    ("mechanism", "shape"), [(Piecewise(1.0), (5,)), (MultiPiecewise(1.0, 6), (5, 6))]
)
def test_the_worst_lie_about_a_record_is_its_largest_report(mechanism, shape):
    users = servers.Users(records=np.zeros(shape, np.float32))
    malicious = users.lying(jax.random.key(1), 0.4, poisoning.Lies("worst"))
    question = servers.Ask(mechanism, np.ones(5, bool))
    sent = malicious.answer(jax.random.key(0), question).values
    found = np.asarray(jax.vmap(mechanism.estimate)(sent)).reshape(5, -1).sum(1)
    largest = poisoning.leverage(Piecewise(1.0)) * np.prod(shape) / 5
    np.testing.assert_allclose(found[malicious.liars], largest, rtol=1e-6)
    assert (found[~malicious.liars] < largest).all()


@pytest.mark.parametrize("make", [Piecewise, Duchi, lambda e: MultiPiecewise(e, 6, 2)])
@pytest.mark.parametrize("lie", ["random", "worst"])
def test_liars_of_personal_budgets_lie_within_their_own(make, lie):
    """The worst lie of each is that of the same users with one budget."""
    budgets = np.array([0.5, 1.0, 4.0], np.float32)
    made = make(budgets)
    shape = (3, 6) if made.domain().typical().shape else (3,)
    towards = np.ones(shape, np.float32) * np.array([1, -1, 1]).reshape(3, *(1,) * (len(shape) - 1))
    honest = jax.vmap(make(1.0).privatize)(jax.random.split(jax.random.key(0), 3), jnp.zeros(shape))
    everybody = np.ones(3, bool)
    lies = []
    for asked in (made, *map(make, budgets.tolist())):
        key = jax.random.key(1)
        sent = poisoning.lying_reports(key, asked, honest, everybody, lie, towards)
        lies.append(np.asarray(jax.tree.leaves(sent)[-1]))
    for user, alone in enumerate(lies[1:]):
        np.testing.assert_allclose(lies[0][user], alone[user], rtol=1e-6)


def test_a_lie_about_an_unknown_question_is_refused():
    with pytest.raises(TypeError, match="no lie"):
        poisoning.Lies()(
            jax.random.key(0),
            object(),
            np.zeros(3),
            servers.Users(labels=[0, 1, 2]),
            np.ones(3, bool),
        )
