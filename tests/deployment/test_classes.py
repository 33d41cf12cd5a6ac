"""Devices that classify their own records: what they are sent, what they refuse, and 200 of them."""

import hashlib

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.core.checksum import sealed
from ldp_jax.deployment import Alphabet, Classifier, Device, Session, alphabet_table, report_class
from ldp_jax.features import PersonalAlphabets
from ldp_jax.pipeline.device_classifier import DeviceClassifier
from ldp_jax.pipeline.rows import feature_rows

EPSILON, CLASSES, USERS = 2.0, 5, 200


def planted(seed=0):
    """Public posteriors that are right half of the time, records that say the class, and a classifier of them."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, USERS)
    logits = rng.normal(size=(USERS, CLASSES))
    logits[np.arange(USERS), truth] += 1.0
    prior = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    centres = rng.normal(size=(CLASSES, 20))
    records = centres[truth] + 0.5 * rng.normal(size=(USERS, 20))
    return truth, prior, records, Classifier(centres.T, -0.5 * (centres**2).sum(1), unit_length=False)


def device(user):
    return Device.from_secret(hashlib.sha256(f"user {user}".encode()).digest())


def shipped(prior):
    """What each device is sent, as bytes, and the tables by their sizes."""
    found = deployment.alphabets(prior, EPSILON)
    tables = {size: alphabet_table(EPSILON, size, CLASSES) for size in np.unique(found.sizes).tolist()}
    sent = [
        Alphabet(order[:size], EPSILON, tables[int(size)]).to_bytes()
        for order, size in zip(found.order, found.sizes, strict=True)
    ]
    return sent, tables


def test_two_hundred_devices():
    """From public posteriors to better ones: what is sent, what is reported, what the server makes of it."""
    truth, prior, records, classifier = planted()
    broadcast = classifier.to_bytes()
    sent, tables = shipped(prior)
    assert len(tables) > 1

    uploads = []
    for user in range(USERS):  # on the devices
        session = Session(device(user), budget=EPSILON)
        own = Alphabet.from_bytes(sent[user])
        uploads.append(
            report_class(session, Classifier.from_bytes(broadcast), own, records[user], user=user, round=0)
        )
        assert session.spent().epsilon <= EPSILON

    place = np.full(USERS, -1)  # on the server
    for table in tables.values():
        decoded = deployment.decode(b"".join(uploads), table)
        place[decoded.user.astype(int)] = decoded.output
    assert (place >= 0).all()

    simulated = PersonalAlphabets.of(EPSILON, prior)
    for level, table in enumerate(tables.values()):
        assert simulated.inner.table(level) == table  # the same integers in simulation and on devices
    posterior = np.asarray(simulated.estimate(place))
    gain = np.log(posterior[np.arange(USERS), truth]) - np.log(prior[np.arange(USERS), truth])
    before, after = (np.mean(each.argmax(1) == truth) for each in (prior, posterior))
    assert gain.mean() > 0.15
    assert after > before + 0.05


def test_the_best_class_and_the_report_are_those_of_the_simulation():
    """Word by word: a device's record, through NumPy and through JAX."""
    _, prior, records, classifier = planted(1)
    simulated = PersonalAlphabets.of(EPSILON, prior)
    scores = np.stack([classifier.scores(record) for record in records])
    scores[:20, ::2] = np.nan
    best = np.asarray(simulated.best(scores))
    sent, _ = shipped(prior)
    own = [Alphabet.from_bytes(data) for data in sent]
    np.testing.assert_array_equal([a.members[a.place(row)] for a, row in zip(own, scores, strict=True)], best)
    for user in range(0, USERS, 29):
        session = Session(device(user), budget=EPSILON)
        data = report_class(session, classifier, own[user], records[user], user=user, round=3)
        where = own[user].place(classifier.scores(records[user]))
        word = device(user).words(own[user].table, [0], user=user, round=3)[0]
        inner = simulated.inner.at(int(simulated.inner.level[user]))
        reported = int(inner.from_words(word[0], word[1], jnp.float32(where)))
        assert deployment.decode(data, own[user].table).output.tolist() == [reported]


def test_any_record_is_classified():
    _, prior, _, classifier = planted()
    sent, _ = shipped(prior)
    own = Alphabet.from_bytes(sent[0])
    with np.errstate(all="raise"):
        for value in (np.nan, np.inf, -np.inf, 1e300, -1e-310, 0.0, 2**70, -(10**400)):
            for made in (classifier, Classifier(classifier.weights, classifier.bias, log_counts=True)):
                scores = made.scores([value] + [0.5] * 19)
                assert np.isfinite(made.scores([value] * 20)).all()
                assert np.isfinite(scores).all()
                assert own.place(scores) in range(len(own.members))
    assert own.place(np.full(CLASSES, np.nan)) == 0


