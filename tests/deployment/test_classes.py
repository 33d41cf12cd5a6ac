"""Devices that classify their own records: what they are shipped, what they refuse, and 200 of
them.
"""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax import deployment
from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, Budget
from ldp_jax.core.checksum import sealed
from ldp_jax.deployment import (
    Alphabet,
    Classifier,
    Device,
    Friends,
    Question,
    Session,
    alphabet_table,
    report_class,
)
from ldp_jax.features import PersonalAlphabets
from ldp_jax.learning.models import dense_layers, mlp
from tests.deployment.vectors import SECOND

EPSILON = 2.0
CLASSES = 5
USERS = 200


def planted(seed=0):
    """Public posteriors that are right half of the time, records that say the class, and a
    classifier of them.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, CLASSES, USERS)
    logits = rng.normal(size=(USERS, CLASSES))
    logits[np.arange(USERS), truth] += 1.0
    prior = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    centres = rng.normal(size=(CLASSES, 20))
    records = centres[truth] + 0.5 * rng.normal(size=(USERS, 20))
    return (
        truth,
        prior,
        records,
        Classifier(centres.T, -0.5 * (centres**2).sum(1), unit_length=False),
    )


def device(user):
    return Device.from_secret(hashlib.sha256(f"user {user}".encode()).digest())


def shipped(prior):
    """What each device is sent, as bytes, and the tables by their sizes."""
    found = deployment.alphabets(prior, EPSILON)
    tables = {
        size: alphabet_table(EPSILON, size, CLASSES) for size in np.unique(found.sizes).tolist()
    }
    pairs = zip(found.order, found.sizes, strict=True)
    return [
        Alphabet(order[:size], EPSILON, tables[int(size)]).to_bytes() for order, size in pairs
    ], tables


def test_two_hundred_devices_report_what_is_simulated():
    """Word by word: records through NumPy and through JAX; and posteriors are better on the
    server.
    """
    truth, prior, records, classifier = planted()
    simulated = PersonalAlphabets.of(EPSILON, prior)
    broadcast = classifier.to_bytes()
    sent, tables = shipped(prior)
    assert len(tables) > 1
    for level, table in enumerate(tables.values()):
        assert simulated.inner.table(level) == table
    scores = np.stack([classifier.scores(record) for record in records])
    scores[:20, ::2] = np.nan
    held = [Alphabet.from_bytes(data) for data in sent]
    found = [
        alphabet.members[alphabet.place(row)] for alphabet, row in zip(held, scores, strict=True)
    ]
    np.testing.assert_array_equal(found, np.asarray(simulated.best(scores)))
    place = np.zeros(USERS, int)
    for user, (alphabet, record) in enumerate(zip(held, records, strict=True)):
        session = Session(device(user), budget=EPSILON)
        given = {"user": user, "round": 3}
        data = report_class(session, Classifier.from_bytes(broadcast), alphabet, record, **given)
        assert session.spent().epsilon <= EPSILON
        (place[user],) = deployment.decode(data, alphabet.table).output
        if user % 29 == 0:
            word = device(user).words(alphabet.table, [0], **given)[0]
            inner = simulated.inner.at(int(simulated.inner.level[user]))
            best = jnp.float32(alphabet.place(classifier.scores(record)))
            assert place[user] == int(inner.from_words(word[0], word[1], best))
    posterior = np.asarray(simulated.estimate(place))
    before, after = (np.mean(each.argmax(1) == truth) for each in (prior, posterior))
    assert after > before + 0.05


def test_any_record_is_classified():
    _, prior, _, classifier = planted()
    alphabet = Alphabet.from_bytes(shipped(prior)[0][0])
    counts = Classifier(classifier.weights, classifier.bias, log_counts=True)
    with np.errstate(all="raise"):
        for value in (np.nan, np.inf, -np.inf, 1e300, -1e-310, 0.0, 2**70, -(10**400)):
            for made in (classifier, counts):
                for record in ([value] + [0.5] * 19, [value] * 20):
                    scores = made.scores(record)
                    assert np.isfinite(scores).all()
                    assert alphabet.place(scores) in range(len(alphabet.members))
    assert alphabet.place(np.full(CLASSES, np.nan)) == 0


def test_a_classifier_scores_and_is_small():
    """Of 1 433 features and seven classes: below 50 KB."""
    rng = np.random.default_rng(0)
    made = Classifier(rng.normal(size=(1433, 7)), rng.normal(size=7), log_counts=True)
    assert (
        len(made.to_bytes()) + len(Alphabet((6, 2, 0), 1.0, alphabet_table(1.0, 3, 7)).to_bytes())
        < 50_000
    )
    x = rng.poisson(0.1, 1433)
    unit = np.log1p(x) / np.linalg.norm(np.log1p(x))
    np.testing.assert_allclose(
        made.scores(x), unit @ made.weights + made.bias, rtol=1e-4, atol=1e-5
    )


def test_a_network_is_shipped_and_run_as_it_was_trained():
    model = mlp(2, 16, 3)
    x = np.random.default_rng(0).normal(size=(5, 20))
    unit = jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), jnp.float32)
    variables = model.init(jax.random.key(0), unit)
    first, *more = (tuple(map(np.asarray, layer)) for layer in dense_layers(variables))
    read = Classifier.from_bytes(Classifier(*first, layers=tuple(more)).to_bytes())
    assert (read.features, read.classes) == (20, 3)
    expected = model.apply(variables, unit, key=None, train=False)[0]
    np.testing.assert_allclose([read.scores(each) for each in x], expected, rtol=1e-4, atol=1e-5)


def test_an_alphabet_shows_no_less_than_its_epsilon():
    shown = repr(Alphabet((1, 0), 1.00000149, alphabet_table(1.00000149, 2, 2)))
    assert shown == "Alphabet((1, 0), epsilon 1.00001)"


def test_refusals_spend_nothing():
    _, prior, records, classifier = planted()
    alphabet = Alphabet.from_bytes(shipped(prior)[0][0])
    session = Session(device(0), budget=EPSILON)
    other = Alphabet((0, 1), EPSILON, alphabet_table(EPSILON, 2, CLASSES + 1))
    given = {"user": 0, "round": 0}
    for held, record, error, match in (
        (alphabet, records[0][:-1], ValueError, "record must be 20 numbers"),
        (other, records[0], ValueError, "classifier has 5 classes"),
        (alphabet, np.array(["a"] * 20), TypeError, "real numbers"),
    ):
        with pytest.raises(error, match=match):
            report_class(session, classifier, held, record, **given)
    assert session.counter == 0
    report_class(session, classifier, alphabet, records[0], **given)
    for record in (records[1], None, records[0][:-1]):  # none is looked at
        for round, error in ((0, deployment.ReplayError), (1, deployment.BudgetError)):
            with pytest.raises(error):
                report_class(session, classifier, alphabet, record, user=0, round=round)


def test_a_list_moves_the_class_as_far_as_friends_are_known():
    """The best class by both, whatever else the list holds; nobody is a friend of themselves."""
    classifier = Classifier(np.eye(3), np.zeros(3))
    alphabet = Alphabet((0, 1, 2), 20.0, alphabet_table(20.0, 3, 3))
    friends = Friends(np.float32([[9, 0, 0], [0, 0.6, 0], [0, 0.6, 0], [0, 0, 0.7], [0, 0, 0]]))

    def best(neighbours, user=4, held=friends):
        session = Session(device(user), budget=20.0)
        given = {"user": user, "round": 0, "friends": held, "neighbours": neighbours}
        sent = report_class(session, classifier, alphabet, [0, 0, 0.5], **given)
        return int(deployment.decode(sent, alphabet.table).output[0])

    found = [best(some) for some in ([], [1, 2], [1, 2, 3], [1, 1, 1, "x", 5, -1, 2.5])]
    assert found == [2, 1, 2, 2]
    assert best([0]) == 0
    assert best([0], user=0) == 2
    with pytest.raises(ValueError, match="user must be"):
        best([0], user=5)
    with pytest.raises(ValueError, match="friends must be of 3 classes"):
        best([0], held=Friends(np.zeros((5, 2))))
    with pytest.raises(TypeError, match="booleans"):
        best([True, False])
    for wrong in (np.zeros(3), np.zeros((0, 3)), np.zeros((3, 1)), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="evidence must be finite"):
            Friends(wrong)


_WEIGHTS = np.float32([[1.0, -0.5], [0.25, 2.0]])


def test_whole_numbers_and_numpys_own_flags_are_no_damage(untyped):
    """The coarsest table that is made of a budget, of 100 classes; and flags that are NumPy's."""
    assert Alphabet(range(100), 2e-4, alphabet_table(2e-4, 100, 100)).epsilon == 2e-4
    made = Classifier(_WEIGHTS, np.ones(2), np.bool_(True))
    assert Classifier.from_bytes(made.to_bytes()) == made


