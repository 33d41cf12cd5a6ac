"""Classifiers of all baselines.

They take public facts, and links to be multiplied with. One is a network of two layers, the
other PageRank of classes, which is weighed against the features.
"""

from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from experiments.dprr.classifiers import standardised
from experiments.frontier.baselines._released import Asked
from ldp_jax.core.types import Array, Graph
from ldp_jax.graph.aggregation import Segments, linear
from ldp_jax.learning import models, training
from ldp_jax.servers.parts.rows import DenseRows, Rows
from ldp_jax.servers.parts.self_training import features_posterior, folds
from ldp_jax.servers.parts.stack import combine, stack

FOLDS = 5
"""Of the features' logistic regression, and of labels, of which one part in so many chooses and
stops.
"""

_LAST: list[Any] = []
"""The last features, labels and their posterior: one split is asked by a dozen baselines."""


def posterior(asked: Asked) -> Array:
    """Log posterior of logistic regression, out of fold where labelled, or class shares.

    Float32 [n, C].
    """
    features = asked.rows
    labels = asked.labels
    num_classes = asked.classes
    for known, given, found in _LAST:
        if known is features and np.array_equal(given, labels) and found.shape[1] == num_classes:
            return found
    if features is None:
        share = np.bincount(labels[labels >= 0], minlength=num_classes) / max(
            (labels >= 0).sum(), 1
        )
        log_q = jnp.tile(
            jnp.log(jnp.maximum(jnp.asarray(share, jnp.float32), 1e-6)), (len(labels), 1)
        )
    else:
        fold = folds(jax.random.key(0), labels, FOLDS)
        log_q = features_posterior(
            features, labels, fold, num_classes=num_classes, num_folds=FOLDS
        ).log_q
    _LAST[:] = [(features, labels.copy(), log_q)]
    return log_q


