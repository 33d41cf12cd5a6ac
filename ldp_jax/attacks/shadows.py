"""Shadow models: networks that were each trained on a random part of the nodes of a graph."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Bool, Float, Int32

from ldp_jax.attacks._result import distinct
from ldp_jax.core import random, validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.sharding import all_devices, each_run, gathered, spread
from ldp_jax.core.shown import by_shapes
from ldp_jax.core.types import Array, Graph, Numbers, PRNGKey, PRNGKeys
from ldp_jax.core.validate import require
from ldp_jax.graph.propagation import Operator, operator
from ldp_jax.learning import training
from ldp_jax.learning.models import Model, NodeInputs, Variables

_T = TypeVar("_T")
MembershipProtocol = Literal["TSTF", "TSTS", "0-hop"]


class Shadows(NamedTuple):
    """N models, ``variables`` with a leading axis, and their logits for a population of ``nodes``.

    ``member`` says which nodes each was trained on.
    """

    outputs: Float[np.ndarray, "N p outputs"]
    member: Bool[np.ndarray, "N p"]
    nodes: Int32[np.ndarray, " p"]
    variables: Variables

    __repr__ = by_shapes


@implicit_promotion()
def shadow_models(
    key: PRNGKey,
    model: Model,
    objective: training.Objective,
    graph: Graph | Operator,
    x: Numbers,
    labels: Numbers,
    settings: training.Settings,
    *,
    models: int,
    protocol: MembershipProtocol,
    nodes: Numbers | None = None,
    share: float = 0.5,
) -> Shadows:
    """Train models on random parts of the nodes, and ask each about all of them.

    Two compiled programs.

    Each model is trained on the graph of its members alone, up to the epoch of the least training
    loss. It is asked

    * ``TSTF`` (train on the subgraph, test on the full graph): about all nodes on the whole graph;
    * ``TSTS`` (train and test on the subgraph): on the graph without the edges between members and
      others;
    * ``0-hop``: about each node alone, without edges.

    Args:
      key: a threefry key.
      model: of nodes on a graph: its inputs are :class:`ldp_jax.learning.models.NodeInputs`.
      objective: of :class:`ldp_jax.learning.training.Examples`, such as
        :data:`ldp_jax.learning.training.node_classification`.
      graph: a ``jraph.GraphsTuple`` of one graph, or its operator: ``ell`` is several times faster
        on a CPU; models that attend to neighbours need ``segment``, the default.
      x: float [n, d].
      labels: [n] or [n, k], as the objective takes them.
      settings: of each training; one batch of all nodes is cheapest.
      models: N, at least 2; memory does not grow with it.
      protocol: ``TSTF``, ``TSTS`` or ``0-hop``.
      nodes: distinct integers [p], the population that members are drawn from; all by default.
      share: of the population that a model is trained on, in (0, 1); every model on as many nodes.

    Reference: Olatunji, Nejdl & Khosla, Membership inference attack on graph neural networks (TPS
    2021), TSTF and TSTS; Carlini et al., Membership inference attacks from first principles (IEEE
    S&P 2022), random halves.
    """
    validate.threefry(key)
    validate.integer_in(2, models=models)
    validate.one_of(get_args(MembershipProtocol), protocol=protocol)
    share = validate.number(0.0, 1.0, open_lower=True, open_upper=True, share=share)
    op = graph if isinstance(graph, Operator) else operator(graph, "segment", allow_directed=True)
    n = op.num_nodes
    x = jnp.asarray(x, jnp.float32)
    labels = np.asarray(labels)
    require(
        len(x) == n == len(labels),
        f"x and labels must have a row for each of {n} nodes, got {len(x)} and {len(labels)}",
    )
    population = distinct("nodes", np.arange(n) if nodes is None else nodes, n)
    size = round(share * len(population))
    require(
        0 < size < len(population),
        f"share must leave members and others, got {size} of {len(population)} nodes",
    )
    objective = training.on_graph(training.scored_by_loss(objective))
    known = {"train": training.Examples(population, labels[population])}
    # Checked here: in the program, labels are traced.
    training.check_examples(model, objective, NodeInputs(op, x), known)

    split_key, fit_key = random.split(key)
    member = _drawn(random.split(split_key, models), size=size, count=len(population))
    train = partial(_trained, model=model, objective=objective, size=size, settings=settings)
    variables = _everywhere(
        train, (random.split(fit_key, models), member), (op, x, labels, population)
    )
    unasked = np.zeros((models, len(population), 0), np.float32)
    trained = Shadows(unasked, np.asarray(member), population, variables)
    return ask_shadows(trained, model, op, x, protocol=protocol, at_once=settings.at_once)


@implicit_promotion()
def ask_shadows(
    shadows: Shadows,
    model: Model,
    graph: Graph | Operator,
    x: Numbers,
    *,
    protocol: MembershipProtocol,
    at_once: int | None = None,
) -> Shadows:
    """The same models with ``outputs`` of another protocol, float32 [N, p, outputs].

    Nothing is trained.

    ``shadows`` are of :func:`shadow_models`, as are the other arguments, all as in their training
    but the protocol.
    """
    protocols = get_args(MembershipProtocol)
    validate.one_of(protocols, protocol=protocol)
    op = graph if isinstance(graph, Operator) else operator(graph, "segment", allow_directed=True)
    about = op, jnp.asarray(x, jnp.float32), shadows.nodes, np.int32(protocols.index(protocol))
    ask = partial(_asked, model=model, at_once=at_once)
    outputs = _everywhere(ask, (shadows.variables, shadows.member), about)
    return shadows._replace(outputs=np.asarray(outputs))


def _everywhere(function: Callable[..., _T], stacked: tuple, shared: tuple) -> _T:
    """``function(stacked, shared, over=...)`` of models that all devices of the process share."""
    count = len(stacked[1])
    over = all_devices(count, stacked, shared)
    if over is None:
        return function(stacked, shared, over=None)
    return gathered(count, function(spread(over, stacked), shared, over=over))


@partial(jax.jit, static_argnames=("size", "count"))
def _drawn(keys: PRNGKeys, *, size: int, count: int) -> Array:
    """A random part of ``size`` for each key; bool [keys, count]."""
    chosen = jnp.arange(count) < size
    return jax.vmap(lambda key: random.permutation(key, chosen))(keys)


@partial(jax.jit, static_argnames=("model", "objective", "size", "settings", "over"))
def _trained(
    stacked: tuple,
    data: tuple,
    *,
    model: Model,
    objective: training.Objective,
    size: int,
    settings: training.Settings,
    over: NamedSharding | None,
) -> Variables:
    def one(data: tuple, given: tuple[PRNGKey, Array]) -> Variables:
        op, x, labels, nodes = data
        key, chosen = given
        inside = jnp.zeros(op.num_nodes, bool).at[nodes].set(chosen)
        members = nodes[jnp.nonzero(chosen, size=size)[0]]
        train = training.Examples(members, labels[members])
        # fit, not fit_many, which would hold x as many times as there are models.
        context = NodeInputs(op.induced(inside), x)
        return training.fit(key, model, objective, context, train, train, train, settings).variables

    return each_run(one, over, data, stacked, settings.at_once)


@partial(jax.jit, static_argnames=("model", "at_once", "over"))
def _asked(
    stacked: tuple,
    about: tuple,
    *,
    model: Model,
    at_once: int | None,
    over: NamedSharding | None,
) -> Array:
    def one(about: tuple, given: tuple[Variables, Array]) -> Array:
        op, x, nodes, protocol = about
        fitted, chosen = given
        inside = jnp.zeros(op.num_nodes, bool).at[nodes].set(chosen)
        everybody = jnp.ones_like(inside)
        nobody = jnp.zeros_like(inside)
        # In the order of MembershipProtocol: all edges, those on either side of the membership,
        # none.
        parts = jnp.stack([everybody, inside, nobody])[protocol]
        asked = op.induced(parts, jnp.stack([nobody, ~inside, nobody])[protocol])
        return model.apply(fitted, NodeInputs(asked, x), key=None, train=False)[0][nodes]

    return each_run(one, over, about, stacked, at_once)
