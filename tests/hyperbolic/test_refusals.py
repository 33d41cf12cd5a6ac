"""What every public name of the room refuses: each message names the argument at fault."""

from functools import partial

import jax
import numpy as np
import optax
import pytest

from ldp_jax.hyperbolic import (
    HyperbolicExponential,
    HyperbolicGaussian,
    PaperHyperbolicGaussian,
    RadialAngularGaussian,
    apply_updates,
    closure,
    embed,
    graph_delta,
    inter_hierarchy_of_nodes,
    intra_hierarchy_of_nodes,
    poincare,
    reconstruction,
    riemannian_sgd,
    wrapped_normal,
)

KEY = jax.random.key(0)
AT = np.array([0.1, 0.2])
OUTSIDE = np.array([0.8, 0.7])
TWO = np.array([1.0, 2.0])
negated = lambda m: jax.tree.map(lambda leaf: -leaf, m)
small = lambda name, value: (f"{name} must be", partial(embed, **{name: value}), KEY, [[0, 1]], 4)

REFUSED = [
    ("y must be within the ball of radius .*= 1, got 1 points", poincare.distance, AT, OUTSIDE),
    ("x must be within", poincare.distance, [np.nan, 0.0], AT),
    ("x must be within the ball of radius .* = 0.1, ", poincare.norm, AT, 100.0),
    ("x must be within", poincare.norm, np.array([2**32, 0])),  # JAX would take it for 0
    ("parent must be integers", closure, np.ma.array([0, 0, 1], mask=[0, 0, 1])),
    ("m must have shape", poincare.mobius_matvec, np.eye(3), AT),
    ("c must be finite and > 0", poincare.project, AT, 0.0),
    ("c must be finite and > 0", poincare.conformal_factor, AT, np.nan),
    ("c must be one number", poincare.norm, AT, TWO),
    ("x must be real coordinates", poincare.norm, 0.5),
    ("x must be real coordinates", poincare.project, np.zeros((3, 0))),
    (r"as many coordinates each, got \[1, 2\]", poincare.distance, [0.5], AT),  # was broadcast
    ("as many coordinates", poincare.exp_map, AT, [0.5]),
    ("as many coordinates", jax.jit(poincare.log_map), AT, np.zeros((4, 3))),
    ("as many coordinates", wrapped_normal.log_density, AT, [0.1], 1.0),
    ("mean must be within", wrapped_normal.sample, KEY, [2.0, 0.0], 1.0),
    ("scale must be finite and > 0", wrapped_normal.sample, KEY, AT, 0.0),
    ("scale must be a number, or", wrapped_normal.sample, KEY, AT, np.ones(3)),
    ("key must be", wrapped_normal.sample, 0, AT, 1.0),
    ("volume must be", partial(wrapped_normal.log_density, volume="flat"), AT, AT, 1.0),
    ("radius must be", HyperbolicExponential, 1.0, 0.0),
    ("radius must be in", HyperbolicExponential, 1.0, 8.1),
    (r"radius must be in \[5e-07, 4\], got 5", HyperbolicExponential, 1.0, 5.0, 4.0),
    (r"radius must be in \[1e-06, 8.*got 1e-13", HyperbolicExponential, 1.0, 1e-13),
    ("c must be finite and > 0", HyperbolicExponential, 1.0, 1.0, -1.0),
    ("radius must be one number", HyperbolicExponential, 1.0, TWO),
    ("epsilon must be", negated(HyperbolicExponential(1.0)).guarantee),
    ("delta must be", HyperbolicGaussian, 1.0, 0.0),
    ("delta must be", HyperbolicGaussian, 1.0, 1.0),
    ("holds a stack", HyperbolicGaussian(TWO, 0.1).privatize, KEY, AT),
    ("holds a stack", HyperbolicExponential(TWO).privatize, KEY, AT),
    ("clip must be finite and >= 1e-30", HyperbolicGaussian, 1.0, 0.1, 0.0),
    ("clip must be finite and >= 1e-30", HyperbolicGaussian, 100.0, 1e-5, 1.2e-38),
    ("clip must be one number", HyperbolicGaussian, 1.0, 0.1, TWO),
    ("dim must be", HyperbolicGaussian, 1.0, 0.1, 1.0, 0),
    ("c must be", HyperbolicGaussian, 1.0, 0.1, 1.0, 2, -1.0),
    ("c must be", HyperbolicGaussian, 1.0, 0.1, 1.0, 2, 0.0),
    ("clip must be concrete", jax.jit(lambda c: HyperbolicGaussian(1.0, 0.1, c).sigma), 1.0),
    ("radial_share must be", RadialAngularGaussian, 1.0, 0.1, 1.0, 1.5),
    ("epsilon must be concrete", jax.vmap(lambda e: HyperbolicGaussian(e, 0.1).sigma), TWO),
    ("epsilon must be", negated(HyperbolicGaussian(1.0, 0.1)).guarantee),
    ("epsilon must be", PaperHyperbolicGaussian, 0.0),
    ("delta must be", PaperHyperbolicGaussian, 1.0, 1.0),
    ("clip must be", PaperHyperbolicGaussian, 1.0, 1e-4, -1.0),
    ("learning_rate must be", riemannian_sgd, 0.0),
    ("c must be", riemannian_sgd, 0.1, -1.0),
    ("params must be", riemannian_sgd(0.1).update, AT, optax.ScaleByScheduleState(0)),
    ("c must be", apply_updates, AT, AT, 0.0),
    (r"relation must be in \[0, 4\)", embed, KEY, [[0, 4]], 4),
    ("relation must be of two different nodes", embed, KEY, [[0, 0]], 4),
    ("relation must name each pair once", embed, KEY, [[0, 1], [0, 1]], 4),
    ("one pair at least", embed, KEY, np.zeros((0, 2), int), 4),
    ("key must be", embed, 0, [[0, 1]], 2),
    small("dim", 0),
    small("epochs", -1),
    small("burn_in", -1),
    small("batch_size", 0),
    small("negatives", 0),
    small("learning_rate", 0.0),
    ("points must be within the ball", reconstruction, np.eye(2), [[0, 1]]),
    ("points must have shape", reconstruction, np.zeros(2), [[0, 1]]),
    ("chunk must be", partial(reconstruction, chunk=0), np.zeros((2, 2)), [[0, 1]]),
    (r"relation must be in \[0, 2\)", reconstruction, np.zeros((2, 2)), [[0, 2]]),
    ("parent must have no cycle", closure, [1, 0]),
    (r"parent must be integers \[n\]", closure, [0, 2]),
    (r"parent must be integers \[n\]", closure, [0.0, 0.0]),
    (r"parent must be integers \[n\]", closure, [0, -1]),
    (r"parent must be integers \[n\]", closure, [[0, 0]]),
    ("edges must connect four nodes", graph_delta, KEY, [[0, 1]], 5),
    (r"edges must be in \[0, 5\)", graph_delta, KEY, [[0, 5]], 5),
    ("number of points", inter_hierarchy_of_nodes, AT[None]),
    ("points must have shape", inter_hierarchy_of_nodes, AT),
    ("x must be within the ball", inter_hierarchy_of_nodes, np.eye(3)),
    ("chunk must be", partial(intra_hierarchy_of_nodes, chunk=0), np.eye(3)),
]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused[0][:30])
def test_bad_input_is_refused(refused, untyped):
    words, call, *given = refused
    with pytest.raises(ValueError, match=words):
        call(*given)
