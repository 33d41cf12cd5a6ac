"""PPI from an archive in the layout of the public one, written here; and the public graphs where they are."""

import dataclasses
import io
import json
import re

import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets import _load
from ldp_jax.datasets._registry import REGISTRY, RawFile
from tests.datasets.formats import FORMATS, PPI_X, PPI_Y, npy, ppi_archive, ppi_files, unzipped, zipped

_ENTRY = REGISTRY["ppi"]


def load(**changes):
    """The tiny archive, after functions of some members: arrays, or JSON."""
    members = unzipped(ppi_files()["ppi.zip"])
    for key, change in changes.items():
        name = next(name for name in members if name.startswith(f"{key}."))
        old = members.pop(name)
        if name.endswith(".json"):
            members[name] = json.dumps(change(json.loads(old))).encode()
        else:
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


@pytest.mark.parametrize(
    "changes",
    [
        *({"test_feats": put((0, 0), value)} for value in (np.nan, np.inf, 43.21, 1e308)),
        {"test_feats": put((0, 1), -1.0)},  # the training graphs all have it, or none
        *({"train_feats": change} for change in (np.abs, np.exp, np.negative)),
        dict.fromkeys(("train_feats", "valid_feats", "test_feats"), lambda x: x + 0.01),
        {"train_feats": lambda x: x + 1e308, "valid_feats": lambda x: x + 1e308},
    ],
)
def test_features_that_were_not_standardised_are_refused_and_not_shown(changes):
    with pytest.raises(ValueError, match="feats must be attributes, 0 or 1") as caught:
        load(**changes)
    assert not re.search(r"43|row \d|column \d|node \d", str(caught.value))


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
