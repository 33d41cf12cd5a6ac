"""The guard believes what public posteriors foretell, and nothing else."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from ldp_jax.servers.parts.guard import checked, guard, likelihood_ratios, strength


def users(n=4000, classes=3, seed=0):
    """Public posteriors, classes by them, and reports of accuracy .6 as log-likelihoods."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), n).astype(np.float32)
    y = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    said = np.where(rng.random(n) < 0.6, y, rng.integers(0, classes, n))
    channel = np.log(0.6 * np.eye(classes) + 0.4 / classes)
    return p, y, channel[:, said].T.astype(np.float32), rng


def test_true_reports_are_believed_and_shuffled_ones_are_not():
    p, _, log_likelihood, rng = users()
    true = guard(jnp.asarray(log_likelihood), jnp.asarray(p))
    shuffled = guard(jnp.asarray(rng.permutation(log_likelihood)), jnp.asarray(p))
    assert float(true.strength) > 0.9
    assert not bool(true.by_labels)
    assert float(shuffled.strength) == 0.0
    assert np.all(np.asarray(shuffled.log_likelihood) == 0.0)


def test_features_that_cannot_tell_may_still_object_to_few_labels():
    """30 of 40 labels bear the reports out; the features of 360 others lean to them, or from
    them.
    """
    said = np.arange(400) % 2
    labels = np.where(np.arange(400) < 30, said, np.where(np.arange(400) < 40, 1 - said, -1))
    log_likelihood = jnp.log(jnp.where(said[:, None] == jnp.arange(2), 0.7, 0.3))
    for lean, believed in ((0.05, 1.0), (-0.05, 0.0)):
        p = 0.5 + np.where(said[:, None] == np.arange(2), lean, -lean)
        found = guard(log_likelihood, jnp.asarray(p), labels < 0, labels)
        assert (bool(found.by_labels), float(found.strength)) == (True, believed)


def test_a_mixture_is_believed_by_its_share_and_the_evidence_is_that_of_the_mixture():
    p, _, log_likelihood, rng = users(20_000)
    wrong = rng.random(len(p)) < 0.5
    log_likelihood[wrong] = rng.permutation(log_likelihood[wrong])
    found = guard(jnp.asarray(log_likelihood), jnp.asarray(p))
    assert 0.35 < float(found.strength) < 0.65  # its standard error is about 0.03
    ratio = np.asarray(likelihood_ratios(jnp.asarray(log_likelihood), jnp.asarray(p.mean(0))))
    np.testing.assert_allclose(
        found.log_likelihood, np.log(1 + float(found.strength) * (ratio - 1)), atol=1e-5
    )
    np.testing.assert_allclose((ratio * p.mean(0)).sum(1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("shift", [0.0, 0.1, 0.3, 2.0])
def test_strength_maximises_the_likelihood(shift):
    t = np.maximum(np.random.default_rng(1).normal(shift, 1.0, 500), -0.95)
    best = minimize_scalar(
        lambda s: -np.log1p(s * t).sum(), bounds=(0, 1), method="bounded", options={"xatol": 1e-7}
    ).x
    seen = t.sum() > 2 * np.sqrt((t**2).sum())
    np.testing.assert_allclose(
        strength(jnp.asarray(t, jnp.float32)), best if seen else 0.0, atol=1e-3
    )


def test_evidence_is_weakened_though_nobody_is_counted():
    """By labels alone: a share of 0.58 of the evidence is believed, whoever it is of."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    said = np.where(rng.random(400) < 0.75, y, 1 - y)
    evidence = np.log(np.where(said[:, None] == np.arange(2), 0.9, 0.1))
    labels = np.where(np.arange(400) < 200, y, -1)
    even = np.full((400, 2), 0.5)
    found = [
        guard(evidence, even, counted, labels)
        for counted in (np.ones(400, bool), np.zeros(400, bool))
    ]
    assert 0 < found[0].strength < 1
    for one in found:
        assert np.ptp(one.log_likelihood, axis=1).max() < 0.7 * np.log(9)


@pytest.mark.parametrize("told", [0.7, 0.5, 0.3])
def test_strength_by_labels_is_its_posterior_mean(told):
    """0 with probability 1/2, else uniform: by quadrature; private classes are not equally common.

    A report of the other class has the ratio 0: at s = 1 it is impossible.
    """
    rng = np.random.default_rng(2)
    share = np.array([0.5, 0.3, 0.2])
    labels = np.where(np.arange(60) < 25, rng.integers(0, 3, 60), -1)
    said = np.where(rng.random(60) < told, np.maximum(labels, 0), rng.integers(0, 3, 60))
    law = rng.dirichlet(np.ones(3), 3)[:, said].T
    law[0] = np.eye(3)[(labels[0] + 1) % 3]
    found = checked(np.log(np.maximum(law, 1e-300)), share, labels)
    ratio = law / (law @ share)[:, None]
    t = ratio[np.arange(25), labels[:25]] - 1.0
    s = np.linspace(0, 1, 20_001)[:-1]
    likelihood = np.prod(1 + s[:, None] * t, axis=1)
    mean = (s * likelihood).mean() / (likelihood.mean() + 1.0)
    assert (found.strength, found.by_labels) == (pytest.approx(mean, abs=3e-3), True)
    expected = np.log(np.maximum(1 + found.strength * (ratio - 1), 1e-20))
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=1e-4, atol=1e-5)


def test_labels_are_asked_below_three_and_their_classes_are_as_common_as_among_them():
    """The strength is the likeliest one of t by labels, whose classes are of shares 3/4 and 1/4."""
    own = np.repeat([0, 1], [90, 30])
    said = np.where(np.arange(120) % 4 == 3, 1 - own, own)
    evidence = np.log(np.where(said[:, None] == np.arange(2), 0.8, 0.2))
    evidence = np.concatenate([evidence, np.zeros((10, 2))])
    labels = np.append(own, np.full(10, -1))
    even = np.full((130, 2), 0.5)
    found = guard(evidence, even, labels < 0, labels)
    t = np.where(said == own, 0.8, 0.2) / np.where(said == 0, 0.65, 0.35) - 1.0
    assert found.strength == pytest.approx(strength(t), rel=1e-6)
    assert 0.1 < found.strength < 1.0
    for lean, asked in ((0.27, True), (0.28, False)):  # a hundred t of 4 lean^2 each
        p = np.where(np.arange(100)[:, None] % 2 == np.arange(2), 0.5 + lean, 0.5 - lean)
        reports = np.concatenate([np.log(p), evidence[:120]])
        posterior = np.concatenate([p, even[:120]])
        counted = np.arange(220) < 100
        labels = np.append(np.full(100, -1), own)
        assert guard(reports, posterior, counted, labels).by_labels == asked
