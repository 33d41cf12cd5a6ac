"""Classes from private records in one call: what it says, what it spends, and what it refuses before."""

import math
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from ldp_jax.pipeline.from_reports import class_reports, classify_reports
from ldp_jax.pipeline.local_prediction import local_prediction, panel_facts

from ldp_jax.accounting.guarantee import LABEL, RECORD, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.deployment import Alphabet, Classifier, Device, Session, alphabet_table, report_class
from ldp_jax.deployment.store import ReportStore
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.pipeline import predict_from_reports
from ldp_jax.servers.parts.device_classifier import device_classifier
from ldp_jax.servers.parts.panel import panel_arguments
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels
from ldp_jax.servers.parts.structure import label_log_loss
from tests.servers.planted import blocks, compiled

N, PANEL, FOLDS = 600, 150, 4


@pytest.fixture(scope="module")
def data():
    """Weak structure, clear records."""
    graph, y, x = blocks(n=N, degree=5.0, homophily=0.35, clarity=3.0)
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = panel_facts(jax.random.key(0), graph, feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=FOLDS)
    return graph, y, x, facts


def predicted(data, x, epsilon, **changes):
    graph, y, _, facts = data
    panel = np.arange(PANEL)
    given = {"facts": facts, **changes}
    return predict_from_reports(jax.random.key(1), graph, x, panel, y[:PANEL], epsilon, **given)


def right(log_p, y):
    return (np.asarray(log_p).argmax(1) == y)[PANEL:].mean()


@pytest.mark.parametrize("damage", [np.nan, -np.inf, 1e300, 10**30, -(10**400)])
def test_a_private_record_is_read_as_its_device_reads_it(damage):
    """NaN is 0 and what is far is far; of a public record the same is refused."""
    finite = abs(damage) < 1e308
    x = np.array([[3.0, 4.0], [1.0, 2.0], [2.0, damage], [damage, damage]])
    for log in (False, True):
        rows = feature_rows(x, log=log, public=np.arange(2))
        np.testing.assert_array_equal(rows.dense()[:2], feature_rows(x[:2], log=log).dense())
        device = Classifier(np.eye(2), np.zeros(2), log_counts=log)
        np.testing.assert_allclose(rows.dense(), [device.scores(record) for record in x], rtol=1e-6)
        if x.dtype != object:
            sparse = feature_rows(scipy.sparse.csr_array(x), log=log, public=np.arange(2))
            np.testing.assert_array_equal(sparse.dense(), rows.dense())
    for public in () if finite else (None, np.arange(3)):
        with pytest.raises(ValueError, match="features must be finite"):
            feature_rows(x, public=public)


@pytest.mark.parametrize("beyond", [9, 2**63, 2**70, math.inf])
def test_no_private_label_is_refused_whatever_the_array_of_all_becomes(beyond, untyped):
    """Beyond the classes is the last one."""
    panel, labels = np.arange(40), np.arange(40) % 3
    found = []
    for given in (labels, [beyond if one == 2 else int(one) for one in labels]):
        made = panel_arguments(N, np.eye(N), panel, given, num_classes=3, label_epsilon=2.0)
        found.append(made.server_labels(jax.random.key(0), panel, given))
    np.testing.assert_array_equal(*found)


def test_rows_at_the_ends_of_their_types():
    """Entries that are given twice are added in float64, and no square leaves it."""
    twice = scipy.sparse.coo_array((np.int8([100, 100, 1]), ([1, 1, 0], [0, 0, 1])), (2, 2))
    np.testing.assert_array_equal(feature_rows(twice).dense(), [[0, 1], [1, 0]])
    far = np.array([[3e200, 4e200], [3e-170, 4e-170], [3.0, 4.0]])
    np.testing.assert_allclose(feature_rows(far).dense(), [[0.6, 0.8]] * 3, rtol=1e-6)


def test_structure_finds_the_blocks_and_the_least_log_loss_decides(data):
    _, y, _, facts = data
    found = facts.structure
    assert found.log_loss[found.chosen] == min(found.log_loss.values())
    assert label_log_loss(found.log_q, facts.labels) == pytest.approx(found.log_loss[found.chosen])
    assert found.log_loss[found.chosen] < 1.08 < np.log(3)
    assert right(found.log_q, y) > 0.4
    assert found.sources.shape == (N, 3, len(found.names))
    assert np.asarray(found.weights).min() >= 0.0
    np.testing.assert_allclose(np.exp(np.asarray(found.log_q)).sum(1), 1.0, atol=1e-4)


