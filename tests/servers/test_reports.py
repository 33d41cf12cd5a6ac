"""Classes from reports of predicted classes: what they say, what they cost, and what is refused
before.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from ldp_jax.accounting.guarantee import LABEL, RECORD, Budget
from ldp_jax.accounting.ledger import BudgetExceededError, Ledger
from ldp_jax.deployment import Classifier, Device, Session, alphabet_table, report_class
from ldp_jax.deployment.store import ReportStore
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.servers import (
    Answers,
    DeviceUsers,
    LabelledReportServer,
    LabelServer,
    ReportServer,
    StoredUsers,
    Users,
    panel_facts,
    predict_from_reports,
    serve,
    simulate,
)
from ldp_jax.servers.parts.confusion import ClassReports, likeliest_evidence
from ldp_jax.servers.parts.device_classifier import device_classifier
from ldp_jax.servers.parts.panel import by_node, panel_arguments
from ldp_jax.servers.parts.report_odds import belief
from ldp_jax.servers.parts.rows import feature_rows
from ldp_jax.servers.parts.self_training import FoldedLabels, label_evidence
from ldp_jax.servers.parts.structure import label_log_loss
from ldp_jax.servers.taught_by_reports import _ALPHA, _around
from ldp_jax.servers.worlds.users import DrawnUsers
from tests.servers.planted import blocks, compiled

N = 600
PANEL = 150
FOLDS = 4


@pytest.fixture(scope="module")
def data():
    """Weak structure, clear records."""
    graph, y, x = blocks(n=N, degree=5.0, homophily=0.35, clarity=3.0)
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = panel_facts(
        jax.random.key(0), graph, feature_rows(x[:PANEL]), labels, num_classes=3, num_folds=FOLDS
    )
    return graph, y, x, facts


def test_folds_of_a_small_panel_hold_a_label_of_every_class(data):
    """Else a held-out posterior knows the label by which class looks rare."""
    graph, y, _, facts = data
    order = np.argsort(y, kind="stable")
    few = np.full(N, -1)
    for one in range(3):
        few[order[y[order] == one][: 3 + one]] = one
    noise = np.random.default_rng(0).normal(size=(12, 5))
    small = panel_facts(jax.random.key(0), graph, noise, few, num_classes=3)
    assert small.known.num_folds == 4
    assert facts.known.num_folds == FOLDS
    fold = np.asarray(small.known.fold)
    for one in range(3):
        counts = np.bincount(fold[few == one], minlength=4)
        assert counts.max() - counts.min() <= 1


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
    panel = np.arange(40)
    labels = np.arange(40) % 3
    found = []
    for given in (labels, [beyond if one == 2 else int(one) for one in labels]):
        made = panel_arguments(N, np.eye(N), panel, given, num_classes=3, label_epsilon=2.0)
        members = made.labels >= 0
        users = Users(labels=by_node(members, panel, given))
        found.append(simulate(jax.random.key(0), LabelServer(members, 3, 2.0), users).value.labels)
    np.testing.assert_array_equal(*found)


def test_rows_at_the_ends_of_their_types():
    """Entries that are given twice are added in float64, and no square leaves it."""
    twice = scipy.sparse.coo_array((np.int8([100, 100, 1]), ([1, 1, 0], [0, 0, 1])), (2, 2))
    np.testing.assert_array_equal(feature_rows(twice).dense(), [[0, 1], [1, 0]])
    far = np.array([[3e200, 4e200], [3e-170, 4e-170], [3.0, 4.0]])
    np.testing.assert_allclose(feature_rows(far).dense(), [[0.6, 0.8]] * 3, rtol=1e-6)


def test_what_arrives_in_the_name_of_the_panel_is_not_read(data):
    """Members of every class seem to have reported, whatever they are said to have reported."""
    graph, _, x, facts = data
    server = ReportServer(facts, 3.0)
    state = server.init(jax.random.key(2))
    answers = Users(records=feature_rows(x), lists=graph).answer(jax.random.key(3), state.question)
    found = server.step(state, answers)
    assert found.used == "reports"
    assert all(math.isfinite(number) for number in found.field)
    panel = np.arange(N) < PANEL
    for values in (answers.values, np.where(panel, 0, answers.values)):
        again = server.step(state, Answers(values, np.asarray(answers.reported) | panel))
        np.testing.assert_array_equal(again.log_posterior, found.log_posterior)
        np.testing.assert_array_equal(again.log_likelihood, found.log_likelihood)


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
    rows = feature_rows(x)
    fold = np.asarray(facts.known.fold)
    assert facts.classifier.weights.shape == (3, 3)
    assert right(facts.classifier.scores(rows), y) > 0.8
    np.testing.assert_allclose(
        np.exp(np.asarray(facts.classifier.panel_scores)).sum(1), 1.0, atol=1e-4
    )
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
    assert {"edges", "the panel's records", "the panel's labels"} <= set(
        found.guarantee.unprotected
    )
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
    users = Users(records=feature_rows(x), public=np.arange(N) < PANEL).shuffled(jax.random.key(3))
    unguarded = simulate(jax.random.key(1), ReportServer(facts, 3.0, guarded=False), users).value
    assert unguarded.used == "reports"
    assert right(unguarded.log_posterior, y) < structure - 0.03  # what the guard is for


def moved(x, facts):
    """Other private records, which the broadcast classifier ranks as it ranks theirs; the panel's
    as they were.
    """
    ranked = lambda x: np.asarray(facts.classifier.scores(feature_rows(x))).argsort(1)
    other = x + 0.5 * np.random.default_rng(5).normal(size=x.shape)
    alike = (ranked(other) == ranked(x)).all(1) & (np.arange(N) >= PANEL)
    assert alike.mean() > 0.2
    return np.where(alike[:, None], other, x)


def test_labels_of_the_panel_may_be_private_and_neither_they_nor_records_reach_more_than_reports(
    data,
):
    """To the last bit: other labels with the same reports, and other records that devices classify
    alike.
    """
    graph, y, x, facts = data
    panel = np.arange(PANEL)
    label_epsilon = 2.5
    told = []

    def asked(x, labels):
        given = {"num_classes": 3, "num_folds": FOLDS, "label_epsilon": label_epsilon}
        hear = lambda words, _: told.append(words)
        return predict_from_reports(
            jax.random.key(2), graph, x, panel, labels, 3.0, progress=hear, **given
        )

    found = asked(x, y[:PANEL])
    assert [words.rpartition(": ")[2] for words in told] == [
        "150 users answer",
        "what structure says",
        "the classifier of the devices",
        "450 users answer",
        "what reports teach",
        "done",
    ]
    labels = found.found.facts.labels[:PANEL]
    keep = found.found.facts.known.keep
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
    for one, two in (
        (found.alphabets, again.alphabets),
        (found.log_posterior, again.log_posterior),
    ):
        jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.usefixtures("untyped")
def test_what_is_wrong_is_refused_before_anybody_reports(data, monkeypatch):
    graph, y, x, facts = data
    monkeypatch.setattr(
        PersonalAlphabets, "privatize", lambda *_: pytest.fail("asked: the arguments are wrong")
    )
    panel = np.arange(PANEL)
    labels = y[:PANEL]
    private = {"label_epsilon": 1.0, "num_classes": 3}
    noisy = facts._replace(known=facts.known._replace(keep=0.9))
    mirrored = graphs.from_edges(N - 1 - graphs.to_edges(graph), N)
    for changes, message in (
        ({"epsilon": 21.0}, "epsilon must be"),
        ({"labels": labels, "num_classes": 4, "facts": facts}, "facts must be of this graph"),
        ({"labels": labels - 1}, r"labels of the panel must be in \[0, 2\^31\), got -1 to 1"),
        (
            {"labels": np.where(panel == 0, 2**31, labels), "num_classes": 3},
            r"must be in \[0, 2\^31\)",
        ),
        ({"panel": panel + N - 5}, r"panel must name nodes in \[0, 600\)"),
        ({"panel": panel // 2}, "each of its members once"),
        ({"features": x[:-1]}, "features must have a row for each of 600 users"),
        ({"features": x[:, :0]}, "and columns, got shape"),
        ({"features": x[:, :-1], "facts": facts}, "features must have 3 columns"),
        (
            {"features": np.where(np.arange(N)[:, None] == 3, np.nan, x), "facts": facts},
            "features must be finite",
        ),
        ({"facts": facts, "panel": panel + 1}, "facts must be of this graph"),
        ({"facts": facts, "graph": mirrored}, "facts must be of this graph"),
        ({"facts": facts, "num_folds": FOLDS + 1}, f"num_folds must be {FOLDS}, as facts have"),
        ({"facts": noisy}, "facts must be of public labels, got keep = 0.9"),
        ({"label_epsilon": 1.0}, "num_classes must be given where labels are private"),
        (private | {"label_epsilon": 1e-10}, "epsilon is too small for 3 outputs"),
        (private | {"panel": panel[:1], "labels": labels[:1]}, "got 1 of 600 users"),
        (private | {"facts": facts}, "facts must be None where labels are private"),
    ):
        given = {
            "graph": graph,
            "features": x,
            "panel": panel,
            "labels": labels,
            "epsilon": 2.0,
            **changes,
        }
        with pytest.raises(ValueError, match=message):
            predict_from_reports(jax.random.key(0), **given)


NODES = 10**6 + np.random.default_rng(5).permutation(N)  # users, by node


@pytest.fixture(scope="module")
def server(data):
    return ReportServer(data[3], 2.0)


@pytest.fixture(scope="module")
def alphabets(server):
    return server.question.alphabets


def test_classes_that_some_devices_sent(data, server, alphabets, tmp_path):
    """Late, twice, of strangers, of the panel, by a table of another user: none of it is read."""
    _, y, x, facts = data
    service = serve(server, ReportStore(tmp_path), users=NODES, key=jax.random.key(1))
    here = np.arange(N) >= PANEL + 100
    sizes = np.asarray(alphabets.sizes)
    tables = {size: alphabet_table(2.0, size, 3) for size in (2, 3)}
    assert set(sizes[here].tolist()) == {2, 3}

    def send(records, like, user=NODES):
        """What devices of these nodes send, twice, with the alphabets of nodes that they are
        ``like``.
        """
        uploads = dict.fromkeys(tables, b"")
        for node, record in records.items():
            session = Session(Device.from_secret(secrets.bytes(32)), budget=2.0)
            sent = server.question.shipped(int(like[node]))
            named = {"user": int(user[node]), "round": service.round}
            uploads[int(sizes[like[node]])] += 2 * report_class(session, *sent, record, **named)
        new = [service.store.add(sent, tables[size]) for size, sent in uploads.items()]
        return sum(one.accepted for one in new)

    secrets = np.random.default_rng(3)
    records = {node: x[node] for node in secrets.permutation(np.flatnonzero(here)).tolist()}
    own = np.arange(N)
    assert send(records, own) == N - PANEL - 100
    released = service.close_round()
    found = released.value
    reported = lambda: StoredUsers(service.store, NODES).read(server.question).reported
    np.testing.assert_array_equal(reported(), here)
    silent = ~here & (np.arange(N) >= PANEL)
    log_p = np.asarray(found.log_posterior)
    structure = np.asarray(facts.structure.log_q)
    likelihood = np.exp(np.asarray(found.log_likelihood))
    np.testing.assert_allclose(likelihood[silent], 1.0, atol=1e-5)
    assert (likelihood[here].max(1) > 1.5 * likelihood[here].min(1)).all()
    gained = [(one.argmax(1) == y)[here].mean() for one in (structure, log_p)]
    assert gained[1] > gained[0] + 0.05
    assert (log_p.argmax(1) == y)[silent].mean() > (structure.argmax(1) == y)[silent].mean() - 0.05
    epsilon = alphabets.guarantee().epsilon
    assert f"epsilon {epsilon:.6g} per record" in str(released.guarantee)
    assert "who reported" in released.guarantee.unprotected

    far = 100.0 * np.eye(3)[(y + 1) % 3]
    send({node: far[node] for node in range(5)}, own)  # of the panel
    of_size = {int(size): int(np.flatnonzero(sizes == size)[0]) for size in (2, 3)}
    another = np.array([of_size[5 - int(size)] for size in sizes])
    send({node: far[node] for node in np.flatnonzero(silent).tolist()}, another)
    send({node: far[node] for node in range(5)}, own, np.arange(N))  # nodes are no users
    liar = np.flatnonzero(here)[0]  # one device's second class must not stop everybody
    table = tables[int(sizes[liar])]
    more = Session(Device.new(), budget=9.0).report(
        table, 0, user=int(NODES[liar]), round=service.round, field=1
    )
    assert service.store.add(more, table).accepted == 1
    np.testing.assert_array_equal(service.again().value.log_posterior, log_p)
    np.testing.assert_array_equal(reported(), here)
    other = service.store.all(alphabet_table(1.0, 2, 3))
    with pytest.raises(ValueError, match="some are by another"):
        DeviceUsers(NODES, lambda _: [other]).read(server.question)
    nobody = simulate(jax.random.key(1), server, DeviceUsers(NODES, lambda _: [])).value
    assert nobody.used == "structure"
    np.testing.assert_array_equal(nobody.log_posterior, structure)


# --- The question ---------------------------------------------------------------------------------


def test_one_device_answers_as_all_do_and_as_a_deployed_one_before_its_noise(data, server):
    """Whatever a record holds; the report of user i depends on the i-th key and on nothing of the
    others.
    """
    _, _, x, _ = data
    question = server.question
    odd = x.copy()
    odd[:4] = [[np.nan, 1, 2], [1e300, -1e300, 0.5], [0, 0, 0], [1e-30, 2e-30, -1e-30]]
    users = Users(records=odd).only(question.cost())
    alone = users.one_by_one(jax.random.key(1), question)
    together = np.asarray(question.answer_all(jax.random.key(1), users))
    np.testing.assert_array_equal(alone, together)
    assert alone.dtype == together.dtype == np.int32
    other = Users(records=np.where(np.arange(N)[:, None] == 9, odd, odd[::-1]))
    assert np.asarray(question.answer_all(jax.random.key(1), other))[9] == together[9]

    bare = question.exact()
    found = np.asarray(bare.answer_all(jax.random.key(1), users))
    np.testing.assert_array_equal(found, users.one_by_one(jax.random.key(2), bare))
    for log in (True, False):
        asked = dataclasses.replace(question, log_counts=log)
        rows = feature_rows(odd, log=log, public=np.zeros(0, int))
        chosen = np.asarray(question.alphabets.best(question.classifier.scores(rows)))
        for user in range(0, N, 7):
            classifier, alphabet = asked.shipped(user)
            scores = classifier.scores(odd[user])
            assert alphabet.members[alphabet.place(scores)] == chosen[user]
            if not log:
                assert np.asarray(question.alphabets.order)[user, found[user]] == scores.argmax()
            assert alphabet.table.digest == alphabet_table(2.0, len(alphabet.members), 3).digest


def test_a_question_is_read_by_its_own_law_and_says_what_it_costs(server):
    question = server.question
    places = np.arange(N) % 2
    law = np.asarray(question.log_likelihoods(places))
    np.testing.assert_array_equal(law, question.alphabets.log_likelihoods(places))
    np.testing.assert_array_equal(question.mask.sum(1), question.alphabets.sizes)
    bare = question.exact()
    named = np.asarray(question.alphabets.order)[np.arange(N), places]
    np.testing.assert_array_equal(
        np.asarray(bare.log_likelihoods(places)) == 0.0, np.eye(3, dtype=bool)[named]
    )
    assert bare.mask.all()
    assert bare.cost().guarantee.epsilon == math.inf
    assert not bare.cost().within(question.cost())
    assert question.upload_bytes() == 36
    assert question.download_bytes() == max(
        sum(len(part.to_bytes()) for part in question.shipped(user)) for user in range(0, N, 20)
    )


# --- The server -----------------------------------------------------------------------------------


def test_exact_users_are_the_ceiling_that_is_read_by_the_exact_law(data):
    """The evidence is that of true classes of devices, whatever epsilon the server has."""
    _, y, x, facts = data
    labels = facts.labels
    posterior = np.exp(np.asarray(facts.structure.log_q))
    scores = np.array(facts.classifier.scores(feature_rows(x)))
    scores[:PANEL] = facts.classifier.panel_scores
    reports = ClassReports(label_evidence(scores.argmax(1), 3), np.ones((N, 3), bool))
    panel = facts.classifier.scored(facts.known)
    own, smoothing = likeliest_evidence(reports, panel, np.arange(PANEL), posterior, labels < 0)
    released = simulate(
        jax.random.key(0), ReportServer(facts, 0.5), Users(records=feature_rows(x)).exact()
    )
    assert released.value.smoothing == smoothing
    np.testing.assert_array_equal(released.value.log_likelihood, own)
    expected = belief(own, facts.structure.log_q, labels < 0, panel, np.arange(PANEL))
    assert released.value.strength == expected
    assert right(released.value.log_posterior, y) > 0.85
    assert released.guarantee[RECORD].epsilon == math.inf
    assert "features of private users" in released.guarantee.unprotected


def test_alphabets_of_another_epsilon_or_of_other_users_are_refused(data, server):
    shorter = PersonalAlphabets.of(2.0, np.full((N - 1, 3), 1 / 3))
    for wrong, message in (
        (
            {"epsilon": 1.0, "alphabets": server.question.alphabets},
            "must be of epsilon 1, and their tables lose 2",
        ),
        ({"epsilon": 2.0, "alphabets": shorter}, r"alphabets must be \(600, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ReportServer(data[3], **wrong)


def test_a_drawn_world_answers_by_its_scores_as_users_do_by_their_records(data, server):
    scores = np.asarray(data[3].classifier.scores(feature_rows(data[2])))
    found = [
        simulate(jax.random.key(4), server, users).value.log_posterior
        for users in (DrawnUsers(len(scores), scores), Users(records=feature_rows(data[2])))
    ]
    np.testing.assert_array_equal(*found)


def test_silent_members_of_a_panel_are_asked_for_nothing_else(data):
    graph, y, x, facts = data
    members = np.arange(N) < PANEL
    server = LabelledReportServer(
        graph, feature_rows(x[:PANEL]), LabelServer(members, 3, 2.5), 3.0, FOLDS
    )
    state = server.init(jax.random.key(0))
    values, reported = Users(labels=y).answer(jax.random.key(1), state.question)
    some = reported & (np.arange(N) % 10 > 0)
    state = server.step(state, Answers(np.where(some, values, 0), some))
    np.testing.assert_array_equal(state.question.asked, ~members)
    np.testing.assert_array_equal(state.labels >= 0, some)
    exact = simulate(jax.random.key(0), LabelServer(members, 3, 1.0), Users(labels=y).exact())
    assert exact.value.keep == 1.0
    np.testing.assert_array_equal(exact.value.labels, np.where(members, y, -1))
    with pytest.raises(ValueError, match="at least two members of the panel"):
        server.step(
            server.init(jax.random.key(0)), Answers(np.zeros(N, np.int32), np.arange(N) == 3)
        )


def test_what_friends_say_is_summed_over_one_hop_and_two_and_propagated():
    """Against powers of a dense matrix, and PageRank as a solve."""
    made, *_ = blocks(n=40, degree=5.0)
    adjacency = np.zeros((40, 40))
    adjacency[made.receivers, made.senders] = 1.0
    degree = np.maximum(adjacency.sum(1), 1.0)
    rng = np.random.default_rng(0)
    own, evidence = (jnp.asarray(rng.normal(size=(40, 3)), jnp.float32) for _ in range(2))
    (one, two, rank), columns = _around(operator(made), [own, evidence])
    np.testing.assert_allclose(one, adjacency @ evidence, atol=1e-4)
    np.testing.assert_allclose(two, adjacency @ adjacency @ evidence, atol=1e-3)
    even = adjacency / np.sqrt(np.outer(degree, degree))
    due = np.linalg.solve(np.eye(40) - (1 - _ALPHA) * even, _ALPHA * np.asarray(evidence))
    np.testing.assert_allclose(rank, due, atol=5e-3)
    parts = []
    for each in (own, evidence, one, two, rank):
        centred = np.asarray(each) - np.asarray(each).mean(1, keepdims=True)
        parts.append(centred / np.sqrt((centred**2).sum(1).mean() * 5))
    np.testing.assert_allclose(columns, np.stack(parts, 1).reshape(40, -1), atol=1e-4)
