"""The benchmark files themselves, where LDP_JAX_DATA names the folder that holds them."""

import numpy as np
import pytest

from ldp_jax import datasets
from ldp_jax.datasets._registry import REGISTRY

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
    data = datasets.load(name)  # which refuses other counts than the entry's
    assert (data.lower, data.upper) == entry.bounds
    assert data.source
    assert data.licence
    assert (np.abs(data.scaled_rows(0, 5)) <= 1).all()
    assert ("stand-in" in data.notes) == (name in _STAND_INS)
    if name == "cora":
        assert [(data.extras["split"] == part).sum() for part in (1, 2, 3)] == [140, 500, 1000]
