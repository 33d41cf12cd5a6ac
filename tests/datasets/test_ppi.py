"""PPI from an archive in the layout of the public one, written here; and the public graphs where
they are.
"""

import io
import json
import re

import numpy as np
import pytest

from ldp_jax import datasets
from tests.datasets.formats import FORMATS, PPI_X, PPI_Y, npy, ppi_files, unzipped, zipped


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
    ends = [{"source": u, "target": v} for u, v in links]
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
        {"train_graph": lambda graph: {**graph, "links": graph["links"][::-1]}},
        {"train_graph": with_links([1, 0], [1, 0])},
        {
            "train_graph": lambda graph: {
                "links": [{"weight": 1, **each} for each in graph["links"]]
            }
        },
        {"train_feats": np.asfortranarray, "valid_labels": lambda y: y.astype(np.uint8)},
        {"train_feats": lambda x: x.astype(np.float32)},
        {"test_feats": lambda x: x + 1e-12},  # rounded otherwise
    ],
)
def test_the_graphs_of_the_three_splits_one_after_the_other(changes):
    data = load(**changes)
    # Loops and the other direction went.
    assert data.edges.tolist() == [[0, 1], [1, 2], [3, 4], [5, 6]]
    assert data.node_graph.tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    assert data.extras["graph_split"].tolist() == [1, 1, 2, 3]
    assert data.extras["graph_split"].dtype == data.y.dtype == np.int8
    # Not standardised any more, the column without ones too.
    np.testing.assert_array_equal(data.x.toarray(), PPI_X)
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


@pytest.mark.real_data
def test_the_archive_has_the_public_graphs(real_data):
    """The graphs without features came from another copy: edge for edge, and in the same order of
    the nodes.
    """
    if not (real_data / "ppi" / "ppi.zip").is_file():
        pytest.skip("LDP_JAX_DATA holds no ppi/ppi.zip")
    data = datasets.load("ppi")
    public = datasets.load("ppi_nofeat")
    for one, other in ((data.edges, public.edges), (data.node_graph, public.node_graph)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(data.extras["graph_split"], public.extras["graph_split"])
