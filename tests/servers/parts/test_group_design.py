"""Who reports first, what a planted block model teaches of it, and by which groups the others
count.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from ldp_jax import edges
from ldp_jax.servers.parts.group_design import (
    CountModel,
    GroupShares,
    PilotReports,
    _reports,
    design,
    expected_counts,
    group_shares,
    pilot,
    unseen_evidence,
)
from ldp_jax.servers.parts.groups import MERGES


def test_half_of_every_class_and_enough_others_are_asked():
    labels = np.array([0] * 10 + [1] * 7 + [-1] * 983)
    chosen = pilot(jax.random.key(0), labels)
    assert chosen[:10].sum() == 5
    assert chosen[10:17].sum() == 4
    assert chosen.sum() == 80
    assert not np.array_equal(chosen, pilot(jax.random.key(1), labels))
    labels = np.array([0] * 10 + [1] * 6 + [-1] * 84)
    silent = (np.arange(100) % 2 == 0) & (labels >= 0)
    chosen = pilot(jax.random.key(0), labels, silent)
    assert not chosen[silent].any()
    assert (chosen[:10].sum(), chosen[10:16].sum(), chosen.sum()) == (
        3,
        2,
        8,
    )  # half of the five, of the three


def test_at_most_a_quarter_of_the_unlabelled_are_asked_and_none_where_labels_are_many():
    assert pilot(jax.random.key(0), np.full(100, -1)).sum() == 8
    assert pilot(jax.random.key(0), np.full(100, -1), share=1.0).sum() == 25
    labels = np.where(np.arange(100) < 50, np.arange(100) % 2, -1)
    assert pilot(jax.random.key(0), labels)[50:].sum() == 0
    with pytest.raises(ValueError, match="share must be in"):
        pilot(jax.random.key(0), np.zeros(3, int), share=1.5)


def test_rates_go_from_an_eighth_of_the_mean_degree_to_eight_times_it_in_equal_steps():
    """Whatever the class, whose own degree the reports will say."""
    shares = np.random.default_rng(0).dirichlet(np.ones(6), 3)
    found = expected_counts(GroupShares(shares, np.array([1.0, 4.0, 40.0]), 0.5))
    rates = 15.0 * 8 ** np.linspace(-1, 1, 10)
    np.testing.assert_allclose(found, rates[:, None] * shares[:, None], rtol=1e-6)


def regressed(who, y, towards, deviation, variance):
    """By least squares: a row for each reporter, and one for the prior of each coefficient."""
    root = np.maximum(1 / deviation, np.sqrt(1e-5 * (who**2).sum() / variance))
    rows = np.vstack([who / variance**0.5, np.diag(root)])
    return np.linalg.lstsq(rows, np.append(y / variance**0.5, towards * root), rcond=None)[0]


@pytest.mark.parametrize("case", ["many", "few friends", "negative", "alike", "another order"])
def test_shares_are_two_regressions_towards_a_homophilous_prior(case):
    """Of 3 classes and 4 groups, by users some of whom are in no group or did not report."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    prior = rng.dirichlet(np.ones(3), 90) * 0.5 + 0.5 * np.eye(3)[y]
    groups = np.where(np.arange(90) % 9 == 0, -1, (y + (rng.random(90) < 0.3)) % 4)
    reported = rng.random(90) < 0.7
    means = np.array([[7.0, 1.0, 2.0, 0.5], [1.0, 4.0, 1.0, 1.0], [2.0, 3.0, 9.0, 1.0]])
    reports = rng.poisson(means[y]) + rng.integers(-2, 3, (90, 4))
    if case == "few friends":
        reports = rng.integers(-1, 2, (90, 4))
    if case == "negative":
        reports[:, 3] -= 3
    if case == "alike":
        prior[:] = [0.5, 0.25, 0.25]
    if case == "another order":
        reports = reports[:, ::-1]
    found = group_shares(reports, groups, prior, reported, 0.7)
    who, counts = prior[reported], reports[reported].astype(float)
    noise = edges.NeighbourCounts(0.7, num_groups=4).noise_variance()
    degrees = counts.sum(1)
    mean = max(degrees.mean(), 0.1)
    variance = np.mean((degrees - mean) ** 2) + 4 * noise
    given = np.full(3, mean), np.full(3, mean / 2), variance
    degree = np.maximum(regressed(who, degrees, *given), mean / 20)
    size = np.array([np.mean(groups == g) for g in range(4)])
    own = np.array([prior[groups == g].sum(0) for g in range(4)]).T + 1e-3 * size
    own /= own.sum(1, keepdims=True)
    anybody = np.maximum(counts.mean(0), 0) + 1e-3 * mean * size
    anybody /= anybody.sum()
    slope = who @ (degree[:, None] * (own - anybody))
    rest = counts - np.outer(who @ degree, anybody)
    weight = 1 / (np.mean(rest**2, axis=0) + noise)
    h = np.clip((weight * slope * rest).sum() / (weight * slope**2).sum(), 0, 1)
    np.testing.assert_allclose(found.homophily, h, rtol=1e-9)
    np.testing.assert_allclose(found.degree, degree, rtol=1e-9)
    first = h * own + (1 - h) * anybody
    shares = np.zeros((3, 4))
    for g in range(4):
        towards, deviation = degree * first[:, g], degree * (0.4 * first[:, g] + 0.003)
        left = np.mean((rest - h * slope)[:, g] ** 2) + noise / 2
        shares[:, g] = regressed(who, counts[:, g], towards, deviation, left) / degree
    shares = np.maximum(shares, 0.05 * first + 1e-6)
    expected = shares / shares.sum(1, keepdims=True)
    np.testing.assert_allclose(found.shares, expected, rtol=1e-7)


