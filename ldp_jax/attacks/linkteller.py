"""LinkTeller: edges show in how far the record of one node moves the output of another."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.attacks._result import Attack, Targets, check_targets, evaluate
from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.types import Array, Numbers
from ldp_jax.core.validate import require
from ldp_jax.edges.draws import capacity, padded
from ldp_jax.learning.models import Model, NodeInputs, Variables

Outputs = Literal["logits", "softmax", "sigmoid"]

_READ = {"logits": lambda outputs: outputs, "softmax": jax.nn.softmax, "sigmoid": jax.nn.sigmoid}


@implicit_promotion()
def linkteller(
    model: Model,
    variables: Variables,
    inputs: NodeInputs | tuple,
    targets: Targets,
    *,
    step: float | None = None,
    degrees: Numbers | None = None,
    outputs: Outputs = "logits",
) -> Attack:
    r"""Score pairs by the influence of one node's record on the other's output, both ways.

    The attacker knows the records x, chooses them, and sees the outputs of a model on a hidden
    graph: :math:`I(u \to v) = \| \partial f_v / \partial s_u \|_2` where s_u multiplies x_u, and
    the score of {u, v} is :math:`I(u \to v) + I(v \to u)`. The share of the records alone is that
    of :func:`ldp_jax.attacks.feature_similarity`. Time is in proportion to the nodes that the
    targets name.

    Args:
      model: of nodes on a graph.
      variables: its parameters.
      inputs: a :class:`ldp_jax.learning.models.NodeInputs` without scale, which the attack varies;
        or any ``(graph, x)``, whose rows of x are multiplied.
      targets: pairs of nodes.
      step: None for the derivative; a number for the finite difference of that size, as published
        with 0.01.
      degrees: float [n], known or released: influence on v is multiplied by degrees[v] + 1.
      outputs: of the model as the attacker sees them: ``logits``, or their ``softmax`` or
        ``sigmoid``.

    Reference: Wu et al., LinkTeller: recovering private edges from graph neural networks via
    influence analysis (IEEE S&P 2022), Algorithm 2; HeteroRR, section V.

    >>> from ldp_jax.attacks import all_pairs
    >>> from ldp_jax.graph.graphs import from_edges, to_edges
    >>> from ldp_jax.learning.models import gcn
    >>> ring, model = (
    ...     from_edges([[i, (i + 1) % 12] for i in range(12)], 12),
    ...     gcn(1, 4, 2),
    ... )
    >>> inputs = NodeInputs(ring, jnp.eye(12))
    >>> variables = jax.jit(model.init)(jax.random.key(0), inputs)
    >>> linkteller(
    ...     model, variables, inputs, all_pairs(np.arange(12), to_edges(ring))
    ... ).auc.mean
    1.0
    """
    validate.one_of(tuple(_READ), outputs=outputs)
    if step is not None:
        step = validate.number(0.0, open_lower=True, step=step)
    graph, x, *rest = inputs
    require(not rest or rest[0] is None, "inputs must have no scale: the attack varies it")
    n = len(x)
    pairs, _ = check_targets(targets, n)
    weights = np.ones(n)
    if degrees is not None:
        known = validate.finite_array(n, degrees=degrees)
        require((known >= 0).all(), "degrees must be >= 0, and are not everywhere")
        weights = known + 1.0

    source = pairs.ravel(order="F")
    target = pairs[:, ::-1].ravel(order="F")
    nodes, row = np.unique(source, return_inverse=True)
    order = np.argsort(row, kind="stable")
    place = np.empty(len(row), np.int64)  # among the pairs of the same source
    place[order] = np.arange(len(row)) - np.searchsorted(row[order], row[order])
    # Rooms in few sizes: one program serves targets whose numbers differ.
    columns = capacity(1 + int(place.max(initial=0)))
    asked = np.zeros((capacity(len(nodes)), columns), np.int32)
    asked[row, place] = target
    found, moves = _influences(
        (variables, graph, x),
        padded(nodes.astype(np.int32)),
        asked,
        np.int32(len(nodes)),
        jnp.float32(step or 0.0),
        model=model,
        named=isinstance(inputs, NodeInputs),
        outputs=outputs,
        finite=step is not None,
    )
    require(
        moves,
        "inputs must move the outputs, and scaling all rows of x moves none: "
        "a model that does not multiply by the scale of NodeInputs takes (graph, x)",
    )
    influence = np.asarray(found, np.float64)[row, place]
    influence = influence * weights[target]
    return evaluate("LinkTeller", influence.reshape(2, -1).sum(0), targets)


@partial(jax.jit, static_argnames=("model", "named", "outputs", "finite"))
def _influences(
    given: tuple,
    nodes: Array,
    asked: Array,
    count: Array,
    step: Array,
    *,
    model: Model,
    named: bool,
    outputs: str,
    finite: bool,
) -> tuple[Array, Array]:
    """The influence of each of ``nodes`` [s] on those it is asked about, [s, k].

    The first ``count`` nodes are asked. The second result is whether x moves any output.
    """
    variables, graph, x = given
    ones = jnp.ones(len(x))

    def read(scale: Array) -> Array:
        inputs = NodeInputs(graph, x, scale) if named else (graph, x * scale[:, None])
        return _READ[outputs](model.apply(variables, inputs, key=None, train=False)[0])

    value, push = jax.linearize(read, ones)

    def one(place: Array, found: Array) -> Array:
        along = jnp.zeros_like(ones).at[nodes[place]].set(1.0)
        moved = (read(ones + step * along) - value) / step if finite else push(along)
        return found.at[place].set(jnp.linalg.norm(moved[asked[place]], axis=-1))

    found = jax.lax.fori_loop(0, count, one, jnp.zeros(asked.shape, value.dtype))
    return found, (push(ones) != 0).any()
