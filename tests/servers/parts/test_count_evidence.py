"""The law of a noisy count of neighbours, and what reports say, against brute force in float64."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from ldp_jax.servers.parts import count_evidence


def log_law(reports, means, dispersion, epsilon):
    """log sum_m NB(m) Geo(r - m), summed over all m in float64."""
    m = np.arange(5000.0)  # a mean of 290 and s = 3 leave e^-50 beyond
    if math.isinf(dispersion):
        log_pmf = stats.poisson.logpmf(m, means[..., None])
    else:
        log_pmf = stats.nbinom.logpmf(m, dispersion, dispersion / (dispersion + means[..., None]))
    away = np.abs(reports[:, None] - m)
    scale = math.log(math.tanh(epsilon / 2))  # (1 - a) / (1 + a)
    return special.logsumexp(
        log_pmf[..., None, :] - epsilon * away + scale, axis=-1
    )  # [..., reports]


@pytest.mark.parametrize(
    ("dispersion", "epsilon"),
    list(zip(count_evidence.DISPERSIONS, itertools.cycle((0.3, 1.0, 4.0)))),
)
def test_the_law_of_a_report_is_the_sum_over_all_counts(dispersion, epsilon):
    reports = np.array([-40, -3, -1, 0, 1, 2, 5, 17, 60, 301, 419])
    means = np.array([1e-8, 0.004, 0.3, 1.0, 7.7, 40.0, 290.0])
    size = count_evidence.table_size(reports, means, epsilon)
    tables = count_evidence.report_tables(dispersion, means[None, :, None], epsilon, size=size)
    found = count_evidence.log_likelihoods(tables, reports[:, None], epsilon)
    exact = log_law(reports, means, dispersion, epsilon)
    np.testing.assert_allclose(found.T, exact, rtol=1e-6, atol=1e-6)


def test_groups_classes_and_rates_add_up_as_brute_force_says():
    rng = np.random.default_rng(2)
    means = rng.gamma(1.0, 4.0, (3, 2, 4)).astype(np.float32)
    reports = rng.integers(-3, 15, (20, 4))
    size = count_evidence.table_size(reports, means, 1.0)
    prior = np.full((20, 3), 1 / 3, np.float32)
    found = count_evidence.evidence(jnp.asarray(reports), jnp.asarray(means), prior, 1.0, size=size)
    marginals = []
    for s, dispersion in enumerate(count_evidence.DISPERSIONS):
        each = sum(
            log_law(reports[:, k], means[:, :, k].astype(float), dispersion, 1.0) for k in range(4)
        )
        each = np.moveaxis(each, -1, 0)  # [users, classes, rates]
        by_class = special.logsumexp(each + np.log(1 / 3), axis=1)
        best = max(
            special.logsumexp(by_class + np.log([w, 1 - w]), axis=1).mean()
            for w in np.linspace(0.001, 0.999, 999)
        )
        marginals.append(best)
        if s == int(found.dispersion):
            w = np.asarray(found.weights, np.float64)
            exact = special.logsumexp(each + np.log(w), axis=-1)
            np.testing.assert_allclose(found.log_likelihood, exact, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(
        found.marginal, marginals, atol=1e-3
    )  # EM keeps a hundredth of a user at each rate
    assert int(found.dispersion) == int(np.argmax(marginals))
    # who did not report counts for nothing
    counted = np.arange(20) < 13
    found = []
    for others in (reports, np.where(counted[:, None], reports, 14)):
        found.append(
            count_evidence.evidence(
                jnp.asarray(others), jnp.asarray(means), prior, 1.0, size=size, counted=counted
            )
        )
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    np.testing.assert_array_equal(*(each.log_likelihood[:13] for each in found))


def test_nothing_that_was_reported_is_nan_and_what_is_no_law_is_refused():
    reports = jnp.array([[2**30, -(2**30)], [0, 0]])
    tables = count_evidence.report_tables(3.0, jnp.ones((2, 3, 2)), 1.0, size=32)
    found = count_evidence.log_likelihoods(tables, reports, 1.0)
    assert not np.isnan(np.asarray(found)).any()
    with pytest.raises(ValueError, match="epsilon must be finite and > 0"):
        count_evidence.table_size(np.zeros((1, 1)), np.ones(1), 0.0)
    with pytest.raises(ValueError, match="dispersion must be > 0"):
        count_evidence.report_tables(0.0, np.ones((1, 1, 1)), 1.0, size=32)


def test_tables_reach_beyond_reports_means_and_noise_by_powers_of_four():
    for report, mean, epsilon, size in (
        (40, 20.0, 1.0, 256),
        (233, 20.0, 1.0, 1024),
        (1000, 20.0, 1.0, 1024),  # and 24 of noise
        (1001, 20.0, 1.0, 4096),
        (20, 1001.0, 1.0, 4096),
        (1000, 20.0, 0.5, 4096),
        (4000, 20.0, 0.25, 4096),
        (-9000, 5000.0, 8.0, 16384),
    ):
        found = count_evidence.table_size(np.array([[report, -3]]), np.array([1.0, mean]), epsilon)
        assert found == size
    assert count_evidence.table_size(np.zeros((0, 2)), np.zeros(0), 1.0) == 256


def test_shares_of_rates_are_those_of_em_over_reporters():
    """Sixty steps with a hundredth of a user more at each rate; of five users one is not asked."""
    likelihood = np.random.default_rng(0).normal(0.0, 2.0, (5, 3))
    counted = jnp.array([1.0, 1.0, 0.0, 1.0, 1.0])
    weights = np.full(3, 1 / 3)
    for _ in range(60):
        each = np.exp(likelihood) * weights
        share = each / each.sum(1, keepdims=True)
        weights = (counted @ share + 0.01) / 4.03
    found, marginal = count_evidence.rate_weights(jnp.asarray(likelihood, jnp.float32), counted)
    np.testing.assert_allclose(found, weights, rtol=1e-4)
    expected = counted @ np.log(np.exp(likelihood) @ weights) / 4
    assert float(marginal) == pytest.approx(float(expected), rel=1e-5)
    nobody, _ = count_evidence.rate_weights(jnp.asarray(likelihood, jnp.float32), 0 * counted)
    np.testing.assert_allclose(nobody, 0.01 / 1.03, rtol=1e-5)
