"""What every public name of the room refuses: each message names the argument at fault."""

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ldp_jax.core import personal_alphabets
from ldp_jax.core.mechanism import privatize
from ldp_jax.core.spaces import Finite
from ldp_jax.features import (
    HDS,
    Discrete,
    Duchi,
    FeatureRR,
    GeneralizedRR,
    GeneralPiecewise,
    GridPiecewise,
    GridSquareWave,
    Laplace,
    LaplaceVector,
    LPOptimal,
    MultiBit,
    MultiPiecewise,
    PersonalAlphabet,
    PersonalAlphabets,
    PrivUnit,
    ProjUnit,
    RandomizedFeatures,
    Sampled,
    SquareWave,
    choose,
    importance_weights,
    menu,
    random_projection,
)
from ldp_jax.features.distribution import em, histogram, transition
from tests.core.test_integer_tables import random_table

KEY = jax.random.key(0)
TWO = menu([GeneralizedRR(epsilon, 4) for epsilon in (0.5, 2.0)])
BOTH = TWO.at(jnp.array([0, 1]))
BINS = FeatureRR(3.0, 4, [1.0, 2.0])
GRID = random_table(5, 4, encoding="grid")
GUIDED = Discrete.of(*(random_table(5, k, encoding="category", seed=k) for k in (4, 40)))
GUIDED = GUIDED.at(np.arange(2))
LAW = jnp.full((3, 2), 1 / 3)
USERS = PersonalAlphabets.of(1.5, [[0.5, 0.3, 0.2]] * 4)
CHANGED = dataclasses.replace(USERS.inner, search=USERS.inner.search * 0)
BY_PASSED = jax.tree.map(lambda leaf: leaf, BINS)
object.__setattr__(BY_PASSED, "dim", 1)
VECTORS = HDS, MultiBit, MultiPiecewise
BY_EPSILON = {
    "GeneralizedRR": lambda epsilon: GeneralizedRR(epsilon, 3),
    "GridSquareWave": lambda epsilon: GridSquareWave(epsilon, 5),
    "GridPiecewise": lambda epsilon: GridPiecewise(epsilon, 5),
    "LPOptimal": LPOptimal,
}