def test_what_is_shipped_is_small_and_reads_back():
    """Of 1 433 features and seven classes: below 100 KB."""
    rng = np.random.default_rng(0)
    made = Classifier(rng.normal(size=(1433, 7)), rng.normal(size=7), log_counts=True)
    own = Alphabet((6, 2, 0), 1.0, alphabet_table(1.0, 3, 7))
    assert len(made.to_bytes()) + len(own.to_bytes()) < 50_000
    again = Classifier.from_bytes(made.to_bytes())
    np.testing.assert_array_equal(again.weights, made.weights)
    np.testing.assert_array_equal(again.bias, made.bias)
    assert (again.log_counts, again.unit_length) == (True, True)
    read = Alphabet.from_bytes(own.to_bytes())
    assert (read.members, read.epsilon, read.table) == (own.members, own.epsilon, own.table)
    x = rng.poisson(0.1, 1433)
    unit = np.log1p(x) / np.linalg.norm(np.log1p(x))
    np.testing.assert_allclose(made.scores(x), unit @ made.weights + made.bias, rtol=1e-4, atol=1e-5)


def test_a_network_is_shipped_and_run_as_it_was_trained():
    """With the layers of the server's classifier."""
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((20, 16), (16,), (16, 3), (3,))]
    trained = DeviceClassifier(*arrays[:2], jnp.zeros((1, 3)), 0.4, (tuple(arrays[2:]),))
    made = Classifier(*map(np.asarray, arrays[:2]), layers=(tuple(map(np.asarray, arrays[2:])),))
    read = Classifier.from_bytes(made.to_bytes())
    assert (read.features, read.classes) == (20, 3)
    x = rng.normal(size=(5, 20))
    np.testing.assert_allclose(
        [read.scores(each) for each in x], trained.scores(feature_rows(x)), rtol=1e-4, atol=1e-5
    )
    weights, bias, more, last = map(np.asarray, arrays)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(
        trained.scores(feature_rows(x)), np.maximum(unit @ weights + bias, 0) @ more + last, rtol=1e-4, atol=1e-5
    )


def test_refusals_spend_nothing():
    _, prior, records, classifier = planted()
    sent, _ = shipped(prior)
    own = Alphabet.from_bytes(sent[0])
    session = Session(device(0), budget=EPSILON)
    other = Alphabet((0, 1), EPSILON, alphabet_table(EPSILON, 2, CLASSES + 1))
    for bad, message in (
        (
            (classifier, own, records[0][:-1]),
            r"record must be 20 numbers, as the classifier takes, got shape \(19,\)",
        ),
        ((classifier, other, records[0]), "the classifier has 5 classes and the alphabet is of 6"),
    ):
        with pytest.raises(ValueError, match=message):
            report_class(session, *bad, user=0, round=0)
    with pytest.raises(TypeError, match="real numbers"):
        report_class(session, classifier, own, np.array(["a"] * 20), user=0, round=0)
    assert session.counter == 0
    report_class(session, classifier, own, records[0], user=0, round=0)
    for again in (records[0], records[1]):
        with pytest.raises(deployment.BudgetError):
            report_class(session, classifier, own, again, user=0, round=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Alphabet((0, 1), 1.0, alphabet_table(2.0, 2, 3)), "one of epsilon 1, .* its masses lose 2"),
        (lambda: Alphabet((0, 1), 2.0, alphabet_table(1.0, 2, 3)), "one of epsilon 2, .* its masses lose 1"),
        (lambda: Alphabet((0, 1, 2), 1.0, alphabet_table(1.0, 2, 3)), "an output for each of 3 members"),
        (lambda: Alphabet((0, 3), 1.0, alphabet_table(1.0, 2, 3)), "distinct classes below 3"),
        (lambda: Alphabet((1, 1), 1.0, alphabet_table(1.0, 2, 3)), "distinct classes below 3"),
        (lambda: Alphabet((0, 1), -1.0, alphabet_table(1.0, 2, 3)), "epsilon must be"),
        (lambda: Classifier(np.ones((3, 2)), np.ones(3)), r"got \(3, 2\) and \(3,\)"),
        (lambda: Classifier(np.ones(3), np.ones(3)), "weights must be"),
        (lambda: Classifier(np.full((3, 2), np.nan), np.ones(2)), "weights must be finite"),
        (lambda: Classifier(np.ones((3, 2)), np.ones(2), layers=((np.ones((3, 2)), np.ones(2)),)), r"\[2, ...\]"),
        (lambda: Classifier(np.ones((3, 2)), np.ones(2), layers=((np.ones((2, 1)), np.ones(1)),)), "C >= 2"),
        (lambda: Classifier.from_bytes(b"something"), "not a classifier"),
        (lambda: Classifier.from_bytes(sealed(b"ldp-classifier 3\n{}\n")), "a damaged classifier"),
        (lambda: Alphabet.from_bytes(sealed(b"ldp-alphabet 2\n[]\n")), "a damaged alphabet"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
