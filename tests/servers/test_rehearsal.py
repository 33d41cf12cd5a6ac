"""Worlds follow what is public of them, and the verdict follows what the worlds brought."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ldp_jax as ldp
from ldp_jax.features import GeneralizedRR
from ldp_jax.graph.propagation import operator
from ldp_jax.learning.metrics import auc
from ldp_jax.servers import (
    JointPrivacy,
    Rehearsal,
    Share,
    StatedFriends,
    joint_facts,
    predict_from_counts,
    predict_jointly,
)
from ldp_jax.servers.facts.counts import count_facts
from ldp_jax.servers.facts.joint import JointFacts
from ldp_jax.servers.facts.panel import PanelFacts, panel_facts
from ldp_jax.servers.links import LinkFacts, link_scores
from ldp_jax.servers.parts.device_classifier import DeviceClassifier
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.structure import StructurePosterior
from ldp_jax.servers.rehearsal import MODEL_ERROR, MODEL_SHARE, Foreseen
from ldp_jax.servers.rehearsal import _best as best_splits
from ldp_jax.servers.worlds import both, links
from ldp_jax.servers.worlds.friends import (
    drawn_friends,
    drawn_lists,
    echo,
    homophily,
    overlap,
)
from ldp_jax.servers.worlds.records import coupled_classes, donors, shared_spread
from ldp_jax.servers.worlds.stated import StatedUsers
from tests.servers.example_protocol import ClassesThenCounts
from tests.servers.planted import blocks, some_labels

N = 360
DIM = 24
PANEL = 150


@pytest.fixture(scope="module")
def graph():
    made, y, _ = blocks(n=N, degree=8.0, homophily=0.9)
    return operator(made), y, made


def list_facts(rows, labels):
    """What is public where lists are private."""
    return count_facts(jax.random.key(9), rows, labels, num_classes=3)


def facts_of(graph, strength):
    """Facts by hand: structure that half knows, and a classifier that knows as much as ``strength``
    says.
    """
    op, y, _ = graph
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(N) < PANEL, y, -1).astype(np.int32)

    def scores(of, much):
        made = rng.normal(0, 1, (len(of), 3)) + much * np.eye(3)[of]
        return jax.nn.log_softmax(jnp.asarray(made, jnp.float32))

    structure = StructurePosterior(
        scores(y, 1.0), "stack", {}, jnp.zeros((N, 3, 1)), ("one",), jnp.ones(1)
    )
    classifier = DeviceClassifier(
        jnp.zeros((DIM, 3)), jnp.zeros(3), scores(y[:PANEL], strength), 0.4
    )
    return PanelFacts(FoldedLabels(labels, 3, jnp.arange(N) % 3, 3), structure, classifier, op)


def test_classes_of_a_world_follow_their_posteriors_and_those_of_friends_are_alike(graph):
    """100 worlds: shares within 5 standard errors of the posterior where nobody's label says
    more.
    """
    op, _, made = graph
    log_q = facts_of(graph, 0.0).structure.log_q
    nobody = np.full(N, -1)
    spread = shared_spread(jax.random.key(0), op)

    @jax.jit
    def drawn_worlds(coupling, labels):
        draw = lambda key: coupled_classes(key, op, spread, log_q, labels, coupling)
        return jax.lax.map(draw, jax.random.split(jax.random.key(1), 100))

    worlds = lambda coupling, labels: np.asarray(drawn_worlds(np.float32(coupling), labels))
    alike = {}
    for coupling in (0.0, 0.9):
        y = worlds(coupling, nobody)
        q = np.exp(np.asarray(log_q))
        share = (y[..., None] == np.arange(3)).mean(0)
        away = (share - q) / np.sqrt(np.maximum(q * (1 - q), 1e-4) / 100)
        assert np.abs(away).mean() < (
            0.85 if coupling == 0.0 else 1.6
        )  # 0.8 of a normal; spread is estimated
        alike[coupling] = (y[:, made.senders] == y[:, made.receivers]).mean()
    assert alike[0.9] > alike[0.0] + 0.1
    half = N // 2
    drawn = worlds(0.9, np.where(np.arange(N) < half, 0, -1))
    assert (drawn[:, :half] == 0).all()
    assert (drawn[:, half:] == 0).mean() > np.exp(np.asarray(log_q))[
        half:, 0
    ].mean() + 0.05  # friends of class 0


def test_donors_are_of_the_class_and_known_as_well():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 100)
    known = jax.nn.log_softmax(jnp.asarray(rng.normal(0, 2, (300, 3)), jnp.float32))
    y = rng.integers(0, 3, 3000)
    log_q = jax.nn.log_softmax(jnp.asarray(rng.normal(0, 2, (3000, 3)), jnp.float32))
    found = np.asarray(
        donors(jax.random.key(0), jnp.asarray(y), log_q, labels, known, np.float32(0.1))
    )
    assert (labels[found] == y).all()
    of_donor, own = np.asarray(known)[found, y], np.asarray(log_q)[np.arange(3000), y]
    assert np.corrcoef(np.exp(of_donor), np.exp(own))[0, 1] > 0.9
    assert len(np.unique(found)) < 250  # drawn anew: a third of the members are nobody's
    even = jnp.log(jnp.full((3000, 3), np.float32(1 / 3)))
    anyone = np.asarray(
        donors(jax.random.key(1), jnp.asarray(y), even, labels, even[:300], np.float32(1.0))
    )
    assert (labels[anyone] == y).all()
    assert 150 < len(np.unique(anyone)) < 230  # of the whole class: 190 in the mean


def test_records_that_know_more_than_structure_are_worth_collecting(graph):
    good = ldp.rehearse(jax.random.key(6), facts_of(graph, 4.0), (4.0, 0.01), worlds=3)
    assert good.epsilons == (0.01, 4.0)
    assert (good.collect(0.01), good.collect(4.0), good.needed) == (False, True, 4.0)
    assert (good.users, good.labels) == (N - PANEL, PANEL)
    told = good.foreseen(4.0)
    assert told.low < told.points < told.high
    assert told.points == pytest.approx(good.gains[:, 1].mean())
    assert str(good).startswith("collect, at epsilon 4 or more")
    nearly_nothing, much = good.own
    assert abs(nearly_nothing.points) <= nearly_nothing.limit + 1e-6 < 0.1
    assert 0.0 < much.points <= much.limit + 1e-6 < 100.0 - good.base(4.0)
    assert 0.0 < much.error < much.limit
    assert str(good).endswith(f"of at most {much.limit:+.1f} +- {much.error:.1f}")
    again = ldp.rehearse(jax.random.key(6), facts_of(graph, 4.0), (4.0, 0.01), worlds=2)
    np.testing.assert_array_equal(good.gains[:2], again.gains)
    nothing = ldp.rehearse(jax.random.key(6), facts_of(graph, 0.0), (4.0, 0.01), worlds=2)
    assert nothing.needed is None
    assert str(nothing).startswith("do not collect")


def test_records_that_know_nothing_are_not(graph):
    """Noise of ten numbers, beside what the graph and the panel's labels really say."""
    records = np.random.default_rng(0).normal(size=(PANEL, 10)).astype(np.float32)
    labels = np.where(np.arange(N) < PANEL, graph[1], np.nan)
    facts = panel_facts(jax.random.key(1), graph[2], records, labels, num_classes=3, num_folds=3)
    told = ldp.rehearse(jax.random.key(0), facts, (4.0,), worlds=4)
    assert told.needed is None
    assert str(told).startswith("do not collect")


