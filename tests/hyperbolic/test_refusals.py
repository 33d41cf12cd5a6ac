"""What every public name of the room refuses, and in which words."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ldp_jax.hyperbolic import (
    HyperbolicExponential,
    HyperbolicGaussian,
    PaperHyperbolicGaussian,
    RadialAngularGaussian,
    embedding,
    hyperbolicity,
    optimizers,
    poincare,
    sensitivity,
    wrapped_normal,
)
from ldp_jax.hyperbolic.optimizers import riemannian_sgd

KEY = jax.random.key(0)
AT, OUTSIDE = np.array([0.1, 0.2]), np.array([0.8, 0.7])
EMBED = lambda pairs, n=4, **more: embedding.embed(KEY, np.asarray(pairs), n, **more)
SMALL = {"dim": 0, "epochs": -1, "burn_in": -1, "batch_size": 0, "negatives": 0}
negated = lambda m: jax.tree.map(lambda leaf: -leaf, m)

REFUSED = [
    (
        lambda: poincare.distance(AT, OUTSIDE),
        "y must be within the ball of radius .*= 1, got 1 points",
    ),
    (lambda: poincare.distance([np.nan, 0.0], AT), "x must be within"),
    (lambda: poincare.norm(AT, 100.0), "x must be within the ball of radius .* = 0.1, "),
    (lambda: poincare.mobius_matvec(np.eye(3), AT), "m must have shape"),
    (lambda: poincare.project(AT, 0.0), "c must be finite and > 0"),
    (lambda: poincare.conformal_factor(AT, np.nan), "c must be finite and > 0"),
    (lambda: poincare.norm(AT, np.array([1.0, 2.0])), "c must be one number"),
    (lambda: poincare.norm(0.5), "x must be real coordinates"),
    (
        lambda: poincare.distance([0.5], AT),
        r"must have as many coordinates each, got \[1, 2\]",
    ),  # was broadcast
    (lambda: poincare.exp_map(AT, [0.5]), "must have as many coordinates"),
    (
        lambda: jax.jit(poincare.log_map)(AT, np.zeros((4, 3))),
        r"as many coordinates each, got \[2, 3\]",
    ),
    (lambda: wrapped_normal.log_density(AT, [0.1], 1.0), "must have as many coordinates"),
    (lambda: poincare.project(np.zeros((3, 0))), "x must be real coordinates"),
    (lambda: wrapped_normal.sample(KEY, [2.0, 0.0], 1.0), "mean must be within the ball"),
    (lambda: wrapped_normal.sample(KEY, AT, 0.0), "scale must be finite and > 0"),
    (lambda: wrapped_normal.sample(KEY, AT, np.ones(3)), "scale must be a number, or"),
    (lambda: wrapped_normal.sample(0, AT, 1.0), "key must be a typed key"),
    (lambda: wrapped_normal.log_density(AT, AT, 1.0, volume="flat"), "volume must be one of"),
    (lambda: HyperbolicExponential(1.0, 0.0), "radius must be"),
    (lambda: HyperbolicExponential(1.0, 8.1), "radius must be in"),
    (lambda: HyperbolicExponential(1.0, 5.0, 4.0), r"radius must be in \[5e-07, 4\], got 5"),
    (lambda: HyperbolicExponential(1.0, 1e-13), r"radius must be in \[1e-06, 8.*got 1e-13"),
    (lambda: HyperbolicExponential(1.0, 1.0, -1.0), "c must be finite and > 0, got -1"),
    (lambda: HyperbolicExponential(1.0, np.array([1.0, 2.0])), "radius must be one number"),
    (lambda: negated(HyperbolicExponential(1.0)).guarantee(), "epsilon must be"),
    (lambda: HyperbolicGaussian(1.0, 0.0), r"delta must be in \[1e-300, 1\), got 0"),
    (lambda: HyperbolicGaussian(1.0, 0.1, 0.0), "clip must be finite and >= 1e-30, got 0"),
    (
        lambda: HyperbolicGaussian(100.0, 1e-5, 1.2e-38),
        "clip must be finite and >= 1e-30, got 1.2e-38",
    ),
    (lambda: HyperbolicGaussian(1.0, 0.1, np.array([1.0, 2.0])), "clip must be one number"),
    (lambda: HyperbolicGaussian(1.0, 0.1, dim=0), "dim must be"),
    (lambda: HyperbolicGaussian(1.0, 0.1, c=-1.0), "c must be"),
    (
        lambda: RadialAngularGaussian(1.0, 0.1, 1.0, 1.5),
        r"radial_share must be in \[0, 1\], got 1.5",
    ),
    (
        lambda: jax.vmap(lambda e: HyperbolicGaussian(e, 0.1).sigma)(jnp.ones(2)),
        "epsilon must be concrete",
    ),
    (lambda: negated(HyperbolicGaussian(1.0, 0.1)).guarantee(), "epsilon must be"),
    (lambda: PaperHyperbolicGaussian(0.0), "epsilon must be"),
    (lambda: PaperHyperbolicGaussian(1.0, 1.0), "delta must be"),
    (lambda: PaperHyperbolicGaussian(1.0, clip=-1.0), "clip must be"),
    (lambda: PaperHyperbolicGaussian(1.0, dim=0), "dim must be"),
    (lambda: riemannian_sgd(0.0), "learning_rate must be finite and > 0"),
    (lambda: riemannian_sgd(0.1, -1.0), "c must be finite and > 0"),
    (lambda: riemannian_sgd(0.1).update(AT, optax.ScaleByScheduleState(0)), "params must be given"),
    (lambda: optimizers.apply_updates(AT, AT, 0.0), "c must be finite and > 0"),
    (lambda: EMBED([[0, 4]]), r"relation must be in \[0, 4\)"),
    (lambda: EMBED([[0, 0]]), "relation must be of two different nodes"),
    (lambda: EMBED([[0, 1], [0, 1]]), "relation must name each pair once"),
    (lambda: EMBED(np.zeros((0, 2), int)), "relation must be .* one pair at least"),
    *(
        (lambda one=one: EMBED([[0, 1]], **dict([one])), f"{one[0]} must be a whole number")
        for one in SMALL.items()
    ),
    (lambda: EMBED([[0, 1]], learning_rate=0.0), "learning_rate must be finite and > 0"),
    (lambda: embedding.embed(0, np.array([[0, 1]]), 2), "key must be a typed key"),
    (lambda: embedding.reconstruction(np.eye(2), [[0, 1]]), "points must be within the ball"),
    (lambda: embedding.reconstruction(np.zeros(2), [[0, 1]]), "points must have shape"),
    (lambda: embedding.reconstruction(np.zeros((2, 2)), [[0, 2]]), r"relation must be in \[0, 2\)"),
    (lambda: embedding.closure([1, 0]), "parent must have no cycle"),
    (lambda: embedding.closure([0, 2]), r"parent must be integers \[n\]"),
    (lambda: hyperbolicity.graph_delta(KEY, [[0, 1]], 5), "edges must connect four nodes"),
    (lambda: hyperbolicity.graph_delta(KEY, [[0, 5]], 5), r"edges must be in \[0, 5\)"),
    (
        lambda: sensitivity.inter_hierarchy_of_nodes(AT[None]),
        "number of points",
    ),
    (lambda: sensitivity.inter_hierarchy_of_nodes(np.eye(3)), "x must be within the ball"),
    (
        lambda: sensitivity.intra_hierarchy_of_nodes(np.eye(3), chunk=0),
        "chunk must be a whole number",
    ),
]


def test_bad_input(untyped):
    for call, words in REFUSED:
        with pytest.raises(ValueError, match=words):
            call()
