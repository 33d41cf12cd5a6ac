"""Blink's posterior: against the n x n computation, its prior against the degrees, and the whole in
one call.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logit

from ldp_jax import edges
from ldp_jax.edges.blink import VARIANTS, _kept
from ldp_jax.graph import graphs
from tests import stats
from tests.edges.small import dense

N, EPSILON = 40, 1.2


@pytest.fixture(scope="module")
def reported():
    """A dense graph's bits after randomised response, noisy whole degrees, and the bits as a
    matrix.
    """
    rng = np.random.default_rng(0)
    lean = rng.uniform(-1.5, 0.5, N)
    true = np.triu(rng.random((N, N)) < expit(lean[:, None] + lean), 1)
    true = true | true.T
    bits = true ^ (rng.random((N, N)) < 1 / (np.exp(EPSILON) + 1))
    np.fill_diagonal(bits, False)
    degree = np.clip(true.sum(1) + rng.integers(-3, 4, N), 0, N - 1)
    receivers, senders = np.nonzero(bits)
    return graphs.directed(senders, receivers, N), degree.astype(np.float32), bits


def by_pairs(prior, bits, variant):
    """The definition, on n x n matrices; ties of the hybrid variant share what is left."""
    beta = prior.beta[prior.group]
    s = bits.astype(int) + bits.T
    posterior = expit(beta[:, None] + beta + 2 * EPSILON * (s - 1))  # each bit e^+-epsilon
    np.fill_diagonal(posterior, 0)
    if variant == "soft":
        return posterior
    if variant == "hard":
        return (posterior > 0.5).astype(float)
    most = np.floor(posterior.sum())
    value = posterior.round(12)
    # A pair's rank is the number of likelier ones; those alike are cut by the same share.
    above = (value[None, None] > value[:, :, None, None]).sum((2, 3))
    alike = (value[None, None] == value[:, :, None, None]).sum((2, 3))
    return posterior * np.clip((most - above) / alike, 0, 1)


def test_weights_are_those_of_a_list_of_all_pairs():
    """Of drawn posteriors with ties: hybrid keeps the likeliest, as many as are expected in all."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        posterior = rng.choice(rng.random(6), (3, 2, 2))
        count = rng.integers(0, 9, posterior.shape)
        every = np.sort(np.repeat(posterior, count.ravel()))[::-1]
        most = int(every.sum())
        found = _kept(posterior, count, "hybrid")
        for value in np.unique(posterior):
            taken = (every[:most] == value).sum() / max((every == value).sum(), 1)
            some = (posterior == value) & (count > 0)
            np.testing.assert_allclose(found[some], value * taken)
        np.testing.assert_array_equal(_kept(posterior, count, "hard"), posterior > 0.5)
        np.testing.assert_array_equal(_kept(posterior, count, "soft"), posterior)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_posterior_is_that_of_all_pairs(reported, variant):
    bits, degree, matrix = reported
    prior = edges.degree_prior(degree)
    links = edges.posterior_links(bits, prior, EPSILON, variant)
    wanted = by_pairs(prior, matrix, variant)
    np.testing.assert_allclose(links.dense(), wanted, atol=2e-6)
    np.testing.assert_allclose(links.degree, wanted.sum(1), atol=2e-5)
    h = jnp.asarray(np.random.default_rng(1).normal(size=(N, 3)), jnp.float32)
    np.testing.assert_allclose(links.sum(h), wanted @ np.asarray(h), atol=2e-5)
    stored = int((np.asarray(links.correction) != 0).sum())
    assert stored <= 2 * (np.triu(matrix | matrix.T).sum())
    if variant == "hybrid":  # as many pairs as links are expected
        soft = by_pairs(prior, matrix, "soft")
        kept = np.divide(wanted, soft, out=np.zeros_like(soft), where=soft > 0).sum()
        assert kept == pytest.approx(np.floor(soft.sum()))
        assert 0 < (wanted == 0).mean() < 1
    gradient = jax.grad(lambda rows: (links.sum(rows) * h).sum())(h)
    np.testing.assert_allclose(gradient, wanted @ np.asarray(h), atol=2e-5)