def test_lists_bring_about_what_was_foretold(graph):
    """Beside 100 labels and no features; the accuracy of one collection within 10 points."""
    _, y, made = graph
    labels = some_labels(y, 0.2)
    told = ldp.rehearse(
        jax.random.key(0),
        list_facts(None, labels),
        (1.0,),
        friends=StatedFriends(8.0, 0.9, 0.3),
        worlds=3,
    )
    found = predict_from_counts(jax.random.key(1), made, None, labels, 1.0)
    right = 100 * (found.classes == y)[labels < 0].mean()
    assert told.collect(1.0)
    assert abs(told.without.mean() + told.foreseen(1.0).points - right) < 10


def test_friends_who_say_what_features_say_bring_less(graph):
    """Of one homophily, stated as beyond features, as unknown, and as theirs alone; one key, so the
    same noise.
    """
    x = blocks(n=N, degree=8.0, homophily=0.9, clarity=1.5)[2]
    public = list_facts(x, some_labels(graph[1], 0.4))
    brought = []
    for known in ((0.0, 0.0), (None, None), (1.0, 0.0), (0.0, 1.0)):
        friends = StatedFriends(8.0, 0.5, 0.3, *known)
        told = ldp.rehearse(jax.random.key(0), public, (2.0,), friends=friends, worlds=3)
        assert "8 friends and homophily 0.5 as stated" in str(told)
        brought.append(told.gains.mean())
    assert brought[0] > brought[1] > brought[2]
    assert brought[0] > max(brought[2:]) + 3


