"""Two-round counts from question to posterior: planted blocks, shuffled lists, and what must be
refused.
"""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.deployment import Device, Rejected, Session
from ldp_jax.deployment.store import ReportStore
from ldp_jax.edges import Population
from ldp_jax.graph.graphs import from_edges
from ldp_jax.servers import (
    Answers,
    CountServer,
    StoredUsers,
    Users,
    counts,
    serve,
    simulate,
    taught_by_counts,
)
from ldp_jax.servers.facts import counts as fact_counts
from ldp_jax.servers.facts.counts import count_facts
from ldp_jax.servers.from_counts import predict_from_counts
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.parts.self_training import features_posterior, folds
from tests.servers.planted import blocks, right, some_labels

EPSILON = 1.0
CLASSES = 3
FOLDS = 4


@dataclasses.dataclass(frozen=True)
class Watched:
    """Users, and every question that they were asked; only those who are ``here`` answer."""

    users: Users
    asked: list
    here: np.ndarray | None = None

    @property
    def num_users(self):
        return self.users.num_users

    def put(self, question):
        return self.users.put(question)

    def answer(self, key, question):
        self.asked.append(question)
        values, reported = self.users.answer(key, question)
        who = reported if self.here is None else reported & self.here
        # Rows of others must not be read: these would turn every class over.
        return Answers(np.where(who[:, None], values, 1000), who)


def users(graph, order=None):
    """Everybody's counts; every question that was asked. With ``order`` user i has the list of
    ``order[i]``.
    """
    held = Users(lists=graph)
    if order is not None:
        held = dataclasses.replace(held, lists=_dealt(held.lists, order))
    watched = Watched(held, [])
    return watched, watched.asked


def _dealt(lists, order):
    has = np.argsort(order)
    receivers = has[lists.receivers].astype(np.int32)
    senders = lists.senders
    place = np.lexsort((senders, receivers))
    return lists._replace(receivers=receivers[place], senders=senders[place])


@pytest.fixture(scope="module")
def data():
    graph, y, x = blocks(n=600, clarity=0.6)
    return graph, y, feature_rows(x), some_labels(y, 0.25)


def facts_of(rows, labels, *, num_folds=FOLDS, **facts):
    return count_facts(
        jax.random.key(9), rows, labels, num_classes=CLASSES, num_folds=num_folds, **facts
    )


def counted(answering, rows, labels, *, key=0, epsilon=EPSILON, **facts):
    server = CountServer(facts_of(rows, labels, **facts), epsilon)
    return simulate(jax.random.key(key), server, answering).value


@pytest.fixture(scope="module")
def whole(data):
    """Everybody's answers under key 0, and what was asked."""
    answering, asked = users(data[0])
    return counted(answering, *data[2:]), asked


def test_a_posterior_that_is_given_stands_whatever_features_are_there(data):
    """Features that are scaled as labels say, rows as they are, and none."""
    _, _, rows, labels = data
    given = np.random.default_rng(0).dirichlet(np.ones(CLASSES), 600)
    for features in (rows.dense(), rows, None):
        facts = facts_of(features, labels, log_q=np.log(given))
        np.testing.assert_allclose(np.exp(facts.log_q), given, atol=1e-6)
        assert (facts.rows is None) == (features is None)
        assert (facts.scaling is None) == (features is None or features is rows)


def test_true_lists_are_believed_and_those_of_others_are_not(data, whole):
    """Nor have lists a part in the groups of the first round; that lists help, test_from_counts
    asks.
    """
    graph, y, rows, labels = data
    answering, asked = users(graph, np.random.default_rng(1).permutation(600))
    found = counted(answering, rows, labels)
    first, second = whole[1]
    for field in ("groups", "asked"):
        np.testing.assert_array_equal(getattr(asked[0], field), getattr(first, field))
    np.testing.assert_array_equal(first.asked, ~np.asarray(second.asked))
    np.testing.assert_array_equal(first.asked, whole[0].pilot)
    assert first.num_groups == 3 * CLASSES
    assert second.num_groups in (CLASSES, 2 * CLASSES, 3 * CLASSES)
    assert found.strength < 0.1 < 0.6 < whole[0].strength
    assert abs(right(found.log_posterior, y, labels < 0) - right(found.log_q, y, labels < 0)) < 0.03
    if found.strength == 0.0:  # features alone are left
        np.testing.assert_array_equal(found.log_f, found.log_q)
        assert not np.asarray(found.log_likelihood).any()