def test_the_prior_expects_the_degrees_it_was_fitted_to(reported):
    _, degree, _ = reported
    prior = edges.degree_prior(degree)
    beta = prior.beta[prior.group]
    chance = expit(beta[:, None] + beta)
    np.fill_diagonal(chance, 0)
    np.testing.assert_allclose(chance.sum(1), np.clip(degree, 1, N - 2), atol=1e-6)
    # Of a sparse graph, where whole steps of the fixed point go to and fro.
    sparse = edges.degree_prior(np.random.default_rng(0).poisson(5, 10_000))
    chance = expit(sparse.beta[:, None] + sparse.beta) * (sparse.count - np.eye(len(sparse.count)))
    np.testing.assert_allclose(chance.sum(1), sparse.degree, rtol=1e-6)
    # Degrees no graph has: no estimate, and no number that is not finite.
    assert np.isfinite(edges.degree_prior([4, 4, 1, 1, 1, 1]).beta).all()


def assert_blink_is_of(epsilon, claimed):
    """Draws of 240 users by Blink at ``epsilon``, read from its posterior, are those at
    ``claimed``.

    Of 28 680 pairs a flip that is off by 0.02 is seen, and of 240 degrees a total variation of 0.3.
    """
    n, share = 240, 0.25
    nodes = np.arange(n)
    pairs = np.concatenate([np.stack([nodes, (nodes + step) % n], 1) for step in range(1, 41)])
    graph = graphs.from_edges(pairs, n)
    found = edges.private_links(
        jax.random.key(3), graph, epsilon, variant="soft", degree_share=share
    )
    spent = {str(unit): one.epsilon for unit, one in found.guarantee.items()}
    assert spent == pytest.approx({"neighbour-list": claimed, "relationship": 2 * claimed})
    first = share * claimed
    second = (1 - share) * claimed
    noise = np.clip(found.degree - 80, -5, 5).astype(int)  # all degrees are 80
    a = np.exp(-first)
    mass = np.append((1 - a) / (1 + a) * a ** np.abs(np.arange(-4, 5)), 2 * [a**5 / (1 + a)])
    stats.assert_g(np.bincount(noise + 5, minlength=11)[[*range(1, 10), 0, 10]], mass)
    prior = edges.degree_prior(found.degree)
    beta = prior.beta[prior.group]
    high = np.triu_indices(n, 1)
    posterior = np.asarray(found.links.dense(), np.float64)
    said = 1 + (logit(posterior) - beta[:, None] - beta)[high] / (2 * second)
    reports = np.rint(said).astype(int)
    np.testing.assert_allclose(said, reports, atol=0.05)  # it is weighed by this budget
    linked = dense(pairs, n)[high]
    for true in (False, True):
        one = expit(second if true else -second)
        law = [(1 - one) ** 2, 2 * one * (1 - one), one**2]
        stats.assert_g(np.bincount(reports[linked == true], minlength=3), law)


def test_in_one_call_noise_is_that_of_the_budget_and_not_of_half_or_twice_it():
    assert_blink_is_of(2.0, 2.0)
    for other in (1.0, 4.0):
        with pytest.raises(AssertionError):
            assert_blink_is_of(other, 2.0)


@pytest.mark.parametrize("seed", range(6))
def test_noisy_degrees_beyond_those_that_have_an_estimate_are_taken_for_the_nearest(seed):
    """Below 1 and above n - 2 the likelihood has no maximum: noise must make no pair certain."""
    rng = np.random.default_rng(seed)
    n = 30
    degree = rng.poisson(12, n) + rng.normal(0.0, 0.3, n)
    degree[:3] = -5.0, 0.4, n - 1.0 + 50.0 * (seed % 2)
    prior = edges.degree_prior(degree[rng.permutation(n)])
    held = np.clip(np.rint(degree), 1, n - 2).astype(int)
    assert prior.degree.tolist() == sorted(set(held.tolist()))
    assert prior.count.tolist() == [(held == one).sum() for one in prior.degree]
    own = prior.beta[prior.group]
    chance = expit(own[:, None] + own) * (1 - np.eye(n))
    np.testing.assert_allclose(chance.sum(1), prior.degree[prior.group], rtol=1e-3)
    assert chance.max() < 0.9999


def test_lists_in_which_one_end_reports_each_pair_are_refused():
    """Each reported pair would count as two reports, and epsilon as twice as much."""
    ring = graphs.from_edges([[i, (i + 1) % N] for i in range(N)], N)
    prior = edges.degree_prior(np.full(N, 2.0))
    for reporting in ("full", "half"):
        bits = edges.RandomizedResponse(EPSILON, reporting=reporting)
        sent = edges.privatize_graph(jax.random.key(0), ring, bits).graph
        if reporting == "full":
            edges.posterior_links(sent, prior, EPSILON)
            continue
        with pytest.raises(ValueError, match="bits must be lists in full"):
            edges.posterior_links(sent, prior, EPSILON)
    edges.posterior_links(ring, prior, 20.0)  # hardly a bit is flipped: lists in full may be alike
