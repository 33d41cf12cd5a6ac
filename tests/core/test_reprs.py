"""Mechanisms, tables and spaces print as one short line, and say their name, their budget and their sizes."""

import jax
import jax.numpy as jnp

from ldp_jax import features
from ldp_jax.core.spaces import Box, Finite, Interval, Mixture

SHOWN = {
    "GridSquareWave(epsilon=1, inputs=129, outputs=193)": lambda: features.GridSquareWave(1.0),
    "GeneralizedRR(epsilon=1, inputs=4, outputs=4)": lambda: features.GeneralizedRR(1.0, 4),
    "Table('GeneralizedRR': 4 inputs (category), 4 outputs, epsilon 1)": lambda: features.GeneralizedRR(
        1.0, 4
    ).table(),
    "Duchi(epsilon=1.0)": lambda: features.Duchi(1.0),
    "Duchi(epsilon=float32[2])": lambda: features.Duchi(jnp.array([1.0, 2.0])),
    "Sampled(inner=SquareWave(epsilon=0.5, debias=False), dim=8, k=2, scale=1.0)": lambda: features.HDS(1.0, 8, 2),
    "RandomizedFeatures(inner=Discrete(FeatureRR, 2 levels, at levels [2], 4 inputs), dim=2)": lambda: (
        features.FeatureRR(1.0, 4, [1.0, 2.0])
    ),
    "Interval(-1, 1)": lambda: Interval(-1.0, 1.0, jnp.sin),
    "Mixture(parts=(Finite(-1, 1), Interval(-inf, inf)))": lambda: Mixture(
        (Finite((-1.0, 1.0)), Interval(-jnp.inf, jnp.inf))
    ),
    "Finite(0, 1, 2, ..., 192)": lambda: features.GridSquareWave(1.0).codomain(),
    "Box(dim=3, lower=-1.0, upper=1.0)": lambda: Box(3),
}


def test_one_short_line():
    assert [repr(make()) for make in SHOWN.values()] == list(SHOWN)
    seen = [repr(jax.tree.map(lambda _: None, features.GeneralizedRR(1.0, 4)))]
    for m in (features.Duchi(1.0), features.GeneralizedRR(1.0, 4)):
        jax.jit(lambda m: seen.append(repr(m)))(m)
    assert seen == ["Discrete(GeneralizedRR, 4 inputs, category)", "Duchi(epsilon=float32[])", seen[0]]