def test_the_guard_is_not_asked_about_reports_that_the_model_was_fitted_to(data, monkeypatch):
    """With these it agrees by its very fit, whatever lists they are about."""
    graph, y, _, _ = data
    # few: half of the pilot has none
    labels = some_labels(y, 0.06)
    judged = []
    real = taught_by_counts.guard
    monkeypatch.setattr(
        taught_by_counts, "guard", lambda *given: judged.append(given) or real(*given)
    )
    log_q = jnp.asarray(np.log(0.6 * np.eye(CLASSES)[y] + 0.4 / CLASSES), jnp.float32)
    found = counted(users(graph)[0], None, labels, log_q=log_q)
    assert (found.pilot & (labels < 0)).any()
    ((_, _, unlabelled, held_out),) = judged
    np.testing.assert_array_equal(unlabelled, ~found.pilot & (labels < 0))
    # Labelled members of the pilot are read by a model that has not seen theirs.
    np.testing.assert_array_equal(held_out, labels)


def test_without_features_labels_have_to_do(data):
    graph, y, _, labels = data
    answering, asked = users(graph)
    found = counted(answering, None, labels)
    assert right(found.log_posterior, y, labels < 0) > right(found.log_q, y, labels < 0) + 0.15
    assert set(np.asarray(asked[1].groups)[labels >= 0].tolist()) == set(range(CLASSES))
    assert found.by_labels  # constant features cannot test a report
    np.testing.assert_array_equal(found.log_f, found.log_q)


def test_features_are_asked_once_for_a_sweep(data, whole):
    graph, _, rows, labels = data
    found = features_posterior(
        rows, labels, folds(jax.random.key(9), labels, FOLDS), num_classes=CLASSES, num_folds=FOLDS
    )
    again = counted(users(graph)[0], rows, labels, log_q=found, num_folds=9)
    np.testing.assert_array_equal(whole[0].log_posterior, again.log_posterior)


def test_rows_of_many_entries_are_learned_in_fewer_folds(data, monkeypatch):
    _, y, rows, labels = data
    log_q = jnp.zeros((len(y), CLASSES)) - np.log(CLASSES)
    made = lambda of: facts_of(of, labels, num_folds=None, log_q=log_q).known
    most = len(rows.value)
    for of, limit, wanted in ((rows, most, 10), (rows, most - 1, 5), (None, 0, 10)):
        monkeypatch.setattr(fact_counts, "_MANY_ENTRIES", limit)
        known = made(of)
        assert known.num_folds == wanted
        assert set(np.asarray(known.fold).tolist()) == set(range(wanted))


def test_reports_that_labels_do_not_bear_out_are_not_weighed(data, monkeypatch):
    """They agree with features, which is all that the guard can see."""
    graph, y, rows, labels = data
    monkeypatch.setattr(taught_by_counts, "_DOUBT", 1e3)
    answer = counted(users(graph)[0], rows, labels)
    assert 0.0 <= answer.strength < 1e-9
    assert np.abs(answer.log_likelihood).max() > 0.1
    np.testing.assert_array_equal(answer.classes, np.asarray(answer.log_q).argmax(1))
    # Whoever asks for no guard has its word for nothing.
    server = CountServer(facts_of(rows, labels), EPSILON, guarded=False)
    bare = simulate(jax.random.key(0), server, users(graph)[0]).value
    assert bare.strength == 1.0
    assert np.abs(bare.log_f - bare.log_q).max() > 0.1
    assert np.abs(bare.log_regression).max() > 0.1
    assert right(bare.log_posterior, y, labels < 0) > right(bare.log_q, y, labels < 0) + 0.1


def hidden_kinds(seed):
    """Friends are of one kind, which features show and which has nothing to do with classes.

    With ten labels a class, what is learned of features is wrong alike for users of one kind.
    """
    rng = np.random.default_rng(seed)
    n, kinds = 900, 12
    kind = rng.integers(0, kinds, n)
    y = rng.integers(0, 2, n)
    same = kind[:, None] == kind
    degree = 34.0
    chance = np.where(same, 0.8 * degree * kinds, 0.2 * degree * kinds / (kinds - 1)) / n
    edges = np.argwhere(np.triu(rng.random((n, n)) < chance, 1))
    base = rng.normal(-2.5, 1.0, 100)
    words = base + 0.8 * rng.normal(size=(2, 100))[y] + 1.2 * rng.normal(size=(kinds, 100))[kind]
    x = (rng.random((n, 100)) < 1 / (1 + np.exp(-words))).astype(np.float32)
    place = np.argsort(rng.permutation(n))
    rank = np.array([(y[place < at] == c).sum() for at, c in zip(place, y, strict=True)])
    return from_edges(edges, n), y, x, np.where(rank < 10, y, -1)


