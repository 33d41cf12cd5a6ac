"""The graph convolutional network: classes or labels of the nodes of one graph."""

from typing import NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ldp_jax.core import validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Graph
from ldp_jax.graph.aggregation import Segments
from ldp_jax.graph.graphs import as_graph, degree
from ldp_jax.graph.propagation import Normalisation, Operator
from ldp_jax.learning.models._model import Model, check_sizes, from_linen


class NodeInputs(NamedTuple):
    """The inputs of a model of the nodes of a graph.

    Attributes:
      graph: a ``jraph.GraphsTuple`` of one graph, traced or not, its edges in any order, or its
        :class:`ldp_jax.graph.propagation.Operator`, which is sorted and laid out once.
      x: float [n, d], a record for each node; ``scale`` [n] multiplies each, and None is 1.
    """

    graph: Graph | Operator
    x: Float[AnyArray, "n d"]
    scale: Float[AnyArray, " n"] | None = None

    __repr__ = by_shapes


def operator_of(graph: Graph | Operator, num_nodes: int) -> Operator:
    """The operator of any graph that a model may be given.

    ``ValueError`` unless of ``num_nodes`` nodes.
    """
    if not isinstance(graph, Operator):
        graph = as_graph(graph)
        check_rows(graph, num_nodes)
        receivers = jnp.asarray(graph.receivers)
        order = jnp.argsort(receivers, stable=True)
        edges = Segments(jnp.asarray(graph.senders)[order], receivers[order])
        graph = Operator(degree(receivers, num_nodes), edges, directed=True)
    check_rows(graph, num_nodes)
    return graph


def node_inputs(inputs: tuple) -> NodeInputs:
    """The inputs of a model of whole graphs.

    ``TypeError`` for x alone, whose rows would be taken for the inputs.
    """
    if not isinstance(inputs, (tuple, list)):
        raise TypeError(
            "inputs must be (graph, x) of all nodes, trained through training.on_graph, got x alone"
        )
    return NodeInputs(*inputs)


def check_rows(graph: Graph | Operator, num_nodes: int) -> None:
    """Refuse a concrete graph, or an operator, of another number of nodes than x has rows."""
    if isinstance(graph, Operator):
        count = graph.num_nodes
    else:
        nodes = as_graph(graph).n_node
        count = int(np.sum(np.asarray(nodes))) if validate.concrete(nodes) else num_nodes
    validate.require(
        count == num_nodes, f"x must have a row for each of {count} nodes, got {num_nodes} rows"
    )


def average(op: Operator, h: Array, normalisation: str) -> Array:
    """Average rows [n, ...] of ``h`` over each node and its neighbours.

    The average is the mean, or the symmetric form.
    """
    around = (op.degree + 1.0).reshape(-1, *(1,) * (h.ndim - 1))
    if normalisation == "mean":
        return (op.sum(h) + h) / around
    inverse = jax.lax.rsqrt(around)
    return inverse * (op.sum(inverse * h) + inverse * h)


class _GCN(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float
    normalisation: str

    @nn.compact
    def __call__(self, inputs: tuple, train: bool) -> Array:
        graph, x, scale = node_inputs(inputs)
        op = operator_of(graph, len(x))
        h = jnp.asarray(x)
        for layer in range(self.layers):
            if layer:
                h = nn.Dropout(self.dropout, deterministic=not train)(nn.relu(h))
            width = self.outputs if layer == self.layers - 1 else self.hidden
            # The average of rows commutes with the linear map: the narrower rows are averaged.
            h = nn.Dense(width, use_bias=False)(h)
            if layer == 0 and scale is not None:
                h = h * scale[:, None]
            h = average(op, h, self.normalisation) + self.param(
                f"bias_{layer}", nn.initializers.zeros, (width,)
            )
        return h


def gcn(
    layers: int,
    hidden: int,
    outputs: int,
    dropout: float = 0.0,
    normalisation: Normalisation = "mean",
) -> Model:
    r"""Make a graph convolutional network.

    :math:`h_v \leftarrow \sigma(W \, \mathrm{mean}(h_v, h_u : u \to v) + b)`.

    The mean runs over a node and the senders of the edges into it (the graph has no self-loops);
    ``symmetric`` is :math:`D^{-1/2} (A + I) D^{-1/2}` with D the degree of A + I. Sigma is ReLU,
    with dropout after it, and the identity in the last layer. Inputs are ``(graph, x)`` or
    :class:`NodeInputs`; outputs are logits [n, outputs] of classes or labels, trained through
    :func:`ldp_jax.learning.training.on_graph`.
    Reference: HeteroRR eq. 1-2 (the mean); Kipf & Welling, Semi-supervised classification with
    graph convolutional networks (ICLR 2017), eq. 2 (symmetric).

    >>> from ldp_jax.graph import graphs
    >>> path, x = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3), jnp.eye(3)
    >>> model = gcn(2, 8, 4)
    >>> apply = jax.jit(model.apply, static_argnames="train")
    >>> variables = jax.jit(model.init)(jax.random.key(0), (path, x))
    >>> apply(variables, (path, x), key=None, train=False)[0].shape
    (3, 4)
    """
    check_sizes(dropout, layers=layers, hidden=hidden, outputs=outputs)
    validate.one_of(get_args(Normalisation), normalisation=normalisation)
    return from_linen(_GCN(layers, hidden, outputs, dropout, normalisation))
