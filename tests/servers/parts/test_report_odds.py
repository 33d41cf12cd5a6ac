"""Whether reports are read: by what the panel's records add, and by what reports agree with."""

import jax
import numpy as np
import pytest
from scipy.special import log_softmax

from ldp_jax.core.label_channel import other_share
from ldp_jax.graph import graphs
from ldp_jax.servers import ReportServer, Users, panel_facts, simulate
from ldp_jax.servers.parts.confusion import ScoredPanel
from ldp_jax.servers.parts.report_odds import added_by_records, agreement, belief
from ldp_jax.servers.parts.rows import feature_rows

N, PANEL = 600, 40
Y = np.arange(N) % 2
SAID = np.log([[0.8, 0.2], [0.2, 0.8]])
EVEN = np.full((N, 2), np.log(0.5))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_records_are_read_on_a_graph_that_says_nothing(epsilon):
    """Half of the users are right by structure, and four fifths and more by reports."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, N, (2, 4 * N))
    graph = graphs.from_edges(np.unique(np.sort(ends.T[ends[0] != ends[1]], 1), axis=0), N)
    rows = feature_rows(np.eye(2, 10)[Y] + 0.2 * rng.normal(size=(N, 10)))
    labels = np.where(np.arange(N) < PANEL, Y, -1)
    shown = rows.take(np.arange(PANEL))
    facts = panel_facts(jax.random.key(0), graph, shown, labels, num_classes=2, num_folds=4)
    server = ReportServer(facts, epsilon)
    found = simulate(jax.random.key(1), server, Users(records=rows)).value
    right = lambda log_p: (np.asarray(log_p).argmax(1) == Y)[PANEL:].mean()
    assert right(facts.structure.log_q) < 0.6
    assert (found.used, found.strength > 0.9) == ("reports", True)
    assert right(found.log_posterior) > {1.0: 0.65, 4.0: 0.9}[epsilon]


def test_what_the_panel_has_no_use_for_is_left_out():
    """Records that structure says already, and records that say nothing, and both of each."""
    labels = Y[:PANEL]
    told, nothing = SAID[labels], EVEN[:PANEL]
    added = {
        "more": added_by_records(nothing, ScoredPanel(told, labels)),
        "the same": added_by_records(log_softmax(4.0 * told, axis=1), ScoredPanel(told, labels)),
        "nothing": added_by_records(told, ScoredPanel(nothing, labels)),
        "wrong": added_by_records(nothing, ScoredPanel(told[::-1], labels)),
    }
    assert added["more"] > 10 > 2 > added["the same"]
    assert added["nothing"] == pytest.approx(0.0, abs=1e-9)
    assert added["wrong"] < -1


def test_where_the_panel_is_rare_in_one_class_that_counts_once():
    """Scores that say the shares of classes alone add nothing to structure that says them.

    Nobody in the panel is of the last class.
    """
    labels = (np.arange(PANEL) % 10 == 0).astype(int)
    shares = np.tile(np.log([37 / 43, 5 / 43, 1 / 43]), (PANEL, 1))
    assert added_by_records(shares, ScoredPanel(shares, labels)) == pytest.approx(0.0, abs=1e-9)


def test_reports_that_have_nothing_to_do_with_their_users_are_seldom_believed():
    """By Markov's inequality odds of e^3 come up in at most e^-3 of all draws.

    Powers of structure by the panel alone are as likely as its labels make them. Of 400 draws 48
    are far above the 20 that are allowed (p = 1e-8).
    """
    rng = np.random.default_rng(1)
    believed = 0
    for _ in range(400):
        sharpness = rng.uniform(0.0, 3.0)
        log_q = log_softmax(sharpness * rng.normal(size=(N, 2)), axis=1)
        y = (rng.random(N) < np.exp(log_q[:, 1])).astype(int)
        panel = ScoredPanel(SAID[y[:PANEL]], y[:PANEL])
        unrelated = SAID[rng.integers(0, 2, N - PANEL)]
        believed += agreement(2.0 * np.exp(unrelated), log_q[PANEL:], log_q[:PANEL], panel) > 3.0
    assert believed < 48


def test_structure_that_labels_refute_refutes_no_report():
    """It is sure, and wrong of half of the panel: reports against it are read nevertheless."""
    labels = Y[:PANEL]
    sure = log_softmax(3.0 * SAID[np.arange(N) // 2 % 2], axis=1)
    panel = ScoredPanel(SAID[labels], labels)
    counted = np.arange(N) >= PANEL
    assert belief(SAID[Y], sure, counted, panel, np.arange(PANEL)) > 0.8
    told = log_softmax(3.0 * SAID[Y], axis=1)  # bad twin: structure is right, reports are of others
    shuffled = SAID[np.random.default_rng(2).permutation(Y)]
    assert agreement(2.0 * np.exp(shuffled[PANEL:]), told[PANEL:], told[:PANEL], panel) < -20
    assert belief(SAID[Y], sure, np.zeros(N, bool), panel, np.arange(PANEL)) == 0.0
    hushed = 1e-3 * SAID[Y]
    assert belief(hushed, sure, counted, panel, np.arange(PANEL)) == 0.0


def test_labels_that_are_reports_say_less():
    """Their likelihood is that of the channel: against a loop over weights."""
    keep = 0.7
    rng = np.random.default_rng(3)
    labels = np.where(rng.random(PANEL) < keep, Y[:PANEL], 1 - Y[:PANEL])
    told = ScoredPanel(SAID[Y[:PANEL]], labels, keep)
    less = added_by_records(EVEN[:PANEL], told)
    other = other_share(keep, 2)
    share = (np.bincount(labels) + 1.0) / (PANEL + 2)
    likelihood = []
    weights = []
    for sharpness in 2.0 ** np.arange(-1.0, 2.5, 0.5):
        for trust in (0.1, 0.25, 0.5, 1.0):
            scores = sharpness * EVEN[:PANEL] + trust * (told.scores - np.log(share))
            p = np.exp(log_softmax(scores, axis=1))[np.arange(PANEL), labels]
            likelihood.append(np.prod(other + (keep - other) * p))
            weights.append(np.exp(-0.5 * (np.log(sharpness) / 0.7) ** 2))
    expected = np.log(np.average(likelihood, weights=weights)) - PANEL * np.log(0.5)
    assert less == pytest.approx(expected, rel=1e-6)
    assert less < added_by_records(EVEN[:PANEL], told._replace(labels=Y[:PANEL], keep=1.0))


def test_belief_is_bayes_rule_over_four_explanations_of_unlike_users():
    """By loops over users and powers of structure; three classes, reported labels, odd numbers."""
    rng = np.random.default_rng(4)
    y = rng.choice(3, 60, p=[0.5, 0.3, 0.2])
    log_q = log_softmax(rng.normal(size=(60, 3)) + 0.5 * np.eye(3)[y], axis=1)
    evidence = rng.normal(size=(60, 3)) + np.eye(3)[y]
    nodes, keep = np.arange(1, 40, 3), 0.8
    counted = (np.arange(60) % 3 != 1) & (np.arange(60) > 5)
    labels = np.where(rng.random(13) < keep, y[nodes], (y[nodes] + 1) % 3)
    panel = ScoredPanel(log_softmax(rng.normal(size=(13, 3)) + np.eye(3)[y[nodes]]), labels, keep)
    share = np.exp(log_q[counted]).mean(0)
    law = np.exp(evidence[counted])
    ratios = law / (law @ share)[:, None]

    def sharpened(log_q, power):
        q = np.exp(power * log_q) * share ** max(1 - power, 0)
        return q / q.sum(1, keepdims=True)

    given, both = 0.0, 0.0
    for power in (0.0, 0.25, 0.5, 1.0, 2.0):
        p = sharpened(log_q[nodes], power)[np.arange(13), labels]
        likely = np.prod(0.1 + 0.7 * p) * (1 / 8 if power else 1 / 2)
        given += likely
        both += likely * np.prod((sharpened(log_q[counted], power) * ratios).sum(1))
    agree = agreement(ratios, log_q[counted], log_q[nodes], panel)
    assert agree == pytest.approx(np.log(both / given), rel=1e-9)
    added = added_by_records(log_q[nodes], panel)
    use, nothing, others, repeated = np.exp([added + agree, 2.0, added - 3.0, agree + 1.0])
    found = belief(evidence, log_q, counted, panel, nodes)
    assert found == pytest.approx(use / (use + nothing + others + repeated), rel=1e-9)
    assert 0.1 < found < 0.9


def test_reports_are_read_from_one_nat_together():
    """Their information is that of the mean class over what is said, as in a channel."""
    panel = ScoredPanel(SAID[Y[:PANEL]], Y[:PANEL])
    for sure, read in ((0.029, False), (0.031, True)):
        q = 0.5 + sure * np.where(np.arange(2) == Y[:, None], 1.0, -1.0)
        nats = (N - PANEL) * (q[0] * np.log(2 * q[0])).sum()
        assert (nats > 1.0) == read
        found = belief(np.log(q), EVEN, np.arange(N) >= PANEL, panel, np.arange(PANEL))
        assert (found > 0.0) == read