@pytest.mark.parametrize("unit", ["list", "relationship"])
def test_friends_who_share_the_mistakes_of_features_do_not_outvote_them(unit):
    """Their counts agree with features, right or wrong: the guard alone believes them.

    Without guard and labels the same three runs lose more in the mean.
    """
    lost = {True: [], False: []}
    for seed, guarded in itertools.product(range(3), lost):
        graph, y, x, labels = hidden_kinds(seed)
        given = graph, x, labels, 1.0
        found = predict_from_counts(jax.random.key(seed), *given, unit=unit, guarded=guarded)
        alone = right(found.found.log_q, y, labels < 0)
        lost[guarded].append(alone - right(found.log_posterior, y, labels < 0))
    assert np.mean(lost[True]) < 0.02
    assert max(lost[True]) < 0.05
    assert np.mean(lost[False]) > np.mean(lost[True]) + 0.01


def test_the_silent_are_not_asked_and_the_others_reports_still_tell(data):
    graph, y, rows, labels = data
    silent = (labels >= 0) & (np.arange(600) % 3 > 0)
    answering, asked = users(graph)
    found = counted(answering, rows, labels, silent=silent)
    np.testing.assert_array_equal(asked[0].asked ^ asked[1].asked, ~silent)
    np.testing.assert_allclose(np.asarray(found.log_likelihood)[silent], 0.0, atol=1e-6)
    assert right(found.log_posterior, y, labels < 0) > right(found.log_q, y, labels < 0) + 0.1


def test_a_classifier_may_be_sure_of_some_users(data):
    """-inf, as in the logarithm of a tree's probabilities: rightly, and of a class that is not
    theirs.
    """
    graph, y, _, labels = data
    clear = np.log(0.6 * np.eye(CLASSES)[y] + 0.4 / CLASSES)
    wrong = np.arange(600) % 2
    sure = np.where(np.eye(CLASSES, dtype=bool)[(y + wrong) % CLASSES], 0.0, -np.inf)
    log_q = jnp.asarray(np.where(np.arange(600)[:, None] % 7 == 0, sure, clear), jnp.float32)
    found = counted(users(graph)[0], None, labels, log_q=log_q)
    for log_p in (found.log_posterior, found.log_likelihood, found.log_q):
        assert np.isfinite(np.asarray(log_p)).all()
    assert right(found.log_posterior, y, labels < 0) > 0.9  # reports outweigh what is wrong


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_is_asked(data):
    _, y, rows, labels = data
    fold = folds(jax.random.key(1), labels, FOLDS)
    stale = features_posterior(rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS)
    refuse = Watched(Users(lists=data[0]), None)  # which fails as soon as anybody is asked
    for changes, message in (
        (
            {"labels": np.where(labels == 2, -1, np.minimum(labels, 0))},
            "labels must name at least two classes",
        ),
        ({"labels": np.where(labels == 2, 3, labels)}, r"labels must be in \[0, 3\) or -1"),
        ({"labels": y}, "labels must leave users whose class is asked for"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"log_q": jnp.zeros((600, 2))}, "log_q must have shape"),
        (
            {"log_q": jnp.zeros((600, 3)).at[7].set(-jnp.inf)},
            "log_q must be logarithms of probabilities",
        ),
        ({"log_q": np.full((600, 3), 1 / 3)}, "log_q must be logarithms of probabilities"),
        (
            {"labels": np.roll(labels, 1), "log_q": stale},
            "log_q must be of these labels, and was found of others",
        ),
        ({"silent": labels == 0}, "silent must leave a labelled user of each class.*of class 0"),
        ({"silent": labels == 2}, "silent must leave a labelled user of each class.*of class 2"),
        ({"silent": labels < 0}, "silent users must have a label"),
    ):
        with pytest.raises(ValueError, match=message):
            counted(refuse, rows, **{"labels": labels, **changes})
    with pytest.raises(ValueError, match=r"and have columns, got shape \(600, 0\)"):
        counted(refuse, np.zeros((600, 0)), labels)


def answered_by(graph, here):
    """Users of whom those who are ``here`` answer."""
    return Watched(Users(lists=graph), [], here)


def test_whoever_does_not_answer_is_not_taken_for_a_user_without_friends(data, whole):
    """Read as counts of 0, the silent half would halve the number of friends that the pilot
    finds.
    """
    graph, y, rows, labels = data
    here = np.random.default_rng(2).random(600) < 0.5
    found = counted(answered_by(graph, here), rows, labels)
    np.testing.assert_allclose(found.model.degree, whole[0].model.degree, rtol=0.2)
    np.testing.assert_array_equal(found.pilot, whole[0].pilot & here)
    assert not np.asarray(found.log_likelihood)[~here].any()
    np.testing.assert_array_equal(
        np.asarray(found.log_regression)[~here], np.asarray(found.log_q)[~here]
    )
    correct = [np.asarray(log_p).argmax(1) == y for log_p in (found.log_q, found.log_posterior)]
    # Reports of others have taught the features of the silent: never to their harm.
    for who, gain in (((labels < 0) & here, 0.1), ((labels < 0) & ~here, -0.03)):
        assert correct[1][who].mean() > correct[0][who].mean() + gain


