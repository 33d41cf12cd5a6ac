"""Piloted counts from question to posterior: on planted blocks, on shuffled lists, and on what must be refused."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RELATIONSHIP, Budget, Guarantee, PipelineGuarantee
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.deployment import Device, Question, Rejected, Session, decode
from ldp_jax.deployment.store import ReportStore
from ldp_jax.edges import NeighbourCounts, NoisyCounts, Population, privatize_counts
from ldp_jax.pipeline import piloted
from ldp_jax.pipeline.from_counts import classify_counts
from ldp_jax.pipeline.piloted import PublicFacts, piloted_counts
from ldp_jax.pipeline.rows import feature_rows
from ldp_jax.pipeline.self_training import features_posterior, folds
from tests.pipeline.planted import blocks, right, some_labels
from tests.pipeline.planted import noisy_counts as reported

EPSILON, CLASSES, FOLDS = 1.0, 3, 4


def users(graph, order=None):
    """Noisy counts of everybody; every question that was asked."""
    asked = []

    def noisy_counts(key, question):
        asked.append(question)
        reports = reported(key, graph, question.groups, question.num_groups, EPSILON, order)
        # Rows of others must not be read: these would turn every class over.
        return jnp.where(question.reporters[:, None], reports, 1000)

    return noisy_counts, asked


@pytest.fixture(scope="module")
def data():
    graph, y, x = blocks(n=600, clarity=0.6)
    return graph, y, feature_rows(x), some_labels(y, 0.25)


def counted(noisy_counts, rows, labels, *, key=0, epsilon=EPSILON, num_folds=FOLDS, **facts):
    public = PublicFacts(rows, labels, CLASSES, **facts)
    return piloted_counts(jax.random.key(key), noisy_counts, public, epsilon, num_folds=num_folds)


@pytest.fixture(scope="module")
def whole(data):
    """Everybody's answers under key 0, and what was asked."""
    noisy_counts, asked = users(data[0])
    return counted(noisy_counts, *data[2:]), asked


def test_true_lists_are_believed_and_those_of_others_are_not(data, whole):
    """Nor have lists a part in the groups of the first round; that lists help, test_from_counts asks."""
    graph, y, rows, labels = data
    noisy_counts, asked = users(graph, np.random.default_rng(1).permutation(600))
    found, (first, second) = counted(noisy_counts, rows, labels), whole[1]
    for field in ("groups", "reporters"):
        np.testing.assert_array_equal(getattr(asked[0], field), getattr(first, field))
    np.testing.assert_array_equal(first.reporters, ~np.asarray(second.reporters))
    np.testing.assert_array_equal(first.reporters, whole[0].pilot)
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
    labels, judged, real = some_labels(y, 0.06), [], piloted.guard  # few: half of the pilot has none
    monkeypatch.setattr(piloted, "guard", lambda *given: judged.append(given) or real(*given))
    log_q = jnp.asarray(np.log(0.6 * np.eye(CLASSES)[y] + 0.4 / CLASSES), jnp.float32)
    found = counted(users(graph)[0], None, labels, log_q=log_q)
    assert (found.pilot & (labels < 0)).any()
    ((_, _, unlabelled, held_out),) = judged
    np.testing.assert_array_equal(unlabelled, ~found.pilot & (labels < 0))
    np.testing.assert_array_equal(held_out >= 0, ~found.pilot & (labels >= 0))


def test_without_features_labels_have_to_do(data):
    graph, y, _, labels = data
    noisy_counts, asked = users(graph)
    found = counted(noisy_counts, None, labels)
    assert right(found.log_posterior, y, labels < 0) > right(found.log_q, y, labels < 0) + 0.15
    assert set(np.asarray(asked[1].groups)[labels >= 0].tolist()) == set(range(CLASSES))
    assert found.by_labels  # constant features cannot test a report
    np.testing.assert_array_equal(found.log_f, found.log_q)


def test_features_are_asked_once_for_a_sweep(data, whole):
    graph, _, rows, labels = data
    fold = folds(jax.random.split(jax.random.key(0), 5)[0], labels, FOLDS)
    found = features_posterior(rows, labels, fold, num_classes=CLASSES, num_folds=FOLDS)
    again = counted(users(graph)[0], rows, labels, log_q=found, num_folds=9)
    np.testing.assert_array_equal(whole[0].log_posterior, again.log_posterior)


def test_what_is_believed_of_features_alone_and_not_of_what_it_taught_has_taught_nothing(data, monkeypatch):
    graph, y, rows, labels = data
    found = []

    def guard(*given, **named):
        trusted = real(*given, **named)
        # As if the second time the reports explained nothing.
        found.append(
            trusted._replace(strength=0.0, log_likelihood=0 * trusted.log_likelihood) if found else trusted
        )
        return found[-1]

    real = piloted.guard
    monkeypatch.setattr(piloted, "guard", guard)
    answer = counted(users(graph)[0], rows, labels)
    assert len(found) == 2
    assert float(found[0].strength) > 0.6
    assert answer.strength == 0.0
    np.testing.assert_array_equal(answer.log_f, answer.log_q)
    assert abs(right(answer.log_posterior, y, labels < 0) - right(answer.log_q, y, labels < 0)) < 0.01


