"""PoinDP's network, with the noise of its paper or of its release, neither of which is proved."""

from typing import Literal, NamedTuple, get_args

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Float

from ldp_jax.core import random, validate
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import AnyArray, Array, Graph, PRNGKey, Scalar
from ldp_jax.graph.propagation import Operator
from ldp_jax.learning.models._model import Model, check_sizes, from_linen
from ldp_jax.learning.models.gcn import average, operator_of
from ldp_jax.learning.models.hyperimba import checked_places

Noise = Literal["off", "released", "printed"]
Branch = Literal["inter", "intra"]
Strength = Literal["hierarchy", "random", "attention"]

_GLOROT = nn.initializers.glorot_uniform()
_UNIFORM = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")  # in +- 1 / sqrt(inputs)


class PoinDPInputs(NamedTuple):
    """The inputs of PoinDP's network.

    ``places`` [n, k] are the Poincaré embedding of the graph. ``sensitivity`` [n, 2] is that of the
    radius and the direction of a node's place, for ``noise="printed"``:
    :func:`ldp_jax.hyperbolic.inter_hierarchy_of_nodes` and ``intra_hierarchy_of_nodes``, local
    ones. ``epsilon`` is the nominal budget of one application.
    """

    graph: Graph | Operator
    x: Float[AnyArray, "n d"]
    places: Float[AnyArray, "n k"]
    sensitivity: Float[AnyArray, "n 2"] | None = None
    epsilon: Scalar = 1.0
    delta: Scalar = 1e-4

    __repr__ = by_shapes


class _PoinDP(nn.Module):
    hidden: int
    outputs: int
    dropout: float
    noise: str
    branches: tuple[str, ...]
    allocate: bool
    strength: str
    allocation: int

    @nn.compact
    def __call__(self, inputs: PoinDPInputs, train: bool) -> Array:
        n = len(inputs.x)
        count = len(self.branches)
        op = operator_of(inputs.graph, n)
        # The branches differ in their weights and their noise alone: their layers are one product
        # each.
        h = nn.Dense(count * self.hidden, use_bias=False, kernel_init=_GLOROT)(inputs.x)
        bias = self.param("bias_0", nn.initializers.zeros, (count * self.hidden,))
        h = average(op, h, "symmetric") + bias
        h = nn.Dropout(self.dropout, deterministic=not train)(nn.elu(h))

        h = h.reshape(n, count, self.hidden)
        glorot = nn.initializers.glorot_uniform(batch_axis=0)
        shape = (count, self.hidden, self.outputs)
        kernel = self.param("kernel", glorot, shape, jnp.float32)
        h = jnp.einsum("nbh,bho->nbo", h, kernel)
        h = average(op, h.reshape(n, -1), "symmetric").reshape(h.shape)
        h = h + self.param("bias_1", nn.initializers.zeros, (count, self.outputs))
        if self.noise != "off":
            h = h + self._noise(inputs, h, train)
        return h.sum(1)

    def _noise(self, inputs: PoinDPInputs, h: Array, train: bool) -> Array:
        """The noise of each branch's outputs; float [n, branches, outputs]."""
        words = self.variable(
            "noise", "words", lambda: jax.random.key_data(self.make_rng("params"))
        )
        if train:
            key = self.make_rng("dropout")
        else:
            key = jax.random.wrap_key_data(words.value, impl="threefry2x32")
        strength_key, noise_key = random.split(key)
        read = self._read(checked_places(inputs.places, len(h)))
        share = jnp.full(len(self.branches), 1 / len(self.branches))
        if self.allocate:  # beta and 1 - beta
            scores = nn.leaky_relu(self._score("allocation", read), 0.01)
            share = nn.softmax(scores.mean(0))
        draws = random.normal(noise_key, h.shape)
        budget = share * inputs.epsilon  # [branches]

        if self.noise == "printed":
            if inputs.sensitivity is None:
                raise ValueError('noise="printed" needs the sensitivity of each node')
            columns = [("inter", "intra").index(branch) for branch in self.branches]
            factor = jnp.sqrt(2.0 * jnp.log(1.25 / inputs.delta))
            sigma = factor * jnp.asarray(inputs.sensitivity)[:, columns] / (2.0 * budget)
            return jnp.tanh(0.5 * sigma[..., None] * draws)

        if self.strength == "random":
            strength = random.uniform(strength_key, h.shape[:2])
        elif self.strength == "attention":
            strength = jnp.abs(nn.leaky_relu(self._score("attention", h), 0.01))
        else:
            strength = jnp.abs(read.sum(-1))
        sigma = jax.lax.stop_gradient(jnp.sqrt(strength / (2.0 * budget)))
        return sigma[..., None] * jnp.tanh(0.5 * draws)

    def _read(self, places: Array) -> Array:
        """The reading of places by each branch; [n, branches, hidden + outputs]."""
        read = []
        for branch in self.branches:
            seen = places
            if branch == "intra":  # angles of numbers
                seen = places + jnp.where(places < 0, jnp.pi, 0.0)
            for layer, width in enumerate((self.hidden, self.outputs)):
                name = f"{branch}_{layer}"
                inner = seen @ self._weights(f"{name}_in", (places.shape[1], width))
                outer = nn.leaky_relu(inner, 0.2) @ self._weights(f"{name}_out", (width, width))
                bias = self._weights(f"{name}_bias", (1, width), width)
                read.append(nn.leaky_relu(outer + bias, 0.01))
        widths = jnp.concatenate(read, -1)
        return widths.reshape(len(places), len(self.branches), -1)

    def _score(self, name: str, rows: Array) -> Array:
        hidden = rows @ self._weights(f"{name}_in", (rows.shape[-1], self.allocation))
        scores = hidden @ self._weights(f"{name}_out", (self.allocation, 1))
        return scores[..., 0]

    def _weights(self, name: str, shape: tuple[int, int], fan_in: int | None = None) -> Array:
        """Learned as printed.

        As released no gradient reaches what makes the noise: it stays as drawn.
        """

        def initial(key: PRNGKey) -> Array:
            return _UNIFORM(key, (fan_in or shape[0], shape[1]))[: shape[0]]

        if self.noise == "printed":
            return self.param(name, initial)
        return self.variable("noise", name, lambda: initial(self.make_rng("params"))).value


