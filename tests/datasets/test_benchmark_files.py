"""The benchmark files themselves, where LDP_JAX_DATA names the folder that holds them."""

import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets._registry import REGISTRY
from ldp_jax.graph.packing import GraphSet

_STAND_INS = ("deezer_ego_nets", "reddit10k", "blogcatalog_multilabel")
_SLOW = {"collab": pytest.mark.slow}  # 0.3 GB of edges
_FILES = [
    pytest.param(name, marks=_SLOW.get(name, ()))
    for name, entry in REGISTRY.items()
    if entry.npz_sha256 and name != "debian"
]


@pytest.mark.real_data
@pytest.mark.parametrize("name", _FILES)
def test_every_registered_file_loads_with_its_counts(name, real_data):
    if not (real_data / f"{name}.npz").is_file():
        pytest.skip(f"LDP_JAX_DATA holds no {name}.npz")
    entry = REGISTRY[name]
    data = datasets.load(name)
    graphs = None if data.node_graph is None else int(data.node_graph[-1]) + 1
    counts = (data.num_nodes, data.num_edges, data.num_features, data.num_classes, graphs)
    assert counts == (entry.nodes, entry.edges, entry.features, entry.classes, entry.graphs)
    assert (data.lower, data.upper) == entry.bounds
    assert data.source
    assert data.licence
    assert (np.abs(data.scaled_rows(0, 5)) <= 1).all()
    assert ("stand-in" in data.notes) == (name in _STAND_INS)
    if name == "cora":
        assert [(data.extras["split"] == part).sum() for part in (1, 2, 3)] == [140, 500, 1000]


@pytest.mark.real_data
def test_raw_formats_give_back_a_set_of_graphs(real_data, tmp_path):
    """Some of its graphs, written as TU's files (each edge twice, or once) and as the text of powerful-gnns."""
    whole = GraphSet.from_dataset(datasets.load("reddit10k"))
    part = whole.subset(range(0, len(whole), len(whole) // 100))
    ends = np.stack([part.senders, part.receivers], 1)
    edges = ends[ends[:, 0] < ends[:, 1]]
    for name, pairs in (("both", ends), ("once", edges[:, ::-1])):
        (tmp_path / name).mkdir()
        columns = {"A": pairs + 1, "graph_indicator": part.node_graph + 1, "graph_labels": part.labels}
        for file, rows in columns.items():
            np.savetxt(tmp_path / name / f"{name}_{file}.txt", rows, "%d", delimiter=", ")
    first = np.searchsorted(part.node_graph, part.node_graph)
    lists = np.split(part.senders, np.searchsorted(part.receivers, np.arange(1, len(first))))
    lines = [" ".join(map(str, [9, len(ids), *(ids - at)])) for ids, at in zip(lists, first, strict=True)]
    for graph, at in reversed(list(enumerate(np.unique(first)))):
        lines.insert(at, f"{part.nodes_per_graph[graph]} {part.labels[graph]}")
    (tmp_path / "text.txt").write_text("\n".join(["100", *lines]))
    for path in (tmp_path / "both", tmp_path / "once", tmp_path / "text.txt"):
        data = datasets.load(path)
        assert set(map(tuple, data.edges.tolist())) == set(map(tuple, edges.tolist()))
        np.testing.assert_array_equal(data.node_graph, part.node_graph)
        np.testing.assert_array_equal(data.y, part.labels)