def test_the_silent_are_not_asked_and_the_others_reports_still_tell(data):
    graph, y, rows, labels = data
    silent = (labels >= 0) & (np.arange(600) % 3 > 0)
    noisy_counts, asked = users(graph)
    found = counted(noisy_counts, rows, labels, silent=silent)
    np.testing.assert_array_equal(asked[0].reporters ^ asked[1].reporters, ~silent)
    for question in asked:
        np.testing.assert_allclose(question.confidence, np.exp(found.log_q).max(1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(found.log_likelihood)[silent], 0.0, atol=1e-6)
    assert right(found.log_posterior, y, labels < 0) > right(found.log_q, y, labels < 0) + 0.1


def test_a_classifier_may_be_sure_of_some_users(data):
    """-inf, as in the logarithm of a tree's probabilities: rightly, and of a class that is not theirs."""
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
    refuse = lambda *_: pytest.fail("asked, although the arguments are wrong")
    for changes, message in (
        ({"labels": np.where(labels == 2, -1, np.minimum(labels, 0))}, "labels must name at least two classes"),
        ({"labels": np.where(labels == 2, 3, labels)}, r"labels must be in \[0, 3\) or -1"),
        ({"labels": y}, "labels must leave users whose class is asked for"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"log_q": jnp.zeros((600, 2))}, "log_q must have shape"),
        ({"log_q": jnp.zeros((600, 3)).at[7].set(-jnp.inf)}, "log_q must be logarithms of probabilities"),
        ({"log_q": np.full((600, 3), 1 / 3)}, "log_q must be logarithms of probabilities"),
        ({"labels": np.roll(labels, 1), "log_q": stale}, "log_q must be of these labels, and was found of others"),
        ({"silent": labels >= 0}, "silent must leave a labelled user of each class"),
        ({"silent": labels < 0}, "silent users must have a label"),
    ):
        with pytest.raises(ValueError, match=message):
            counted(refuse, rows, **{"labels": labels, **changes})
    with pytest.raises(ValueError, match=r"and have columns, got shape \(600, 0\)"):
        counted(refuse, np.zeros((600, 0)), labels)
    for answer in (jnp.zeros((600, 2), int), jnp.zeros((600, 9))):
        with pytest.raises(ValueError, match="noisy_counts must answer with whole numbers of shape"):
            counted(lambda *_, answer=answer: answer, None, labels)


SPENT = PipelineGuarantee.of([Guarantee(EPSILON, unit=NEIGHBOUR_LIST)], protected=["edges"], unprotected=[])


def answered_by(noisy_counts, here):
    """The counts of those who are ``here``; rows of the others would turn every class over."""

    def counts(key, question):
        who = question.reporters & here
        return NoisyCounts(np.where(who[:, None], noisy_counts(key, question), 1000).astype(np.int32), who, SPENT)

    return counts


def test_whoever_does_not_answer_is_not_taken_for_a_user_without_friends(data, whole):
    """Read as counts of 0, the silent half would halve the number of friends that the pilot finds."""
    graph, y, rows, labels = data
    here = np.random.default_rng(2).random(600) < 0.5
    found = counted(answered_by(users(graph)[0], here), rows, labels)
    np.testing.assert_allclose(found.model.degree, whole[0].model.degree, rtol=0.2)
    np.testing.assert_array_equal(found.pilot, whole[0].pilot & here)
    assert not np.asarray(found.log_likelihood)[~here].any()
    np.testing.assert_array_equal(np.asarray(found.log_regression)[~here], np.asarray(found.log_q)[~here])
    correct = [np.asarray(log_p).argmax(1) == y for log_p in (found.log_q, found.log_posterior)]
    # Reports of others have taught the features of the silent: never to their harm.
    for who, gain in (((labels < 0) & here, 0.1), ((labels < 0) & ~here, -0.03)):
        assert correct[1][who].mean() > correct[0][who].mean() + gain


def test_a_class_of_which_nobody_labelled_answers_is_not_forgotten(data):
    """A regression on reports would never have seen it."""
    graph, y, rows, labels = data
    found = counted(answered_by(users(graph)[0], labels != 2), rows, labels)
    assert not np.asarray(found.log_regression).any()
    of_it = (labels < 0) & (y == 2)
    assert (np.asarray(found.log_posterior).argmax(1) == 2)[of_it].mean() > 0.6
    nobody = counted(answered_by(users(graph)[0], np.zeros(600, bool)), rows, labels)
    assert nobody.strength == 0.0
    np.testing.assert_allclose(nobody.log_posterior, nobody.log_q, atol=1e-5)