def poindp(
    outputs: int = 2,
    hidden: int = 16,
    dropout: float = 0.6,
    noise: Noise = "off",
    branches: tuple[Branch, ...] = ("inter", "intra"),
    allocate: bool = True,
    strength: Strength = "hierarchy",
    allocation: int = 128,
) -> Model:
    r"""Make PoinDP's network: two GCNs of two layers, whose noisy outputs are added up.

    .. math:: \hat h_v = h^r_v + \eta^r_v(\beta \epsilon) + h^\alpha_v + \eta^\alpha_v((1 - \beta)
    \epsilon)

    with :math:`h^r, h^\alpha` of the branches (ELU and dropout between the layers) and
    :math:`\beta` by attention over perceptrons of all places, the inter branch of coordinates, the
    intra branch of coordinates and angles; or 1 / 2, without ``allocate``. Noise, for each number
    of a branch's outputs, with z standard normal:

    * ``printed`` is eq. 12: a wrapped normal of one dimension with
      :math:`\sigma_v = c \log_0(\Delta_v) / (\beta \epsilon)`,
      :math:`c = \sqrt{2 \ln(1.25 / \delta)}` and :math:`\Delta_v` the node's sensitivity, whose
      log_0 is :math:`\Delta_v / 2`; so :math:`\eta = \tanh(\sigma_v z / 2)`. beta is learned.
    * ``released`` is the authors' code: :math:`\sigma_v = \sqrt{w_v / (2 \beta \epsilon)}` and
      :math:`\eta = \sigma_v \tanh(z / 2)`. No gradient reaches w and beta: they stay as drawn. w is
      the absolute sum of the perceptrons; with ``strength`` ``random`` uniform in (0, 1) for each
      node (the variant RdDP), with ``attention`` that of a branch's outputs (AtDP).
    * ``off``: none, for reports that have a guarantee already.

    *Guarantee*: **none**, of any noise. It is bounded, so some outputs are impossible for a
    neighbour; its scale depends on the data; outputs are sums over unprotected records of
    neighbours; and it is redrawn in every epoch without composition. In evaluation it is drawn from
    ``variables["noise"]``, the same for the same question.

    Inputs are :class:`PoinDPInputs`; outputs are logits [n, outputs].
    Reference: Wei et al., Poincaré differential privacy for hierarchy-aware graph embedding (AAAI
    2024), eq. 12-15.

    >>> from ldp_jax.graph import graphs
    >>> path = graphs.from_edges([[0, 1], [1, 2]], num_nodes=3)
    >>> inputs = PoinDPInputs(
    ...     path, jnp.eye(3), jnp.zeros((3, 2)), jnp.ones((3, 2)), 1.0
    ... )
    >>> model = poindp(4, noise="printed")
    >>> apply = jax.jit(model.apply, static_argnames="train")
    >>> variables = jax.jit(model.init)(jax.random.key(0), inputs)
    >>> apply(variables, inputs, key=None, train=False)[0].shape
    (3, 4)
    """
    check_sizes(dropout, outputs=outputs, hidden=hidden, allocation=allocation)
    validate.one_of(get_args(Noise), noise=noise)
    validate.one_of(get_args(Strength), strength=strength)
    validate.require(
        sorted(branches or ()) in (["inter"], ["intra"], ["inter", "intra"]),
        f"branches must be one or both of inter and intra, got {branches!r}",
    )
    return from_linen(
        _PoinDP(hidden, outputs, dropout, noise, branches, allocate, strength, allocation)
    )
