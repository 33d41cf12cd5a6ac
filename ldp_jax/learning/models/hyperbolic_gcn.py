"""The hyperbolic graph convolutional network.

Classes or labels of nodes, through the Poincaré ball.
"""

import math
from typing import Literal, get_args

import flax.linen as nn
import jax.numpy as jnp

from ldp_jax.core import validate
from ldp_jax.core.types import Array, Scalar
from ldp_jax.graph.propagation import Normalisation
from ldp_jax.hyperbolic import poincare
from ldp_jax.hyperbolic.numerics import as_points, shorten
from ldp_jax.learning.models._dropout import Dropout
from ldp_jax.learning.models._model import Model, check_sizes, from_linen
from ldp_jax.learning.models.gcn import average, node_inputs, operator_of

Activation = Literal["relu", "elu"]

_GLOROT = nn.initializers.glorot_uniform()


class _HyperbolicGCN(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float
    c: float
    learn_curvature: bool
    activation: str
    normalisation: str

    @nn.compact
    def __call__(self, inputs: tuple, train: bool) -> Array:
        graph, x, scale = node_inputs(inputs)
        op = operator_of(graph, len(x))
        # Between layers a point h is kept as log_0(h), which rounding moves least: exp_0 and log_0
        # cancel.
        t = as_points("x", x * (1.0 if scale is None else scale[:, None]))  # of 0/1 records, too
        for layer in range(self.layers):
            c: Scalar = self.c
            if self.learn_curvature:
                log = nn.initializers.constant(math.log(self.c))
                c = jnp.exp(jnp.clip(self.param(f"log_c_{layer}", log, ()), -7.0, 3.0))
            last = layer == self.layers - 1
            width = self.outputs if last else self.hidden
            # No longer than half of REACH, so that float32 holds the point.
            t = shorten(t, poincare.REACH / 2 / jnp.sqrt(jnp.asarray(c, t.dtype)))
            t = Dropout(self.dropout)(t, train)
            h = poincare.exp_0(nn.Dense(width, use_bias=False, kernel_init=_GLOROT)(t), c)
            bias = self.param(f"bias_{layer}", nn.initializers.zeros, (width,))
            h = poincare.mobius_add(h, poincare.exp_0(bias, c), c)
            t = average(op, poincare.log_0(h, c), self.normalisation)
            t = t if last else getattr(nn, self.activation)(t)
        return t


def hyperbolic_gcn(
    layers: int = 2,
    hidden: int = 64,
    outputs: int = 2,
    dropout: float = 0.0,
    c: float = 1.0,
    learn_curvature: bool = False,
    activation: Activation = "relu",
    normalisation: Normalisation = "mean",
) -> Model:
    r"""Make graph convolutions of points of the Poincaré ball.

    Means and activations are taken in the tangent space.

    A record is the point :math:`h_v = \exp_0(x_v)`. A layer is

    .. math:: p_v = (W \otimes h_v) \oplus \exp_0(b), \qquad
        h_v \leftarrow \exp_0(\sigma(\mathrm{mean}(\log_0 p_v, \log_0 p_u : u \to v)))

    The tangent vectors of the last layer, without activation, are the logits. The curvature c is in
    [1e-3, 20]; each layer may learn its own, from ``c`` on. Inputs, outputs and the means are those
    of :func:`ldp_jax.learning.models.gcn`, which this becomes as c goes to 0.

    *Numerics*: points are kept within ``poincare.REACH / sqrt(c)`` of the origin; scale records to
    a length near 1.
    Reference: Chami et al., Hyperbolic graph convolutional neural networks (NeurIPS 2019), eq.
    5-11, with equal weights at the origin in place of learned attention; Ganea, Bécigneul & Hofmann
    (NeurIPS 2018), section 3.2.

    >>> import jax
    >>> from ldp_jax.graph import graphs
    >>> path, x = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3), jnp.eye(3)
    >>> model = hyperbolic_gcn(2, 8, 4)
    >>> apply = jax.jit(model.apply, static_argnames="train")
    >>> variables = jax.jit(model.init)(jax.random.key(0), (path, x))
    >>> apply(variables, (path, x), key=None, train=False)[0].shape
    (3, 4)
    """
    check_sizes(dropout, layers=layers, hidden=hidden, outputs=outputs)
    c = validate.number(1e-3, 20.0, c=c)
    validate.one_of(get_args(Activation), activation=activation)
    validate.one_of(get_args(Normalisation), normalisation=normalisation)
    return from_linen(
        _HyperbolicGCN(
            layers, hidden, outputs, dropout, c, learn_curvature, activation, normalisation
        )
    )
