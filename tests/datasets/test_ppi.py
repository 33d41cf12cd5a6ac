"""PPI from an archive in the layout of the public one, written here; and the public graphs where they are."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _load, ppi
from ldp_jax.datasets._registry import REGISTRY, RawFile
from tests.datasets.formats import FORMATS, PPI_X, PPI_Y, npy, ppi_archive, ppi_files, unzipped, zipped

_ENTRY = REGISTRY["ppi"]


def load(**changes):
    """The tiny archive, members replaced (bytes), changed (a function of the array or the JSON) or left out."""
    members = unzipped(ppi_files()["ppi.zip"])
    for key, change in changes.items():
        name = next(name for name in members if name.startswith(f"{key}."))
        old = members.pop(name)
        if isinstance(change, bytes):
            members[name] = change
        elif change is not None and name.endswith(".json"):
            members[name] = json.dumps(change(json.loads(old))).encode()
        elif change is not None:
            members[name] = npy(change(np.load(io.BytesIO(old))))
    return FORMATS["PPI"].read({"ppi.zip": zipped(members)})


def with_links(*links):
    ends = [dict(zip(("source", "target"), link, strict=True)) for link in links]
    return lambda graph: {**graph, "links": graph["links"] + ends}


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train_graph": lambda graph: {**graph, "nodes": graph["nodes"][::-1], "links": graph["links"][::-1]}},
        {"train_graph": with_links([1, 0], [1, 0])},
        {"train_graph": lambda graph: {**graph, "links": [{"weight": 1, **link} for link in graph["links"]]}},
        {"train_feats": np.asfortranarray, "valid_labels": lambda y: y.astype(np.uint8)},
        {"train_feats": lambda x: x.astype(np.float32)},
        {"test_feats": lambda x: x + 1e-12},  # rounded otherwise
    ],
)
def test_the_graphs_of_the_three_splits_one_after_the_other(changes):
    data = load(**changes)
    assert data.edges.tolist() == [[0, 1], [1, 2], [3, 4], [5, 6]]  # loops and the other direction went
    assert data.node_graph.tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    assert data.extras["graph_split"].tolist() == [1, 1, 2, 3]
    assert data.extras["graph_split"].dtype == data.y.dtype == np.int8
    np.testing.assert_array_equal(data.x.toarray(), PPI_X)  # not standardised any more, the column without ones too
    np.testing.assert_array_equal(data.y, PPI_Y)


_ATTRIBUTES = "feats must be attributes, 0 or 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_graph": with_links([0, 5])}, r"train_graph.json must link nodes in \[0, 5\), got \(0, 5\)"),
        ({"train_graph": with_links([2, 3])}, "edges must stay in one graph, got 2, 3, which joins graph 1 and"),
        *(({"train_graph": with_links([node, 1])}, "a node is no whole number") for node in (1.0, True, "0")),
        ({"train_graph": with_links([0, 2**64])}, "train_graph.json must be JSON .*OverflowError"),
        ({"test_graph": lambda graph: {"nodes": graph["nodes"]}}, "test_graph.json must be JSON .*'links'"),
        ({"test_graph": lambda graph: {**graph, "links": [[0, 0]]}}, "test_graph.json must be JSON .*TypeError"),
        ({"test_graph": lambda graph: []}, "test_graph.json must be JSON .*TypeError"),
        *(({"test_graph": text}, "test_graph.json must be JSON") for text in (b"[" * 100_000, b"\xff")),
        ({"test_graph": lambda graph: {**graph, "nodes": []}}, r"must have the nodes 0..0, .* and has others"),
        ({"train_graph": lambda graph: {**graph, "nodes": graph["nodes"][1:] * 2}}, r"must have the nodes 0..4"),
        ({"test_graph": None}, "the archive must hold test_graph.json, got test_feats.npy"),
        ({"test_labels": None}, "ppi.zip is no readable .npz .* the array test_labels is missing"),
        ({"train_labels": lambda y: y.astype(object)}, "pickled objects, which are never read"),
        ({"train_graph_id": lambda g: g[::-1]}, "train_graph_id must name the graphs 1..2 in this order"),
        ({"train_graph_id": lambda g: g * 0 + 1}, "train_graph_id must name the graphs 1..2"),
        ({"valid_graph_id": lambda g: g - 1}, "valid_graph_id must name the graphs 3..3"),
        ({"valid_graph_id": lambda g: g.astype(float)}, "valid_graph_id must be integers, got float64"),
        ({"train_graph_id": lambda g: g[:4]}, r"one row a node, .* got shapes \(4,\), \(5, 3\), \(5, 2\)"),
        ({"valid_labels": lambda y: y[:, 0]}, r"got shapes \(2,\), \(2, 3\), \(2,\)"),
        ({"valid_labels": lambda y: y[:, :1]}, r"labels must have as many columns in all .*, got \[2, 1, 2\]"),
        ({"test_feats": lambda x: x > 0}, "feats must be real numbers, got float64, float64 and bool"),
        ({"train_labels": lambda y: y + 0.5}, "train_labels must be integers, got float64"),
        ({"train_labels": put((2, 1), 300)}, "train_labels must fit in int8$"),
        ({"train_labels": put((2, 1), 43)}, "y of t must be 0 or 1 in two axes$"),
        *(({"test_feats": put((0, 0), value)}, _ATTRIBUTES) for value in (np.nan, np.inf, 43.21, 1e308)),
        ({"test_feats": put((0, 1), -1.0)}, _ATTRIBUTES),  # the training graphs all have it, or none
        *(({"train_feats": change}, _ATTRIBUTES) for change in (np.abs, np.exp, np.negative)),
        (dict.fromkeys(("train_feats", "valid_feats", "test_feats"), lambda x: x + 0.01), _ATTRIBUTES),
        ({"train_feats": lambda x: x + 1e308, "valid_feats": lambda x: x + 1e308}, _ATTRIBUTES),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_without_its_value(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(**changes)
    if not changes.keys() & {"train_graph", "test_graph"}:  # the graph is public
        text = f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
        assert not re.search(r"43|row \d|column \d|node \d", text), text


def test_splits_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match=r"train_graph_id must name the graphs 1..1"):
        ppi.parse(ppi_files(), graphs=(1, 2, 1))
    with pytest.raises(ValueError, match=r"declares \d+ bytes, and 100 are allowed"):
        ppi.parse(ppi_files(), graphs=(2, 1, 1), max_bytes=100)


def _same_graphs(data, public):
    np.testing.assert_array_equal(data.edges, public.edges)
    np.testing.assert_array_equal(data.node_graph, public.node_graph)
    np.testing.assert_array_equal(data.extras["graph_split"], public.extras["graph_split"])


@pytest.mark.slow
@pytest.mark.real_data
def test_the_public_graphs_in_the_archives_layout(real_data, monkeypatch, tmp_path):
    """All 24 graphs, with features and labels made up here, through the registered counts."""
    if not (real_data / "ppi_nofeat.npz").is_file():
        pytest.skip("LDP_JAX_DATA holds no ppi_nofeat.npz")
    public = datasets.load("ppi_nofeat")
    n = public.num_nodes
    rng = np.random.default_rng(0)
    x = rng.random((n, 50)) < np.linspace(0.002, 0.5, 50)
    x[:, 10] = False
    y = (rng.random((n, 121)) < 0.3).astype(np.int64)
    split = public.extras["graph_split"][public.node_graph]
    mean, deviation = x[split == 1].mean(0), x[split == 1].std(0)
    scaled = (x - mean) / np.where(deviation, deviation, 1)
    splits = {}
    for number, name in enumerate(("train", "valid", "test"), 1):
        rows = np.flatnonzero(split == number)
        links = public.edges[split[public.edges[:, 0]] == number] - rows[0]
        splits[name] = (links, public.node_graph[rows].astype(np.int64) + 1, scaled[rows], y[rows])
    (tmp_path / "ppi").mkdir()
    (tmp_path / "ppi" / "ppi.zip").write_bytes(ppi_archive(splits))
    monkeypatch.setenv("LDP_JAX_DATA", str(tmp_path))
    raw = (RawFile(_ENTRY.raw[0].url),)
    monkeypatch.setattr(_load, "REGISTRY", {"ppi": dataclasses.replace(_ENTRY, raw=raw)})
    data = datasets.load("ppi")
    _same_graphs(data, public)
    np.testing.assert_array_equal(data.x.toarray(), x)
    np.testing.assert_array_equal(data.y, y)


@pytest.mark.real_data
def test_the_archive_has_the_public_graphs(real_data):
    """The graphs without features came from another copy: edge for edge, and in the same order of the nodes."""
    if not (real_data / "ppi" / "ppi.zip").is_file():
        pytest.skip("LDP_JAX_DATA holds no ppi/ppi.zip")
    _same_graphs(datasets.load("ppi"), datasets.load("ppi_nofeat"))