def test_devices_tell_records_apart(data):
    """That nobody is asked by her own label, test_self_training asks of the same regression."""
    _, y, x, facts = data
    rows, fold = feature_rows(x), np.asarray(facts.known.fold)
    assert facts.classifier.weights.shape == (3, 3)
    assert right(facts.classifier.scores(rows), y) > 0.8
    np.testing.assert_allclose(np.exp(np.asarray(facts.classifier.panel_scores)).sum(1), 1.0, atol=1e-4)
    with pytest.raises(ValueError, match="rows must have 3 features"):
        facts.classifier.scores(feature_rows(x[:, :2]))
    with pytest.raises(ValueError, match="rows must be of the panel's 20 members"):
        device_classifier(rows, FoldedLabels(y[:20], 3, fold[:20], FOLDS))


def test_records_say_what_structure_does_not_and_the_ledger_takes_what_it_cost(data):
    """One private record is NaN, which is read as 0."""
    _, y, x, facts = data
    found = predicted(data, np.where(np.arange(N)[:, None] == PANEL + 3, np.nan, x), 3.0)
    assert found.used == "reports"
    assert found.strength > 0.5
    assert right(found.log_posterior, y) > right(facts.structure.log_q, y) + 0.1
    np.testing.assert_allclose(np.exp(np.asarray(found.log_posterior)).sum(1), 1.0, atol=1e-4)
    assert found.found.log_loss["reports"] < found.found.log_loss["structure"]
    assert 2.99 < found.guarantee[RECORD].epsilon <= 3.0
    assert "features of private users" in found.guarantee.protected
    assert {"edges", "the panel's records", "the panel's labels"} <= set(found.guarantee.unprotected)
    ledger = Ledger([Budget(3.0, unit=RECORD)]).spend("prediction", found)
    with pytest.raises(BudgetExceededError):
        ledger.spend("prediction again", found)
    assert compiled(lambda: predicted(data, x, 2.0)) == 0  # another epsilon is no other program


def test_records_of_somebody_else_are_not_believed(data):
    _, y, x, facts = data
    order = np.arange(N)
    order[PANEL:] = np.random.default_rng(0).permutation(order[PANEL:])
    found = predicted(data, x[order], 3.0)
    structure = right(facts.structure.log_q, y)
    assert right(found.log_posterior, y) > structure - 0.015
    if found.used == "structure":
        np.testing.assert_array_equal(found.log_posterior, facts.structure.log_q)
        assert found.found.reason
    collect = class_reports(found.alphabets, feature_rows(x[order]))
    unguarded = local_prediction(jax.random.key(1), collect, facts, guarded=False)
    assert unguarded.used == "reports"
    assert right(unguarded.log_posterior, y) < structure - 0.03  # what the guard is for


def moved(x, facts):
    """Other private records, which the broadcast classifier ranks as it ranks theirs; the panel's as they were."""
    ranked = lambda x: np.asarray(facts.classifier.scores(feature_rows(x))).argsort(1)
    other = x + 0.5 * np.random.default_rng(5).normal(size=x.shape)
    alike = (ranked(other) == ranked(x)).all(1) & (np.arange(N) >= PANEL)
    assert alike.mean() > 0.2
    return np.where(alike[:, None], other, x)


