"""A multi-layer perceptron on rows."""

import flax.linen as nn

from ldp_jax.core.types import Array
from ldp_jax.learning.models._model import Model, Variables, check_sizes, from_linen


class _MLP(nn.Module):
    layers: int
    hidden: int
    outputs: int
    dropout: float

    @nn.compact
    def __call__(self, rows: Array, train: bool) -> Array:
        for _ in range(self.layers - 1):
            rows = nn.relu(nn.Dense(self.hidden)(rows))
            rows = nn.Dropout(self.dropout, deterministic=not train)(rows)
        return nn.Dense(self.outputs)(rows)


def mlp(layers: int, hidden: int, outputs: int, dropout: float = 0.0) -> Model:
    """Dense layers with ReLU and dropout between them; one layer is a linear map.

    >>> import jax, jax.numpy as jnp
    >>> model = mlp(2, 8, 3)
    >>> variables = model.init(jax.random.key(0), jnp.zeros((5, 4)))
    >>> model.apply(variables, jnp.zeros((5, 4)), key=None, train=False)[0].shape
    (5, 3)
    """
    check_sizes(dropout, layers=layers, hidden=hidden, outputs=outputs)
    return from_linen(_MLP(layers, hidden, outputs, dropout))


def dense_layers(variables: Variables) -> tuple[tuple[Array, Array], ...]:
    """The kernel [in, out] and the bias [out] of each layer of an :func:`mlp`, in order.

    >>> import jax, jax.numpy as jnp
    >>> variables = mlp(2, 8, 3).init(jax.random.key(0), jnp.zeros((5, 4)))
    >>> [kernel.shape for kernel, _ in dense_layers(variables)]
    [(4, 8), (8, 3)]
    """
    layers = variables["params"]
    named = (layers[f"Dense_{place}"] for place in range(len(layers)))
    return tuple((layer["kernel"], layer["bias"]) for layer in named)


def linear(outputs: int) -> Model:
    """A linear map of rows: with a sigmoid or softmax after it, logistic regression."""
    return mlp(1, 1, outputs)