@pytest.mark.parametrize("friends", [12.0, 60.0])
def test_a_class_without_friends_has_a_twentieth_of_the_mean(friends):
    """Its counts are below 0, by noise; those of the other class have the mean of their reports."""
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 2
    reports = np.where(y[:, None] == 0, rng.poisson(friends / 6, (2000, 6)), -1)
    model = group_shares(reports, np.arange(2000) % 6, np.eye(2)[y], np.ones(2000, bool), 1.0)
    mean = max(reports.sum() / 2000, 0.1)
    assert model.degree[0] == pytest.approx(reports[y == 0].sum() / 1000, rel=0.1)
    assert model.degree[1] == pytest.approx(0.05 * mean)


def test_any_reports_give_shares():
    for value, reported in itertools.product(
        (0, 2**30, -(2**30)), (np.zeros(6, bool), np.ones(6, bool))
    ):
        model = group_shares(
            jnp.full((6, 6), value), jnp.arange(6), jnp.full((6, 2), 0.5), reported, 1.0
        )
        assert np.isfinite(np.asarray(model.shares)).all()
        np.testing.assert_allclose(model.shares.sum(1), 1.0, rtol=1e-4)


SIZE = 256


def planned(epsilon, shares, degree=20.0, q=None):
    model = GroupShares(np.asarray(shares), np.full(2, degree), 0.5)
    log_q = jnp.log(jnp.tile(jnp.array([[0.5, 0.5]] if q is None else q), (50, 1)))
    counts = CountModel(expected_counts(model), jnp.full(10, 0.1), math.inf)
    return design(jax.random.key(0), log_q, counts, epsilon, size=SIZE)


ALIKE = [[0.4, 0.1, 0.2, 0.05, 0.15, 0.1], [0.1, 0.4, 0.05, 0.2, 0.1, 0.15]]
"""Tiers that all say something, the less the later."""

CROSSED = [[0.3, 0.0, 0.0, 0.3, 0.2, 0.2], [0.0, 0.3, 0.3, 0.0, 0.2, 0.2]]
"""What the confident are predicted to be is the other class: added to the labelled, nothing is
left.
"""


def test_many_groups_where_noise_is_small_and_few_where_it_is_large():
    finest = "labelled | confident | rest"
    sharp = planned(8.0, ALIKE)
    blurred = planned(0.25, ALIKE)
    assert sharp.gain[finest] >= max(sharp.gain.values()) - 2e-3
    assert blurred.gain[blurred.best] > blurred.gain[finest]
    assert "+" in blurred.best or blurred.best == "labelled"
    assert min(sharp.gain.values()) > max(blurred.gain.values())


def test_groups_that_contradict_each_other_are_kept_apart():
    found = planned(1.0, CROSSED)
    assert found.gain["labelled | confident"] > found.gain["labelled + confident"] + 0.05
    assert "labelled |" in found.best


def test_the_forecast_is_what_happens():
    """A label that is certain gains nothing; one that q leaves open at most log 2."""
    certain = planned(1.0, ALIKE, q=[[1.0 - 1e-6, 1e-6]])
    assert abs(certain.gain[certain.best]) < 1e-3
    assert certain.accuracy_without > 0.999
    found = planned(8.0, ALIKE, degree=60.0)
    assert 0.5 * math.log(2) < found.gain[found.best] <= math.log(2) + 1e-3
    assert 0.45 < found.accuracy_without < 0.55
    assert found.accuracy[found.best] > 0.9
    assert set(found.gain) == set(found.accuracy) == set(MERGES)


def test_shares_that_say_nothing_gain_nothing_and_an_epsilon_that_is_none_is_refused():
    found = planned(1.0, [[1 / 6] * 6] * 2)
    np.testing.assert_allclose(list(found.gain.values()), 0.0, atol=1e-5)
    with pytest.raises(ValueError, match="epsilon must be finite and > 0"):
        planned(-1.0, ALIKE)


def test_a_share_of_the_users_is_rounded_to_the_nearest_number():
    """The pilot never has more than a quarter of the unlabelled users."""
    for n, share in ((97, 0.08), (93, 0.08), (107, 0.1), (45, 0.1), (55, 0.1), (101, 0.055)):
        assert pilot(jax.random.key(0), np.full(n, -1), share=share).sum() == round(share * n)
        assert pilot(jax.random.key(0), np.full(n, -1), share=1.0).sum() == int(0.25 * n)


