"""Classes that no label names: the others are learned as if there were no other, and results have
all of them.
"""

import jax
import numpy as np
import pytest

import ldp_jax as ldp
from ldp_jax.deployment import (
    Alphabet,
    Classifier,
    Device,
    Session,
    alphabet_table,
    decode,
    report_class,
)
from ldp_jax.features import PersonalAlphabets
from ldp_jax.servers import (
    CountedClasses,
    CountServer,
    DeviceUsers,
    JointPrivacy,
    ReportServer,
    StatedFriends,
    Users,
    count_facts,
    joint_facts,
    panel_facts,
    predict_from_counts,
    predict_from_reports,
    predict_jointly,
    simulate,
)
from ldp_jax.servers.parts.rows import feature_rows
from tests.servers.planted import blocks

# the users and folds of other files, whose programs serve here
N = 600
PANEL = 150
FOLDS = 4
# of the three planted classes
CLASSES = 5
NAMES = np.array([0, 2, 3])
HALF = 0.5 / (PANEL + 1.0)  # the share of half a user, of a panel with two absent classes


@pytest.fixture(scope="module")
def data():
    return blocks(n=N, clarity=1.5)


def labelled(y, num=N):
    """The labels of the panel, by the planted numbers and by names with gaps."""
    known = np.arange(num) < PANEL
    return np.where(known, y, -1), np.where(known, NAMES[y], -1)


def check(found, plain, share=HALF):
    """All is as of the planted classes, but that each absent class has its share of everybody,
    exactly.
    """
    posterior = np.exp(np.asarray(found.log_posterior, np.float64))
    assert found.absent == (1, 4)
    assert "no label of class 1, 4, whose posterior is the prior" in repr(found)
    assert plain.absent == ()
    assert "no label" not in repr(plain)
    np.testing.assert_allclose(posterior[:, [1, 4]], share, rtol=1e-5)
    wanted = np.exp(np.asarray(plain.log_posterior, np.float64)) * (1.0 - 2.0 * share)
    np.testing.assert_allclose(posterior[:, NAMES], wanted, rtol=1e-5)
    np.testing.assert_array_equal(found.classes, NAMES[plain.classes])


def finite(*arrays):
    return all(np.isfinite(np.asarray(array)).all() for array in arrays)


def test_reports_are_read_as_if_there_were_no_other_class(data):
    graph, y, x = data
    panel = np.arange(PANEL)
    ask = lambda labels, **more: predict_from_reports(
        jax.random.key(1), graph, x, panel, labels[:PANEL], 3.0, num_folds=FOLDS, **more
    )
    plain = ask(y)
    found = ask(NAMES[y], num_classes=CLASSES)
    check(found, plain)
    assert (found.used, found.strength) == (plain.used, plain.strength)
    assert not found.alphabets.mask[:, [1, 4]].any()
    np.testing.assert_array_equal(found.alphabets.mask[:, NAMES], plain.alphabets.mask)
    assert dict(found.guarantee).keys() == dict(plain.guarantee).keys()
    facts = found.found.facts
    assert finite(
        found.found.log_likelihood,
        facts.structure.log_q,
        facts.structure.sources,
        facts.classifier.bias,
    )
    np.testing.assert_allclose(np.exp(np.asarray(facts.structure.log_q)).sum(1), 1.0, rtol=1e-5)
    # The evidence of a report is neutral of an absent class: prior and evidence give the prior.
    joint = np.asarray(facts.structure.log_q + found.found.log_likelihood, np.float64)
    given = np.exp(joint - np.log(np.exp(joint).sum(1, keepdims=True)))
    np.testing.assert_allclose(given[:, 1], HALF, rtol=1e-4)
    again = ask(NAMES[y], num_classes=CLASSES, facts=facts)  # facts are found once
    np.testing.assert_array_equal(again.alphabets.order, found.alphabets.order)
    check(again, ask(y, facts=plain.found.facts))
    # Where all classes are there, nothing is renumbered.
    assert plain.found.facts.taught is None


