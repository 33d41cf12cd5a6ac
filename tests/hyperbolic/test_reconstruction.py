"""How well points show a relation, against loops; and what an epoch of few pairs is said to
lose.
"""

import jax
import numpy as np
import pytest

from ldp_jax.hyperbolic import embed, poincare, reconstruction


@pytest.mark.parametrize(("seed", "places"), [(0, 5), (1, 5), (2, 5), (3, 2), (4, 1)])
def test_ranks_and_precisions_are_those_of_a_loop_ties_and_all(seed, places):
    """Drawn relations of nodes on few places: whatever ties with a pair counts against it."""
    rng = np.random.default_rng(seed)
    n = 14
    c = (1.0, 2.0, 0.5)[seed % 3]
    points = (0.2 * rng.normal(size=(places, 2)))[rng.integers(0, places, n)].astype(np.float32)
    relation = np.argwhere((rng.random((n, n)) < 0.25) & ~np.eye(n, dtype=bool))
    relation = rng.permutation(relation)
    related = np.zeros((n, n), bool)
    related[tuple(relation.T)] = True
    far = np.round(np.asarray(poincare.distance(points[:, None], points[None], c), np.float64), 5)
    ranks = []
    precisions = {}
    for u, v in relation:
        others = [w for w in range(n) if w not in (u, v) and far[u, w] <= far[u, v]]
        ranks.append(1 + sum(not related[u, w] for w in others))
        precisions.setdefault(u, []).append(
            (1 + sum(related[u, w] for w in others)) / (1 + len(others))
        )
    found = reconstruction(points, relation, c, chunk=(4, 256, 7)[seed % 3])
    average = np.mean([np.mean(each) for each in precisions.values()])
    assert found == pytest.approx((np.mean(ranks), average))


@pytest.mark.parametrize(("pairs", "batch"), [(5, 4), (4, 4)])
def test_an_epoch_loses_the_mean_of_its_pairs_whatever_the_batches(pairs, batch):
    """Where all points are nearly one each pair loses log(1 + negatives), less the few that count
    for nothing.
    """
    relation = np.arange(2 * pairs).reshape(pairs, 2)
    given = {"learning_rate": 1e-9, "epochs": 1, "burn_in": 0, "batch_size": batch, "negatives": 40}
    (loss,) = np.asarray(embed(jax.random.key(0), relation, 400, **given).losses)
    assert 0.95 * np.log(41) < loss < 1.01 * np.log(41)


@pytest.mark.parametrize(("burn_in", "epochs"), [(0, 1), (2, 1), (2, 3)])
def test_there_is_a_loss_of_each_epoch_of_the_burn_in_and_after_it(burn_in, epochs):
    given = {"burn_in": burn_in, "epochs": epochs, "batch_size": 4, "negatives": 3}
    losses = embed(jax.random.key(0), np.arange(8).reshape(4, 2), 20, **given).losses
    assert losses.shape == (burn_in + epochs,)
    assert np.isfinite(losses).all()
