r"""Training on labels that their owners randomised: LPGNN's Drop, label denoising with propagation.

Users of the training and validation parts send their class through randomised response: no true class is seen.
*Forward correction* trains a model for the classes all the same. Its posterior goes through the channel of the
reports, :math:`p(y' | x) = \sum_y P(y' | y) \, p(y | x)`, before it is compared with what was reported: in
expectation over the reports that loss is least at the true posterior. The plain cross entropy is least at the
posterior of the reports, and goes on to learn their noise.

*Drop* compares averages over neighbours on both sides, by K steps of :func:`ldp_jax.graph.propagation.kprop`: what
the users around a node reported, and what the model holds these users' reports to be. The noise of single reports
averages out, and the model cannot fit them one by one.

Guarantee: all of this is post-processing. A user whose features cost epsilon_x and whose label costs epsilon_y has
epsilon_x + epsilon_y for her record; one whose label is never asked for, epsilon_x. The graph is public, and so is
who was asked.

>>> from ldp_jax.graph import graphs
>>> from ldp_jax.features import GeneralizedRR, MultiBit
>>> from ldp_jax.learning.models import NodeInputs, gcn
>>> from ldp_jax.graph.propagation import operator
>>> from ldp_jax.learning.training import Settings, adam, fit, on_graph
>>> feature_noise, label_noise = MultiBit(2.0, dim=8, k=1), GeneralizedRR(1.0, 2)
>>> round((feature_noise.guarantee() + label_noise.guarantee()).epsilon, 6)
3.0

On the server, from noisy records ``x`` and reports; the true class of node 5 is for the score alone.

>>> path = operator(graphs.from_edges([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], num_nodes=6))
>>> x = kprop(path, jax.random.normal(jax.random.key(0), (6, 8)), 2)
>>> train = noisy_examples(label_noise, np.array([0, 1, 4]), np.array([0, 1, 1]))
>>> validation = noisy_examples(label_noise, np.array([2, 3]), np.array([0, 1]))
>>> context, train = drop_inputs(NodeInputs(path, x), path, train, steps=2, also=validation)
>>> fitted = fit(
...     jax.random.key(1), drop(gcn(2, 4, 2)), on_graph(noisy_node_classification), context, train, validation,
...     Examples(np.array([5]), np.array([1])), Settings(adam(0.01), epochs=2, batch_size=3),
... )
>>> float(fitted.test) in (0.0, 1.0)
True

Reference: Sajadmanesh & Gatica-Perez, Locally private graph neural networks (CCS 2021), the part on learning with
private labels; Patrini et al., Making deep neural networks robust to label noise (CVPR 2017), Theorem 2 (forward
correction). What differs from the text or its release, and why, is said where it does.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ldp_jax.core import validate
from ldp_jax.core.label_channel import log_reported, other_share
from ldp_jax.core.types import Array
from ldp_jax.features import Discrete
from ldp_jax.graph.propagation import Operator, kprop
from ldp_jax.learning import metrics
from ldp_jax.learning.models import Model
from ldp_jax.learning.training import Examples, Objective, node_classification

__all__ = [
    "DropInputs",
    "NoisyExamples",
    "drop",
    "drop_inputs",
    "noisy_examples",
    "noisy_node_classification",
]


def __dir__() -> list[str]:
    return __all__


_LEAST = 1e-30
"""Mass below which nothing of a posterior, or of a neighbourhood, is there."""

_ERRORS = 3.0
"""Standard errors that the accuracy against reports may lie above the best that a right model reaches."""


class NoisyExamples(NamedTuple):
    """Rows of the context with randomised labels; made by :func:`noisy_examples`.

    Attributes:
      index: int32 [b].
      label: float32 [b, k], the share of each class in the reports that speak for a row: 1 at its own report, or
        those of its neighbours (:func:`drop_inputs`).
      keep: float32 [b], the probability in (1 / k, 1] that a report is the true class; each other class is reported
        with probability (1 - keep) / (k - 1).
    """

    index: Any
    label: Any
    keep: Any


def noisy_examples(mechanism: Discrete, index: Any, reports: Any) -> NoisyExamples:
    """Reports of a randomised response as examples, each its own row's.

    Args:
      mechanism: a table on categories that keeps each with one probability and takes all others alike:
        :func:`ldp_jax.features.GeneralizedRR`.
      index: integers [b], the rows.
      reports: integers [b], what ``mechanism.privatize`` gave; may be traced.

    Raises:
      ValueError: for another kind of mechanism, reports that are none of its categories, or lengths that differ.

    >>> from ldp_jax.features import GeneralizedRR
    >>> made = noisy_examples(GeneralizedRR(1.0, 3), [4, 7], [2, 0])
    >>> made.label.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    >>> round(float(made.keep[0]), 4)
    0.5761
    """
    size, keep = _channel(mechanism)
    index, reports = (v if isinstance(v, jax.Array) else np.asarray(v) for v in (index, reports))
    if index.ndim != 1 or index.shape != reports.shape:
        raise ValueError(f"reports must be one for each of index, got shapes {reports.shape} and {index.shape}")
    if validate.concrete(reports):
        known = np.asarray(reports)
        if not (np.issubdtype(known.dtype, np.integer) and ((known >= 0) & (known < size)).all()):
            raise ValueError(f"reports must be categories of the mechanism, whole numbers in [0, {size})")
    return NoisyExamples(index, jax.nn.one_hot(reports, size), jnp.full(len(index), keep, jnp.float32))


def _channel(mechanism: Discrete) -> tuple[int, float]:
    """How many categories, and with which probability the true one is reported."""
    if isinstance(mechanism, Discrete) and mechanism.encoding == "category":
        law = mechanism.table().masses / 2.0**32
        size, keep = len(law), float(law[0, 0])
        one_for_all = np.where(np.eye(size, dtype=bool), keep, other_share(keep, size))
        if law.shape == one_for_all.shape and np.allclose(law, one_for_all, rtol=0.0, atol=1e-6):
            return size, keep
    raise ValueError(
        "mechanism must be a randomised response that keeps each category with one probability and takes all "
        f"others alike, such as GeneralizedRR; got {mechanism!r}"
    )


def _loss(scores: Array, examples: Any) -> Array:
    if isinstance(examples, Examples):
        return node_classification.loss(scores, examples)
    return -(examples.label * log_reported(jax.nn.log_softmax(scores), examples.keep)).sum(-1)


def _score(scores: Array, examples: Any) -> Array:
    if isinstance(examples, Examples):
        return node_classification.score(scores, examples)
    reached = metrics.accuracy(scores, examples.label.argmax(-1))
    best = examples.keep.mean()
    error = jnp.sqrt((examples.keep * (1.0 - examples.keep)).mean() / len(scores))
    return jnp.where(reached <= best + _ERRORS * error + 1e-6, -_loss(scores, examples).mean(), -jnp.inf)


def _check(name: str, examples: Any, z: Any, scores: Any) -> None:
    clean = isinstance(examples, Examples)
    if node_classification.check is not None:
        plain = examples if clean else Examples(examples.index, np.zeros(1, np.int32))
        node_classification.check(name, plain, z, scores)
    if clean:
        return
    classes = scores.shape[-1]
    if np.shape(examples.label)[-1] != classes:
        raise ValueError(
            f"label of {name} must have a column for each of the model's {classes} outputs, "
            f"got shape {np.shape(examples.label)}"
        )
    if validate.concrete(examples.keep):
        keep = np.asarray(examples.keep)
        if not ((keep > 1.0 / classes) & (keep <= 1.0)).all():
            raise ValueError(f"keep of {name} must be in (1 / {classes}, 1], got numbers down to {keep.min()}")


noisy_node_classification = Objective(
    inputs=lambda z, examples: z[examples.index], loss=_loss, score=_score, check=_check
)
"""Forward-corrected cross entropy on rows with randomised labels: context z [n, d], :class:`NoisyExamples`.