def test_a_class_of_which_nobody_labelled_answers_is_not_forgotten(data):
    """A regression on reports would never have seen it."""
    graph, y, rows, labels = data
    found = counted(answered_by(graph, labels != 2), rows, labels)
    assert not np.asarray(found.log_regression).any()
    of_it = (labels < 0) & (y == 2)
    assert (np.asarray(found.log_posterior).argmax(1) == 2)[of_it].mean() > 0.6
    nobody = counted(answered_by(graph, np.zeros(600, bool)), rows, labels)
    assert nobody.strength == 0.0
    alone = log_softmax(np.asarray(nobody.weights)[0] * np.asarray(nobody.log_q), axis=1)
    np.testing.assert_allclose(nobody.log_posterior, alone, atol=1e-5)


def test_users_own_half_of_their_pairs_whatever_features_say(data):
    """Where those whom features are unsure of own more, counts tell how sure features are.

    A class of which features are surer then looks like one of few friends, though friends are
    strangers, and the evidence repeats what features say.
    """
    _, _, rows, labels = data
    server = CountServer(facts_of(rows, labels), EPSILON, "relationship")
    owners = server.init(jax.random.key(0)).question.owners
    here = np.flatnonzero(~np.asarray(server.facts.silent))
    owned = owners.owns(here[:, None], here)
    np.testing.assert_allclose(owned.mean(1), 0.5, atol=1.5 / len(here))


@pytest.mark.parametrize("unit", ["list", "relationship"])
def test_counts_that_devices_sent(data, tmp_path, unit):
    """Shuffled, twice, damaged, of users who were not asked: what is left is read as it was sent.

    A server that is started on the same store asks the same questions, and finds the same. Where
    each pair has one owner, reports hold half the counts, and take twice the epsilon here: at 1 the
    guard rejects some of them.
    """
    epsilon = EPSILON if unit == "list" else 2 * EPSILON
    graph, y, rows, labels = data
    rng = np.random.default_rng(0)
    lists = Population.of(graph)
    friends = [lists.senders[lists.receivers == user].tolist() for user in range(600)]
    facts = facts_of(rows, labels)
    server = CountServer(facts, epsilon, unit)
    start = lambda: serve(server, ReportStore(tmp_path), users=600, key=jax.random.key(0))
    seen = []
    while (service := start()).released is None:
        question = service.question.shipped()
        asked = service.asked
        assert (question.owners is None) == (unit == "list")
        sent = []
        others = np.flatnonzero(~asked)[:3]
        for user in rng.permutation([*np.flatnonzero(asked), *others]).tolist():
            session = Session(
                Device.from_secret(rng.bytes(32)), budget=Budget(epsilon, unit=NEIGHBOUR_LIST)
            )
            sent.append(session.report_neighbours(question, friends[user], user=user))
        uploads = b"".join([sent[0][:-1], *sent[1:], *sent[5:9]])
        assert service.store.add(uploads, question) == (len(sent) - 1, Rejected(1, 0, 0, 4))
        who = np.zeros(600, bool)
        who[service.store.all(question).user] = True
        seen.append(who & asked)
        service.close_round()

    released = service.released
    found = released.value
    assert right(found.log_posterior, y, labels < 0) > right(found.log_q, y, labels < 0) + 0.1
    for number, who in enumerate(seen):
        np.testing.assert_array_equal(found.round == number + 1, who)
    assert (found.round == 0).sum() == 2  # whose reports were cut
    ends = 2 if unit == "list" else 1
    budgets = [Budget(epsilon, unit=NEIGHBOUR_LIST), Budget(ends * epsilon, unit=RELATIONSHIP)]
    spent = Ledger(budgets).spend("a", released)
    assert 0.99 * ends * epsilon < spent.spent(RELATIONSHIP).epsilon <= ends * epsilon

    again = simulate(jax.random.key(0), server, StoredUsers(service.store, 600)).value
    np.testing.assert_array_equal(again.log_posterior, found.log_posterior)
    np.testing.assert_array_equal(again.round, found.round)


def test_a_lie_is_no_larger_than_a_group_and_lengthens_no_table(data, monkeypatch):
    graph, _, _, labels = data
    sizes = []
    size_of = counts.table_size
    monkeypatch.setattr(
        counts, "table_size", lambda *given: sizes.append(size_of(*given)) or sizes[-1]
    )

    def worst(key, question, values, users, liars):
        lies = np.where(
            liars[:, None], np.where(np.arange(600) % 2, 1, -1)[:, None] * question.most, values
        )
        return lies.astype(np.int32)

    liars = Users(lists=graph).lying(jax.random.key(1), 0.02, worst)
    found = simulate(jax.random.key(0), CountServer(facts_of(None, labels), EPSILON), liars).value
    assert max(sizes) == 1024
    assert np.isfinite(found.log_posterior).all()
