r"""Training on labels that their owners randomised: LPGNN's Drop, label denoising with propagation.

*Forward correction* sends the posterior of a model through the channel of the reports,
:math:`p(y' | x) = \sum_y P(y' | y) \, p(y | x)`, before it is compared with them: in expectation
that loss is least at the true posterior. *Drop* averages both sides over neighbours by K steps of
:func:`ldp_jax.graph.propagation.kprop`.

Guarantee: post-processing. A record costs epsilon_x of its features and epsilon_y of its label,
where it is asked for. The graph is public, and so are the nodes that were asked.
Reference: Sajadmanesh & Gatica-Perez, Locally private graph neural networks (CCS 2021), section on
private labels; Patrini et al., Making deep neural networks robust to label noise (CVPR 2017),
Theorem 2 (forward correction).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PyTree

from ldp_jax.core import validate
from ldp_jax.core.flags import implicit_promotion
from ldp_jax.core.label_channel import log_reported, other_share
from ldp_jax.core.shown import by_shapes, shown
from ldp_jax.core.types import AnyArray, Array, Numbers, PRNGKey
from ldp_jax.features import Discrete
from ldp_jax.graph.propagation import Operator, kprop
from ldp_jax.learning import metrics, training
from ldp_jax.learning.models import Bound, Model, Variables

__all__ = ["NoisyExamples", "drop", "drop_inputs", "noisy_examples", "noisy_node_classification"]

__dir__ = lambda: __all__


_LEAST = 1e-30  # mass below which a posterior, or a neighbourhood, counts as empty

# standard errors that the accuracy against reports may lie above the best that a right model
# reaches
_ERRORS = 3.0


class NoisyExamples(NamedTuple):
    """Rows of the context with randomised labels; made by :func:`noisy_examples`.

    ``label`` is 1 at the report of row ``index``, or the shares of its neighbours
    (:func:`drop_inputs`); ``keep`` the probability in (1 / k, 1] that a report is the true class.
    """

    index: Int[AnyArray, " b"]
    label: Float[AnyArray, "b k"]
    keep: Float[AnyArray, " b"]

    __repr__ = by_shapes


@implicit_promotion()
def noisy_examples(mechanism: Discrete, index: Numbers, reports: Numbers) -> NoisyExamples:
    """Make examples of the reports of a randomised response, one a row; they may be traced.

    ``ValueError`` for a mechanism that does not keep each category with one probability and take
    all others alike, as :func:`ldp_jax.features.GeneralizedRR` does.

    >>> from ldp_jax.features import GeneralizedRR
    >>> made = noisy_examples(GeneralizedRR(1.0, 3), [4, 7], [2, 0])
    >>> made.label.tolist(), round(float(made.keep[0]), 4)
    ([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], 0.5761)
    """
    law = np.zeros((0, 0))
    if isinstance(mechanism, Discrete) and mechanism.encoding == "category":
        law = mechanism.table().masses / 2.0**32
    size = len(law)
    keep = float(law[0, 0]) if size else 0.0
    one_for_all = np.where(np.eye(size, dtype=bool), keep, other_share(keep, size))
    alike = law.shape == one_for_all.shape and np.allclose(law, one_for_all, rtol=0.0, atol=1e-6)
    validate.require(
        size and alike,
        "mechanism must be a randomised response that keeps each category with one probability "
        f"and takes all others alike, such as GeneralizedRR; got {shown(mechanism)}",
    )
    if not isinstance(index, jax.Array):
        index = np.asarray(index)
    if not isinstance(reports, jax.Array):
        reports = np.asarray(reports)
    validate.require(
        index.ndim == 1 and index.shape == reports.shape,
        f"reports must be one for each of index, got shapes {reports.shape} and {index.shape}",
    )
    validate.ids(size, "one of the mechanism's categories", reports=reports)
    return NoisyExamples(
        index,
        jax.nn.one_hot(reports, size, dtype=jnp.float32),
        jnp.full(len(index), keep, jnp.float32),
    )


def _loss(scores: Array, examples: training.Examples | NoisyExamples) -> Array:
    if isinstance(examples, training.Examples):
        return training.node_classification.loss(scores, examples)
    reported = log_reported(jax.nn.log_softmax(scores), jnp.asarray(examples.keep))
    return -(examples.label * reported).sum(-1)


def _score(scores: Array, examples: training.Examples | NoisyExamples) -> Array:
    if isinstance(examples, training.Examples):
        return training.node_classification.score(scores, examples)
    reached = metrics.accuracy(scores, examples.label.argmax(-1))
    best = examples.keep.mean()
    variance = (examples.keep * (1.0 - examples.keep)).mean() / len(scores)
    error = jnp.sqrt(variance)
    likely = reached <= best + _ERRORS * error + 1e-6
    return jnp.where(likely, -_loss(scores, examples).mean(), -jnp.inf)


def _check(
    name: str, examples: training.Examples | NoisyExamples, z: PyTree, scores: jax.ShapeDtypeStruct
) -> None:
    if isinstance(examples, training.Examples):
        training.check_nodes(name, examples, z, scores)
        return
    training.check_index(f"index of {name}", examples.index, z)
    classes = scores.shape[-1]
    training.check_columns(name, examples.label, classes)
    if validate.concrete(examples.keep):
        keep = np.asarray(examples.keep)
        if not ((keep > 1.0 / classes) & (keep <= 1.0)).all():
            raise ValueError(
                f"keep of {name} must be in (1 / {classes}, 1], got numbers down to {keep.min()}"
            )


noisy_node_classification = training.Objective(
    inputs=lambda z, examples: z[examples.index], loss=_loss, score=_score, check=_check
)
"""Forward-corrected cross entropy on rows with randomised labels: context z [n, d],
:class:`NoisyExamples`.