SHIPPED = {
    "table": SECOND,
    "question": Question(3, [0, 1, -1, 1], num_groups=2, epsilon=1.0, most=20),
    "alphabet": Alphabet((1, 0), 1.0, alphabet_table(1.0, 2, 3)),
    "classifier": Classifier(_WEIGHTS, np.zeros(2)),
    "friends": Friends(np.float32([[0.0, 0.0], [0.5, -1.0], [2.0, 0.0]])),
    "network": Classifier(_WEIGHTS, np.ones(2), log_counts=True, layers=((_WEIGHTS, np.zeros(2)),)),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_changed_byte_and_cut_is_refused(name):
    """Every byte set to 0, to 255 and with a bit flipped; every cut, and bytes put behind."""
    data = SHIPPED[name].to_bytes()
    read = type(SHIPPED[name]).from_bytes
    assert read(data).to_bytes() == data
    assert read(data) == SHIPPED[name]
    changed, cut = [], [data + b"\0", data + data]
    for at, old in enumerate(data):
        changed += [
            data[:at] + bytes([byte]) + data[at + 1 :]
            for byte in {0, 255, old ^ 1 << at % 8} - {old}
        ]
        cut += [data[:at], data[:at] + data[at + 1 :], *([data[at:] + data[:at]] if at else [])]

    def refused(part):
        try:
            read(part)
        except ValueError:
            return True
        return False

    assert all(map(refused, changed + cut))
    assert not all(
        refused(sealed(part[:-8])) for part in changed
    )  # the checksum is what is refused
    kind = data.split(b" ", 1)[0].decode().removeprefix("ldp-")
    old = data[:-8].replace(b" 2\n", b" 1\n")
    hint = "" if SHIPPED[name].VERSION == 1 else "; version . has no checksum: have it sent anew"
    with pytest.raises(ValueError, match=f"not a {kind} .*{hint}"):
        read(old.replace(b" 3\n", b" 2\n").replace(b"friends 1\n", b"friends 2\n"))


def test_a_class_of_record_and_list_is_paid_for_by_the_budget_of_lists_too():
    """Else the device would state too little of its list, whatever it was asked for before."""
    classifier = Classifier(np.eye(3), np.zeros(3))
    alphabet = Alphabet((0, 1, 2), EPSILON, alphabet_table(EPSILON, 3, 3))
    friends = Friends(np.zeros((5, 3)))
    counts = Question(0, groups=[0] * 5, num_groups=1, epsilon=1.0, most=20)
    budget = lambda epsilon: Budget(epsilon, unit=NEIGHBOUR_LIST)
    records = Session(device(4), budget=2 * EPSILON)
    lists = Session(device(4), budget=budget(4.5))
    lists.report_neighbours(counts, [1, 2], user=4)
    given = {"user": 4, "friends": friends}
    sent = report_class(records, classifier, alphabet, [0, 0, 1], lists=lists, round=0, **given)
    assert len(sent) == 36
    for one, total in ((records, EPSILON), (lists, EPSILON + 1.0)):
        assert one.spent().epsilon == pytest.approx(total)
        assert one.spent(4).epsilon == one.spent().epsilon
    kept = Session.from_bytes(device(4), lists.to_bytes(), at_least=2)
    assert kept.spent() == lists.spent()

    class Untouched:
        __array__ = __iter__ = lambda *_, **__: pytest.fail("touched")

    own = {"record": Untouched(), "neighbours": Untouched(), "round": 1, **given}
    for held, error, match in (
        (kept, deployment.BudgetError, "of 4.5 is left"),  # 3 of it are spent
        (records, ValueError, "lists must be a session of neighbour lists of the same device"),
        (Session(device(3), budget=budget(9.0)), ValueError, "of the same device"),
    ):
        with pytest.raises(error, match=match):
            report_class(records, classifier, alphabet, lists=held, **own)
    with pytest.raises(ValueError, match="lists must be None where no list is read"):
        report_class(records, classifier, alphabet, lists=lists, **own | {"friends": None})
    assert (records.counter, lists.counter, kept.counter) == (1, 2, 2)
