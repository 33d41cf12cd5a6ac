"""Distances of answers, each against SciPy's."""

from typing import get_args

import numpy as np
import pytest
import scipy.spatial.distance

from ldp_jax.attacks import Distance, Targets, link_stealing


@pytest.mark.parametrize("distance", get_args(Distance))
def test_a_score_is_minus_the_distance_of_scipy(distance):
    """Drawn probabilities, and logits of both signs: there the size of a sum is no sum of sizes."""
    rng = np.random.default_rng(0)
    pairs = np.stack(np.triu_indices(12, 1), 1)
    targets = Targets(pairs, rng.random(len(pairs)) < 0.4)
    logits = rng.normal(0.3, 2.0, (12, 5))
    logits[:3, 1] = 0.0
    for answers in (rng.dirichlet(np.ones(5), 12), logits):
        wanted = [getattr(scipy.spatial.distance, distance)(answers[u], answers[v]) for u, v in pairs]
        found = link_stealing(answers, targets, distance=distance)
        np.testing.assert_allclose(found.scores, -np.array(wanted), rtol=1e-9, atol=1e-12)