Through :func:`ldp_jax.learning.training.on_graph` the context is what a model of the nodes of a graph takes. The
score of noisy examples is the mean log-likelihood of their reports, in expectation largest at the true posterior:
no true class takes part in choosing an epoch. It is -inf where the model agrees with more reports than a right
model could, the best share being the mean of ``keep``, by more than three standard errors of such a share: then it
has learned the noise, and such an epoch is never kept. The published limit is the share itself, which chance lifts
half of all right models above, and the release holds the training reports to it as well.

:class:`ldp_jax.learning.training.Examples` hold true labels and are scored by accuracy: the test, and non-private
rows.
"""


class DropInputs(NamedTuple):
    """What a model under :func:`drop` is applied to; made by :func:`drop_inputs`.

    Attributes:
      inputs: what the model itself takes.
      op: the graph that labels are averaged over.
      given: float32 [n], 1 for nodes whose report is averaged, 0 for others.
      steps: K, int32, traced.
    """

    inputs: Any
    op: Operator
    given: Any
    steps: Any


def drop_inputs(
    inputs: Any,
    op: Operator,
    train: NoisyExamples,
    steps: Any,
    *,
    also: NoisyExamples | None = None,
    rounded: bool = True,
) -> tuple[DropInputs, NoisyExamples]:
    """Average the reports over neighbours, for a model under :func:`drop` to be trained on.

    Args:
      inputs: what the model itself takes, such as :class:`ldp_jax.learning.models.NodeInputs`.
      op: the public graph, with an edge for every two nodes whose classes are alike more often than not.
      train: the reports of the training nodes, as :func:`noisy_examples` makes them.
      steps: K >= 0, may be traced. 0 averages nothing: forward correction alone. With many steps the averages of
        all nodes are alike, and rounded they name one class: choose K by the validation score.
      also: reports that are averaged, too, and not trained on: those of the validation nodes, as published. The
        validation score then is no longer that of fresh reports, which the limit of
        :data:`noisy_node_classification` guards.
      rounded: whether an averaged label is rounded to its largest class, as published, or kept as it is
        (:func:`drop` says what that means).

    Returns:
      The context of training, and the training examples with averaged labels; the two belong together. Nodes
      without a report weigh nothing, and one with no report K steps away keeps its own.

    Raises:
      ValueError: for steps that are no whole number >= 0, a graph that is not laid out, and examples of nodes that
        it lacks or of different numbers of classes.
    """
    if not isinstance(op, Operator):
        raise ValueError(f"op must be what propagation.operator(graph) makes, got {type(op).__name__}")
    n, classes = op.num_nodes, train.label.shape[-1]
    given, rows = jnp.zeros(n), jnp.zeros((n, classes))
    for name, part in {"train": train, "also": also}.items():
        if part is not None:
            _check(name, part, jax.ShapeDtypeStruct((n, 1), jnp.float32), rows)
            given, rows = given.at[part.index].set(1.0), rows.at[part.index].set(part.label)
    context = DropInputs(inputs, op, given, steps)
    averaged = _around(context, rows)[train.index]
    if rounded:
        averaged = jax.nn.one_hot(averaged.argmax(-1), classes)
    return context._replace(steps=jnp.asarray(steps, jnp.int32)), train._replace(label=averaged)


def _around(context: DropInputs, shares: Array) -> Array:
    """Distributions of nodes averaged over the given ones K steps away; a node that has none keeps its own."""
    total = kprop(context.op, shares * context.given[:, None], context.steps)
    mass = total.sum(-1, keepdims=True)
    some = mass > _LEAST
    return jnp.where(some, total / jnp.where(some, mass, 1.0), shares)


@lru_cache
def drop(model: Model) -> Model:
    r"""A model that is trained by averages over neighbours: Drop; cached.

    With W the matrix of K steps of :func:`ldp_jax.graph.propagation.kprop`, V the nodes whose report y' is
    averaged, and :math:`s_v = \sum_{u \in V} W_{vu}`, node v compares

    .. math:: \frac{1}{s_v} \sum_{u \in V} W_{vu} \, [y'_u = c] \quad \text{with} \quad
        \frac{1}{s_v} \sum_{u \in V} W_{vu} \, p(y'_u = c \mid x_u)

    by cross entropy. The right side is the mean of the left one over the reports, so that the loss is least at the
    true posterior, whatever K is and whoever is whose neighbour. Rounded to its largest class, as published, the
    left side is the class of a neighbourhood and has lost most of its noise: the better label where neighbours are
    alike, at the price of that property. In the release the right side runs over all nodes, also those without a
    report, and both sides go through a softmax of what are shares already; here both average the same nodes.

    Args:
      model: of the nodes of a graph, whose outputs are [n, classes].

    Returns:
      A model whose inputs are :class:`DropInputs`. In training its outputs are the logarithms of averaged
      posteriors (the channel, which is linear, may come after the average); otherwise they are the model's own, and
      so are its variables.
    """

    def init(key: Any, inputs: DropInputs) -> Any:
        return model.init(key, inputs.inputs)

    def apply(variables: Any, inputs: DropInputs, *, key: Any, train: bool) -> Any:
        outputs, variables = model.apply(variables, inputs.inputs, key=key, train=train)
        if train:
            outputs = jnp.log(jnp.maximum(_around(inputs, jax.nn.softmax(outputs)), _LEAST))
        return outputs, variables

    return Model(init, apply)
