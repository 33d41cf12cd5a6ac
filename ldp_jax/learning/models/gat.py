"""The graph attention network: classes or labels of the nodes of one graph."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.learning.models._attention import attend
from ldp_jax.learning.models._dropout import Dropout
from ldp_jax.learning.models._model import Model, from_linen
from ldp_jax.learning.models.gcn import NodeInputs, operator_of

_GLOROT = nn.initializers.glorot_uniform()
_ATTENTION = nn.initializers.glorot_uniform(batch_axis=0)  # a map from the width to one number, for each head


class _GAT(nn.Module):
    layers: int
    heads: int
    hidden: int
    outputs: int
    output_heads: int
    dropout: float
    attention_dropout: float

    @nn.compact
    def __call__(self, inputs: tuple[Any, ...], train: bool) -> Array:
        graph, x, scale = NodeInputs(*inputs)
        op, h = operator_of(graph, len(x)), jnp.asarray(x)
        for layer in range(self.layers):
            last = layer == self.layers - 1
            heads, width = (self.output_heads, self.outputs) if last else (self.heads, self.hidden)
            h = Dropout(self.dropout)(h, train)
            h = nn.Dense(heads * width, use_bias=False, kernel_init=_GLOROT)(h)
            if layer == 0 and scale is not None:
                h = h * scale[:, None]
            h = h.reshape(-1, heads, width)
            receiver, sender = (
                (h * self.param(f"{end}_{layer}", _ATTENTION, (heads, width, 1))[..., 0]).sum(-1)
                for end in ("receiver", "sender")
            )
            key = self.make_rng("dropout") if train and self.attention_dropout else None
            h = attend(op.neighbours, receiver, sender, h, key=key, rate=self.attention_dropout)
            h = h.mean(1) if last else h.reshape(len(h), heads * width)
            h = h + self.param(f"bias_{layer}", nn.initializers.zeros, (h.shape[1],))
            h = h if last else nn.elu(h)
        return h


def gat(
    layers: int = 2,
    heads: int = 8,
    hidden: int = 8,
    outputs: int = 2,
    dropout: float = 0.0,
    attention_dropout: float | None = None,
    output_heads: int = 1,
) -> Model:
    r"""Graph attention: each head averages a node and its neighbours by learned weights.

    In a head, :math:`h_v \leftarrow \mathrm{ELU}(\sum_u \alpha_{vu} W h_u + b)` over v and the senders u of the
    edges into it, with :math:`\alpha_{vu} = \mathrm{softmax}_u \, \mathrm{LeakyReLU}(p \cdot W h_v + q \cdot W
    h_u)` and slope 0.2 below 0. Heads are concatenated; in the last layer they are averaged, without ELU: the
    outputs are logits, as of :func:`ldp_jax.learning.models.gcn`.

    Args:
      layers: how many attentions, at least 1.
      heads: of each layer but the last.
      hidden: width of each of these heads.
      outputs: classes, or labels.
      dropout: the share of each layer's inputs dropped in training, in [0, 1).
      attention_dropout: the share of weights alpha dropped in training, in [0, 1); None for ``dropout``.
      output_heads: heads of the last layer.

    Returns:
      A model whose inputs are ``(graph, x)`` or :class:`ldp_jax.learning.models.NodeInputs`, and whose outputs are
      float [n, outputs]. The graph has no self-loops: every node attends to itself. Layout ``segment`` of its
      operator is fastest here; dropped weights are the same in every layout, for the same key. First derivatives,
      both modes.

    Raises:
      ValueError: for an argument out of range.

    Reference: Veličković et al., Graph attention networks (ICLR 2018), eq. 1-6 and section 3.3 (8 heads of 8, then
    1 of the classes, dropout 0.6).

    >>> import jax, jax.numpy as jnp
    >>> from ldp_jax.graph import graphs
    >>> path, x = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3), jnp.eye(3)
    >>> model = gat(layers=1, outputs=5)
    >>> model.apply(model.init(jax.random.key(0), (path, x)), (path, x), key=None, train=False)[0].shape
    (3, 5)
    """
    attention_dropout = dropout if attention_dropout is None else attention_dropout
    validate.integer_in(1, layers=layers, heads=heads, hidden=hidden, outputs=outputs, output_heads=output_heads)
    validate.in_range(0.0, 0.999, dropout=dropout)
    validate.in_range(0.0, 0.999, attention_dropout=attention_dropout)
    return from_linen(_GAT(layers, heads, hidden, outputs, output_heads, dropout, attention_dropout))