def test_counts_that_devices_sent(data, tmp_path):
    """Shuffled, twice, damaged, of users who were not asked: what is left is read as it was sent."""
    graph, y, rows, labels = data
    store, rng, lists = ReportStore(tmp_path), np.random.default_rng(0), Population.of(graph)
    friends = [lists.senders[lists.receivers == user].tolist() for user in range(600)]
    kept = []

    def ask(number, asked):
        question, sent = Question(number, asked.groups, asked.num_groups, EPSILON), []
        others = np.flatnonzero(~asked.reporters)[:3]
        for user in rng.permutation([*np.flatnonzero(asked.reporters), *others]).tolist():
            session = Session(Device.from_secret(rng.bytes(32)), budget=Budget(EPSILON, unit=NEIGHBOUR_LIST))
            sent.append(session.report_neighbours(question, friends[user], user=user))
        uploads = b"".join([sent[0][:-1], *sent[1:], *sent[5:9]])
        assert store.add(uploads, question) == (len(sent) - 1, Rejected(1, 0, 0, 4))
        counts, reported = decode(uploads, question).by_node(600)
        kept.append(NoisyCounts(counts, reported & asked.reporters, SPENT))
        return question, store.all(question)

    public = PublicFacts(rows, labels, CLASSES)
    found = classify_counts(jax.random.key(0), ask, public, EPSILON, num_folds=FOLDS)
    again = iter(kept)
    expected = counted(lambda *_: next(again), rows, labels)
    np.testing.assert_array_equal(found.log_posterior, expected.log_posterior)
    assert right(found.log_posterior, y, labels < 0) > right(found.found.log_q, y, labels < 0) + 0.1
    for number, answer in enumerate(kept):
        np.testing.assert_array_equal(found.round == number + 1, answer.reported)
    assert (found.round == 0).sum() == 2  # whose reports were cut
    spent = Ledger([Budget(EPSILON, unit=NEIGHBOUR_LIST), Budget(2 * EPSILON, unit=RELATIONSHIP)]).spend("a", found)
    assert 1.98 < spent.spent(RELATIONSHIP).epsilon <= 2.0
    question = Question(0, np.zeros(600, int), 9, EPSILON)
    with pytest.raises(ValueError, match="about the groups of the round"):
        classify_counts(jax.random.key(0), lambda *_: (question, store.all(question)), public, EPSILON)


def test_a_lie_is_no_larger_than_a_group_and_lengthens_no_table(data, monkeypatch):
    graph, _, _, labels = data
    sizes, size_of = [], piloted.table_size
    monkeypatch.setattr(piloted, "table_size", lambda *given: sizes.append(size_of(*given)) or sizes[-1])

    def ask(number, asked):
        question = Question(number, asked.groups, asked.num_groups, EPSILON)
        key, who = jax.random.key(number), np.flatnonzero(asked.reporters)
        output = np.array(reported(key, graph, question.groups, question.num_groups, EPSILON))[who]
        output[:2] = [[question.most], [-question.most]]
        return question, SimpleNamespace(user=np.uint64(who), output=output, digest=question.digest)

    found = classify_counts(jax.random.key(0), ask, PublicFacts(None, labels, CLASSES), EPSILON, num_folds=FOLDS)
    assert sizes == [1024, 1024]
    assert np.isfinite(found.log_posterior).all()


def test_answers_to_another_question_are_refused(data):
    def ask(change):
        def asked(number, given):
            question = Question(number, given.groups, given.num_groups, EPSILON)
            rows = {"user": np.uint64([1, 2]), "output": np.zeros((2, 9), int), "digest": question.digest}
            return question, SimpleNamespace(**rows | change)

        return asked

    for change, words in (
        ({"digest": bytes(32)}, "and answer another"),
        ({"user": np.uint64([1, 1])}, "several of some"),
        ({"output": np.zeros((2, 8), int)}, r"output must be \[2, 9\]"),
    ):
        with pytest.raises(ValueError, match=words):
            classify_counts(jax.random.key(0), ask(change), PublicFacts(None, data[3], CLASSES), EPSILON)

    def noisy_counts(epsilons, everybody):
        def counts(key, question):
            law = NeighbourCounts(epsilons.pop(0), question.num_groups)
            who = None if everybody else question.reporters
            return privatize_counts(key, data[0], law, question.groups, reporters=who)

        return counts

    for epsilons, everybody, message in (
        ([EPSILON, 0.5], False, "must be of epsilon 1 in both rounds, got one of 0.5"),
        ([EPSILON, EPSILON], True, r"must be of who is asked: \d+ reported who are not in this round"),
    ):
        with pytest.raises(ValueError, match=message):
            counted(noisy_counts(epsilons, everybody), None, data[3])
