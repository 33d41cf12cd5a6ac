"""The evidence of a reported class, against loops in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.servers.parts.confusion import (
    SMOOTHINGS,
    ClassReports,
    ScoredPanel,
    likeliest_evidence,
)


def test_evidence_is_the_sum_over_what_the_device_may_have_chosen():
    rng = np.random.default_rng(0)
    n = 30
    panel = 25
    classes = 4
    nodes = np.sort(rng.choice(n, panel, replace=False))
    scores = rng.normal(0, 1, (panel, classes)).astype(np.float32)
    labels = rng.integers(0, 3, panel)  # of the last class the panel has nobody
    inside = rng.random((n, classes)) < 0.5
    inside[np.arange(n), rng.integers(0, classes, n)] = True
    law = rng.random((n, classes)).astype(np.float32)
    given = (
        ClassReports(jnp.log(law), inside),
        ScoredPanel(scores, labels),
        nodes,
        np.ones((n, classes)),
        np.ones(n, bool),
    )
    found = np.asarray(likeliest_evidence(*given, smoothings=(1.0,))[0])
    for i in range(n):
        chosen = np.flatnonzero(inside[i])
        for y in range(classes):
            counts = {c: 0.0 for c in chosen}
            others = np.flatnonzero(
                (labels == y) & (nodes != i)
            )  # a member's own label is not counted
            for j in others:
                counts[chosen[scores[j, chosen].argmax()]] += 1
            for c in chosen:
                counts[c] += 0.5 / len(chosen) + 0.5 * (
                    float(c == y) if inside[i, y] else 1 / len(chosen)
                )
            total = sum(counts.values())
            assert abs(total - len(others) - 1) < 1e-9
            expected = np.log(sum(counts[c] / total * law[i, c] for c in chosen))
            assert abs(found[i, y] - expected) < 1e-5


@pytest.mark.parametrize("keep", [1.0, 0.7])
def test_a_member_of_the_panel_is_read_as_if_it_were_not_of_the_panel(keep):
    """Exactly where labels are true. Where they are reports EM finds a little else without one."""
    rng = np.random.default_rng(3)
    n = 24
    inside = rng.random((n, 3)) < 0.7
    inside[:, 1] = True
    reports = ClassReports(np.log(rng.dirichlet(np.ones(3), n).astype(np.float32)), inside)
    scores = rng.normal(0, 1, (n, 3)).astype(np.float32)
    labels = rng.integers(0, 3, n)
    q = np.full((n, 3), 1 / 3, np.float32)

    def found(nodes):
        panel = ScoredPanel(scores[nodes], labels[nodes], keep)
        return np.asarray(
            likeliest_evidence(reports, panel, nodes, q, np.ones(n, bool), smoothings=(2.0,))[0]
        )

    every = found(np.arange(n))
    for i in range(n):
        due = found(np.flatnonzero(np.arange(n) != i))[i]
        np.testing.assert_allclose(every[i], due, atol=1e-5 if keep == 1.0 else 0.13)


@pytest.mark.parametrize("seed", range(4))
def test_evidence_of_others_is_that_without_the_reports_of_those_who_do_not_count(seed):
    """Drawn reports, alphabets, panels and channels: a user's evidence is of the own report alone.

    The smoothing is the same whatever those report who do not count, and another by the others'
    reports.
    """
    rng = np.random.default_rng(seed)
    n = 40
    classes = 4
    keep = (1.0, 0.8)[seed % 2]
    inside = rng.random((n, classes)) < 0.6
    inside[np.arange(n), rng.integers(0, classes, n)] = True
    counted = rng.random(n) < 0.5
    scores = rng.normal(0, 1, (12, classes)).astype(np.float32)
    panel = ScoredPanel(scores, rng.integers(0, classes, 12), keep)
    q = rng.dirichlet(np.ones(classes), n).astype(np.float32)

    def found(law):
        return likeliest_evidence(
            ClassReports(np.log(law), inside), panel, np.arange(12), q, counted
        )

    law = rng.dirichlet(np.ones(classes), n).astype(np.float32)
    evidence, smoothing = found(law)
    chosen = set()
    for _ in range(6):
        other = rng.dirichlet(np.full(classes, 0.05), n).astype(np.float32) + np.float32(1e-6)
        again, same = found(np.where(counted[:, None], law, other))
        assert same == smoothing
        np.testing.assert_array_equal(np.asarray(again)[counted], np.asarray(evidence)[counted])
        assert np.abs(np.asarray(again) - np.asarray(evidence))[~counted].max() > 0.1
        chosen.add(found(np.where(counted[:, None], other, law))[1])
    assert chosen != {smoothing}


def test_a_small_panel_that_is_too_sure_is_smoothed_until_the_reports_are_likely():
    """Of 4000 users 6 in 10 choose right; of a panel of 6 by chance all, of one of 2000 as many as
    of the users.
    """
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.ones(3), 4000).astype(np.float32)
    y = (q.cumsum(1) > rng.random((4000, 1))).argmax(1)
    said = np.where(rng.random(4000) < 0.4, y, rng.integers(0, 3, 4000))
    law = jnp.log(jnp.where(jnp.arange(3) == said[:, None], 0.98, 0.01))

    def found(scores, labels):
        reports = ClassReports(law, np.ones((4000, 3), bool))
        nodes = np.arange(len(labels))
        counted = np.arange(4000) >= len(labels)
        return likeliest_evidence(reports, ScoredPanel(scores, labels), nodes, q, counted)

    labels = np.arange(6) % 3
    _, smoothing = found(np.eye(3, dtype=np.float32)[labels], labels)
    assert smoothing > 1.0
    assert smoothing in SMOOTHINGS
    labels = rng.integers(0, 3, 2000)
    shown = np.where(rng.random(2000) < 0.4, labels, rng.integers(0, 3, 2000))
    right, _ = found(np.eye(3, dtype=np.float32)[shown], labels)
    channel = np.log(0.97 * (0.4 * np.eye(3) + 0.2) + 0.01)
    np.testing.assert_allclose(
        right, channel[:, said].T, atol=0.2
    )  # each of its 9 rates to about 0.02


@pytest.mark.parametrize("keep", [1.0, 0.8])
def test_a_report_beyond_float32_is_evidence_of_no_class_and_changes_no_other(keep):
    """Likelihoods of e^-200 are 0 in float32, whose logarithm is no number to add."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(3), 20).astype(np.float32)
    panel = ScoredPanel(rng.normal(0, 1, (12, 3)).astype(np.float32), np.arange(12) % 3, keep)
    lost = np.arange(20) == 4
    inside = np.ones((20, 3), bool)

    def found(log_likelihood, counted):
        q = np.full((20, 3), 1 / 3, np.float32)
        return likeliest_evidence(
            ClassReports(log_likelihood, inside), panel, np.arange(12), q, counted
        )

    evidence, smoothing = found(np.where(lost[:, None], np.float32(-200.0), np.log(law)), ~lost)
    due, same = found(np.log(law), ~lost)
    assert smoothing == same
    np.testing.assert_array_equal(np.asarray(evidence)[~lost], np.asarray(due)[~lost])
    (of_lost,) = np.asarray(evidence)[lost]
    assert np.isfinite(of_lost).all()
    assert np.ptp(of_lost) == 0.0