@pytest.mark.parametrize(
    ("clarity", "alike", "degree", "privacy", "words"),
    [
        (4.0, 0.0, 8.0, JointPrivacy(2.0), "2 a record"),
        (0.0, 0.9, 8.0, JointPrivacy(list=2.0), "0 a record"),
        (2.0, 0.9, 4.0, JointPrivacy(both=4.0), "one report of both"),
    ],
)
def test_a_total_goes_where_something_is_to_be_learned(
    monkeypatch, clarity, alike, degree, privacy, words
):
    """Records that say all beside friends at random, the other way round, and both; foretold within
    12 points.
    """
    monkeypatch.setattr(both, "SHARES", (1.0, 0.5, 0.0))
    made, y, x = blocks(n=N, degree=degree, homophily=alike, clarity=clarity)
    labels = np.where(np.arange(N) < PANEL, y, -1).astype(np.int32)
    panel = np.arange(PANEL)
    facts = joint_facts(
        jax.random.key(0), feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=3
    )
    total = privacy.record + privacy.list + privacy.both
    friends = StatedFriends(degree, alike, 0.3)
    told = ldp.rehearse(jax.random.key(1), facts, (total,), friends=friends, worlds=2)
    assert told.splits == (privacy,)
    assert "records and lists" in str(told)
    assert words in str(told)
    alike = alike if privacy.both else None
    found = predict_jointly(
        jax.random.key(2), made, x, panel, y[:PANEL], privacy, num_folds=3, homophily=alike
    )
    right = 100 * (found.classes == y)[PANEL:].mean()
    assert abs(told.without.mean() + told.foreseen(total).points - right) < 12


@pytest.mark.usefixtures("untyped")
def test_a_verdict_needs_points_and_a_chance():
    gains = np.array([[0.0, 0.4, 0.6, 9.0], [0.0, 0.4, 0.7, -9.0], [0.0, 0.4, 0.8, 3.0]])
    found = Rehearsal((0.5, 1.0, 2.0, 4.0), gains, np.full(3, 50.0), "records", 900, 100)
    assert [found.collect(epsilon) for epsilon in found.epsilons] == [False, False, True, False]
    assert found.foreseen(0.5).chance == 0.5
    with pytest.raises(ValueError, match="one that was rehearsed, .*, got '0.5'"):
        found.foreseen("0.5")
    chances = [found.foreseen(epsilon).chance for epsilon in (4.0, 1.0, 2.0)]
    assert 0.5 < chances[0] < chances[1] < chances[2] < 0.85
    told = found.foreseen(1.0)  # worlds agree, and may all be wrong
    shared = np.hypot(MODEL_ERROR, MODEL_SHARE * 0.4 * (1 - 0.4 / 50))
    assert (told.high - told.low) / 2 == pytest.approx(1.96 * shared, rel=1e-4)
    assert str(found).startswith("collect, at epsilon 2 or more: 0.7 points are expected (")
    none = found._replace(epsilons=(0.5,), gains=gains[:, :1])
    assert str(none).startswith("do not collect: at epsilon 0.5 0.0 points are expected (")
    few = found._replace(labels=40)
    assert not any(map(few.collect, few.epsilons))
    assert str(few).startswith("cannot tell: 40 public labels")


