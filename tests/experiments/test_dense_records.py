"""Features that a file holds dense are the same experiment as sparse ones."""

import dataclasses

import numpy as np

from experiments import _common
from ldp_jax import datasets


def test_a_dense_file_is_the_sparse_one(graph_file, tmp_path):
    data = datasets.load(graph_file)
    datasets.save(dataclasses.replace(data, x=data.x.toarray()), tmp_path / "mine.npz")
    dense = _common.load(str(tmp_path / "mine.npz"))
    assert isinstance(datasets.load(tmp_path / "mine.npz").x, np.ndarray)
    assert _common.fingerprint(dense) == _common.fingerprint(data)
