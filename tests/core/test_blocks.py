"""Blocks of users are the whole, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.core import mechanism
from ldp_jax.core.blocks import by_blocks
from ldp_jax.features import HDS, GridSquareWave, SquareWave

N = 10


@pytest.mark.parametrize("block", [1, 3, 10, 12, None])
def test_blocks_are_the_whole(block):
    part = lambda start, size: (start + jnp.arange(size)) ** 2
    made = jax.jit(lambda: by_blocks(part, N, block))()
    assert np.asarray(made).tolist() == [i**2 for i in range(N)]


@pytest.mark.parametrize("m", [HDS(1.0, dim=5, k=2), SquareWave(1.0), GridSquareWave(1.0)])
def test_reports_by_blocks_are_those_of_all_users_at_once(m):
    x = np.random.default_rng(0).uniform(-1, 1, (N, 5)).astype(np.float32)
    x = x if isinstance(m, type(HDS(1.0, dim=5, k=2))) else x[:, 0]
    some = mechanism.privatize(jax.random.key(0), m, jnp.asarray(x), block=3)
    whole = mechanism.privatize(jax.random.key(0), m, jnp.asarray(x), block=N)
    assert jax.tree.all(jax.tree.map(np.array_equal, some, whole))