@pytest.mark.usefixtures("untyped")
def test_what_cannot_be_rehearsed_is_refused(graph):
    facts = facts_of(graph, 1.0)
    lists = list_facts(None, some_labels(graph[1], 0.2))
    private = facts._replace(known=facts.known._replace(keep=0.9))
    for public, also, words in (
        (facts, {"epsilons": (0.0,)}, "epsilons must be"),
        (facts, {"epsilons": ()}, "must name one"),
        (facts, {"worlds": 1}, "worlds must be"),
        (facts, {"friends": StatedFriends(4, 0.5)}, "friends must be None"),
        (private, {}, "must have true labels"),
        (
            JointFacts(facts.known, facts.classifier, np.full(3, 1 / 3)),
            {},
            "friends must be stated",
        ),
        (
            JointFacts(facts.known, facts.classifier, np.full(3, 1 / 3)),
            {"friends": StatedFriends(4, 0.5, 1.0, 0.2)},
            "overlap and echo must be None of joint totals",
        ),
        (lists, {}, "friends must be stated"),
        (
            lists,
            {"epsilons": (5e-4,), "friends": StatedFriends(4, 0.5)},
            r"epsilons must be in \[0.001, 40\]",
        ),
        (lists, {"friends": StatedFriends(0, 0.5)}, "mean_degree must be"),
        (lists, {"friends": StatedFriends(N, 0.5)}, rf"mean_degree must be in \(0, {N - 1}\]"),
        (lists, {"friends": StatedFriends(4, 1.5)}, "homophily must be"),
        (lists, {"friends": StatedFriends(4, 0.5, 1.0, -0.1)}, "overlap must be"),
        (lists, {"friends": StatedFriends(4, 0.5, 1.0, 0.1, 1.1)}, "echo must be"),
    ):
        with pytest.raises(ValueError, match=words):
            ldp.rehearse(jax.random.key(0), public, **also)
    with pytest.raises(ValueError, match="name at least two classes"):
        list_facts(None, np.full(N, -1))  # before anything is rehearsed


@pytest.mark.usefixtures("untyped")
def test_what_pairs_do_not_show_is_refused():
    labels = np.array([0, 0, 1, 1, -1])
    assert homophily([[0, 1], [2, 3], [0, 4]], np.array([0, 0, 1, 1, None])) == 1.0
    for pairs, words in (
        ([[0, 4]], "two labelled users"),
        ([[0, 9]], r"pairs must be in \[0, 5\), the nodes"),
        ([[0, 1, 2]], "shape"),
        ([[0, 1], [2, 2], [1, 3]], "themselves"),
    ):
        with pytest.raises(ValueError, match=words):
            homophily(pairs, labels)
    for measure in (overlap, echo):
        for log_q, words in (
            (np.zeros((4, 2)), "log_q must have a row for each of 5"),
            (np.full((5, 2), 0.5), "logarithms of probabilities"),
        ):
            with pytest.raises(ValueError, match=words):
                measure([[0, 1]], labels, log_q)


def pilot_of(made, y, size):
    """Facts of half of the classes, and the lists of so many users."""
    log_q = np.log(np.where(np.eye(3)[y] > 0, 0.8, 0.1)).astype(np.float32)
    pilot = np.random.default_rng(1).permutation(N)[:size]
    entries = np.stack([np.asarray(made.senders), np.asarray(made.receivers)], 1)
    return LinkFacts(log_q, some_labels(y, 0.5), pilot, entries[np.isin(entries[:, 0], pilot)])


def test_links_of_a_world_are_those_of_the_pilot_and_in_no_list(graph):
    """Groups of both ends as often as in the lists, within 0.1 (4 standard errors of 400 links)."""
    facts = pilot_of(graph[2], graph[1], N)
    kept, linked, alike = links.drawn_links(jax.random.key(0), links.Pilot.of(facts), size=400)
    ends, real = facts.groups[np.asarray(linked)], facts.groups[facts.friends]
    for a in range(3):
        for b in range(3):
            share = [(of == [a, b]).all(1).mean() for of in (ends, real)]
            assert share[0] == pytest.approx(share[1], abs=0.1)
    assert np.isin(
        np.asarray(alike).round(4), facts.same_class(facts.friends).astype(np.float32).round(4)
    ).all()
    assert int(kept.min()) >= 0
    assert 0.5 * len(facts.friends) < int(kept.sum()) < 0.98 * len(facts.friends)  # 800 stubs fewer


