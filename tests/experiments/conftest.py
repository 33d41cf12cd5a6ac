"""What several files of tests about experiments need."""

import jax
import pytest

from ldp_jax import datasets


@pytest.fixture(scope="session")
def graph_file(tmp_path_factory):
    """A user's own graph, as a path."""
    data = datasets.synthetic(
        jax.random.key(0),
        num_nodes=120,
        num_classes=3,
        num_features=12,
        mean_degree=6.0,
        homophily=0.9,
    )
    path = tmp_path_factory.mktemp("graph") / "mine.npz"
    datasets.save(data, path)
    return path


@pytest.fixture(scope="module")
def tiny(graph_file, tmp_path_factory):
    """Words of the smallest run: one draw of that graph, and a folder of the file's own."""
    return {
        "datasets": (str(graph_file),),
        "seeds": 1,
        "out": tmp_path_factory.mktemp("out"),
    }