The score of noisy examples is the mean log-likelihood of their reports: no true class chooses an
epoch. It is -inf where the model agrees with more reports than a right model could, by three
standard errors: it has learned the noise. (The published limit has no standard errors.)
:class:`~ldp_jax.learning.training.Examples` hold true labels and are scored by accuracy.
"""


class DropInputs(NamedTuple):
    """The inputs of a model under :func:`drop`; made by :func:`drop_inputs`.

    ``given`` float32 [n] is 1 for nodes whose report is averaged over the graph ``op``; ``steps``,
    K, is traced.
    """

    inputs: PyTree
    op: Operator
    given: Array
    steps: Array | int | np.integer

    __repr__ = by_shapes


@implicit_promotion()
def drop_inputs(
    inputs: PyTree,
    op: Operator,
    train: NoisyExamples,
    steps: Array | int | np.integer,
    *,
    also: NoisyExamples | None = None,
    rounded: bool = True,
) -> tuple[DropInputs, NoisyExamples]:
    """Make the context of training under :func:`drop`, and examples with averaged labels.

    A node with no report K steps away keeps its own. ``inputs`` are of the model itself, such as
    :class:`ldp_jax.learning.models.NodeInputs`; the graph ``op`` is public. ``train`` are
    :func:`noisy_examples`, ``also`` those that are averaged and not trained on, of the validation
    nodes. ``steps``, K >= 0, may be traced; 0 is forward correction alone. ``rounded`` labels are
    their largest class, as published. ``ValueError`` for two reports of one node.
    """
    validate.require(
        isinstance(op, Operator),
        f"op must be what propagation.operator(graph) makes, got {type(op).__name__}",
    )
    n = op.num_nodes
    classes = train.label.shape[-1]
    given = jnp.zeros(n, jnp.float32)
    rows = jnp.zeros((n, classes), jnp.float32)
    for name, part in {"train": train, "also": also}.items():
        if part is not None:
            _check(name, part, *(jax.ShapeDtypeStruct((n, k), jnp.float32) for k in (1, classes)))
            given = given.at[part.index].set(1.0)
            rows = rows.at[part.index].set(part.label)
    reporters = [part.index for part in (train, also) if part is not None]
    if all(map(validate.concrete, reporters)):
        nodes = np.concatenate(reporters)
        once = len(np.unique(nodes)) == len(nodes)
        validate.require(once, "train and also must have one report a node, and some node has two")
    context = DropInputs(inputs, op, given, steps)
    averaged = _around(context, rows)[train.index]
    if rounded:
        averaged = jax.nn.one_hot(averaged.argmax(-1), classes, dtype=jnp.float32)
    return context._replace(steps=jnp.asarray(steps, jnp.int32)), train._replace(label=averaged)


def _around(context: DropInputs, shares: Array) -> Array:
    """Distributions of nodes averaged over the given ones K steps away.

    A node that has none keeps its own.
    """
    total = kprop(context.op, shares * context.given[:, None], context.steps)
    mass = total.sum(-1, keepdims=True)
    some = mass > _LEAST
    return jnp.where(some, total / jnp.where(some, mass, 1.0), shares)


def drop(model: Model) -> Model:
    r"""Make a model that is trained by averages over neighbours: Drop.

    With W the matrix of K steps of :func:`ldp_jax.graph.propagation.kprop`, V the nodes whose
    report y' is averaged, and :math:`s_v = \sum_{u \in V} W_{vu}`, node v compares by cross entropy

    .. math:: \frac{1}{s_v} \sum_{u \in V} W_{vu} \, [y'_u = c] \quad \text{with} \quad
        \frac{1}{s_v} \sum_{u \in V} W_{vu} \, p(y'_u = c \mid x_u)

    The right side is the mean of the left one over the reports, so the loss is least at the true
    posterior. Rounded to its largest class, as published, the left side loses most of its noise,
    and that property. In the release the right side runs over all nodes, and both sides go through
    one more softmax. The result takes :class:`DropInputs`. In training its outputs are the
    logarithms of averaged posteriors; else the model's own, as its variables are.
    """
    return Model(Bound(_drop_init, (model,)), Bound(_drop_apply, (model,)))


def _drop_init(model: Model, key: PRNGKey, inputs: DropInputs) -> Variables:
    return model.init(key, inputs.inputs)


def _drop_apply(
    model: Model, variables: Variables, inputs: DropInputs, *, key: PRNGKey | None, train: bool
) -> tuple[Array, Variables]:
    outputs, variables = model.apply(variables, inputs.inputs, key=key, train=train)
    if train:
        averaged = _around(inputs, jax.nn.softmax(outputs))
        outputs = jnp.log(jnp.maximum(averaged, _LEAST))
    return outputs, variables
