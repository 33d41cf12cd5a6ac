"""The graph isomorphism network, for classes of graphs."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from ldp_jax.core.types import Array
from ldp_jax.graph import packing
from ldp_jax.graph.graphs import GraphsTuple
from ldp_jax.learning.models._model import Model, check_sizes, from_linen

_MOMENTUM = 0.9  # what the running statistics keep of themselves in a step, as in PyTorch
_EPSILON = 1e-5


class _NormReLU(nn.Module):
    """Batch norm and ReLU of rows that stand for ``count`` nodes each.

    Rows of none come out finite.
    """

    @nn.compact
    def __call__(self, rows: Array, count: Array, train: bool) -> Array:
        width = rows.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (width,))
        bias = self.param("bias", nn.initializers.zeros, (width,))
        running = self.variable("batch_stats", "mean", jnp.zeros, (width,))
        spread = self.variable("batch_stats", "var", jnp.ones, (width,))
        mean = running.value
        variance = spread.value
        if train:
            nodes = jnp.maximum(count.sum(), 1.0)
            weight = (count / nodes)[:, None]
            mean = (rows * weight).sum(0)
            variance = ((rows - mean) ** 2 * weight).sum(0)
            # As in PyTorch, the running variance is unbiased, and that of a batch is not.
            unbiased = variance * nodes / jnp.maximum(nodes - 1.0, 1.0)
            for kept, new in ((running, mean), (spread, unbiased)):
                new = jax.lax.stop_gradient(new)
                kept.value = _MOMENTUM * kept.value + (1 - _MOMENTUM) * new
        factor = jax.lax.rsqrt(variance + _EPSILON) * scale
        return nn.relu((rows - mean) * factor + bias)


class _GIN(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float
    mlp_layers: int

    @nn.compact
    def __call__(self, inputs: GraphsTuple | packing.Batch, train: bool) -> Array:
        if not isinstance(inputs, packing.Batch):
            inputs = packing.from_graphs(inputs)
        count = inputs.node_count
        h = jnp.ones((len(count), 1), jnp.float32)
        scores = self._read(inputs, h, train)
        for _ in range(self.layers - 1):
            h = h + inputs.sum_neighbours(h)
            # As published: batch norm and ReLU between the layers of the MLP, and once more after
            # it. Batch norm would subtract the bias of a dense layer again, so there is none.
            for _ in range(self.mlp_layers):
                h = _NormReLU()(nn.Dense(self.hidden, use_bias=False)(h), count, train)
            scores = scores + self._read(inputs, h, train)
        return scores

    def _read(self, inputs: packing.Batch, h: Array, train: bool) -> Array:
        scores = nn.Dense(self.outputs)(inputs.mean_nodes(h))
        return nn.Dropout(self.dropout, deterministic=not train)(scores)


def gin(
    layers: int = 5, hidden: int = 64, outputs: int = 2, dropout: float = 0.5, mlp_layers: int = 2
) -> Model:
    r"""GIN-0 for graphs without features: a class of graphs from their structure.

    Every node starts from the constant 1, and
    :math:`h_v \leftarrow \mathrm{MLP}(h_v + \sum_{u \to v} h_u)`, batch norm, ReLU. In the input
    and every layer, the mean of h over a graph's nodes goes through a linear map and dropout; the
    sum of these is the output. ``layers`` counts the input, as the published code does. Inputs are
    a ``jraph.GraphsTuple`` as ``jraph.batch`` makes it (padded ones go through
    ``packing.from_graphs(graph, padded=True)``), or a :class:`ldp_jax.graph.packing.Batch`; outputs
    are float [graphs, outputs], invalid in free places. ``variables["batch_stats"]`` are for
    evaluation.
    Reference: Xu et al., How powerful are graph neural networks? (ICLR 2019), eq. 4.1 at epsilon 0;
    section 7.

    >>> pair_and_single = packing.GraphSet.from_edges(
    ...     [1, 0], [0, 1], [0, 0, 1], [0, 1]
    ... )
    >>> model = gin(layers=3, hidden=8)
    >>> variables = model.init(jax.random.key(0), pair_and_single.graph)
    >>> model.apply(variables, pair_and_single.graph, key=None, train=False)[
    ...     0
    ... ].shape
    (2, 2)
    """
    check_sizes(dropout, layers=layers, hidden=hidden, outputs=outputs, mlp_layers=mlp_layers)
    return from_linen(_GIN(layers, hidden, outputs, dropout, mlp_layers))
