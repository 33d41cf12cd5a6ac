"""Attacks on attributes and raw records: each finds a leak, and nothing where there is none."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.datasets

from ldp_jax import attacks
from ldp_jax.attacks import Targets
from ldp_jax.learning import metrics
from tests.stats import SIGMAS

N = 300


def test_inferred_edges_give_attributes_away_and_edges_at_random_do_not():
    """Friends share the attribute; public edges join anybody. What the attack adds is the inferred
    edges' alone.
    """
    rng = np.random.default_rng(0)
    has = rng.random(N) < 0.4
    every = np.stack(np.triu_indices(N, 1), 1)
    alike = has[every[:, 0]] == has[every[:, 1]]
    secret = every[rng.random(len(every)) < np.where(alike, 0.03, 0.005)]
    public = rng.permutation(every)[:N]
    pairs = attacks.all_pairs(np.arange(N), secret, known=public)
    order = rng.permutation(N)
    known = order[:120]
    asked = Targets(order[120:, None], has[order[120:]])
    infer = lambda edges: attacks.attribute_inference(edges, N, known, has[known], asked)
    guesses = {
        "right": pairs.truth + 0.5 * rng.normal(size=len(pairs.truth)),
        "random": rng.normal(size=len(pairs.truth)),
    }
    edges = {name: attacks.inferred_edges(attacks.evaluate(name, scores, pairs), known=public)
             for name, scores in guesses.items()}  # fmt: skip
    assert len(edges["right"]) == pairs.truth.sum() + len(public)
    beside = infer(public)
    gains = {name: infer(found).minus(beside).auc for name, found in edges.items()}
    scale = SIGMAS / 1.98
    assert gains["right"].mean - scale * gains["right"].half_width > 0.0
    assert gains["random"].mean - scale * gains["random"].half_width <= 0.0
    assert infer(secret).auc.mean > 0.9
    assert abs(beside.auc.mean - 0.5) < scale * beside.auc.half_width


def test_equal_scores_name_no_edge():
    """Balanced pairs hold their edges first: whoever scores all alike finds half of what they name,
    not all of it.

    Of 2000 pairs the share of edges among 1000 has a standard deviation of 0.011: a lead of 0.06 is
    seen.
    """
    pairs = attacks.balanced_pairs(
        jax.random.key(0), np.arange(1001), [[i, i + 1] for i in range(1000)]
    )
    named = attacks.inferred_edges(attacks.evaluate("nothing", np.zeros(2000), pairs))
    assert abs((np.diff(named)[:, 0] == 1).mean() - 0.5) < SIGMAS * 0.0112


def test_the_score_is_the_share_among_neighbours():
    """Far looks are worth little at alpha near 1: then neighbours decide, and who has none gets the
    prior.
    """
    edges = [[0, 1], [0, 2], [3, 1]]
    asked = Targets(np.array([[0], [3], [4]]), np.array([False, True, False]))
    found = attacks.attribute_inference(edges, 5, [1, 2], [True, False], asked, alpha=0.9)
    assert found.scores[2] == 0.5
    assert found.scores[0] == pytest.approx(0.5, abs=0.01)
    assert found.scores[1] > 0.7


@cache
def digits():
    """Images of 8 x 8 pixels in [0, 1], of which the first 1200 are public, and a linear embedding
    of all.
    """
    x = (sklearn.datasets.load_digits().data / 16).astype(np.float32)
    weight = np.random.default_rng(0).normal(size=(64, 24)).astype(np.float32)
    return x, x @ weight


def invert(z):
    x, _ = digits()
    return attacks.inversion(
        jax.random.key(0), z[1200:], x[1200:], public_z=z[:1200], public_x=x[:1200],
        shape=(8, 8), perceptron=attacks.Perceptron(2, 64, epochs=10, learning_rate=1e-3),
    )  # fmt: skip


def test_embeddings_give_images_away_and_noise_does_not():
    x, z = digits()
    beside = attacks.public_mean(x[1200:], public_x=x[:1200], shape=(8, 8))
    found = invert(z).minus(beside)
    scale = SIGMAS / 1.96
    assert found.mse.mean + scale * found.mse.half_width < -0.02
    assert found.ssim.mean - scale * found.ssim.half_width > 0.15
    blind = invert(np.random.default_rng(1).normal(size=z.shape).astype(np.float32)).minus(beside)
    assert blind.mse.mean + scale * blind.mse.half_width > 0.0
    assert blind.ssim.mean - scale * blind.ssim.half_width < 0.02
    assert str(found).startswith("inversion minus public mean: MSE -0.")


@pytest.mark.parametrize("least", [0.0, 1000.0])
@pytest.mark.parametrize("window", [3, 7])
def test_similarity_of_images_is_the_mean_over_windows(window, least):
    """Also of pixels far from 0, whose squares have no digits left for their spread."""
    images = (least + np.random.default_rng(0).random((2, 3, 9, 8))).astype(np.float32)
    views = np.lib.stride_tricks.sliding_window_view(images, (window, window), (2, 3))
    a, b = views.reshape(2, 3, -1, window**2).astype(float)
    mean_a = a.mean(-1)
    mean_b = b.mean(-1)
    shared = ((a - mean_a[..., None]) * (b - mean_b[..., None])).sum(-1) / (window**2 - 1)
    spread = a.var(-1, ddof=1) + b.var(-1, ddof=1)
    small, large = (0.01 * 2) ** 2, (0.03 * 2) ** 2
    index = (2 * mean_a * mean_b + small) / (mean_a**2 + mean_b**2 + small)
    index *= (2 * shared + large) / (spread + large)
    found = metrics.ssim(*map(jnp.asarray, images), value_range=2.0, window=window)
    np.testing.assert_allclose(found, index.mean(1), atol=1e-5)


def test_as_many_pairs_are_taken_for_edges_as_are_believed():
    """The nearest whole number of them, and those of the largest scores; by default as many as are
    true. The shares of 29, 58 and 61 in 91, times 91, are below these in float64.
    """
    rng = np.random.default_rng(0)
    units = attacks.all_pairs(np.arange(14), [[0, 1]]).units
    scores = rng.normal(size=91)
    shares = (0.02, 0.1, 0.125, 0.2, 0.51, 0.99)
    asked = [(46, share, round(share * 91)) for share in shares]
    asked += [(true, None, true) for true in (1, 29, 58, 61, 90)]
    for true, density, count in asked:
        pairs = Targets(units, rng.permutation(91) < true)
        named = attacks.inferred_edges(attacks.evaluate("drawn", scores, pairs, density=density))
        wanted = np.sort(units[np.argsort(-scores)[:count]], 1)
        np.testing.assert_array_equal(named, wanted[np.lexsort(wanted.T[::-1])])


def test_reconstructions_stay_within_the_range_of_public_records():
    """Public records lie in [2, 5] and private ones in [-9, 9]; a network's answers go beyond."""
    rng = np.random.default_rng(0)
    public = rng.uniform(2.0, 5.0, (40, 3))
    x = rng.uniform(-9.0, 9.0, (5, 3))
    perceptron = attacks.Perceptron(1, 4, epochs=1, learning_rate=1e-3)
    found = attacks.inversion(
        jax.random.key(0), 1e4 * x, x, public_z=public, public_x=public, perceptron=perceptron
    )
    assert found.x.min() == np.float32(public.min())
    assert found.x.max() == np.float32(public.max())
