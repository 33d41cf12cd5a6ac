"""A graph convolutional network that knows each node's place in a hierarchy."""

from typing import Literal, NamedTuple, get_args

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Graph
from ldp_jax.graph.propagation import Operator
from ldp_jax.learning.models._attention import attend
from ldp_jax.learning.models._dropout import Dropout
from ldp_jax.learning.models._model import Model, check_sizes, from_linen
from ldp_jax.learning.models.gcn import average, operator_of

Weights = Literal["hierarchy", "degree"]

_GLOROT = nn.initializers.glorot_uniform()


class PlacedInputs(NamedTuple):
    """A graph, records, and places [n, k] in a hierarchy, such as a Poincaré embedding.

    Public, as the graph.
    """

    graph: Graph | Operator
    x: Float[AnyArray, "n d"]
    places: Float[AnyArray, "n k"]

    __repr__ = by_shapes


def checked_places(places: AnyArray, n: int) -> Array:
    """Places as float32 [n, k]."""
    places = jnp.asarray(places, jnp.float32)
    validate.require(
        places.ndim == 2 and len(places) == n,
        f"places must have a row for each of {n} nodes, got shape {places.shape}",
    )
    return places


class _HyperIMBA(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float
    alpha: float
    weights: str

    @nn.compact
    def __call__(self, inputs: PlacedInputs, train: bool) -> Array:
        graph, h, places = PlacedInputs(*inputs)
        op = operator_of(graph, len(h))
        places = checked_places(places, len(h))
        h = jnp.asarray(h)
        for layer in range(self.layers):
            last = layer == self.layers - 1
            width = self.outputs if last else self.hidden
            h = Dropout(self.dropout)(h, train)
            h = nn.Dense(width, use_bias=False, kernel_init=_GLOROT)(h)
            if self.weights == "hierarchy":
                receiver = self._read(places, width, 1, f"receiver_{layer}")
                sender = self._read(places, width, 1, f"sender_{layer}")
                h = attend(op.neighbours, receiver, sender, h[:, None])[:, 0]
            else:
                h = average(op, h, "symmetric")
            read = self._read(places, width, width, f"place_{layer}")
            h = h + self.alpha * nn.leaky_relu(read, 0.01)
            h = h + self.param(f"bias_{layer}", nn.initializers.zeros, (width,))
            if not last:
                h = nn.elu(h)
        return h

    def _read(self, places: Array, width: int, outputs: int, name: str) -> Array:
        hidden = nn.leaky_relu(nn.Dense(width, use_bias=False, name=f"{name}_in")(places), 0.2)
        return nn.Dense(outputs, name=f"{name}_out")(hidden)


def hyperimba(
    layers: int = 2,
    hidden: int = 16,
    outputs: int = 2,
    dropout: float = 0.6,
    alpha: float = 1.0,
    weights: Weights = "hierarchy",
) -> Model:
    r"""Graph convolutions that weigh neighbours by their places in a hierarchy.

    In a layer :math:`h_v \leftarrow \mathrm{ELU}(\sum_u w_{vu} W h_u + \alpha \, m(p_v) + b)` over
    v and the senders u of the edges into it, with
    :math:`w_{vu} = \mathrm{softmax}_u \, \mathrm{LeakyReLU}(f(p_v) + g(p_u))`; p are places, m, f
    and g learned perceptrons. The last layer has no ELU. With ``weights="degree"`` they are those
    of a GCN, :math:`D^{-1/2} (A + I) D^{-1/2}`. In the manner of HyperIMBA and not the same: there
    the weights are functions of the edges' Ricci curvature. Inputs are :class:`PlacedInputs`, one
    place a node; outputs are logits [n, outputs]. First derivatives.
    Reference: Fu et al., Hyperbolic geometric graph representation learning for hierarchy-imbalance
    node classification (WWW 2023), section 4.

    >>> import jax
    >>> from ldp_jax.graph import graphs
    >>> path = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> inputs = PlacedInputs(path, jnp.eye(3), jnp.zeros((3, 2)))
    >>> model = hyperimba(outputs=4)
    >>> apply = jax.jit(model.apply, static_argnames="train")
    >>> variables = jax.jit(model.init)(jax.random.key(0), inputs)
    >>> apply(variables, inputs, key=None, train=False)[0].shape
    (3, 4)
    """
    check_sizes(dropout, layers=layers, hidden=hidden, outputs=outputs)
    validate.number(0.0, alpha=alpha)
    validate.one_of(get_args(Weights), weights=weights)
    return from_linen(_HyperIMBA(layers, hidden, outputs, dropout, float(alpha), weights))