def test_evidence_of_a_labelled_user_has_not_seen_the_label():
    """Another label of one member changes what is found of others, and nothing of their own."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 80)
    reports = rng.poisson(2.0 + 4.0 * np.eye(2)[y])
    labels = np.where(np.arange(80) < 40, y, -1)
    weights = CountModel(np.zeros(0), np.full(10, 0.1), math.inf)
    fold = np.arange(80) // 2 % 10

    def found(labels):
        prior = np.where((labels >= 0)[:, None], np.eye(2)[labels], 0.5)
        given = PilotReports(reports, np.ones(80, bool), y, prior, labels, fold)
        return unseen_evidence(given, np.full((80, 2), 7.0), weights, 2.0, size=1024)

    before, after = found(labels), found(np.where(np.arange(80) == 3, 1 - labels, labels))
    np.testing.assert_array_equal(before[3], after[3])
    of_part = (fold % 5 == fold[3] % 5) & (labels >= 0)
    np.testing.assert_array_equal(before[of_part], after[of_part])
    others = (labels >= 0) & ~of_part
    assert (np.abs(before[others] - after[others]) > 1e-4).all()
    np.testing.assert_array_equal(before[labels < 0], 7.0)
    # Half of the labelled would do for a coin; the reports tell nearly everybody.
    assert (before[:40].argmax(1) == y[:40]).mean() > 0.8


def test_unseen_evidence_is_the_mixture_over_rates_of_the_law_of_each_count():
    """Of one part in five, by the shares of all other reports; sums over counts in float64."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 40)
    reports = rng.poisson(2.0 + 4.0 * np.eye(2)[y])
    labels = np.where(np.arange(40) < 30, y, -1)
    reported = np.arange(40) % 7 > 0
    prior = np.where((labels >= 0)[:, None], np.eye(2)[labels], 0.5)
    fold = rng.integers(0, 10, 40)
    weights = rng.dirichlet(np.ones(10))
    model = CountModel(np.zeros(0), weights, 10.0)
    given = PilotReports(reports, reported, y, prior, labels, fold)
    found = unseen_evidence(given, np.zeros((40, 2)), model, 1.5, size=1024)
    asked = reported & (labels >= 0)
    assert not found[~asked].any()
    counts = np.arange(1000.0)
    for user in np.flatnonzero(asked):
        part = asked & (fold % 5 == fold[user] % 5)
        hidden = np.where(part[:, None], 0.0, prior)
        shares = group_shares(reports, y, hidden, reported & ~part, 1.5)
        mean = expected_counts(shares)[..., None].astype(float)
        law = stats.nbinom.logpmf(counts, 10.0, 10.0 / (10.0 + mean))
        noise = math.log(math.tanh(0.75)) - 1.5 * np.abs(reports[user][:, None] - counts)
        each = special.logsumexp(law + noise, axis=-1).sum(-1)
        expected = special.logsumexp(each + np.log(weights), axis=-1)
        np.testing.assert_allclose(found[user], expected, rtol=1e-5)


@pytest.mark.parametrize("dispersion", [math.inf, 4.0])
def test_simulated_reports_are_quantiles_of_rates_counts_and_two_sided_noise(dispersion):
    rng = np.random.default_rng(0)
    u, y = rng.random((50, 1 + 4 + 2 * 4)), rng.integers(0, 3, 50)
    means, weights = rng.gamma(2.0, 3.0, (3, 5, 4)), rng.dirichlet(np.ones(5))
    model, column = CountModel(means, weights, dispersion), np.array([1, 0, -1, 1])
    rate = np.searchsorted(weights.cumsum(), u[:, 0])
    mean = means[y, rate]
    law = stats.poisson(mean)
    if dispersion < math.inf:
        law = stats.nbinom(dispersion, dispersion / (dispersion + mean))
    counts = law.ppf(u[:, 1:5])
    sides = stats.geom(-math.expm1(-0.7), loc=-1).ppf(u[:, 5:])
    noise = sides[:, :4] - sides[:, 4:]
    groups = np.stack([counts[:, 1], counts[:, 0] + counts[:, 3]], 1) + noise[:, :2]
    expected = np.pad(groups, ((0, 0), (0, 2)))  # of two groups none is counted
    np.testing.assert_array_equal(_reports(u, y, model, 0.7)(column), expected)


def test_users_that_are_not_asked_are_not_simulated():
    """Users of one class are asked, whose class is known; those of the other are not."""
    model = GroupShares(np.asarray(ALIKE), np.full(2, 20.0), 0.5)
    counts = CountModel(expected_counts(model), np.full(10, 0.1), math.inf)
    log_q = np.log(np.where(np.arange(40)[:, None] < 10, [[0.999, 0.001]], [[0.5, 0.5]]))
    given = {"size": SIZE, "users": 256}
    known = design(jax.random.key(0), log_q, counts, 1.0, asked=np.arange(40) < 10, **given)
    open_ = design(jax.random.key(0), log_q, counts, 1.0, asked=np.arange(40) >= 10, **given)
    assert known.accuracy_without > 0.97
    assert open_.accuracy_without < 0.65
