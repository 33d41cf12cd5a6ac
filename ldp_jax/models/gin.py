"""The graph isomorphism network, for classes of graphs."""

from functools import lru_cache
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from ldp_jax import _validate
from ldp_jax.models._model import Model, from_linen
from ldp_jax.types import Array

_MOMENTUM = 0.9  # what the running statistics keep of themselves in a step, as in PyTorch
_EPSILON = 1e-5


class _MaskedBatchNorm(nn.Module):
    """Batch norm whose statistics are those of the rows in ``mask``; what it makes of other rows is finite."""

    @nn.compact
    def __call__(self, rows: Array, mask: Array, train: bool) -> Array:
        width = rows.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (width,))
        bias = self.param("bias", nn.initializers.zeros, (width,))
        mean_kept = self.variable("batch_stats", "mean", jnp.zeros, (width,))
        variance_kept = self.variable("batch_stats", "var", jnp.ones, (width,))
        if train:
            weight = mask.astype(rows.dtype)
            weight = weight / jnp.maximum(weight.sum(), 1.0)
            # A product with the weights is several times faster than a masked reduction on a CPU.
            mean = jnp.dot(weight, rows, precision="highest")
            variance = jnp.dot(weight, (rows - mean) ** 2, precision="highest")
            if not self.is_initializing():
                mean_kept.value = _MOMENTUM * mean_kept.value + (1 - _MOMENTUM) * jax.lax.stop_gradient(mean)
                variance_kept.value = _MOMENTUM * variance_kept.value + (1 - _MOMENTUM) * jax.lax.stop_gradient(
                    variance
                )
        else:
            mean, variance = mean_kept.value, variance_kept.value
        return (rows - mean) * (jax.lax.rsqrt(variance + _EPSILON) * scale) + bias


class _GIN(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float
    mlp_layers: int

    @nn.compact
    def __call__(self, inputs: Any, train: bool) -> Array:
        mask = inputs.node_mask
        h = jnp.ones((len(mask), 1), jnp.float32)
        scores = self._read(inputs, h, train)
        for _ in range(self.layers - 1):
            h = h + inputs.sum_neighbours(h)
            for _ in range(self.mlp_layers - 1):
                h = nn.relu(_MaskedBatchNorm()(nn.Dense(self.hidden)(h), mask, train))
            h = nn.relu(_MaskedBatchNorm()(nn.Dense(self.hidden)(h), mask, train))
            scores = scores + self._read(inputs, h, train)
        return scores

    def _read(self, inputs: Any, h: Array, train: bool) -> Array:
        scores = nn.Dense(self.outputs)(inputs.mean_nodes(h))
        return nn.Dropout(self.dropout, deterministic=not train)(scores)


@lru_cache
def gin(layers: int = 5, hidden: int = 64, outputs: int = 2, dropout: float = 0.5, mlp_layers: int = 2) -> Model:
    r"""GIN-0 for graphs without features: a class of graphs from their structure.

    Every node starts from the constant 1, and :math:`h_v \leftarrow \mathrm{MLP}(h_v + \sum_{u \to v} h_u)`, batch
    norm, ReLU. The mean of h over a graph's nodes, in every layer and the input, goes through a linear map of its
    own and dropout; the sum of these is the output. The sum runs over the senders u of the edges into v: in a
    noisy directed graph these are the neighbour list that user v reported (row v of the noisy adjacency matrix,
    as the authors' code multiplies it).

    Args:
      layers: what is read out: the input and ``layers - 1`` rounds of messages, as the published code counts; at
        least 1.
      hidden: width of h.
      outputs: classes.
      dropout: the share of each layer's scores that is dropped in training, in [0, 1).
      mlp_layers: dense layers of each MLP, at least 1; batch norm and ReLU between them.

    Returns:
      A model whose inputs are a :class:`ldp_jax.packing.Batch` (anything with its masks, ``sum_neighbours`` and
      ``mean_nodes``) and whose outputs are float [graphs, outputs]; those in free places mean nothing. Batch norm
      takes its statistics over the nodes in the mask; ``variables["batch_stats"]`` keeps them with momentum 0.1,
      for where ``train`` is False.

    Reference: Xu et al., How powerful are graph neural networks? (ICLR 2019), eq. 4.1 with epsilon 0; section 7
    for the settings.

    >>> from ldp_jax import packing
    >>> batch = packing.whole(packing.GraphSet.from_edges([1, 0], [0, 1], [0, 0, 1], [0, 1]))
    >>> model = gin(layers=3, hidden=8)
    >>> variables = model.init(jax.random.key(0), batch)
    >>> model.apply(variables, batch, key=None, train=False)[0].shape
    (2, 2)
    """
    _validate.integer_in(1, layers=layers)
    _validate.integer_in(1, hidden=hidden)
    _validate.integer_in(1, outputs=outputs)
    _validate.in_range(0.0, 0.999, dropout=dropout)
    _validate.integer_in(1, mlp_layers=mlp_layers)
    return from_linen(_GIN(layers, hidden, outputs, dropout, mlp_layers))
