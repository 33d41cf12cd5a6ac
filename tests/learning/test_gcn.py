"""GCN: against a naive dense one in NumPy, in every form of its inputs; several labels a node."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import graphs
from ldp_jax.graph.propagation import operator
from ldp_jax.learning import training
from ldp_jax.learning.models import NodeInputs, gcn
from ldp_jax.learning.training import Examples

pytestmark = pytest.mark.usefixtures("quickly_compiled")

N, D = 60, 5
MODEL = gcn(3, 7, 4)


@cache
def example():
    rng = np.random.default_rng(0)
    every = np.stack(np.triu_indices(N - 1, 1), 1)  # the last node has no edge
    edges = every[rng.random(len(every)) < 0.08]
    return graphs.from_edges(edges, N), jnp.asarray(rng.normal(size=(N, D)), jnp.float32)


@cache
def trained(model=MODEL):
    """Parameters with biases that are not 0."""
    variables = jax.jit(model.init)(jax.random.key(0), example())
    return jax.tree.map(lambda leaf: leaf + 0.1, variables)


def naive(variables, graph, x, *, layers=3, symmetric=False):
    """The same network by dense matrices in float64."""
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables["params"])
    adjacency = np.eye(len(x))
    np.add.at(adjacency, (graph.receivers, graph.senders), 1.0)
    size = adjacency.sum(1)
    average = adjacency / np.sqrt(np.outer(size, size)) if symmetric else adjacency / size[:, None]
    h = np.asarray(x, np.float64)
    for layer in range(layers):
        h = np.maximum(h, 0) if layer else h
        h = average @ h @ params[f"Dense_{layer}"]["kernel"] + params[f"bias_{layer}"]
    return h


@jax.jit
def evaluated(variables, inputs):
    """Outputs, and the gradient of a function of them."""

    def total(variables):
        outputs, _ = MODEL.apply(variables, inputs, key=None, train=False)
        return jnp.sin(outputs).sum(), outputs

    gradient, outputs = jax.grad(total, has_aux=True)(variables)
    return outputs, gradient


def apply(variables, inputs):
    return evaluated(variables, inputs)[0]


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, atol=1e-4 * np.abs(wanted).max())


def test_equals_a_naive_dense_network_in_every_form_of_the_graph():
    """A tuple in any order of edges, traced or not, either layout of an operator."""
    graph, x = example()
    wanted = naive(trained(), graph, x)
    order = np.random.default_rng(1).permutation(len(graph.senders))
    mixed = graph._replace(senders=graph.senders[order], receivers=graph.receivers[order])
    for form in (graph, mixed, operator(graph), operator(graph, "segment")):
        close(apply(trained(), (form, x)), wanted)


def test_a_directed_edge_tells_its_receiver():
    _, x = example()
    graph = graphs.directed([0, 0, 4], [1, 2, 2], N)
    wanted = naive(trained(), graph, x)
    close(apply(trained(), (graph, x)), wanted)
    close(apply(trained(), (operator(graph, allow_directed=True), x)), wanted)
    other = naive(trained(), graph._replace(senders=graph.receivers, receivers=graph.senders), x)
    assert np.abs(wanted - other).max() > 0.01


def test_symmetric_normalisation():
    graph, x = example()
    model = gcn(3, 7, 4, normalisation="symmetric")
    got, _ = model.apply(trained(), (graph, x), key=None, train=False)
    close(got, naive(trained(), graph, x, symmetric=True))
    assert np.abs(naive(trained(), graph, x, symmetric=True) - naive(trained(), graph, x)).max() > 0.01


def test_scale_is_that_of_the_rows():
    graph, x = example()
    scale = jnp.linspace(0.5, 2.0, N)
    scaled = jax.jit(lambda s: MODEL.apply(trained(), NodeInputs(graph, x, s), key=None, train=False)[0])
    close(scaled(scale), naive(trained(), graph, x * scale[:, None]))


def test_gradients_do_not_depend_on_the_layout():
    graph, x = example()
    one, two = (evaluated(trained(), (form, x))[1] for form in (graph, operator(graph)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(a).max()), one, two)


def test_dropout_is_keyed_and_only_in_training():
    model = gcn(2, 7, 4, dropout=0.5)
    variables = jax.jit(model.init)(jax.random.key(0), example())
    once = jax.jit(lambda key: model.apply(variables, example(), key=key, train=True)[0])
    first, second, again = (once(jax.random.key(seed)) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    close(model.apply(variables, example(), key=None, train=False)[0], naive(variables, *example(), layers=2))


ADAM = training.adam(0.1)


@pytest.mark.parametrize("several", [False, True], ids=["classes", "labels"])
def test_learns_what_only_neighbours_tell(several):
    """The label is the sign of the mean over a neighbourhood: a node's own record alone does not tell it."""
    graph, x = example()
    around = naive({"params": {"Dense_0": {"kernel": np.eye(D)}, "bias_0": np.zeros(D)}}, graph, x, layers=1)
    label = (around > 0).astype(np.int32)[:, :2] if several else (around[:, 0] > 0).astype(np.int32)
    objective = training.on_graph(training.node_labels if several else training.node_classification)
    index = np.random.default_rng(2).permutation(N).astype(np.int32)
    parts = [Examples(part, label[part]) for part in np.split(index, [36, 48])]
    rng = np.random.default_rng(3)
    rewired = graphs.from_edges(rng.permutation(np.stack(np.triu_indices(N, 1), 1))[: len(graph.senders) // 2], N)
    fitted, blind = (
        training.fit(
            jax.random.key(0), gcn(1, 1, 2), objective, NodeInputs(operator(form, "segment"), x), *parts,
            training.Settings(ADAM, epochs=100, batch_size=N),
        )
        for form in (graph, rewired)
    )  # fmt: skip
    assert fitted.validation > 0.85
    assert fitted.losses[-1] < 0.6 * blind.losses[-1]


def test_examples_that_do_not_fit_are_refused():
    settings = training.Settings(ADAM, epochs=1, batch_size=N)
    graph, x = example()
    good = Examples(np.array([0, 1]), np.array([[0, 1], [1, 1]]))
    several, one = training.on_graph(training.node_labels), training.on_graph(training.node_classification)
    for objective, part, message in (
        (several, good._replace(index=np.array([0, N])), r"index of train must be in \[0, 60\)"),
        (several, good._replace(label=np.array([[0], [1]])), "label of train must have a column for each of .* 2"),
        (several, good._replace(label=np.array([[0, 2], [1, 0]])), "label of train must be 0 or 1"),
        (one, Examples(np.array([0]), np.array([2])), r"label of train must be in \[0, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            training.fit(jax.random.key(0), gcn(1, 1, 2), objective, (graph, x), part, good, good, settings)
    with pytest.raises(ValueError, match="x must have a row for each of 60 nodes"):
        MODEL.init(jax.random.key(0), (operator(graph), x[:-1]))
