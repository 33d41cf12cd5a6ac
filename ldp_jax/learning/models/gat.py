"""The graph attention network: classes or labels of the nodes of one graph."""

import flax.linen as nn
import jax.numpy as jnp

from ldp_jax.core import validate
from ldp_jax.core.types import Array
from ldp_jax.learning.models._attention import attend
from ldp_jax.learning.models._dropout import Dropout
from ldp_jax.learning.models._model import Model, check_sizes, from_linen
from ldp_jax.learning.models.gcn import node_inputs, operator_of

_GLOROT = nn.initializers.glorot_uniform()
_ATTENTION = nn.initializers.glorot_uniform(
    batch_axis=0
)  # a map from the width to one number, for each head


class _GAT(nn.Module):
    layers: int
    heads: int
    hidden: int
    outputs: int
    output_heads: int
    dropout: float
    attention_dropout: float

    @nn.compact
    def __call__(self, inputs: tuple, train: bool) -> Array:
        graph, x, scale = node_inputs(inputs)
        op = operator_of(graph, len(x))
        h = jnp.asarray(x)
        for layer in range(self.layers):
            last = layer == self.layers - 1
            heads, width = (self.output_heads, self.outputs) if last else (self.heads, self.hidden)
            h = Dropout(self.dropout)(h, train)
            h = nn.Dense(heads * width, use_bias=False, kernel_init=_GLOROT)(h)
            if layer == 0 and scale is not None:
                h = h * scale[:, None]
            h = h.reshape(-1, heads, width)
            scores = []
            for end in ("receiver", "sender"):
                read = self.param(f"{end}_{layer}", _ATTENTION, (heads, width, 1), jnp.float32)
                scores.append((h * read[..., 0]).sum(-1))
            key = self.make_rng("dropout") if train and self.attention_dropout else None
            receiver, sender = scores
            h = attend(op.neighbours, receiver, sender, h, key=key, rate=self.attention_dropout)
            h = h.mean(1) if last else h.reshape(len(h), heads * width)
            h = h + self.param(f"bias_{layer}", nn.initializers.zeros, (h.shape[1],))
            h = h if last else nn.elu(h)
        return h


def gat(
    layers: int = 2,
    *,  # gcn has other arguments in these places
    heads: int = 8,
    hidden: int = 8,
    outputs: int = 2,
    dropout: float = 0.0,
    attention_dropout: float | None = None,
    output_heads: int = 1,
) -> Model:
    r"""Graph attention: each head averages a node and its neighbours by learned weights.

    In a head, :math:`h_v \leftarrow \mathrm{ELU}(\sum_u \alpha_{vu} W h_u + b)` over v and the
    senders u of the edges into it, with
    :math:`\alpha_{vu} = \mathrm{softmax}_u \, \mathrm{LeakyReLU}(p \cdot W h_v + q \cdot W h_u)`
    and slope 0.2 below 0. Heads of ``hidden`` numbers each are concatenated. The last layer
    averages its ``output_heads``, without ELU. Training drops shares of each layer's inputs and of
    alpha (None for ``dropout``). Inputs and outputs as of :func:`ldp_jax.learning.models.gcn`.
    Layout ``segment`` of an operator is fastest here. First derivatives, both modes.
    Reference: Veličković et al., Graph attention networks (ICLR 2018), eq. 1-6 and section 3.3.

    >>> import jax, jax.numpy as jnp
    >>> from ldp_jax.graph import graphs
    >>> path, x = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3), jnp.eye(3)
    >>> model = gat(layers=1, outputs=5)
    >>> apply = jax.jit(model.apply, static_argnames="train")
    >>> variables = jax.jit(model.init)(jax.random.key(0), (path, x))
    >>> apply(variables, (path, x), key=None, train=False)[0].shape
    (3, 5)
    """
    attention_dropout = dropout if attention_dropout is None else attention_dropout
    check_sizes(
        dropout,
        layers=layers,
        heads=heads,
        hidden=hidden,
        outputs=outputs,
        output_heads=output_heads,
    )
    validate.in_range(0.0, 0.999, attention_dropout=attention_dropout)
    return from_linen(
        _GAT(layers, heads, hidden, outputs, output_heads, dropout, attention_dropout)
    )
