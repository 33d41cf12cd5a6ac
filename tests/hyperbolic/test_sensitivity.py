"""The paper's local sensitivities against loops over pairs of nodes."""

import numpy as np

from ldp_jax.hyperbolic import sensitivity
from tests.hyperbolic import reference as ref

C = 0.5
POINTS = ref.points(np.random.default_rng(0), (37,), 3, 4.0, C)


def test_the_radius_and_the_direction():
    radius = ref.norm(POINTS, C)
    pairs = np.abs(radius[:, None] - radius)
    np.testing.assert_allclose(sensitivity.inter_hierarchy_of_nodes(POINTS, C), pairs.max(1), rtol=1e-5)
    unit = ref.wide(POINTS) / ref.length(POINTS)
    pairs = np.abs(unit @ unit.T)
    np.fill_diagonal(pairs, 0)
    np.testing.assert_allclose(sensitivity.intra_hierarchy_of_nodes(POINTS, chunk=10), pairs.max(1), rtol=1e-5)


def test_opposite_directions_are_as_correlated_and_the_origin_has_none():
    points = np.float32([[0, 0], [0.5, 0], [-0.1, 0], [0, 0.3]])
    np.testing.assert_allclose(sensitivity.intra_hierarchy_of_nodes(points), [0, 1, 1, 0], atol=1e-7)
