"""Tempered chains: the law at the first weight is that of a chain by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.heterorr import mixing
from ldp_jax.edges.curator import hrg

PAIRS = np.array([[0, 1], [2, 3], [0, 4], [1, 4]])


@pytest.mark.slow
def test_a_tempered_chain_has_the_law_of_its_first_weight():
    """An exchange that is accepted by the wrong sign moves the mean by 3; a mean is off by 0.2."""
    edges, weights, turns = hrg.Edges.of(PAIRS, np.zeros((0, 2))), jnp.array([1.0, 0.5, 0.0]), 600
    init = jax.vmap(lambda key: hrg.init(key, 5, edges))
    states = init(jax.random.split(jax.random.key(0), len(weights)))
    heights, exchanged = mixing.tempered(jax.random.split(jax.random.key(1), turns), states, edges, weights, 2)
    scales = jnp.array([1.0, 0.0])
    start = jax.tree.map(lambda leaf: leaf[0], states)
    _, alone = hrg.trace(jax.random.split(jax.random.key(2), turns), start, edges, scales, 2, 2)
    assert 0.1 < float(exchanged.mean()) < 1
    assert abs(float(heights.mean() - alone[:, 0].mean())) < 1