def test_links_are_told_by_classes_where_reports_are_noise_and_by_counts_where_they_are_not(graph):
    """AUC of 288 pairs: 10 points are 4 standard errors of the mean of two worlds."""
    facts = pilot_of(graph[2], graph[1], N)
    found = ldp.rehearse(jax.random.key(0), facts, (0.02, 4.0), worlds=2)
    assert (found.message, found.users, found.labels) == ("links", N, N)
    noise, clear = found.auc.mean(0)
    np.testing.assert_allclose(noise[[0, 2]], 50.0, atol=10.0)
    alone = found.without.mean()
    assert alone > 70
    assert clear[2] > clear[0] + 10
    np.testing.assert_allclose(clear[1], alone, atol=10.0)
    degrees, counts = found.auc[..., :2], found.auc[..., 2:]
    for place in (0, 1):
        best = [of[:, place, of[:, place].mean(0).argmax()] for of in (degrees, counts)]
        np.testing.assert_allclose(found.gains[:, place], best[1] - best[0])


def test_counts_and_degrees_find_links_about_as_well_as_was_foretold(graph):
    """AUC of both within 6 points: links of a tenth of the lists (144) have a standard error of
    2.
    """
    _, y, made = graph
    facts = pilot_of(made, y, 200)
    told = ldp.rehearse(jax.random.key(0), facts, (0.05, 4.0), worlds=4)
    assert (told.message, told.users, told.labels) == ("links", N, 200)
    pairs = np.stack([np.asarray(made.senders), np.asarray(made.receivers)], 1)
    linked = np.random.default_rng(0).permutation(pairs[pairs[:, 0] < pairs[:, 1]])[:144]
    gone = np.concatenate([linked, linked[:, ::-1]]) @ [N, 1]
    left = pairs[~np.isin(pairs @ [N, 1], gone)]
    counts = np.zeros((N, 3), int)
    np.add.at(counts, (left[:, 0], facts.groups[left[:, 1]]), 1)
    others = np.random.default_rng(1).integers(0, N, (1000, 2))
    for place, (reports, groups) in enumerate(
        [(counts.sum(1)[:, None], np.zeros(N, int)), (counts, facts.groups)]
    ):
        score = lambda ends: link_scores(reports, groups, ends, 40.0)  # noqa: B023
        measured = 100 * float(auc(score(linked), score(others)))
        assert told.auc[:, 1, 2 * place].mean() == pytest.approx(measured, abs=6)
    assert told.collect(4.0)
    assert not told.collect(0.05)  # noise alone
    assert str(told).startswith("ask for counts, at epsilon 4 or more")
    few = ldp.rehearse(jax.random.key(0), pilot_of(made, y, 20), (4.0,), worlds=2)
    assert str(few).startswith("cannot tell: 20 public lists")


@pytest.mark.usefixtures("untyped")
def test_an_invalid_pilot_is_refused(graph):
    facts = pilot_of(graph[2], graph[1], 60)
    rehearse = ldp.rehearse
    key = jax.random.key(0)
    stranger = np.array([[facts.friends[0, 1], N]])
    for wrong, words in (
        ({"pilot": facts.pilot[:-1]}, "of the lists of public users alone"),
        ({"pilot": np.r_[facts.pilot, facts.pilot[:1]]}, "each member once"),
        ({"friends": facts.friends[:0]}, "one at least"),
        ({"friends": stranger}, rf"friends must be in \[0, {N}\), the users"),
        ({"friends": facts.friends + 0.5}, "friends must be integers"),
        ({"pilot": np.isin(np.arange(N), facts.pilot)}, "pilot must be integers"),
        ({"friends": np.r_[facts.friends, facts.friends[:1]]}, "each entry once"),
        ({"friends": np.r_[facts.friends, facts.friends[:1, :1].repeat(2, 1)]}, "their own friend"),
        ({"log_q": facts.log_q * np.nan}, "logarithms of probabilities"),
        ({"log_q": np.exp(facts.log_q)}, "logarithms of probabilities"),
        ({"log_q": facts.log_q[:, 0]}, "logarithms of probabilities"),
        ({"labels": facts.labels + 0.5}, "labels must be integers"),
        ({"labels": facts.labels[:-1]}, "labels must be of the"),
        ({"labels": facts.labels + 1}, "labels must be"),
        ({"pilot": facts.pilot[:0]}, "of the lists of public users alone"),
    ):
        with pytest.raises(ValueError, match=words):
            rehearse(key, facts._replace(**wrong), (1.0,))
    with pytest.raises(ValueError, match="friends must be None of links"):
        rehearse(key, facts, (1.0,), friends=StatedFriends(8.0, 0.5))
    with pytest.raises(ValueError, match="epsilons"):
        rehearse(key, facts, (0.0,))


