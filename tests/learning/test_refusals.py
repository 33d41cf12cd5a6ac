"""Training, models and metrics refuse what does not fit by the name of the argument at fault."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from ldp_jax.core import integer_tables
from ldp_jax.features import Discrete, GeneralizedRR, GridSquareWave
from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning import label_training, metrics, models, training
from ldp_jax.learning.graph_training import fit_graphs, step_decay_adam
from ldp_jax.learning.importance import Public, importance, sensitivity
from ldp_jax.learning.models import NodeInputs, linear
from ldp_jax.learning.training import Examples, Pairs, Settings, fit, fit_many
from tests.learning.test_graph_training import SETTINGS as OF_GRAPHS
from tests.learning.test_graph_training import SMALL, stars_and_cycles
from tests.learning.test_training import SETTINGS, blobs

pytestmark = pytest.mark.usefixtures("untyped")

Z, TRAIN, VALIDATION, TEST = blobs()
KEY = lambda: jax.random.key(0)
GRAPH = graphs.from_edges([[0, 1], [1, 2]], 4)
X = np.eye(4, dtype=np.float32)
TWO = Examples(np.array([0, 1]), np.array([[0, 1], [1, 1]]))
NOISY = label_training.noisy_examples(GeneralizedRR(1.0, 3), np.arange(4), np.zeros(4, int))
LAME = np.uint32([[2**31, 2**31], [2**30, 3 * 2**30]])
UNEVEN = Discrete.of(integer_tables.Table("lame", LAME, np.float32([0, 1]), "category"))
LINEAR = linear(3)
RESPONSE = GeneralizedRR(1.0, 3)
EMPTY = Examples(*(part[:0] for part in TRAIN))
BEYOND = NOISY._replace(index=NOISY.index + 9)
TWICE = NOISY._replace(index=NOISY.index // 2)
OP = operator(GRAPH)
ONE_OUTPUT = linear(3)._replace(apply=lambda *_, **__: (jnp.zeros((90, 1)), {}))
FITTED = training.Fitted({}, *np.zeros((5, 0)))._replace(epoch=np.int32(0))


def wrong(examples, field, value):
    """Examples with another value in place 4."""
    values = np.array(getattr(examples, field))
    values[4] = value
    return examples._replace(**{field: values})


def classify(train=TRAIN, validation=VALIDATION, test=TEST, impl="threefry2x32", model=LINEAR, z=Z):
    key = jax.random.key(0, impl=impl)
    parts = train, validation, test
    return fit(key, model, training.node_classification, z, *parts, SETTINGS)


def both(*parts):
    """Two runs side by side."""
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), (Z, *parts))
    keys = jax.random.split(KEY())
    return fit_many(keys, linear(3), training.node_classification, *stacked, SETTINGS)


def on(objective, outputs, part, z=Z):
    return fit(KEY(), linear(outputs), objective, z, part, part, part, SETTINGS)


accuracy, f1, micro_f1 = (
    partial(metric, np.eye(2)) for metric in (metrics.accuracy, metrics.f1, metrics.micro_f1)
)
dropped = partial(label_training.drop_inputs, None, OP, NOISY)
links = partial(on, training.link_prediction, 1)
noisy = partial(on, label_training.noisy_node_classification, 3, z=X)


def on_graph(inputs, part=TWO):
    objective = training.on_graph(training.node_labels)
    return fit(KEY(), models.gcn(1, 1, 2), objective, inputs, part, TWO, TWO, SETTINGS)


def graph_classes(key, model):
    return fit_graphs(key, model, *stars_and_cycles(), OF_GRAPHS)


def reports(mechanism=RESPONSE, index=(0, 1), sent=(0, 1)):
    return label_training.noisy_examples(mechanism, [*index], [*sent])


REFUSED = [
    (lambda: dataclasses.replace(SETTINGS, epochs=0), "epochs must be"),
    (lambda: dataclasses.replace(SETTINGS, batch_size=2.5), "batch_size must be"),
    (lambda: dataclasses.replace(SETTINGS, patience=0), "patience must be"),
    (lambda: dataclasses.replace(SETTINGS, at_once=0), "at_once must be"),
    (lambda: Settings(0.01, epochs=1, batch_size=1), "optimizer must be one of optax"),
    (lambda: training.adam(0.0), "learning_rate must be"),
    (lambda: step_decay_adam(0.0), "learning_rate must be"),
    (lambda: step_decay_adam(0.1, 0.0), "decay must be"),
    (lambda: step_decay_adam(0.1, 0.5, 0), "every must be"),
    # Such labels would make every loss NaN; such rows would be taken from the other end.
    (lambda: classify(wrong(TRAIN, "label", 3)), r"label of train must be in .* got 3 at place 4$"),
    (lambda: both(wrong(TRAIN, "label", 3), VALIDATION, TEST), "label of train .* place 0, 4$"),
    (lambda: classify(TRAIN, wrong(VALIDATION, "label", -1)), "label of validation must be in"),
    (lambda: classify(test=wrong(TEST, "index", 90)), "index of test must be in"),
    (lambda: both(TRAIN, VALIDATION, wrong(TEST, "index", 90)), "index of test must be in"),
    (lambda: classify(TRAIN._replace(label=np.float32(TRAIN.label))), "label of train must"),
    (lambda: classify(TRAIN._replace(label=TRAIN.label[:1])), "label of train must be as many"),
    (lambda: classify(EMPTY), "train must hold at least one"),
    (lambda: classify(TRAIN, EMPTY), "validation must hold"),
    (lambda: classify(impl="rbg"), "key must be a threefry2x32 key"),
    (lambda: links(Pairs(*np.zeros((2, 2, 3), int))), "edge of train must be pairs"),
    (lambda: links(Pairs(np.int32([[0, 1]]), np.int32([[2, 90]]))), "non_edge of train must be in"),
    (lambda: on(training.node_labels, 3, Examples(TRAIN.index, np.eye(3))), "label of train"),
    (lambda: training.predict(ONE_OUTPUT, FITTED, Z), "model must have outputs"),
    (lambda: on_graph((GRAPH, X), TWO._replace(index=TWO.index + 3)), "index of train must be in"),
    (lambda: on_graph((GRAPH, X), TWO._replace(label=np.eye(2)[:, :1])), "label of train"),
    (lambda: on_graph((GRAPH, X), TWO._replace(label=2 * TWO.label)), "label of train must be 0"),
    (lambda: on_graph(NodeInputs(GRAPH, X[:-1])), "x must have a row for each of 4"),
    (lambda: models.gcn(1, 1, 2).init(KEY(), (operator(GRAPH), X[:-1])), "x must have a row"),
    (lambda: models.gat().init(KEY(), (GRAPH, X[:-1])), "x must have a row"),
    (lambda: graph_classes(KEY(), models.gin(2, 4, 1)), "labels of train"),
    (lambda: graph_classes(jax.random.PRNGKey(0), SMALL), "key must be"),
    (lambda: reports(sent=[0, 3]), "reports must be in"),
    (lambda: reports(sent=[0.0, 1.0]), "reports must be integers"),
    (lambda: reports(sent=[0]), "reports must be one for each of index"),
    (lambda: reports(GridSquareWave(1.0)), "mechanism must be a randomised response"),
    (lambda: reports(UNEVEN), "mechanism must be a randomised response"),
    (lambda: dropped(1.5), "steps must be"),
    (lambda: label_training.drop_inputs(None, 3, NOISY, 1), "op must be"),
    (lambda: dropped(1, also=BEYOND), "index of also must be"),
    (lambda: dropped(1, also=NOISY), "one report a node"),
    (lambda: label_training.drop_inputs(None, OP, TWICE, 1), "some node has two"),
    (lambda: noisy(BEYOND), "index of train must be in"),
    (lambda: noisy(NOISY._replace(label=NOISY.label[:, :2])), "label of train must have a column"),
    (lambda: noisy(NOISY._replace(keep=np.full(4, 0.25, np.float32))), "keep of train must be in"),
    (lambda: noisy(Examples(np.arange(4), np.full(4, 3))), "label of train must be in"),
    (lambda: Public(X, " "), "source must say in words"),
    (lambda: importance(KEY(), np.sin, X, X[:, :2]), "background must be as wide as x"),
    (lambda: importance(KEY(), lambda rows: 0 * rows, X, X, draws=8), "must leave something"),
    (lambda: sensitivity(np.sin, X, X), "sensitivity must leave something"),
    (lambda: accuracy(np.arange(2)[:, None]), "labels must be classes"),
    (lambda: accuracy(np.arange(3)), "labels must be classes"),
    (lambda: metrics.accuracy(np.arange(2), np.arange(2)), r"labels .*\(predicted == labels\)"),
    (lambda: accuracy(np.arange(2), np.array([0, 1])), "mask must be bool"),
    (lambda: accuracy(np.array([1, 2])), "labels must be in"),
    (
        lambda: metrics.accuracy(pd.DataFrame(np.eye(2)), pd.Series([0, 1], [1, 0])),
        "labels must have the rows of scores",
    ),
    (lambda: accuracy(np.arange(2), np.array([1.0, -1.0])), "mask must be wei"),
    (lambda: micro_f1(np.array([[0, 3], [0, 1]])), "labels must be 0 or 1"),
    (lambda: accuracy(["a", "b"]), "labels must be whole numbers"),
    (lambda: metrics.accuracy(np.eye(2).astype(str), np.arange(2)), "scores must be real numbers"),
    (lambda: f1(np.array([1, 2])), "labels must be in"),
    (lambda: metrics.f1(np.eye(2) * 1j, np.arange(2)), "scores must be real numbers"),
    (lambda: f1(np.arange(2) * 0.5), "labels must be integers"),
    (lambda: f1(np.arange(2), "binary"), "average must be one of"),
    (lambda: metrics.micro_f1(np.eye(3), np.arange(3.0)), "labels must have shape"),
    (lambda: micro_f1(np.array([[1, 0], [-1, 1]])), "labels must be known"),
    (lambda: metrics.embedding_error(np.eye(3), np.arange(3.0)), "reference must have shape"),
    (lambda: metrics.fidelity(np.eye(3), np.arange(3.0)), "reference must have shape"),
    (lambda: metrics.auc(np.array([1 + 1j, 2.0], object), np.ones(1)), "positive must be real"),
    (lambda: metrics.mean_interval([]), "values must not be empty"),
    (lambda: metrics.mean_interval([1.0, 2.0], 95), "confidence must be in"),
    (lambda: metrics.mean_interval(np.ones((3, 4))), "values must be one a run"),
    (lambda: metrics.mean_interval([1 + 1j]), "values must be real numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


SPARSE = scipy.sparse.csr_array(np.asarray(Z))
NO_ARRAYS = [
    (lambda: classify(z=pd.DataFrame(np.asarray(Z))), "^context must .*, got DataFrame$"),
    (lambda: classify(z=SPARSE), "^context must .*, got csr_array$"),
    (lambda: classify(z=np.asarray(Z).astype(str)), "^context must .* of numbers, got str_$"),
    (lambda: classify(Examples([0], [1])), "^train must .*, got int$"),
    (lambda: classify(model=linear), "^model must be a Model"),
    (lambda: classify(model=models.gcn(1, 1, 3)), r"inputs must be \(graph, x\)"),
    (lambda: training.predict(linear(3), FITTED, SPARSE), "^inputs must .*, got csr_array$"),
]


@pytest.mark.parametrize(("call", "message"), NO_ARRAYS)
def test_what_is_no_array_is_refused_by_its_type(call, message):
    """JAX's own words would show the rows of a table."""
    with pytest.raises(TypeError, match=message):
        call()


SIZES = {
    "mlp": ["layers", "hidden", "outputs", "dropout"],
    "gcn": ["layers", "hidden", "outputs", "dropout", "normalisation"],
    "gat": ["layers", "heads", "hidden", "outputs", "output_heads", "dropout", "attention_dropout"],
    "gin": ["layers", "hidden", "outputs", "dropout", "mlp_layers"],
    "hyperbolic_gcn": ["layers", "outputs", "dropout", "c", "activation", "normalisation"],
    "hyperimba": ["layers", "hidden", "outputs", "dropout", "weights"],
    "poindp": ["hidden", "outputs", "dropout", "allocation", "branches", "noise", "strength"],
}
WRONG = {"dropout": 1.0, "attention_dropout": -0.1, "branches": ("inter", "inter")}
"""Wrong values of arguments of models; 0 is one of all others."""


@pytest.mark.parametrize("name", SIZES)
def test_models_refuse_bad_arguments_by_name(name):
    least = {"layers": 2, "hidden": 4, "outputs": 2} if name in ("mlp", "gcn") else {}
    for argument in SIZES[name]:
        with pytest.raises(ValueError, match=f"^{argument} must be"):
            getattr(models, name)(**{**least, argument: WRONG.get(argument, 0)})
