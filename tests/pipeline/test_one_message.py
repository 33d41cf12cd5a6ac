"""One class of the record and the whole list: what it says, and that the report is all that leaves a device."""

import jax
import numpy as np
import pytest

from ldp_jax.accounting.guarantee import NEIGHBOUR_LIST, RECORD, RELATIONSHIP, Budget, Unit
from ldp_jax.accounting.ledger import Ledger
from ldp_jax.edges import Population
from ldp_jax.features import PersonalAlphabets
from ldp_jax.graph import graphs
from ldp_jax.pipeline import JointPrivacy, feature_rows, joint_facts, predict_jointly
from ldp_jax.pipeline.jointly import WHOLE_LIST, record_alphabets
from ldp_jax.pipeline.one_message import HOMOPHILY, Devices, one_message
from tests.pipeline.planted import blocks

N, PANEL, FOLDS, TOTAL = 600, 150, 4, 4.0  # the users and folds of other files, whose programs serve here
BOTH = Unit("neighbour-list + record")


@pytest.fixture(scope="module")
def data():
    """Records that half tell the class, friends that are mostly alike."""
    return blocks(n=N, clarity=1.5)


def predicted(data, privacy, **changes):
    graph, y, x = data
    given = {"num_classes": 3, "num_folds": FOLDS, **changes}
    return predict_jointly(jax.random.key(0), graph, x, np.arange(PANEL), y[:PANEL], privacy, **given)


def right(found, y):
    return (found.classes == y)[PANEL:].mean()


def asked(data, x, graph):
    """One message of other records and lists, beside the panel of ``data``."""
    _, y, first_x = data
    labels = np.where(np.arange(N) < PANEL, y, -1)
    facts = joint_facts(
        jax.random.key(1), feature_rows(first_x).take(np.arange(PANEL)), labels, num_classes=3, num_folds=FOLDS
    )
    scores, users = np.array(facts.classifier.scores(feature_rows(x))), Population.of(graph)
    scores[:PANEL] = facts.classifier.panel_scores
    devices, alphabets = Devices(scores, users.receivers, users.senders), record_alphabets(facts, TOTAL)
    return one_message(jax.random.key(2), devices, facts.labels, facts.prior, alphabets, HOMOPHILY)


def test_friends_say_what_records_do_not_and_strangers_nothing(data):
    graph, y, x = data
    found, alone = predicted(data, JointPrivacy(both=TOTAL)), predicted(data, JointPrivacy(record=TOTAL))
    assert right(found, y) > right(alone, y) + 0.05
    strangers = blocks(n=N, homophily=0.0, seed=1)[0]
    assert right(predicted((strangers, y, x), JointPrivacy(both=TOTAL)), y) < right(found, y) - 0.05
    assert found.counts is None
    assert set(found.round[:PANEL]) == {1}
    assert 0.4 < (found.round[PANEL:] == 1).mean() < 0.6
    assert found.strength == 1.0


def test_record_and_whole_list_cost_the_total_once(data):
    guarantee = predicted(data, JointPrivacy(both=TOTAL)).guarantee
    units = {RECORD, NEIGHBOUR_LIST, BOTH, WHOLE_LIST}
    assert set(guarantee) == {*units, RELATIONSHIP}
    assert {guarantee[unit].epsilon for unit in units} == {guarantee[BOTH].epsilon}
    assert TOTAL - 1e-6 < guarantee[BOTH].epsilon <= TOTAL
    assert guarantee[RELATIONSHIP].epsilon == pytest.approx(2 * TOTAL)  # two members of the panel read each other
    assert set(guarantee.protected) == {"features of private users", "edges"}
    # Two reports add to it bit by bit; a budget of whole lists they refuse, of which they say nothing.
    two = predicted(data, JointPrivacy.split(TOTAL, 0.5)).guarantee
    assert "one bit" in (guarantee[BOTH] + two[BOTH]).adjacency
    assert "two neighbour lists" not in (guarantee[BOTH] + two[BOTH]).adjacency
    with pytest.raises(ValueError, match="whole neighbour list"):
        Ledger([Budget(3 * TOTAL, unit=WHOLE_LIST)]).spend("one", guarantee).spend("two", two)


def test_nothing_but_the_report_leaves_a_device(data, monkeypatch):
    """The same reports from other records and other lists of everybody give the same numbers, bit for bit."""
    graph, _, x = data
    reports = np.arange(N, dtype=np.int32) % 2
    monkeypatch.setattr(PersonalAlphabets, "privatize", lambda self, key, classes: reports)
    rng = np.random.default_rng(0)
    others = np.where(np.arange(N)[:, None] < PANEL, x, rng.normal(size=x.shape))
    found, again = asked(data, x, graph), asked(data, others, graphs.from_edges([[0, PANEL]], N))
    np.testing.assert_array_equal(found.log_likelihood, again.log_likelihood)
    np.testing.assert_array_equal(found.first, again.first)


def test_the_first_half_reads_the_panel_alone_and_the_second_the_first(data, monkeypatch):
    graph, _, x = data
    best, calls = PersonalAlphabets.best, []
    monkeypatch.setattr(PersonalAlphabets, "best", lambda self, scores: calls.append(scores) or best(self, scores))
    first = asked(data, x, graph).first
    ends = np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)], 1)
    ends = ends[ends[:, 0] < ends[:, 1]]
    halves = first.astype(int) + (np.arange(N) < PANEL)  # 0: the second half, 1: the first, 2: the panel
    asked(data, x, graphs.from_edges(ends[halves[ends].max(1) == 2], N))
    np.testing.assert_array_equal(calls[0][first], calls[2][first])  # what panels read, and nothing else
    asked(data, x, graphs.from_edges(ends[halves[ends].max(1) >= 1], N))
    np.testing.assert_array_equal(calls[1][~first], calls[5][~first])
    assert (calls[1] != calls[3])[~first].any()


def test_a_check_tells_reports_of_somebody_else(data):
    """Records and lists of the check and of private users are dealt out among them."""
    graph, y, x = data
    privacy = JointPrivacy(both=TOTAL, check=0.2)
    order = np.arange(N)
    members = np.append(np.arange(PANEL)[4::5], np.arange(PANEL, N))
    order[members] = np.random.default_rng(0).permutation(members)
    ends = np.stack([np.asarray(graph.senders), np.asarray(graph.receivers)], 1)
    dealt = graphs.from_edges(np.argsort(order)[ends[ends[:, 0] < ends[:, 1]]], N)
    true, wrong = predicted(data, privacy), predicted((dealt, y, x[order]), privacy)
    assert true.strength > 0.8
    assert wrong.strength < 0.3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"record": 1.0}, "must be 0"), ({"list": 1.0}, "must be 0"), ({"labels": 1.0}, "labels None"),
        ({"both": 21.0}, "both"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_beside_it_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        JointPrivacy(**{"both": 1.0, **given})


@pytest.mark.parametrize("homophily", [-0.1, 1.0, np.nan])
def test_a_homophily_that_is_no_share_or_that_nothing_reads_is_refused(data, homophily):
    with pytest.raises(ValueError, match=r"homophily must be in \[0, 1\)"):
        predicted(data, JointPrivacy(both=1.0), homophily=homophily)
    with pytest.raises(ValueError, match="nothing else reads it"):
        predicted(data, JointPrivacy(record=1.0), homophily=homophily)