def test_labels_of_the_panel_may_be_private_and_neither_they_nor_records_reach_more_than_reports(data):
    """To the last bit: other labels with the same reports, and other records that devices classify alike."""
    graph, y, x, facts = data
    panel, label_epsilon, told = np.arange(PANEL), 2.5, []

    def asked(x, labels):
        given = {"num_classes": 3, "num_folds": FOLDS, "label_epsilon": label_epsilon}
        hear = lambda words, _: told.append(words)
        return predict_from_reports(jax.random.key(2), graph, x, panel, labels, 3.0, progress=hear, **given)

    found = asked(x, y[:PANEL])
    assert told[2:] == ["devices report", "what reports teach", "done"]
    labels, keep = found.found.facts.labels[:PANEL], found.found.facts.known.keep
    assert keep == pytest.approx(1 / (1 + 2 * np.exp(-label_epsilon)), rel=1e-5)
    assert abs((labels == y[:PANEL]).mean() - keep) < 5 * np.sqrt(keep * (1 - keep) / PANEL)
    assert right(found.log_posterior, y) > right(facts.structure.log_q, y) + 0.1
    spent = found.guarantee
    assert 2.49 < spent[LABEL].epsilon <= 2.5 < 2.99 < spent[RECORD].epsilon <= 3.0
    assert "the panel's labels" in spent.protected
    assert set(spent.unprotected) == {"edges", "the panel's records"}
    ledger = Ledger([Budget(3.0, unit=RECORD), Budget(2.5, unit=LABEL)]).spend("prediction", found)
    assert ledger.spent(LABEL).epsilon == spent[LABEL].epsilon
    with pytest.raises(BudgetExceededError, match="does not say what it costs per label"):
        ledger.spend("records", spent[RECORD])
    with pytest.raises(BudgetExceededError):
        Ledger([Budget(2.0, unit=LABEL), Budget(3.0)]).spend("prediction", found)
    other = moved(x, found.found.facts)
    seen = [np.asarray(feature_rows(records).times(jnp.eye(3))) for records in (x, other)]
    assert (np.abs(seen[0] - seen[1]).max(1) > 0.05).mean() > 0.2
    again = asked(other, np.where(y[:PANEL] == 2, 9, y[:PANEL]))  # clipped to the last class
    for one, two in ((found.alphabets, again.alphabets), (found.log_posterior, again.log_posterior)):
        jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_reports(data, monkeypatch):
    graph, y, x, facts = data
    monkeypatch.setattr(PersonalAlphabets, "privatize", lambda *_: pytest.fail("asked: the arguments are wrong"))
    panel, labels, private = np.arange(PANEL), y[:PANEL], {"label_epsilon": 1.0, "num_classes": 3}
    noisy = facts._replace(known=facts.known._replace(keep=0.9))
    mirrored = graphs.from_edges(N - 1 - graphs.to_edges(graph), N)
    for changes, message in (
        ({"epsilon": 21.0}, "epsilon must be"),
        ({"labels": labels, "num_classes": 4}, "got none of class 3"),
        ({"labels": labels - 1}, r"labels of the panel must be in \[0, 2\^31\), got -1 to 1"),
        ({"labels": labels + np.where(panel == 0, 2**32, 0), "num_classes": 3}, r"must be in \[0, 2\^31\)"),
        ({"panel": panel + N - 5}, r"panel must name nodes in \[0, 600\)"),
        ({"panel": panel // 2}, "each of its members once"),
        ({"features": x[:-1]}, "features must have a row for each of 600 users"),
        ({"features": x[:, :0]}, "and columns, got shape"),
        ({"features": x[:, :-1], "facts": facts}, "features must have 3 columns"),
        ({"features": np.where(np.arange(N)[:, None] == 3, np.nan, x), "facts": facts}, "features must be finite"),
        ({"facts": facts, "panel": panel + 1}, "facts must be of this graph"),
        ({"facts": facts, "graph": mirrored}, "facts must be of this graph"),
        ({"facts": facts, "num_folds": FOLDS + 1}, f"num_folds must be {FOLDS}, as facts have"),
        ({"facts": noisy}, "facts must be of public labels, got keep = 0.9"),
        ({"label_epsilon": 1.0}, "num_classes must be given where labels are private"),
        (private | {"label_epsilon": 1e-10}, "epsilon is too small for 3 outputs"),
        (private | {"panel": panel[:1], "labels": labels[:1]}, "got 1 of 600 users"),
        (private | {"facts": facts}, "facts must be None where labels are private"),
    ):
        given = {"graph": graph, "features": x, "panel": panel, "labels": labels, "epsilon": 2.0, **changes}
        with pytest.raises(ValueError, match=message):
            predict_from_reports(jax.random.key(0), **given)


NODES = 10**6 + np.random.default_rng(5).permutation(N)  # users, by node


@pytest.fixture(scope="module")
def alphabets(data):
    return PersonalAlphabets.of(2.0, np.exp(np.asarray(data[3].structure.log_q)))


def rows_of(alphabets, place, who):
    """Rows by table, in another order than the nodes'."""
    level, tables = np.asarray(alphabets.inner.level), alphabets.inner.table
    for one in np.unique(level).tolist():
        node = np.random.default_rng(1).permutation(np.flatnonzero(who & (level == one)))
        yield SimpleNamespace(user=NODES[node].astype(np.uint64), output=place[node], digest=tables(one).digest)


def test_rows_of_everybody_are_read_as_simulated_reports_are(data, alphabets):
    _, _, x, facts = data
    key, private = partial(jax.random.key, 7), np.arange(N) >= PANEL
    scores = np.array(facts.classifier.scores(feature_rows(x)))
    place = np.asarray(alphabets.privatize(key(), alphabets.best(scores)))
    found = classify_reports(key(), facts, alphabets, NODES, list(rows_of(alphabets, place, private)))
    expected = local_prediction(key(), class_reports(alphabets, feature_rows(x)), facts)
    np.testing.assert_array_equal(found.log_posterior, expected.log_posterior)
    np.testing.assert_array_equal(found.reported, private)
    assert found.used == "reports"
    with pytest.raises(ValueError, match="choose one round"):
        classify_reports(key(), facts, alphabets, NODES, 2 * list(rows_of(alphabets, place, private))[:1])


def test_classes_that_some_devices_sent(data, alphabets, tmp_path):
    """Late, twice, of strangers, of the panel, by a table of another user: none of it is read."""
    _, y, x, facts = data
    classifier, store = Classifier(*map(np.asarray, facts.classifier[:2])), ReportStore(tmp_path)
    here, sizes, order = np.arange(N) >= PANEL + 100, np.asarray(alphabets.sizes), np.asarray(alphabets.order)
    tables = {size: alphabet_table(2.0, size, 3) for size in (2, 3)}
    assert set(sizes[here].tolist()) == {2, 3}

    def send(records, sizes, user=NODES):
        """What devices of these nodes send, twice, by tables of these sizes."""
        uploads = dict.fromkeys(tables, b"")
        for node, record in records.items():
            size, session = int(sizes[node]), Session(Device.from_secret(secrets.bytes(32)), budget=2.0)
            alphabet = Alphabet(order[node, :size].tolist(), 2.0, tables[size])
            uploads[size] += 2 * report_class(session, classifier, alphabet, record, user=int(user[node]), round=4)
        return sum(store.add(sent, tables[size]).accepted for size, sent in uploads.items())

    secrets = np.random.default_rng(3)
    records = {node: x[node] for node in secrets.permutation(np.flatnonzero(here)).tolist()}
    assert send(records, sizes) == N - PANEL - 100
    found = classify_reports(jax.random.key(1), facts, alphabets, NODES, [store.all(t) for t in tables.values()])
    np.testing.assert_array_equal(found.reported, here)
    silent = ~here & (np.arange(N) >= PANEL)
    log_p, structure = np.asarray(found.log_posterior), np.asarray(facts.structure.log_q)
    likelihood, share = np.exp(np.asarray(found.found.log_likelihood)), np.exp(structure[here]).mean(0)
    np.testing.assert_allclose(likelihood[silent], 1.0, atol=1e-5)
    np.testing.assert_allclose(likelihood @ share, 1.0, atol=1e-5)  # against the classes of those who reported
    gained = [(one.argmax(1) == y)[here].mean() for one in (structure, log_p)]
    assert gained[1] > gained[0] + 0.05
    assert (log_p.argmax(1) == y)[silent].mean() > (structure.argmax(1) == y)[silent].mean() - 0.05
    assert f"epsilon {alphabets.guarantee().epsilon:.6g} per record" in str(found.guarantee)

    far = 100.0 * np.eye(3)[(y + 1) % 3]
    send({node: far[node] for node in range(5)}, sizes)  # of the panel
    send({node: far[node] for node in np.flatnonzero(silent).tolist()}, 5 - sizes)
    send({node: far[node] for node in range(5)}, sizes, np.arange(N))  # nodes are no users
    liar = np.flatnonzero(here)[0]  # one device's second class must not stop everybody
    table = tables[int(sizes[liar])]
    more = Session(Device.new(), budget=9.0).report(table, 0, user=int(NODES[liar]), round=4, field=1)
    assert store.add(more, table).accepted == 1
    again = classify_reports(jax.random.key(1), facts, alphabets, NODES, [store.all(t) for t in tables.values()])
    np.testing.assert_array_equal(again.log_posterior, log_p)
    np.testing.assert_array_equal(again.reported, here)
    other = alphabet_table(1.0, 2, 3)
    with pytest.raises(ValueError, match="some are by another"):
        classify_reports(jax.random.key(1), facts, alphabets, NODES, [store.all(other)])
    nobody = classify_reports(jax.random.key(1), facts, alphabets, NODES, [])
    assert nobody.used == "structure"
    np.testing.assert_array_equal(nobody.log_posterior, structure)