def test_no_device_sends_an_absent_class_and_none_is_learned_from_it(data):
    """Real reports, by alphabets that hold an absent class; noise may send it."""
    graph, y, x = data
    _, labels = labelled(y)
    facts = panel_facts(
        jax.random.key(0),
        graph,
        feature_rows(x[:PANEL]),
        labels,
        num_classes=CLASSES,
        num_folds=FOLDS,
    )
    prior = 0.8 * facts.alphabet_prior + 0.2 * np.eye(CLASSES)[4]
    alphabets = PersonalAlphabets.of(2.0, prior)
    assert np.asarray(alphabets.mask)[:, 4].mean() > 0.5
    classifier = Classifier(*map(np.asarray, facts.classifier[:2]))
    rows = []
    for user in range(PANEL, PANEL + 40):
        assert classifier.scores(x[user]).argmax() in NAMES
        size = int(alphabets.sizes[user])
        alphabet = Alphabet(
            np.asarray(alphabets.order[user])[:size], 2.0, alphabet_table(2.0, size, CLASSES)
        )
        session = Session(Device.new(), budget=2.0)
        sent = report_class(session, classifier, alphabet, x[user], user=user, round=0)
        rows.append(decode(sent, alphabet_table(2.0, size, CLASSES)))
    server = ReportServer(facts, 2.0, alphabets=alphabets)
    released = simulate(jax.random.key(1), server, DeviceUsers(N, lambda _: rows))
    found = released.value
    assert found.facts.absent == (1, 4)
    assert released.rounds[0].reported == 40
    np.testing.assert_allclose(np.exp(np.asarray(found.log_posterior))[:, [1, 4]], HALF, rtol=1e-5)


def test_alphabets_of_absent_classes_alone_are_refused(data):
    graph, y, x = data
    _, labels = labelled(y)
    facts = panel_facts(
        jax.random.key(0),
        graph,
        feature_rows(x[:PANEL]),
        labels,
        num_classes=CLASSES,
        num_folds=FOLDS,
    )
    absent = np.tile(~np.isin(np.arange(CLASSES), NAMES) / 2.0, (N, 1))
    server = ReportServer(facts, 2.0, alphabets=PersonalAlphabets.of(2.0, absent))
    with pytest.raises(ValueError, match="alphabets must hold a class that labels name"):
        simulate(jax.random.key(1), server, Users(records=feature_rows(x)))


def test_counts_are_read_as_if_there_were_no_other_class(data):
    graph, y, x = data
    plain, gaps = labelled(y)
    ask = lambda features, labels, **more: predict_from_counts(
        jax.random.key(1), graph, features, labels, 1.0, num_folds=FOLDS, **more
    )
    rows = feature_rows(x)
    first = ask(rows, plain)
    found = ask(rows, gaps, num_classes=CLASSES)
    check(found, first)
    steps = found.found
    assert finite(steps.log_q, steps.log_f, steps.log_likelihood, steps.log_regression)
    assert steps.log_likelihood.shape == steps.log_regression.shape == (N, CLASSES)
    np.testing.assert_array_equal(steps.classes, NAMES[first.found.classes])
    # What features say, found once for all epsilons, has the absent classes too.
    once = []
    for labels, classes in ((gaps, CLASSES), (plain, 3)):
        facts = count_facts(jax.random.key(3), rows, labels, num_classes=classes, num_folds=FOLDS)
        made = simulate(jax.random.key(4), CountServer(facts, 1.0), Users(lists=graph))
        once.append(
            CountedClasses(made.value.log_posterior, made.value, made.value.round, made.guarantee)
        )
    check(*once)
    silent = np.arange(N) < 5
    check(ask(None, gaps, num_classes=CLASSES, silent=silent), ask(None, plain, silent=silent))


def test_a_posterior_from_elsewhere_is_the_prior_of_an_absent_class(data):
    """Also where it says that a user is surely of an absent class, or surely of none."""
    graph, y, _ = data
    _, gaps = labelled(y)
    log_q = np.log(np.tile([0.3, 0.1, 0.3, 0.1, 0.2], (N, 1)))
    with np.errstate(divide="ignore"):
        log_q[200], log_q[201] = np.log(np.eye(CLASSES)[4]), np.log(np.eye(CLASSES)[0])
    found = predict_from_counts(
        jax.random.key(1), graph, None, gaps, 1.0, num_classes=CLASSES, log_q=log_q, num_folds=FOLDS
    )
    posterior = np.exp(np.asarray(found.log_posterior, np.float64))
    assert finite(found.log_posterior, found.found.log_likelihood)
    ordinary = np.setdiff1d(np.arange(N), [200, 201])
    np.testing.assert_allclose(
        posterior[ordinary][:, [1, 4]], [[0.1, 0.2]] * len(ordinary), rtol=1e-5
    )
    np.testing.assert_allclose(posterior.sum(1), 1.0, rtol=1e-5)
    assert found.classes[200] == 4
    assert posterior[201, [1, 4]].max() < 1e-8