REFUSED = [
    ("categories must be", GeneralizedRR, 1.0, 513),
    ("inputs must be", GridSquareWave, 1.0, 1),
    ("inputs must be", GridPiecewise, 1.0, 5.0),
    ("t must be", partial(GridPiecewise, t=math.inf), 1.0, 9),
    ("inputs must be", LPOptimal, 1.0, 1),
    ("epsilon is too small", GridPiecewise, 1e-12, 5),
    ("epsilon 1e-12 is too small", LPOptimal, 1e-12),
    ("outputs must be", LPOptimal, 1.0, 11, 40),
    ("inputs must be more than 11", LPOptimal, 7.0),
    ("either weights", FeatureRR, 1.0, 4),
    ("either weights", partial(FeatureRR, dim=1), 1.0, 4, [1.0]),
    ("bins must be", partial(FeatureRR, dim=2), 1.0, 513),
    ("dim must be", partial(FeatureRR, dim=0), 1.0, 4),
    ("weights must be finite", FeatureRR, 1.0, 4, [1.0, 0.0]),
    ("weights must have shape", FeatureRR, 1.0, 4, []),
    ("epsilon must be", FeatureRR, 30.0, 4, [1.0, 99.0]),
    ("epsilon must be", partial(FeatureRR, dim=2), jnp.ones(2), 4),
    ("level of inner must have shape", RandomizedFeatures, BINS.inner, 1),
    ("level of inner must have shape", RandomizedFeatures, BINS.inner, 3),
    ("level of inner must have shape", BY_PASSED.guarantee),
    ("level of inner must have shape", BY_PASSED.privatize, KEY, jnp.zeros(1)),
    ("on bins", RandomizedFeatures, GeneralizedRR(1.0, 3).at(jnp.zeros(2)), 2),
    ("share", RandomizedFeatures(BINS.inner.at(jnp.eye(2)), 2).privatize, KEY, jnp.zeros(2)),
    ("beta must have shape", importance_weights, [1.0], [1, 2]),
    ("alpha must be", importance_weights, [1.0, math.nan], [0, 1]),
    (
        "beta must have the rows of alpha",
        importance_weights,
        pd.Series([1, 2], index=["a", "b"]),
        pd.Series([1, 2], index=["b", "a"]),
    ),
    ("alpha must have shape", importance_weights, np.ones((2, 2)), np.ones((2, 2))),
    ("beta must be", importance_weights, [1, 2], [0.0, -1.0]),
    ("gamma must be", importance_weights, [1, 2], [0, 1], 1.5),
    (r"features \[0\] would get no", importance_weights, [0.0, 2.0], [0.5, 0.5], 1.0),
    ("level must be", TWO.table, 2),
    ("say which", BOTH.table),
    ("at least one", Discrete.of),
    ("at least one", menu, []),
    # Reports would have another law than the one that the epsilon is of.
    (
        "search and steps",
        dataclasses.replace(GUIDED, search=GUIDED.search.at[2, 0].add(1)).guarantee,
    ),
    ("search and steps", dataclasses.replace(GUIDED, steps=GUIDED.steps - 1).guarantee),
    ("must agree", Discrete.of, GRID, random_table(6, 4, encoding="grid")),
    ("must agree", Discrete.of, GRID, random_table(5, 4, encoding="bins")),
    ("share", BOTH.privatize, KEY, 1),
    (r"mechanism on \[-1, 1\]", Sampled, BINS.coordinate(0), 3, 1),
    ("dim must be", HDS, 1.0, 0, 1),
    ("dim must be", LaplaceVector, 1.0, 2.5),
    ("k must be", Sampled, Duchi(1.0), 3, 5),
    ("k must be given", MultiBit, jnp.ones(2), 3),
    *(("k must be", make, 1.0, 3, k) for make in VECTORS for k in (0, -1, 4, 1.5, True, "2")),
    ("scale must be", Sampled, Duchi(1.0), 3, 2, 0.0),
    ("scale must be", Sampled, Duchi(1.0), 3, 2, math.inf),
    ("t must be", GeneralPiecewise, 1.0, 0.0),
    ("t must be", GeneralPiecewise, 1.0, math.nan),
    ("inputs must be more than 11", LPOptimal, 16.0),
    ("codomain of Laplace", transition, Laplace(1.0), 4),
    ("domain of Sampled", transition, MultiBit(1.0, 5), 4),
    ("mechanism must be", transition, object(), 4),
    ("outputs must be 2", transition, Duchi(1.0), 4, 3),
    ("stack of shape", transition, SquareWave(jnp.array([1.0, 2.0])), 4),
    ("concrete epsilon", jax.jit(lambda e: transition(SquareWave(e), 4).matrix), 1.0),
    ("inputs must be", transition, SquareWave(1.0), 0),
    ("outputs must be", transition, SquareWave(1.0), 4, 0),
    ("distinct numbers", Finite, (1.0, 0.0, 1.0)),
    ("counts must have shape", em, jnp.zeros(2), LAW),
    ("counts must have shape", em, jnp.zeros((3, 1, 1)), LAW),
    ("matrix must have shape", em, jnp.zeros(3), jnp.zeros((3, 0))),
    ("matrix must have columns of sum 1", em, jnp.zeros(2), [[0.9, 0.1], [0.4, 0.6]]),
    ("tolerance must be", partial(em, tolerance=math.nan), jnp.zeros(3), LAW),
    ("max_iterations must be", partial(em, max_iterations=-1), jnp.zeros(3), LAW),
    ("reports must have shape", histogram, jnp.zeros((1, 1, 1)), jnp.zeros(2)),
    ("edges must rise", histogram, jnp.zeros(3), [1.0, 0.0, 2.0]),
    ("edges must rise", histogram, jnp.zeros(3), jnp.zeros(1)),
    ("edges must have shape", histogram, jnp.zeros(3), jnp.ones((2, 2))),
    ("edges must rise", histogram, jnp.zeros(3), [0.0, 1.0, 1.0]),
    ("prior must sum to 1", PersonalAlphabet, 1.0, [0.5, 0.4]),
    ("prior must be finite", PersonalAlphabet, 1.0, [math.nan, 1.0]),
    ("prior must have 2 to 512", PersonalAlphabet, 1.0, [1.0]),
    ("prior must have shape", PersonalAlphabet, 1.0, [[0.5, 0.5], [0.5, 0.5]]),
    ("prior must be", PersonalAlphabets.of, 1.0, [0.5, 0.5]),
    ("epsilon must be one number", PersonalAlphabets.of, jnp.ones(2), [[0.5, 0.5]] * 2),
    ("prior must be concrete", jax.jit(lambda p: PersonalAlphabet(1.0, p).level), jnp.ones(2) / 2),
    ("size must be", personal_alphabets.table, 1.0, 5, 4),
    ("x must have shape", USERS.privatize, KEY, np.zeros(3)),
    ("key must be", USERS.privatize, 0, np.zeros(4)),
    ("must sum", dataclasses.replace(USERS, inner=CHANGED).privatize, KEY, np.zeros(4)),
    ("holds a stack", privatize, KEY, USERS.inner, np.zeros(4)),
    ("dim must be", PrivUnit, 1.0, 1),
    ("radius must be", PrivUnit, 1.0, 3, 0.0),
    ("projection must be", ProjUnit, 1.0, np.zeros((4, 3))),
    ("projection must be finite", ProjUnit, 1.0, np.full((2, 3), np.nan)),
    ("epsilon must be one number", ProjUnit, np.ones(2), np.ones((2, 3))),
    ("k must be", random_projection, KEY, 3, 4),
    ("domain must be one of", choose, "sphere", 1.0, 3, 1.0),
    ("norm_bound must be", choose, "ball", None, 3, 1.0),
    ("norm_bound must not be given", choose, "classes", 1.0, 3, 1.0),
    ("norm_bound must be", choose, "ball", -1.0, 3, 1.0),
    ("dim must be", choose, "cube", None, 0, 1.0),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused[0])
def test_bad_input_is_refused(refused, untyped):
    words, call, *given = refused
    with pytest.raises(ValueError, match=words):
        call(*given)


@pytest.mark.parametrize("name", BY_EPSILON)
def test_a_table_needs_one_concrete_budget(name, untyped):
    make = BY_EPSILON[name]
    with pytest.raises(ValueError, match="one number"):
        make(jnp.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="concrete"):
        jax.jit(lambda epsilon: make(epsilon).thresholds)(1.0)


@jax.jit
def asked_of_a_traced_level(level):
    TWO.at(level).guarantee()
    return level


@jax.jit
def table_of_a_traced_level(level):
    TWO.at(level).table()
    return level


@pytest.mark.parametrize("ask", [asked_of_a_traced_level, table_of_a_traced_level])
def test_a_traced_level_has_no_claim(ask):
    with pytest.raises(ValueError, match="concrete"):
        ask(1)