def groups(
    log_q: Float[Array | np.ndarray, "n classes"], labels: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """The class that is broadcast of each node: their label, else the likeliest."""
    return np.where(labels >= 0, labels, np.asarray(log_q).argmax(1)).astype(np.int32)


def parts(key: Any, labels: Int[np.ndarray, " n"]) -> tuple[training.Examples, training.Examples]:
    """Labels to train on, and a fifth of each class to choose and stop by.

    All are both where there are few.
    """
    fold = np.asarray(folds(key, labels, FOLDS))
    known = np.flatnonzero(labels >= 0).astype(np.int32)
    held = fold[known] == 0
    pieces = [known[~held], known[held]] if 0 < held.sum() < len(known) else [known, known]
    train, validation = (training.Examples(index, labels[index]) for index in pieces)
    return train, validation


def regression(
    key: Any, columns: Float[np.ndarray, "n d"], labels: Int[np.ndarray, " n"], num_classes: int
) -> Float[np.ndarray, "n classes"]:
    """Log posterior of a logistic regression on standardised columns, ridge chosen out of fold."""
    columns = standardised(columns)
    n, d = columns.shape
    row = np.repeat(np.arange(n, dtype=np.int32), d)
    column = np.tile(np.arange(d, dtype=np.int32), n)
    rows = Rows(*map(jnp.asarray, (row, column, columns.ravel())), shape=(n, d))
    fold = folds(key, labels, FOLDS)
    found = features_posterior(rows, labels, fold, num_classes=num_classes, num_folds=FOLDS)
    return np.asarray(found.log_q)


MEMORY = 3e8
"""Bytes of a dense matrix of pairs, or of reported pairs, above which a baseline refuses a
graph.
"""


class Links(Protocol):
    """A symmetric matrix of link weights without a diagonal; a pytree."""

    @property
    def degree(self) -> Any:
        """Row sums, float32 [n]."""

    def sum(self, h: Any) -> Any:
        """The product with rows [n, k]."""


class Sparse(NamedTuple):
    """Links of weight 1, by their ends."""

    degree: Any
    neighbours: Segments

    def sum(self, h: Array) -> Array:
        return linear(self.neighbours.sum, self.neighbours.sum, h)


class Dense(NamedTuple):
    """Links as the matrix that they are.

    Less work than a list of them where a tenth of all pairs is linked.
    """

    degree: Any
    matrix: Any

    def sum(self, h: Array) -> Array:
        return self.matrix @ h


def sparse(senders: Any, receivers: Any, num_nodes: int) -> Sparse:
    """Links in both directions, padded so that graphs of similar size share a program."""
    order = np.lexsort((senders, receivers))
    step = 1 << max(6, len(order).bit_length() - 3)
    room = -(-max(len(order), 1) // step) * step  # at most a quarter more, in few different sizes
    ends = [
        np.pad(np.asarray(end, np.int32)[order], (0, room - len(order)), constant_values=fill)
        for end, fill in ((senders, 0), (receivers, num_nodes))
    ]
    degree = np.bincount(receivers, minlength=num_nodes).astype(np.float32)
    return Sparse(jnp.asarray(degree), Segments(*map(jnp.asarray, ends)))


def of_graph(graph: Graph) -> Sparse:
    """The true links."""
    return sparse(graph.senders, graph.receivers, int(np.asarray(graph.n_node).sum()))


def dense(matrix: np.ndarray) -> Dense:
    return Dense(jnp.asarray(matrix.sum(1), jnp.float32), jnp.asarray(matrix, jnp.float32))


def linked(
    senders: Int[np.ndarray, " m"], receivers: Int[np.ndarray, " m"], num_nodes: int, *, ends: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that at least so many ends report (1 or 2), in both directions."""
    low = np.minimum(senders, receivers).astype(np.int64)
    high = np.maximum(senders, receivers)
    code, reported = np.unique(low * num_nodes + high, return_counts=True)
    low, high = np.divmod(code[reported >= ends], num_nodes)
    return np.concatenate([low, high]), np.concatenate([high, low])


HIDDEN = 32
DROPOUT = 0.7
LEARNING_RATE = 0.01
WEIGHT_DECAY = 5e-4
EPOCHS, PATIENCE = 400, 60
"""Fixed, the same for every baseline: what is held out of the labels chooses the epoch, by
log-likelihood.
"""
DENSE = 0.25
"""The share of entries above which a dense product of features is faster."""


class Inputs(NamedTuple):
    """Public features as rows, columns [n, k] beside them, and links; each may be None."""

    rows: Any = None
    columns: Any = None
    links: Any = None


_likelihood = lambda scores, one: jnp.take_along_axis(
    jax.nn.log_softmax(scores), one.label[:, None], 1
).mean()
OBJECTIVE = training.on_graph(training.node_classification._replace(score=_likelihood))
"""Cross entropy, scored by log-likelihood: of a few dozen held-out labels the accuracy would
jump.
"""


@lru_cache
def network(outputs: int) -> models.Model:
    """A perceptron, or where there are links a graph convolutional network.

    Logits float32 [n, C] of ``Inputs``.
    """

    def init(key: Any, inputs: Inputs) -> Any:
        glorot = jax.nn.initializers.glorot_uniform()
        keys = jax.random.split(key, 3)
        parameters = {
            "bias": jnp.zeros(HIDDEN),
            "second": glorot(keys[1], (HIDDEN, outputs)),
            "last": jnp.zeros(outputs),
        }
        if inputs.rows is not None:
            parameters["first"] = glorot(keys[0], (inputs.rows.shape[1], HIDDEN))
        if inputs.columns is not None:
            parameters["beside"] = glorot(keys[2], (inputs.columns.shape[1], HIDDEN))
        return {"params": parameters}

    def apply(variables: Any, inputs: Inputs, *, key: Any, train: bool) -> Any:
        known = variables["params"]
        seen = [] if inputs.rows is None else [inputs.rows.times(known["first"])]
        if inputs.columns is not None:
            seen.append(inputs.columns @ known["beside"])
        h = jax.nn.relu(_average(inputs.links, sum(seen[1:], start=seen[0])) + known["bias"])
        if train:
            h = jnp.where(jax.random.bernoulli(key, 1 - DROPOUT, h.shape), h / (1 - DROPOUT), 0.0)
        return _average(inputs.links, h @ known["second"]) + known["last"], variables

    return models.Model(init, apply)


def _average(links: Any, h: Array) -> Array:
    """D^-1/2 (A + I) D^-1/2 h."""
    if links is None:
        return h
    inverse = jax.lax.rsqrt(links.degree + 1.0)[:, None]
    return inverse * (links.sum(inverse * h) + inverse * h)


def trained(
    key: Any, inputs: Inputs, labels: Int[np.ndarray, " n"], num_classes: int
) -> Float[np.ndarray, "n classes"]:
    """Log posteriors of a network that trains on four fifths of the labels; the rest stop it."""
    parts_key, fit_key = jax.random.split(key)
    train, validation = parts(parts_key, labels)
    model = network(num_classes)
    if isinstance(inputs.rows, Rows) and len(inputs.rows.value) > DENSE * np.prod(
        inputs.rows.shape
    ):
        inputs = inputs._replace(rows=DenseRows(jnp.asarray(inputs.rows.dense())))
    fitted = training.fit(
        fit_key,
        model,
        OBJECTIVE,
        inputs,
        train,
        validation,
        validation,
        training.Settings(
            training.adam(LEARNING_RATE, WEIGHT_DECAY), EPOCHS, len(train.index), PATIENCE
        ),
    )
    return np.asarray(_log_posterior(fitted.variables, inputs, num_classes))


def over(
    key: Any, links: Any, features: Any, labels: Int[np.ndarray, " n"], num_classes: int
) -> Float[np.ndarray, "n classes"]:
    """Log posteriors of a graph convolutional network.

    Without features each node has a name of their own.
    """
    rows = features
    if rows is None:
        n = len(labels)
        name = jnp.arange(n, dtype=jnp.int32)
        rows = Rows(name, name, jnp.ones(n), shape=(n, n))
    return trained(key, Inputs(rows=rows, links=links), labels, num_classes)


def _log_posterior(variables: Any, inputs: Inputs, num_classes: int) -> Array:
    return jax.nn.log_softmax(
        network(num_classes).apply(variables, inputs, key=None, train=False)[0]
    )


_log_posterior = jax.jit(_log_posterior, static_argnums=2)


ALPHAS = (0.1, 0.6)
"""Decay factors: far and near. The labels weigh them."""

STEPS = 10
"""Products with the links, as Gasteiger et al. (ICLR 2019) have them."""


def pagerank(key: Any, links: Any, asked: Asked) -> Float[np.ndarray, "n classes"]:
    """Log posterior of a regression on the features' posterior and propagated classes.

    A user starts at their label, else at the features' posterior. Propagation to labelled users
    leaves out the labels of their fold. The regression has one weight for each source, or is a
    logistic regression with free weights: whichever gives the labels more likelihood, out of fold
    (the former less one for a weight).
    """
    log_q = posterior(asked)
    labels = asked.labels
    propagate_key, fit_key = jax.random.split(key)
    fold = np.asarray(folds(propagate_key, labels, FOLDS))
    reached = np.array(_reaches(links, log_q, jnp.asarray(labels, jnp.int32)))
    for part in range(FOLDS):
        hidden = jnp.asarray(np.where(fold == part, -1, labels), jnp.int32)
        mine = (fold == part) & (labels >= 0)
        reached[mine] = np.asarray(_reaches(links, log_q, hidden))[mine]
    sources = jnp.stack([log_q, *jnp.split(jnp.asarray(standardised(reached)), len(ALPHAS), 1)], -1)
    weights = stack(sources, jnp.asarray(labels), (1.0, *(0.0 for _ in ALPHAS)), ridge=1.0)
    shared = np.asarray(combine(sources, weights))
    free = regression(
        fit_key, np.concatenate([np.asarray(log_q), reached], 1), labels, asked.classes
    )
    known = np.flatnonzero(labels >= 0)
    of_shared, of_free = (each[known, labels[known]].sum() for each in (shared, free))
    return shared if of_shared - len(weights) > of_free else free


@jax.jit
def _reaches(links: Any, log_q: Array, labels: Array) -> Float[Array, "n columns"]:
    """Logarithms of what reaches each user from others, all decay factors side by side.

    One product serves them.
    """
    classes = log_q.shape[1]
    start = jnp.where((labels >= 0)[:, None], jax.nn.one_hot(labels, classes), jnp.exp(log_q))
    start = jnp.tile(start, (1, len(ALPHAS)))
    alpha = jnp.repeat(jnp.asarray(ALPHAS), classes)
    share = 1.0 / jnp.maximum(links.degree, 1e-6)[:, None]
    alone = links.degree[:, None] <= 1e-6

    def around(h: Array) -> Array:
        return jnp.where(alone, start, share * links.sum(h))

    h = jax.lax.fori_loop(0, STEPS - 1, lambda _, h: alpha * start + (1 - alpha) * around(h), start)
    return jnp.log(jnp.maximum(around(h), 1e-3))
