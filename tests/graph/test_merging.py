"""Nodes that message passing cannot tell apart: as many as exact colour refinement finds, and the
same network.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ldp_jax.graph import merging
from ldp_jax.graph.merging import merged
from ldp_jax.graph.packing import GraphSet, assemble, pack
from ldp_jax.learning.models import gin
from tests.graph.test_packing import many_graphs


def exact_classes(graph_set):
    """The classes of a stable colouring by sorted tuples, as sets of nodes."""
    colour = [(graph,) for graph in graph_set.node_graph.tolist()]
    into = [[] for _ in colour]
    for sender, receiver in zip(
        graph_set.senders.tolist(), graph_set.receivers.tolist(), strict=True
    ):
        into[receiver].append(sender)
    for _ in colour:
        numbers = {value: number for number, value in enumerate(sorted(set(colour)))}
        now = [numbers[value] for value in colour]
        colour = [
            (now[node], *sorted(now[sender] for sender in into[node]))
            for node in range(len(colour))
        ]
        if len(set(colour)) == len(numbers):
            break
    found = {}
    for node, value in enumerate(colour):
        found.setdefault(value, set()).add(node)
    return sorted(map(sorted, found.values()))


def classes(graph_set):
    first = merging._firsts(graph_set)
    return sorted(np.flatnonzero(first == node).tolist() for node in np.unique(first))


def trees(seed=0):
    """Directed and undirected trees, a ring, a graph without edges and a long path, whose classes
    come late.
    """
    rng = np.random.default_rng(seed)
    ends = []
    sizes = [9, 40, 7, 12, 5, 4 * merging._ROUNDS]
    start = np.cumsum(sizes) - sizes
    for number, (size, begin) in enumerate(zip(sizes, start, strict=True)):
        later = np.arange(1, size)
        before = rng.integers(0, np.minimum(later, 3)) if number < 3 else later - 1
        pairs = np.stack([before, later], 1) + begin
        if number == 3:  # a ring: all nodes are alike
            pairs = np.append(pairs, [[begin, begin + size - 1]], 0)
        if number == 4:
            pairs = pairs[:0]
        ends += [pairs] if number == 1 else [pairs, pairs[:, ::-1]]
    ends = np.concatenate(ends)
    return GraphSet.from_edges(
        ends[:, 0], ends[:, 1], np.repeat(np.arange(6), sizes), [0, 1] * 3
    ), start


@pytest.mark.parametrize("directed", [True, False])
def test_classes_are_those_of_exact_colour_refinement(directed):
    graph_set = many_graphs(directed=directed)
    assert classes(graph_set) == exact_classes(graph_set)


def test_a_graph_that_is_not_stable_in_time_keeps_its_nodes_and_others_do_not():
    graph_set, start = trees()
    path = start[-1]
    found = classes(graph_set)
    wanted = exact_classes(graph_set)
    assert [part for part in found if part[0] < path] == [part for part in wanted if part[0] < path]
    assert [part for part in found if part[0] >= path] == [
        [node] for node in range(path, len(graph_set.node_graph))
    ]
    assert any(len(part) == 12 for part in found)  # the ring
    assert any(len(part) == 5 for part in found)  # no edges


def test_colours_that_hashing_confuses_are_not_merged(monkeypatch):
    """Bad twins: one colour for all nodes, and one a degree. Only what is equal by edges may be one
    node.
    """
    graph_set, _ = trees()
    degree = np.bincount(graph_set.receivers, minlength=len(graph_set.node_graph))
    for colour in (np.zeros_like(degree), degree):
        twin = np.unique(colour, return_index=True, return_inverse=True)[1:]
        monkeypatch.setattr(merging, "_colours", lambda *_, twin=twin: twin)
        for part in classes(graph_set):
            assert any(set(part) <= set(alike) for alike in exact_classes(graph_set))


def test_each_sum_and_each_count_is_that_of_the_whole_graph():
    """Four layers of a nonlinear map: every node has the row of the node that stands for it."""
    graph_set, _ = trees()
    first = merging._firsts(graph_set)
    found = merged(graph_set)
    np.testing.assert_array_equal(found.count, np.unique(first, return_counts=True)[1])
    assert (np.diff(found.receivers) >= 0).all()
    wide = np.ones(len(first))
    small = np.ones(len(found.count))
    for _ in range(4):
        wide = np.sin(wide + np.bincount(graph_set.receivers, wide[graph_set.senders], len(wide)))
        small = np.sin(small + np.bincount(found.receivers, small[found.senders], len(small)))
        np.testing.assert_allclose(
            wide, small[np.searchsorted(np.unique(first), first)], atol=1e-12
        )


@pytest.mark.parametrize("directed", [True, False])
def test_a_network_trains_on_merged_nodes_as_on_all(directed):
    """Outputs, statistics and gradients in training: batch norm and readouts weigh by counts."""
    graph_set = many_graphs(directed=directed)
    model = gin(3, 8, 3, 0.0)
    made = []
    for merge in (True, False):
        packed = pack(graph_set, len(graph_set), shapes=1, merge=merge)
        made.append(assemble(packed, np.arange(len(graph_set), dtype=np.int32), packed.shapes[0]))
    assert len(made[0].node_count) < len(made[1].node_count)
    assert made[0].node_count.sum() == made[1].node_count.sum() == len(graph_set.node_graph)
    variables = jax.jit(model.init)(jax.random.key(0), made[0])

    @jax.jit
    def trained(params, batch):
        def loss(params):
            outputs, changed = model.apply(
                {**variables, "params": params}, batch, key=None, train=True
            )
            return jnp.sin(outputs).sum(), (outputs, changed["batch_stats"])

        return jax.grad(loss, has_aux=True)(params)

    small, whole = (trained(variables["params"], batch) for batch in made)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4), small, whole)