# --- A protocol of one's own ----------------------------------------------------------------------


def test_a_protocol_of_ones_own_is_rehearsed_on_users_as_they_are_stated():
    """Counts of friends say the class where friends are alike, and nothing where they are not."""
    protocols = [ClassesThenCounts(N, epsilon) for epsilon in (4.0, 0.1)]
    gains = {}
    for alike in (0.0, 0.9):
        users = StatedUsers(N, (0.4, 0.3, 0.3), StatedFriends(10.0, alike, 0.3))
        told = ldp.rehearse(jax.random.key(1), protocols, drawn=users, worlds=3)
        assert told.epsilons == pytest.approx((0.1, 4.0), rel=1e-6)
        assert told.users == N
        assert told.labels is None
        gains[alike] = told.gains.mean(0)
    assert gains[0.9][1] > 30 > 5 > gains[0.9][0]
    assert gains[0.0][1] < 20  # of the third that reports its own class
    assert told.collect(told.epsilons[1])


def test_what_servers_say_themselves_is_not_asked_for_again():
    """Rows are found by their epsilon: two equal ones would both show the first one's numbers."""
    users = StatedUsers(N, (0.4, 0.3, 0.3), StatedFriends(10.0, 0.5, 0.3))
    server = ClassesThenCounts(N, 1.0)
    rehearse = partial(ldp.rehearse, jax.random.key(1), drawn=users, worlds=2)
    with pytest.raises(ValueError, match="servers must differ in epsilon"):
        rehearse([server, ClassesThenCounts(N, 1.0)])
    with pytest.raises(ValueError, match="epsilons and friends must be None"):
        rehearse(server, (1.0,))
    with pytest.raises(ValueError, match="epsilons and friends must be None"):
        rehearse(server, friends=StatedFriends(10.0, 0.5))


@pytest.mark.parametrize("owner", [0, 6])
def test_entries_belong_to_whom_the_rates_say(owner):
    """The first of seven users, or the last, alone has friends."""
    y = np.arange(7) % 3
    log_q = jax.nn.log_softmax(jnp.eye(3)[y])
    stated = tuple(np.float32([4.0, 0.4, 0.5]))
    friends = drawn_friends(jax.random.key(0), y, log_q, stated, np.float32([0.0, 0.0]))
    alone = friends._replace(rate=jnp.eye(7)[owner])
    owners, _ = drawn_lists(jax.random.key(1), alone, y, 64)
    np.testing.assert_array_equal(owners, owner)


def test_friends_of_both_are_as_they_are_stated(graph):
    """As many entries as users have friends in the mean; homophily within 5 standard errors."""
    known = facts_of(graph, 1.0)
    friends = StatedFriends(8.0, 0.75, 0.3)
    made = both.JointWorlds(JointFacts(known.known, known.classifier, np.full(3, 1 / 3)), friends)
    world = made.draw(jax.random.key(1), 0)
    pairs = np.stack(world.users.lists, 1)
    assert len(pairs) == 8 * N
    labels = np.asarray(world.classes)
    assert homophily(pairs[pairs[:, 0] != pairs[:, 1]], labels) == pytest.approx(0.75, abs=0.06)
    np.testing.assert_array_equal(labels[:PANEL], graph[1][:PANEL])
    np.testing.assert_array_equal(world.judged, np.arange(N) >= PANEL)
    assert np.asarray(world.users.friends.rate).mean() == pytest.approx(8.0, rel=0.1)


