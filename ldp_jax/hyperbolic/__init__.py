"""Hyperbolic geometry.

The Poincaré ball, a distribution on it, embeddings of hierarchies, and mechanisms.

``poincare`` has the geometry of the ball, ``wrapped_normal`` the distribution.
:class:`HyperbolicGaussian` and :class:`RadialAngularGaussian` are local mechanisms on hyperbolic
vectors, :class:`HyperbolicExponential` on points of the plane, without a delta;
:class:`PaperHyperbolicGaussian` is published, and has no guarantee.

>>> import jax.numpy as jnp
>>> from ldp_jax.hyperbolic import poincare
>>> round(float(poincare.distance(jnp.zeros(2), jnp.array([0.5, 0.0]))), 4)
1.0986
"""

from ldp_jax.hyperbolic import poincare, wrapped_normal
from ldp_jax.hyperbolic.embedding import closure, embed, radius, reconstruction
from ldp_jax.hyperbolic.exponential import HyperbolicExponential
from ldp_jax.hyperbolic.gaussian import HyperbolicGaussian, RadialAngularGaussian
from ldp_jax.hyperbolic.hyperbolicity import graph_delta
from ldp_jax.hyperbolic.optimizers import apply_updates, riemannian_sgd
from ldp_jax.hyperbolic.published import PaperHyperbolicGaussian
from ldp_jax.hyperbolic.sensitivity import inter_hierarchy_of_nodes, intra_hierarchy_of_nodes

__all__ = [
    "HyperbolicExponential",
    "HyperbolicGaussian",
    "PaperHyperbolicGaussian",
    "RadialAngularGaussian",
    "apply_updates",
    "closure",
    "embed",
    "graph_delta",
    "inter_hierarchy_of_nodes",
    "intra_hierarchy_of_nodes",
    "poincare",
    "radius",
    "reconstruction",
    "riemannian_sgd",
    "wrapped_normal",
]

__dir__ = lambda: __all__