@pytest.mark.parametrize("privacy", [JointPrivacy(2.0, 2.0), JointPrivacy(both=4.0)])
def test_joint_reports_are_read_as_if_there_were_no_other_class(data, privacy):
    graph, y, x = data
    ask = lambda labels, classes: predict_jointly(
        jax.random.key(1),
        graph,
        x,
        np.arange(PANEL),
        labels[:PANEL],
        privacy,
        num_classes=classes,
        num_folds=FOLDS,
    )
    plain = ask(y, 3)
    found = ask(NAMES[y], CLASSES)
    check(found, plain)
    assert (found.strength, found.reason) == (plain.strength, plain.reason)
    np.testing.assert_array_equal(found.round, plain.round)
    np.testing.assert_allclose(np.exp(found.log_prior)[[1, 4]], HALF, rtol=1e-5)
    if found.counts is not None:
        assert finite(found.counts.log_posterior, found.counts.log_likelihood)
        assert found.counts.absent == (1, 4)


def test_a_class_that_only_the_check_holds_is_absent(data):
    """The check teaches nothing, so that nothing is known of its class; its report bears nothing
    out.
    """
    graph, y, x = data
    labels = np.where(y == 2, 0, y)[:PANEL]
    labels[4] = 2  # the first of the check, a fifth of the panel
    privacy = JointPrivacy(both=4.0, check=0.2)
    found = predict_jointly(
        jax.random.key(1),
        graph,
        x,
        np.arange(PANEL),
        labels,
        privacy,
        num_classes=3,
        num_folds=FOLDS,
    )
    assert found.absent == (2,)
    taught = PANEL - PANEL // 5
    np.testing.assert_allclose(np.exp(found.log_posterior)[:, 2], 0.5 / (taught + 0.5), rtol=1e-5)
    assert 0.0 <= found.strength <= 1.0


def test_a_rehearsal_has_the_classes_of_the_panel(data):
    graph, y, x = data
    plain, gaps = labelled(y)
    rows = feature_rows(x[:PANEL])
    friends = StatedFriends(8.0, 0.5)
    told = {}
    for labels, classes in ((plain, 3), (gaps, CLASSES)):
        given = {"num_classes": classes, "num_folds": FOLDS}
        records = panel_facts(jax.random.key(0), graph, rows, labels, **given)
        both = joint_facts(jax.random.key(0), rows, labels, **given)
        told[classes] = (
            ldp.rehearse(jax.random.key(1), records, (2.0,), worlds=2),
            ldp.rehearse(jax.random.key(1), both, (2.0,), friends=friends, worlds=2),
        )
    for one, other in zip(told[3], told[CLASSES], strict=True):
        np.testing.assert_array_equal(one.gains, other.gains)
        assert one.splits == other.splits
    lists = ldp.rehearse(
        jax.random.key(1),
        count_facts(jax.random.key(2), None, gaps, num_classes=CLASSES),
        (2.0,),
        friends=friends,
        worlds=2,
    )
    assert finite(lists.gains, lists.without)


def test_a_gap_is_refused_where_nobody_said_how_many_classes_there_are(data):
    graph, y, x = data
    panel = np.arange(PANEL)
    labels = NAMES[y]
    words = "got none of class 1: give num_classes=4 if it exists"
    for ask in (
        lambda: predict_from_reports(jax.random.key(0), graph, x, panel, labels[:PANEL], 1.0),
        lambda: predict_from_counts(jax.random.key(0), graph, None, labelled(y)[1], 1.0),
        lambda: predict_jointly(
            jax.random.key(0), graph, x, panel, labels[:PANEL], JointPrivacy(1.0)
        ),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
    with pytest.raises(ValueError, match="labels must name at least two classes"):
        predict_from_reports(
            jax.random.key(0), graph, x, panel, 0 * labels[:PANEL], 1.0, num_classes=3
        )


def test_a_class_that_no_private_label_names_may_be_a_users_all_the_same(data):
    """Noise may have hidden it, so that its posterior is not the same for all users."""
    graph, y, x = data
    labels, _ = labelled(np.minimum(y, 1))
    facts = panel_facts(
        jax.random.key(0),
        graph,
        feature_rows(x[:PANEL]),
        labels,
        num_classes=3,
        num_folds=FOLDS,
        keep=0.8,
    )
    assert np.ptp(np.asarray(facts.structure.log_q)[:, 2]) > 0.1