def test_stated_users_are_as_they_are_stated():
    """Degrees within 5 %, their spread within 15 %, and homophily within 0.1: 4 standard errors."""
    stated = StatedUsers(2000, (0.5, 0.3, 0.0, 0.2), StatedFriends(12.0, 0.6, 0.5))
    world = stated.draw(jax.random.key(0), 0)
    lists = world.users.lists
    assert len(lists.senders) / 2000 == pytest.approx(12.0, rel=0.05)
    degree = np.bincount(lists.receivers, minlength=2000)
    # Half of a degree are own entries of a mean of 6, and half are of others.
    assert degree.std() == pytest.approx(np.sqrt(12.0 + (0.5 * 6.0) ** 2), rel=0.15)
    pairs = np.stack([lists.senders, lists.receivers], 1)
    assert homophily(pairs, world.users.labels) == pytest.approx(0.6, abs=0.1)
    shares = np.bincount(world.users.labels) / 2000
    np.testing.assert_allclose(shares, stated.shares, atol=0.05)


@pytest.mark.parametrize(
    "shares", [(0.5, 0.6), (-0.1, 1.1), (float("nan"), 1.0)], ids=["sum", "negative", "nan"]
)
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ValueError, match="shares"):
        StatedUsers(50, shares)


@pytest.mark.usefixtures("untyped")
def test_a_rehearsal_of_ones_own_takes_servers_whose_results_are_classes():
    users = StatedUsers(50, (0.5, 0.5))
    with pytest.raises(ValueError, match="servers"):
        ldp.rehearse(jax.random.key(0), 3, drawn=users)
    share = Share(GeneralizedRR(1.0, 2), 50)  # its result is a share of classes
    with pytest.raises(ValueError, match="result"):
        ldp.rehearse(jax.random.key(0), share, drawn=users, worlds=2)


@pytest.mark.parametrize("worlds", [2, 3, 12])
def test_a_forecast_is_students_interval_of_one_world_more(worlds):
    """Drawn gains of few worlds, beside an error of the model, by Welch's degrees of freedom."""
    gains = np.random.default_rng(worlds).normal(1.0, 2.0, (worlds, 1))
    found = Rehearsal((1.0,), gains, np.full(worlds, 60.0), "records", 100, 100).foreseen(1.0)
    mean = gains.mean()
    spread = gains.var(ddof=1) * (1 + 1 / worlds)
    model = MODEL_ERROR**2
    model += (MODEL_SHARE * mean * min(1.0, 1 - mean / 40)) ** 2
    freedom = (worlds - 1) * ((spread + model) / spread) ** 2
    error = np.sqrt(spread + model)
    half = scipy.stats.t.ppf(0.975, freedom) * error
    chance = scipy.stats.t.cdf(mean / error, freedom)
    np.testing.assert_allclose(found, (mean, mean - half, mean + half, chance), rtol=1e-9)


def test_a_forecast_stays_below_what_is_left_to_gain():
    """And is sure of it: where 3 points are left, and nearly all are gained, 1 is no error."""
    told = [Foreseen.of(2.9, 0.1, 10, left) for left in (3.0, 30.0)]
    assert told[0].high == 3.0 < told[1].high
    assert told[0].low > told[1].low
    over = Foreseen.of(4.0, 0.1, 10, 3.0)  # worlds that gain more than is left
    assert over.low < over.points == over.high == 4.0


def test_links_have_left_what_degrees_leave():
    auc = np.array([[[70.0, 90.0, 80.0, 95.0]], [[70.0, 92.0, 80.0, 97.0]]])
    gains = auc[..., 3] - auc[..., 1]
    found = Rehearsal((1.0,), gains, np.full(2, 60.0), "links", 100, 80, auc=auc)
    assert found.base(1.0) == 91.0
    assert found.foreseen(1.0).high <= 9.0


def test_of_the_splits_of_a_total_the_largest_mean_gain_is_taken():
    """Against a loop over totals of unlike numbers of splits; of equals, the first."""
    rng = np.random.default_rng(0)
    counts = (1, 4, 2, 5)
    tried = [
        [JointPrivacy(float(total), place + 1.0) for place in range(count)]
        for total, count in enumerate(counts, start=1)
    ]
    gains = rng.integers(-9, 10, (3, sum(counts))).astype(float)
    gains[:, 3] = gains[:, 2]
    found, chosen = best_splits(gains, tried)
    column = 0
    for total, some in enumerate(tried):
        means = []
        for one in some:
            means.append((gains[:, column].mean(), one, gains[:, column]))
            column += 1
        _, one, of_worlds = max(means, key=lambda mean: mean[0])
        assert chosen[total] == one
        np.testing.assert_array_equal(found[:, total], of_worlds)
